"""The data contract: subclass `ImageDataModule`; loaders, sharding, augmentation and checks are inherited.

Each name is imported when it is first asked for: a process that only loads data needs no Lightning.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vit_lightning.data.datamodule import ImageDataModule
    from vit_lightning.data.image_set import ImageSet
    from vit_lightning.data.images import BrokenImage
    from vit_lightning.data.subsets import Subset, hold_out

__all__ = ["BrokenImage", "ImageDataModule", "ImageSet", "Subset", "hold_out"]

_FILES = {
    "BrokenImage": "images",
    "ImageDataModule": "datamodule",
    "ImageSet": "image_set",
    "Subset": "subsets",
    "hold_out": "subsets",
}


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FILES[name]}"), name)
