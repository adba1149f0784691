"""Parts of a run that only a GPU, several processes or a clone would show, with stand-ins for these."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.fabric.plugins.environments import LightningEnvironment, SLURMEnvironment

from vit_lightning.errors import InputError
from vit_lightning.runs import checkpoints, folders, random_state, signals
from vit_lightning.runs.checkpoints import CheckpointFiles, LastCheckpoint, WholeCheckpoints
from vit_lightning.runs.loggers import MetricsCSV, TensorBoard, tensorboards
from vit_lightning.runs.random_state import RandomState
from vit_lightning.runs.signals import Agreement

# Several GPUs agree -------------------------------------------------------------------------------------------------


class Event:
    """A CUDA event that counts who waits for it."""

    waited = 0

    def record(self) -> None:
        """Nothing is timed."""

    def synchronize(self) -> None:
        Event.waited += 1


def test_gpus_answer_some_steps_late_and_every_process_at_the_same_step(monkeypatch):
    others, asked, empty = [False] * 30, [], torch.empty
    others[4] = True

    def all_reduce(flag: torch.Tensor, operation: object) -> None:
        assert operation == torch.distributed.ReduceOp.MAX and flag.dtype == torch.int32
        asked.append(flag.item())
        flag.fill_(max(flag.item(), int(others[len(asked) - 1])))

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    full = torch.full
    monkeypatch.setattr(torch, "full", lambda *words, device, **kwargs: full(*words, **kwargs))
    monkeypatch.setattr(torch, "empty", lambda *words, pin_memory, **kwargs: empty(*words, **kwargs))
    agreement = Agreement(SimpleNamespace(root_device=torch.device("cuda")))
    answers = [agreement.any(step == 9) for step in range(25)]
    assert [step for step, answer in enumerate(answers) if answer] == [4 + signals.DELAY, 9 + signals.DELAY]
    assert signals.DELAY == 8 and Event.waited == 25 - signals.DELAY and sum(asked) == 1


@pytest.mark.parametrize(("device", "distributed"), [("cpu", True), ("cuda", False)])
def test_without_several_gpus_the_answer_comes_at_once(monkeypatch, device, distributed):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: distributed)
    strategy = SimpleNamespace(
        root_device=torch.device(device), reduce_boolean_decision=lambda flag, all: flag and not all
    )
    assert Agreement(strategy).any(True) and not Agreement(strategy).any(False)


# Random state ---------------------------------------------------------------------------------------------------------


def test_every_process_s_state_is_saved_and_that_of_its_gpu(monkeypatch):
    torch.manual_seed(5)
    own, gpu = torch.get_rng_state(), torch.ones(3, dtype=torch.uint8)
    assert RandomState().state_dict()["ranks"][0].keys() == ({"cpu", "cuda"} if torch.cuda.is_available() else {"cpu"})
    monkeypatch.setattr(random_state.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(random_state.torch.cuda, "get_rng_state", lambda: gpu)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)

    def gather(ranks: list, mine: dict) -> None:
        ranks[:] = [mine, "second", "third"]

    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    first, *others = RandomState().state_dict()["ranks"]
    assert torch.equal(first["cpu"], own) and first["cuda"] is gpu and others == ["second", "third"]
    taken: list[torch.Tensor] = []
    monkeypatch.setattr(random_state.torch.cuda, "set_rng_state", taken.append)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    state = RandomState()
    state.load_state_dict({"ranks": [first]})
    torch.manual_seed(6)
    state.on_train_start(SimpleNamespace(global_rank=0), None)
    assert torch.equal(torch.get_rng_state(), own) and [one.tolist() for one in taken] == [[1, 1, 1]]


# Folders --------------------------------------------------------------------------------------------------------------


def test_a_run_is_told_by_its_checkpoints_or_its_config(tmp_path):
    for name, make, is_run in (
        ("a/checkpoints", Path.mkdir, True),
        ("b/config.yaml", Path.touch, True),
        ("c/config.resume-1.yaml", Path.touch, True),
        ("d/checkpoints", Path.touch, False),
        ("e/metrics.csv", Path.touch, False),
    ):
        (tmp_path / name).parent.mkdir()
        make(tmp_path / name)
        assert folders.is_run((tmp_path / name).parent) is is_run, name
    assert not folders.is_run(tmp_path / "none") and not folders.is_run(tmp_path / "b/config.yaml")


# Logs -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "purged"), [(0, None), (7, 7)])
def test_tensorboard_s_files_lie_in_the_run_folder_and_go_on_from_a_step(tmp_path, step, purged):
    (board,) = tensorboards(tmp_path, step)
    assert type(board) is TensorBoard and Path(board.log_dir) == tmp_path / "tensorboard"
    assert board._kwargs["purge_step"] == purged


def test_a_folder_whose_name_is_no_utf_8_has_no_tensorboard(tmp_path):
    folder = tmp_path / os.fsdecode(b"\xff")
    with pytest.warns(
        UserWarning, match=r"is no name in UTF-8, as TensorBoard needs it: metrics\.csv alone is written"
    ):
        assert tensorboards(folder, 0) == []


def test_what_lies_in_the_place_of_a_log_is_refused(tmp_path):
    (tmp_path / "metrics.csv").mkdir()
    with pytest.raises(InputError, match=r"metrics\.csv is a folder; move it away"):
        MetricsCSV(tmp_path)


# Checkpoints ----------------------------------------------------------------------------------------------------------


class Strategy:
    """One process's."""

    barriers = 0

    def broadcast(self, value: object) -> object:
        return value

    def barrier(self) -> None:
        Strategy.barriers += 1


