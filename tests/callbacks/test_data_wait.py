"""What is said of a device that waits for its data."""

from types import SimpleNamespace

import pytest
import torch

from datamodules.synthetic import Synthetic
from vit_lightning.callbacks.data_wait import DataWait, remedy
from vit_lightning.data.device_loader import DeviceLoader


def fit(device: str = "cuda", workers: int = 8, **flags) -> SimpleNamespace:
    """A fit on a machine of eight cores, whose loader has so many workers."""
    data = Synthetic(**flags)
    data.trainer = SimpleNamespace(num_devices=1)
    return SimpleNamespace(
        datamodule=data,
        strategy=SimpleNamespace(root_device=torch.device(device)),
        train_dataloader=SimpleNamespace(num_workers=workers),
        is_global_zero=True,
    )


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch):
    monkeypatch.setattr(Synthetic, "cores_per_device", 8)


@pytest.mark.parametrize(
    ("trainer", "said"),
    [
        ({"workers": 2}, "raise --data.num_workers (2 of 8 cores load images)"),
        ({"workers": 0, "device": "cpu"}, "raise --data.num_workers (0 of 8 cores load images)"),
        ({"augment_on_device": False}, "drop --data.augment_on_device false"),
        ({"in_memory": False}, "drop --data.in_memory false, "),
        ({}, "give --data.decode_on_device true if the images are JPEGs, or make shards of smaller ones with prepare"),
        ({"decode_on_device": True}, "make shards of smaller images with prepare"),
        ({"device": "cpu"}, "make shards of smaller images with prepare"),
    ],
    ids=str,
)
def test_the_remedy_fits_the_case(trainer, said):
    assert remedy(fit(**trainer)).startswith(said)


@pytest.mark.parametrize("split", ["train", "val"])
def test_training_images_in_memory_need_cores(split):
    trainer = fit()
    data, trainer.datamodule.trainer = trainer.datamodule, None
    data.setup("fit")
    getattr(data, f"{split}_dataloader")()
    data.trainer = SimpleNamespace(num_devices=1)
    needs = "give the run more CPU cores, or leave out a step of --data.augment"
    assert (remedy(trainer) == needs) == (split == "train")


def test_batches_varied_on_the_device_wait_for_their_augmentation():
    trainer = fit()
    trainer.train_dataloader = object.__new__(DeviceLoader)
    assert remedy(trainer) == "the augmentation takes it; leave out a step of --data.augment"


def test_data_from_elsewhere_have_no_flags():
    assert remedy(SimpleNamespace(datamodule=None)) == "give its loader more workers"


@pytest.mark.parametrize(("waited", "seconds", "times"), [(8.2, 20, 1), (4.1, 10, 1), (3.9, 20, 0), (8, 9, 0)])
def test_it_is_said_once_in_words_of_a_long_wait(capsys, waited, seconds, times):
    wait, trainer = DataWait(), fit(workers=2)
    for _ in range(3):
        wait.warn_once(trainer, waited, seconds)
    said = capsys.readouterr().out
    assert said.count("warning  waits for data 41 % of the time: raise --data.num_workers (") == times
    assert len(said.splitlines()) == times
