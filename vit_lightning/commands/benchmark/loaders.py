"""Loaders of training batches beside each other: the datamodule's own, timm's and torchvision's, on the same images."""

import io
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from PIL import Image
from torch.utils.data import DataLoader

from vit_lightning.augment.per_image import InceptionCrop
from vit_lightning.data import ImageDataModule
from vit_lightning.data.image_set import keys_of, record_of
from vit_lightning.errors import InputError

PREFETCH = 2
"""Batches that DataLoader lets each worker load ahead, by its default."""


def datamodule(trainer: Trainer, data: ImageDataModule) -> Iterable[Any]:
    """The datamodule's training loader."""
    return data.train_dataloader()


class OnDevice:
    """The same, each batch moved to the device and handed to the datamodule's hook there, as fit does."""

    def __init__(self, trainer: Trainer, data: ImageDataModule) -> None:
        self.trainer, self.data = trainer, data
        self.loader = data.train_dataloader()

    def __iter__(self) -> Iterator[Any]:
        for batch in self.loader:
            yield self.data.on_after_batch_transfer(self.trainer.strategy.batch_to_device(batch), 0)


def torchvision(trainer: Trainer, data: ImageDataModule) -> Iterable[Any]:
    """Torchvision's reference: PIL, RandomResizedCrop and mirroring, DataLoader."""
    from torchvision.transforms import v2

    crop = v2.RandomResizedCrop(data.size, scale=data.augment.crop_area, ratio=InceptionCrop.aspect)
    transform = v2.Compose([crop, v2.RandomHorizontalFlip(), v2.PILToTensor()])
    return DataLoader(
        PillowImages(data.train_set, transform),
        batch_size=data.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=data.workers,
        pin_memory=torch.cuda.is_available(),
        persistent_workers=data.workers > 0,
    )


def timm(trainer: Trainer, data: ImageDataModule) -> Iterable[Any]:
    """Timm's create_loader with the same augmentation; normalising on the device, as it prefers."""
    from timm.data import create_loader

    return create_loader(
        PillowImages(data.train_set, None),
        input_size=(3, *data.size),
        batch_size=data.batch_size,
        is_training=True,
        scale=data.augment.crop_area,
        ratio=InceptionCrop.aspect,
        hflip=0.5,
        color_jitter=None,
        interpolation="bilinear",
        num_workers=data.workers,
        persistent_workers=data.workers > 0,
        pin_memory=torch.cuda.is_available(),
        device=trainer.strategy.root_device,
    )


def check_peers(data: ImageDataModule) -> None:
    """Refuse data that timm's and torchvision's loaders cannot read, and to do without timm."""
    if find_spec("timm") is None:
        raise InputError('timm\'s loader needs timm: pip install "vit-lightning[timm]"')
    if not data.pixel_form.is_rgb:
        raise InputError("the other loaders give 8-bit RGB; drop --compare_loaders, or --data.channels and window")
    image, _ = data.train_set[0]
    if not isinstance(image, bytes | str | Path | Image.Image):
        raise InputError(
            f"the other loaders read image files, and this data holds {type(image).__name__}s; "
            "give for example --data ImageFolder --data.root FOLDER"
        )


class PillowImages:
    """A datamodule's set whose images PIL opens, as the peers' own folder readers do."""

    def __init__(self, source: Any, transform: Callable[[Image.Image], Any] | None) -> None:
        self.source = source
        self.transform = transform

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        image, label = record_of(self.source, index)
        try:
            if isinstance(image, bytes):
                image = io.BytesIO(image)
            if not isinstance(image, Image.Image):
                image = Image.open(image)
            image = image.convert("RGB")
        except Exception as error:  # Pillow meets damaged bytes with almost any exception
            key = keys_of(self.source)[index]
            reason = " ".join(str(error).split())
            raise InputError(
                f"training image {key} cannot be read by timm's and torchvision's loaders, which skip none ({reason}); "
                "mend or remove it, or drop --compare_loaders"
            ) from error
        return self.transform(image), int(label)


def speed(loader: Iterable[Any], workers: int, seconds: float) -> float:
    """Returns images per second of a new loader, after what its workers had loaded ahead is used up.

    Args:
        loader: Gives batches whose first item is the images; it is repeated whenever it ends.
        workers: Its processes.
        seconds: How long it is timed, at least.
    """
    batches = _repeated(loader)
    for _ in range(1 + PREFETCH * workers):
        next(batches)
    images, began = 0, time.perf_counter()
    while not images or time.perf_counter() - began < seconds:
        images += len(next(batches)[0])
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return images / (time.perf_counter() - began)


def _repeated(loader: Iterable[Any]) -> Iterator[Any]:
    while True:
        yield from loader
