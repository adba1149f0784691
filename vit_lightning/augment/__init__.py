"""Augmentation: image by image in the loader, or whole batches on the device that trains."""

from vit_lightning.augment.per_image import Augment

__all__ = ["Augment"]
