"""Scikit-learn's handwritten digits: real data that needs no download."""

import numpy as np
import torch
from einops import repeat
from sklearn.datasets import load_digits
from torch import Tensor

from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule
from vit_lightning.data.subsets import Subset


class DigitImages:
    """All 1,797 digits as uint8 RGB of 8 x 8 pixels."""

    def __init__(self) -> None:
        values, self.labels = load_digits(return_X_y=True)
        pixels = torch.from_numpy(np.round(values * (255 / 16)).astype(np.uint8))
        self.images = repeat(pixels, "n (y x) -> n c y x", c=3, y=8)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.labels[index])


class Digits(ImageDataModule):
    """Scikit-learn's 1,797 handwritten digits, 8 x 8 pixels, in ten classes.

    They come with scikit-learn, so nothing is downloaded. Of every class, every tenth image is for validation and two
    of every ten are for testing: 1,248 train, 185 validate, 364 test, the same ones in every run.

    Args:
        image_size: height and width of the images given to the model; at twice their own size they can be turned and
            shifted by less than a pixel, which small nets need to generalise.
        num_workers: processes that load images; the set is so small that the main process is faster.
        augment: how training images are varied; a mirrored digit would be another one.
    """

    num_classes = 10

    def __init__(
        self,
        image_size: int | tuple[int, int] = 16,
        num_workers: int = 0,
        augment: Augment = Augment(crop="none", flip=False, rotate=10.0, shift=0.07, scale=0.1),
        **kwargs,
    ) -> None:
        super().__init__(image_size=image_size, num_workers=num_workers, augment=augment, **kwargs)

    def setup(self, stage: str) -> None:
        digits = DigitImages()
        turn = _turn_within_class(digits.labels) % 10
        self.train_set = Subset(digits, np.flatnonzero(turn >= 3))
        self.val_set = Subset(digits, np.flatnonzero(turn == 0))
        self.test_set = Subset(digits, np.flatnonzero((turn == 1) | (turn == 2)))


def _turn_within_class(labels: np.ndarray) -> np.ndarray:
    """Number the records of each class 0, 1, 2, ... in the order in which they come."""
    turn = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        members = labels == label
        turn[members] = np.arange(members.sum())
    return turn
