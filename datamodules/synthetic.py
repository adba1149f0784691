"""Images made on the fly: something to learn where no data set is at hand."""

import math

import torch
from torch import Tensor

from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule
from vit_lightning.data.datamodule import MOST_CLASSES
from vit_lightning.errors import InputError
from vit_lightning.seeds import seed_from


class Gratings:
    """Stripes whose direction tells the class, with a random phase, spacing and noise per image."""

    def __init__(self, count: int, num_classes: int, size: tuple[int, int], channels: int, seed: int) -> None:
        self.count = count
        self.num_classes = num_classes
        self.size = size
        self.channels = channels
        self.seed = seed

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        label = index % self.num_classes
        generator = torch.Generator().manual_seed(seed_from(self.seed, index))
        phase, spacing = torch.rand(2, generator=generator).tolist()
        angle = math.pi * label / self.num_classes
        y, x = torch.meshgrid(*(torch.arange(side) for side in self.size), indexing="ij")
        across = (math.cos(angle) * x + math.sin(angle) * y) / (4 + 2 * spacing)
        stripes = torch.sin(2 * math.pi * (across + phase))
        noise = torch.randn(self.channels, *self.size, generator=generator)
        return (127.5 + 60 * stripes + 20 * noise).clamp(0, 255).byte(), label


class Synthetic(ImageDataModule):
    """Striped images made on the fly: the direction of the stripes tells the class.

    Nothing is read from disk or downloaded, and the images depend on their number alone. A small net learns them
    within seconds, so that a run that does not is broken.

    Args:
        num_classes: number of classes, which is the number of directions.
        channels: channels per image, which the net takes from here.
        train_size: number of training images.
        eval_size: number of validation images, and of test images.
        image_size: height and width of the images.
        num_workers: processes that make images; 0 makes them in the main process.
        augment: how training images are varied; mirroring would swap classes.
    """

    def __init__(
        self,
        num_classes: int = 10,
        channels: int = 3,
        train_size: int = 2000,
        eval_size: int = 200,
        image_size: int | tuple[int, int] = 32,
        num_workers: int = 0,
        augment: Augment = Augment(crop="none", flip=False),
        **kwargs,
    ) -> None:
        super().__init__(image_size=image_size, num_workers=num_workers, augment=augment, channels=channels, **kwargs)
        if not 1 <= num_classes <= MOST_CLASSES:
            raise InputError(f"--data.num_classes is {num_classes}, expected 1 to {MOST_CLASSES}")
        self._num_classes = num_classes
        self.train_size = train_size
        self.eval_size = eval_size

    @property
    def num_classes(self) -> int:
        return self._num_classes

    @property
    def class_names(self) -> list[str]:
        return [f"stripes at {180 * label / self.num_classes:.4g} degrees" for label in range(self.num_classes)]

    def setup(self, stage: str) -> None:
        counts = (self.train_size, self.eval_size, self.eval_size)
        self.train_set, self.val_set, self.test_set = (
            Gratings(count, self.num_classes, self.size, self.channels or 3, seed) for seed, count in enumerate(counts)
        )
