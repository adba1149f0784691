"""What to do about a device that waits for its data, said once."""

from lightning.pytorch import Trainer

from vit_lightning.data import ImageDataModule
from vit_lightning.data.device_loader import DeviceLoader
from vit_lightning.terminal import percentage, report

MUCH = 0.2
"""Share of the time from which a wait is worth a sentence."""
SECONDS = 10.0
"""Timed training after which a share says something: the first batches wait for the loader to start."""


class DataWait:
    """Says once in words that the device waits for data, and which flag helps."""

    def __init__(self) -> None:
        self._said = False

    def warn_once(self, trainer: Trainer, waited: float, seconds: float) -> None:
        """Say so where `waited` is much of the `seconds` that training took so far."""
        if self._said or seconds < SECONDS or waited < MUCH * seconds:
            return
        self._said = True
        if trainer.is_global_zero:
            report(f"warning  waits for data {percentage(waited / seconds, digits=0)} of the time: {remedy(trainer)}")


def remedy(trainer: Trainer) -> str:
    """Return what fits the case: more workers while cores are idle, then less work for each image."""
    data = trainer.datamodule  # type: ignore[attr-defined]  # set by Lightning from outside
    if not isinstance(data, ImageDataModule):
        return "give its loader more workers"
    cuda, loader = trainer.strategy.root_device.type == "cuda", trainer.train_dataloader
    if isinstance(loader, DeviceLoader):
        return "the augmentation takes it; leave out a step of --data.augment"
    if loader.num_workers < data.cores_per_device:
        return f"raise --data.num_workers ({loader.num_workers} of {data.cores_per_device} cores load images)"
    if cuda and data.augment_on_device is False:
        return "drop --data.augment_on_device false"
    if _is_in_memory(data):
        return "give the run more CPU cores, or leave out a step of --data.augment"
    if data.in_memory is False:
        return "drop --data.in_memory false, if the decoded images fit into memory"
    if cuda and not data.decode_on_device:
        return "give --data.decode_on_device true if the images are JPEGs, or make shards of smaller ones with prepare"
    return "make shards of smaller images with prepare"


def _is_in_memory(data: ImageDataModule) -> bool:
    return any(key[0] == "train_set" and held is not None for key, (_, held) in data.in_memory_sets.items())
