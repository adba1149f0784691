"""Which epochs are saved; what else is, and when, stands in test_resume, test_kill, test_signals."""

from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader

from vit_lightning.runs.checkpoints import LastCheckpoint


@pytest.mark.parametrize(("seconds", "saves"), [(0.0, 6), (0.4, 3)])
def test_short_epochs_are_not_all_saved_where_saving_takes_long(tmp_path, seconds, saves, monkeypatch):
    """Half a second and 2 % of the time: two saves of 0.4 s, and the end; all six epochs where saving takes nothing."""
    epochs, clock = [], SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("vit_lightning.runs.checkpoints.time", clock)

    class Counting(Trainer):
        def save_checkpoint(self, path, *args, **kwargs):
            clock.now += seconds
            epochs.append(self.current_epoch)
            super().save_checkpoint(path, *args, **kwargs)

    settings = {"max_epochs": 6, "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = Counting(accelerator="cpu", callbacks=[LastCheckpoint(dirpath=tmp_path)], **settings)
    trainer.fit(BoringModel(), DataLoader(RandomDataset(32, 8), batch_size=4))
    assert len(epochs) == saves
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["global_step"] == 12


def test_a_save_that_fails_leaves_last_and_previous_as_they_were(tmp_path):
    """The new state is whole before any of the old ones changes its name."""
    seen = []

    class Full(Trainer):
        def save_checkpoint(self, path, *args, **kwargs):
            seen.append({path.name: path.read_bytes() for path in tmp_path.glob("*.ckpt")})
            if len(seen) == 3:
                raise OSError("no space left")
            super().save_checkpoint(path, *args, **kwargs)

    settings = {"max_epochs": 1, "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = Full(accelerator="cpu", callbacks=[LastCheckpoint(every_n_steps=1, dirpath=tmp_path)], **settings)
    with pytest.raises(OSError, match="no space left"):
        trainer.fit(BoringModel(), DataLoader(RandomDataset(32, 16), batch_size=4))
    assert [set(names) for names in seen] == [set(), {"last.ckpt"}, {"last.ckpt", "previous.ckpt"}]
    assert seen[2]["previous.ckpt"] == seen[1]["last.ckpt"]
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.ckpt")} == seen[2]
