"""The data contract: subclass `ImageDataModule`; loaders, sharding, augmentation and checks are inherited."""

from vit_lightning.data.datamodule import ImageDataModule

__all__ = ["ImageDataModule"]
