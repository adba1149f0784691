"""A fault of several processes is told once: by the first, or by the one that alone meets it."""

import pytest
from torch import distributed

from vit_lightning.cli import rank_errors

NET = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
FIT = ("fit", "--data", "Synthetic", "--data.train_size", 32, "--data.eval_size", 8, "--data.batch_size", 8, *NET)
DDP = ("--data.num_workers", 0, "--trainer.devices", 2, "--trainer.strategy", "ddp")


def test_what_all_meet_is_told_by_the_first_alone(pair, tmp_path):
    done = pair.run(tmp_path, *FIT, *DDP, "--model.schedule.warmup_steps", 1000)
    assert done.codes == (1, 1)
    assert [log.count("error: warm-up of 1000 steps") for log in done.logs] == [1, 0]
    done = pair.run(tmp_path, *FIT, *DDP, "--model.lrr", 1)
    assert done.codes == (1, 1)
    assert [log.count("error: there is no flag --model.lrr") for log in done.logs] == [1, 0]


class Store:
    """The processes' common memory, which the first of them holds as long as it is there."""

    def __init__(self, *keys: str, gone: bool = False) -> None:
        self.keys = set(keys)
        self.gone = gone

    def check(self, keys: list[str]) -> bool:
        if self.gone:
            raise distributed.DistNetworkError
        return all(key in self.keys for key in keys)

    def set(self, key: str, value: str) -> None:
        self.keys.add(key)


@pytest.mark.parametrize(
    ("store", "tells"), [(Store("a fault"), False), (Store("another"), True), (Store(gone=True), False)]
)
def test_the_second_tells_what_the_first_does_not_meet(monkeypatch, store, tells):
    monkeypatch.setattr(rank_errors, "PAUSE", 0)
    for name, value in (("is_initialized", True), ("get_rank", 1)):
        monkeypatch.setattr(distributed, name, lambda value=value: value)
    monkeypatch.setattr(distributed.distributed_c10d, "_get_default_store", lambda: store)
    assert not rank_errors.told()
    assert rank_errors.tells("a fault") == tells
    assert rank_errors.told() == tells  # so that the first keeps quiet about missing the second


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, True),
        ({"LOCAL_RANK": "1"}, True),  # launched by the first, which was past this
        ({"LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "x"}, False),
        ({"LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": "x"}, True),
        ({"SLURM_LOCALID": "1"}, False),
        ({"SLURM_LOCALID": "0", "LOCAL_RANK": "1"}, True),
    ],
    ids=str,
)
def test_before_they_know_each_other_the_first_of_a_host_tells(monkeypatch, environment, told):
    for name in ("LOCAL_RANK", "TORCHELASTIC_RUN_ID", "SLURM_LOCALID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert rank_errors.tells("a fault") == told
