"""Images that were skipped, counted over the devices."""

from types import SimpleNamespace

import pytest
import torch

from vit_lightning.callbacks import skipped_images
from vit_lightning.callbacks.skipped_images import SkippedImages
from vit_lightning.data.records import Skipped
from vit_lightning.errors import InputError

HOOKS = {
    "on_train_epoch_end": "train_dataloader",
    "on_validation_epoch_end": "val_dataloaders",
    "on_test_epoch_end": "test_dataloaders",
    "on_predict_epoch_end": "predict_dataloaders",
}


class Strategy:
    """Two devices, of which the other one has skipped these records."""

    root_device = torch.device("cpu")

    def __init__(self, *others: int) -> None:
        self.others = list(others)

    def reduce(self, flags: torch.Tensor, reduce_op: str) -> torch.Tensor:
        assert reduce_op == "max"
        theirs = torch.zeros_like(flags)
        theirs[self.others] = 1
        return torch.maximum(flags, theirs)


def loader(skipped: Skipped | None) -> SimpleNamespace:
    return SimpleNamespace(dataset=SimpleNamespace(skipped=skipped))


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("several", [False, True])
def test_each_epoch_adds_up_its_own_set(monkeypatch, hook, several):
    said: list[str] = []
    monkeypatch.setattr(skipped_images, "rank_zero_info", said.append)
    sets = {name: Skipped(10, 0.5, name) for name in HOOKS.values()}
    for skipped in sets.values():
        skipped.flags[3] = True
    loaders = {name: loader(skipped) for name, skipped in sets.items()}
    if several:
        loaders = {name: [loader(None), SimpleNamespace(), one] for name, one in loaders.items()}
    trainer = SimpleNamespace(strategy=Strategy(3, 7), **loaders)
    for _ in range(2):  # what was said is not said again
        getattr(SkippedImages(), hook)(trainer, None)
    name = HOOKS[hook]
    assert {each: skipped.count for each, skipped in sets.items()} == {each: 1 + (each == name) for each in sets}
    assert said == [f"skipped 2 of 10 {name} images, which cannot be read"]
    trainer.strategy = Strategy(1)
    getattr(SkippedImages(), hook)(trainer, None)
    assert said[1:] == [f"skipped 3 of 10 {name} images, which cannot be read"]


def test_too_many_over_all_devices_end_the_run():
    skipped = Skipped(10, 0.2, "training")
    skipped.flags[0] = True
    trainer = SimpleNamespace(strategy=Strategy(1, 2), train_dataloader=loader(skipped))
    with pytest.raises(InputError, match=r"3 of 10 training images cannot be read, .* --data.max_broken 0.2"):
        SkippedImages().on_train_epoch_end(trainer, None)
