"""Which epochs are saved; what else is, and when, stands in test_resume, test_kill, test_signals."""

import signal
import time
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch.utils.data import DataLoader

from vit_lightning.errors import InputError
from vit_lightning.runs import checkpoints
from vit_lightning.runs.checkpoints import LastCheckpoint
from vit_lightning.runs.loggers import MetricsCSV


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


class Saving:
    """A trainer of which only the place in its run is known."""

    def __init__(self, folder, **facts) -> None:
        usual = {"accumulate_grad_batches": 1, "global_step": 1, "max_steps": -1, "max_epochs": 9, "current_epoch": 0}
        usual |= {"should_stop": False, "fast_dev_run": False, "is_global_zero": True, "loggers": []}
        self.__dict__ |= usual | facts
        self.folder, self.saved = folder, []
        self.strategy = SimpleNamespace(
            broadcast=lambda value: value, reduce_boolean_decision=lambda value, all: bool(value)
        )

    def save_checkpoint(self, path, weights_only) -> None:
        assert weights_only is False and path == self.folder / "new.ckpt"
        self.saved.append(self.global_step)
        path.write_text(str(self.global_step))


def keeping(folder, every: int = 4, **facts) -> tuple[LastCheckpoint, Saving]:
    trainer = Saving(folder, **{"global_step": 0} | facts)
    callback = LastCheckpoint(every_n_steps=every, dirpath=folder)
    callback._saved, callback._began, callback._spent = 0, time.monotonic(), 0.0
    callback.agreement = SimpleNamespace(any=lambda condition: condition)
    return callback, trainer


def test_a_state_is_saved_every_so_many_steps_between_two_of_them(tmp_path):
    """Two batches a step: at the first of them the step before is over, at the second gradients wait."""
    callback, trainer = keeping(tmp_path, accumulate_grad_batches=2)
    for batch in range(20):
        trainer.global_step = batch // 2
        callback.on_train_batch_start(trainer, None, None, batch)
    assert trainer.saved == [4, 8]
    names = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert names == {"last.ckpt": "8", "previous.ckpt": "4"}


