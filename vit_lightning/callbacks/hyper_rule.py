"""A recipe that follows the size of the training set: BiT-HyperRule (arXiv 1912.11370, section 3.3)."""

from bisect import bisect_right
from dataclasses import replace

from lightning.pytorch import Callback, LightningModule, Trainer

from vit_lightning.data import ImageDataModule
from vit_lightning.data.image_set import ImageSet, record_of
from vit_lightning.data.images import BrokenImage, load
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.errors import InputError
from vit_lightning.training.recipe import RecipeModel

SIZES = (20_000, 500_000)
"""Training images from which a set is of medium size, and of large size."""
WARMUP = 500
"""Steps of warm-up, but a fifth of a short run: those of the rule's published code."""
MIXUP = 0.1
SMALL, LOW = 96 * 96, 128
"""Pixels of an image below which the rule trains at a low resolution, and that resolution."""
LOOKED_AT = 16
"""Images whose size is looked at."""


class HyperRule(Callback):
    """Let a fit follow the size of its training set: steps and warm-up, and MixUp from 20,000 images on.

    What is given with --trainer.max_steps, --trainer.max_epochs, --model.schedule.warmup_steps or
    --data.augment.mixup_alpha stays.

    Args:
        steps: Optimiser steps for sets below 20,000 images, below 500,000, and above.
    """

    def __init__(self, steps: tuple[int, int, int] = (500, 10_000, 20_000)) -> None:
        if min(steps) < 1:
            raise InputError(f"HyperRule's steps are {tuple(steps)}; each must be 1 or more")
        self.steps = steps

    def steps_for(self, images: int) -> int:
        """Return the optimiser steps for so many training images."""
        return self.steps[bisect_right(SIZES, images)]

    def warmup_for(self, images: int) -> int:
        """Return the steps of warm-up for so many training images."""
        return min(WARMUP, self.steps_for(images) // 5)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Settle what the recipe leaves open, once the set is read and before the net is built."""
        data = trainer.datamodule  # type: ignore[attr-defined]  # set by Lightning from outside
        images = data.train_subset if isinstance(data, ImageDataModule) else None
        if stage != "fit" or images is None or not isinstance(pl_module, RecipeModel):
            return
        size = len(images)
        if trainer.max_steps == -1 and trainer.max_epochs == -1:
            trainer.fit_loop.epoch_loop.max_steps = self.steps_for(size)
        if not pl_module.schedule.warmup_steps:
            pl_module.schedule.warmup_steps = self.warmup_for(size)
            pl_module.hparams["schedule"]["warmup_steps"] = pl_module.schedule.warmup_steps
        if data.augment.mixup_alpha is None and size >= SIZES[0]:
            data.augment = replace(data.augment, mixup_alpha=MIXUP)
        if trainer.is_global_zero and (said := _resolution(images, data)):
            print(f"warning  {said}", flush=True)


def _resolution(images: ImageSet, data: ImageDataModule) -> str | None:
    """What the rule says of a resolution that is too high for the images."""
    form = data.pixel_form
    sides = [size for index in range(min(len(images), LOOKED_AT)) if (size := _size(images, index, form))]
    small = sorted(sides, key=lambda size: size[0] * size[1])[len(sides) // 2 :][:1]
    if not small or small[0][0] * small[0][1] >= SMALL or min(data.size) <= LOW:
        return None
    y, x = small[0]
    return f"images have about {y}x{x} pixels, which BiT's rule trains at {LOW}; give --data.image_size {LOW}"


def _size(images: ImageSet, index: int, form: PixelForm) -> tuple[int, int] | None:
    """Height and width of an image; None where it cannot be read, which the loader reports."""
    try:
        y, x = load(record_of(images, index)[0], name=str(index), form=form).shape[1:]
    except (BrokenImage, OSError):
        return None
    return y, x
