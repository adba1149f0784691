"""The data contract: subclass `ImageDataModule`; loaders, sharding, augmentation and checks are inherited."""

from vit_lightning.data.datamodule import ImageDataModule
from vit_lightning.data.image_set import ImageSet
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.subsets import Subset, hold_out

__all__ = ["BrokenImage", "ImageDataModule", "ImageSet", "Subset", "hold_out"]
