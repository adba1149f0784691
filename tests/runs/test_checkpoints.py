"""Which epochs are saved; what else is, and when, stands in test_resume, test_kill, test_signals."""

import time

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader

from vit_lightning.runs.checkpoints import LastCheckpoint


@pytest.mark.parametrize(("seconds", "saves"), [(0.0, 6), (0.4, 3)])
def test_short_epochs_are_not_all_saved_where_saving_takes_long(tmp_path, seconds, saves):
    """Half a second and 2 % of the time: two saves of 0.4 s, and the end; all six epochs where saving takes nothing."""
    epochs = []

    class Counting(Trainer):
        def save_checkpoint(self, path, *args, **kwargs):
            time.sleep(seconds)
            epochs.append(self.current_epoch)
            super().save_checkpoint(path, *args, **kwargs)

    settings = {"max_epochs": 6, "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = Counting(accelerator="cpu", callbacks=[LastCheckpoint(dirpath=tmp_path)], **settings)
    trainer.fit(BoringModel(), DataLoader(RandomDataset(32, 8), batch_size=4))
    assert len(epochs) == saves
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["global_step"] == 12