@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_damaged_last_never_replaces_a_whole_previous(tmp_path, is_damaged):
    """The run went on from previous.ckpt: it stays until a state that was saved after it takes its place."""
    for name in ("last", "previous"):
        torch.save(name, tmp_path / f"{name}.ckpt")
    if is_damaged:
        whole = (tmp_path / "last.ckpt").read_bytes()
        (tmp_path / "last.ckpt").write_bytes(whole[: len(whole) // 2])
    callback, trainer = keeping(tmp_path, every=1, global_step=1)
    callback.on_train_batch_start(trainer, None, None, 0)
    assert torch.load(tmp_path / "previous.ckpt") == ("previous" if is_damaged else "last")
    trainer.global_step = 2
    callback.on_train_batch_start(trainer, None, None, 1)
    assert [(tmp_path / f"{name}.ckpt").read_text() for name in ("previous", "last")] == ["1", "2"]


def test_a_saved_state_has_its_rows_in_the_logs(tmp_path):
    """A kill right after it loses none of what came before it."""
    logger = MetricsCSV(tmp_path)
    callback, trainer = keeping(tmp_path, every=2, loggers=[logger])
    for step in range(4):
        trainer.global_step = step
        callback.on_train_batch_start(trainer, None, None, step)
        logger.log_metrics({"loss": step / 4}, step=step)
    assert trainer.saved == [2]
    assert (tmp_path / "metrics.csv").read_text().splitlines() == ["loss,step", "0.0,0", "0.25,1"]


@pytest.mark.parametrize(
    ("facts", "saves"),
    [
        ({"max_steps": 3}, True),
        ({"max_steps": 4}, False),
        ({"max_steps": 3, "fast_dev_run": True}, False),
    ],
)
def test_the_last_step_is_saved_where_it_ends(tmp_path, facts, saves):
    callback, trainer = keeping(tmp_path, global_step=3, **facts)
    for _ in range(2):  # not twice
        callback.on_train_batch_end(trainer, None, None, None, 0)
    assert trainer.saved == [3] * saves


@pytest.mark.parametrize(
    ("passed", "spent", "saves"), [(20, 0.9, True), (20, 0.91, False), (50, 1.5, True), (50, 1.51, False)]
)
def test_half_a_second_and_a_fiftieth_of_the_run_may_go_into_saving(tmp_path, monkeypatch, passed, spent, saves):
    callback, trainer = keeping(tmp_path, global_step=3)
    monkeypatch.setattr(checkpoints, "time", SimpleNamespace(monotonic=lambda: 100.0 + passed))
    callback._began, callback._spent = 100.0, spent
    callback.on_train_epoch_end(trainer, None)
    assert trainer.saved == [3] * saves


@pytest.mark.parametrize(
    ("facts", "saves"),
    [
        ({}, False),  # saving has taken too long
        ({"should_stop": True}, True),
        ({"current_epoch": 8}, True),
        ({"current_epoch": 7}, False),
        ({"max_epochs": -1}, False),
    ],
)
def test_the_end_of_a_run_is_saved_whatever_it_takes(tmp_path, facts, saves):
    callback, trainer = keeping(tmp_path, global_step=3, **facts)
    callback._spent = 1000.0
    callback.on_train_epoch_end(trainer, None)
    assert trainer.saved == [3] * saves


@pytest.mark.parametrize(
    ("received", "first", "code"),
    [(signal.SIGTERM, True, 0), (signal.SIGINT, True, 130), (signal.SIGINT, False, 0), (signal.SIGUSR1, True, 0)],
)
def test_a_signal_saves_and_ends_the_run(tmp_path, monkeypatch, received, first, code):
    said, queued = [], []
    monkeypatch.setattr(checkpoints, "rank_zero_info", said.append)
    monkeypatch.setattr(checkpoints, "requeue", lambda: queued.append(1))
    callback, trainer = keeping(tmp_path, global_step=5, is_global_zero=first)
    callback.stop.requeue_signal, callback.stop.received = signal.SIGUSR1, received
    with pytest.raises(SIGTERMException) as ended:
        callback.on_train_batch_start(trainer, None, None, 0)
    assert ended.value.code == code and trainer.saved == [5]
    assert said == ["stopped by a signal at optimiser step 5; --ckpt_path last goes on"]
    assert len(queued) == (received == signal.SIGUSR1)


def test_the_whole_command_that_goes_on_is_said(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(checkpoints, "rank_zero_info", said.append)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "my pets" / "0"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "config.yaml").touch()
    callback, trainer = keeping(folder / "checkpoints", global_step=5)
    callback.stop.received = signal.SIGTERM
    with pytest.raises(SIGTERMException):
        callback.on_train_batch_start(trainer, None, None, 0)
    assert said == ["stopped by a signal at optimiser step 5; python -m vit_lightning fit 'runs/my pets/0' goes on"]


@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_a_signal_is_obeyed_between_two_steps_and_not_amid_the_batches_of_one(tmp_path, accumulate):
    callback, trainer = keeping(tmp_path, every=100, accumulate_grad_batches=accumulate)
    for batch in range(9):
        trainer.global_step = batch // accumulate
        if batch == 4:
            callback.stop.received = signal.SIGTERM
        if batch < {1: 4, 2: 4, 3: 6}[accumulate]:
            callback.on_train_batch_start(trainer, None, None, batch)
            continue
        with pytest.raises(SIGTERMException):
            callback.on_train_batch_start(trainer, None, None, batch)
        break
    assert trainer.saved == [{1: 4, 2: 2, 3: 2}[accumulate]]


def progress(ready: int, started: int, processed: int, completed: int) -> dict[str, int]:
    return {"ready": ready, "started": started, "processed": processed, "completed": completed}


@pytest.mark.parametrize(
    ("accumulate", "now", "expected", "stepped"),
    [
        (1, (5, 4, 4, 4), (4, 4, 4, 3), 9),  # a batch is at hand
        (1, (4, 4, 4, 4), (4, 4, 4, 4), 10),  # none is
        (1, (8, 8, 8, 7), (8, 8, 8, 7), 10),  # the epoch is over
        (3, (5, 5, 5, 5), (3, 3, 3, 2), 9),  # two batches wait for their step
        (3, (2, 2, 2, 2), (0, 0, 0, 0), 9),  # and before them there was none
        (3, (7, 6, 6, 6), (6, 6, 6, 5), 9),
    ],
)
def test_batches_that_no_step_has_taken_are_written_as_batches_to_come(accumulate, now, expected, stepped):
    total = {name: value + 80 for name, value in progress(*now).items()}
    loop = {"epoch_loop.batch_progress": {"current": progress(*now), "total": total, "is_last_batch": True}}
    loop["epoch_loop.state_dict"] = {"_batches_that_stepped": 10}
    trainer = SimpleNamespace(accumulate_grad_batches=accumulate, num_training_batches=8)
    LastCheckpoint().on_save_checkpoint(trainer, None, {"loops": {"fit_loop": loop}})
    found = loop["epoch_loop.batch_progress"]
    assert found["current"] == progress(*expected)
    assert loop["epoch_loop.state_dict"]["_batches_that_stepped"] == stepped
    assert found["is_last_batch"] == (stepped == 10)
    changed = stepped != 10
    waiting = now[2] % accumulate
    assert found["total"]["ready"] == (80 + now[2] - waiting if changed else total["ready"])


def test_paths_of_a_moved_folder_are_those_of_the_new_one():
    state = {"dirpath": "/a/b", "best": "/a/b/best.ckpt", "other": "/c/a/b/x", "scores": {"/a/b/1.ckpt": 0.5}, "n": 3}
    assert checkpoints._moved(state, "/a/b", "/new") == {
        **{"dirpath": "/new", "best": "/new/best.ckpt", "other": "/c/a/b/x", "scores": {"/new/1.ckpt": 0.5}, "n": 3},
    }


@pytest.mark.parametrize(
    ("then", "is_there", "moves"), [("old", True, True), ("old", False, False), ("new", True, False)]
)
def test_the_best_of_a_moved_run_is_kept_where_it_came_along(tmp_path, then, is_there, moves):
    (tmp_path / "new").mkdir()
    if is_there:
        (tmp_path / "new/best.ckpt").touch()
    best = ModelCheckpoint(tmp_path / "new", monitor="val/loss")
    folder = str(tmp_path / then)
    state = {"dirpath": folder, "best_model_path": f"{folder}/best.ckpt", "best_model_score": torch.tensor(0.5)}
    checkpoint = {"callbacks": {best.state_key: state, "Other": {"dirpath": folder}}}
    LastCheckpoint().on_load_checkpoint(SimpleNamespace(checkpoint_callbacks=[best]), None, checkpoint)
    place = str(tmp_path / ("new" if moves else then))
    expected = {"dirpath": place, "best_model_path": f"{place}/best.ckpt", "best_model_score": torch.tensor(0.5)}
    assert checkpoint == {"callbacks": {best.state_key: expected, "Other": {"dirpath": folder}}}


@pytest.mark.parametrize("every", [0, -3])
def test_a_period_is_a_step_or_more(every):
    with pytest.raises(InputError, match=f"--last.every_n_steps is {every}; choose 1 or more"):
        LastCheckpoint(every_n_steps=every)
    LastCheckpoint(every_n_steps=1)
