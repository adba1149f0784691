"""What to do about a device that waits for its data, said once."""

from lightning.pytorch import Trainer

from vit_lightning.data import ImageDataModule
from vit_lightning.data.in_memory import InMemoryBatches
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
    cuda = trainer.strategy.root_device.type == "cuda"
    loader = trainer.train_dataloader
    if isinstance(loader.dataset, InMemoryBatches):
        if cuda and data.augment_on_device is False:
            return "drop --data.augment_on_device false"
        return (
            "give the run more CPU cores, or --data.augment fewer steps" if cuda or not data.workers else _workers(data)
        )
    if data.workers < data.cores_per_device:
        return _workers(data)
    if data.in_memory is False:
        return "drop --data.in_memory false, if the decoded images fit into memory"
    if cuda and not data.decode_on_device:
        return "decode JPEGs on the GPU with --data.decode_on_device true, or store smaller images with prepare"
    return "store images of the training size with prepare, whose shards are faster to read"


def _workers(data: ImageDataModule) -> str:
    return f"raise --data.num_workers, which is {data.workers} for {data.cores_per_device} cores"