def saver(monkeypatch, save, zero: bool = True) -> WholeCheckpoints:
    trainer = object.__new__(WholeCheckpoints)
    monkeypatch.setattr(WholeCheckpoints, "strategy", Strategy(), raising=False)
    monkeypatch.setattr(WholeCheckpoints, "is_global_zero", zero, raising=False)
    monkeypatch.setattr(checkpoints.Trainer, "save_checkpoint", save)
    return trainer


@pytest.mark.parametrize("old", [None, "file", "folder"])
def test_a_checkpoint_gets_its_name_once_it_is_whole(tmp_path, monkeypatch, old):
    place, left = tmp_path / "x.ckpt", tmp_path / ".x.ckpt.part"
    left.write_text("of a killed run")
    if old:
        place.mkdir() if old == "folder" else place.write_text("old")

    def save(self: object, path: Path, weights_only: bool) -> None:
        assert path == left and not left.exists() and place.exists() == (old is not None) and weights_only is False
        path.write_text("new")

    before = Strategy.barriers
    saver(monkeypatch, save).save_checkpoint(place, weights_only=False)
    assert place.read_text() == "new" and [one.name for one in tmp_path.iterdir()] == ["x.ckpt"]
    assert Strategy.barriers == before + 1


@pytest.mark.parametrize(
    ("there", "fix"),
    [("last.ckpt", "--ckpt_path last goes on"), ("previous.ckpt", "--ckpt_path last goes on"), (None, "start anew")],
)
def test_a_full_disk_says_what_is_left(tmp_path, monkeypatch, there, fix):
    if there:
        (tmp_path / there).touch()

    def save(self: object, path: Path) -> None:
        path.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(InputError, match=rf"x\.ckpt cannot be written: no space left; free space there, then {fix}$"):
        saver(monkeypatch, save).save_checkpoint(tmp_path / "x.ckpt")
    assert [one.name for one in tmp_path.iterdir()] == [there] * (there is not None)


def test_other_faults_of_a_save_and_other_places_are_left_to_lightning(tmp_path, monkeypatch):
    called: list[object] = []

    def save(self: object, path: object) -> None:
        called.append(path)
        if "://" not in str(path):
            raise RuntimeError("shapes differ")

    trainer = saver(monkeypatch, save)
    trainer.save_checkpoint("s3://bucket/x.ckpt")
    with pytest.raises(RuntimeError, match="shapes differ"):
        trainer.save_checkpoint(tmp_path / "x.ckpt")
    assert called == ["s3://bucket/x.ckpt", tmp_path / ".x.ckpt.part"]


def test_further_ranks_rename_nothing(tmp_path, monkeypatch):
    (tmp_path / ".x.ckpt.part").write_text("the first's")
    saver(monkeypatch, lambda self, path: None, zero=False).save_checkpoint(tmp_path / "x.ckpt")
    assert [one.name for one in tmp_path.iterdir()] == [".x.ckpt.part"]


@pytest.mark.parametrize("name", ["a", os.fsdecode(b"\xff")])
def test_files_of_checkpoints_are_written_in_their_folder_whatever_its_name(tmp_path, name):
    place = tmp_path / name / "deep" / "x.ckpt"
    CheckpointFiles().save_checkpoint({"a": torch.ones(2), "n": 3}, place)
    assert [one.name for one in place.parent.iterdir()] == ["x.ckpt"]
    with place.open("rb") as file:
        content = torch.load(file, weights_only=True)
    assert content["n"] == 3 and content["a"].tolist() == [1, 1]
    if name == "a":
        assert CheckpointFiles().load_checkpoint(place)["n"] == 3


# Who is listened to ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "signum"),
    [
        (SLURMEnvironment(auto_requeue=True, requeue_signal=12), 12),
        (SLURMEnvironment(auto_requeue=False, requeue_signal=12), None),
        (LightningEnvironment(), None),
        (None, None),
    ],
    ids=["SLURM", "SLURM without its queue", "none", "unknown"],
)
def test_slurm_s_signal_is_listened_to_where_it_requeues(monkeypatch, environment, signum):
    heard: list[int | None] = []
    callback, skipped = LastCheckpoint(dirpath=Path("x")), []
    monkeypatch.setattr(checkpoints, "cluster_environment", lambda trainer: environment)
    monkeypatch.setattr(checkpoints, "skip_sigterm_exchange", skipped.append)
    monkeypatch.setattr(callback.stop, "listen", heard.append)
    trainer = SimpleNamespace(strategy=SimpleNamespace(broadcast=lambda value: Path("the first's")), global_step=9)
    callback.on_sanity_check_start(trainer, None)
    callback.setup(trainer, None, "fit")
    callback.on_train_start(trainer, None)
    assert heard == [signum, signum] and skipped == [trainer, trainer]
    assert (
        callback.dirpath == Path("the first's")
        and callback._saved == 9
        and callback.agreement.strategy is trainer.strategy
    )
