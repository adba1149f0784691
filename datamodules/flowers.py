"""Oxford 102 Flowers."""

from pathlib import Path
from typing import ClassVar

from torchvision import datasets

from datamodules.reading.image_files import ImageFiles
from datamodules.reading.published import HeldOutData, PublishedSet
from vit_lightning.files import check_regular

NAMES = datasets.Flowers102.classes
SPLITS = {"train": "train", "validation": "val", "test": "test"}


def _read(root: Path, split: str) -> ImageFiles:
    """Read a split; torchvision verifies the checksums of both label files first."""
    for name in ("imagelabels.mat", "setid.mat"):
        check_regular(root / "flowers-102" / name)
    flowers = datasets.Flowers102(root, split=SPLITS[split], loader=Path)
    files, labels = zip(*(flowers[index] for index in range(len(flowers))), strict=True)
    return ImageFiles(root / "flowers-102" / "jpg", [file.name for file in files], labels)


FLOWERS = PublishedSet(
    "Oxford 102 Flowers",
    "flowers-102/{jpg/image_<number>.jpg,imagelabels.mat,setid.mat}",
    {"train": 1_020, "validation": 1_020, "test": 6_149},
    _read,
    fetch=lambda root: datasets.Flowers102(root, download=True),
)


class Flowers(HeldOutData):
    """Oxford 102 Flowers: 1,020 training and 6,149 test images of 102 flowers.

    Under root lies what www.robots.ox.ac.uk/~vgg/data/flowers/102 publishes, unpacked as torchvision does:

        flowers-102/jpg/image_00001.jpg ...
        flowers-102/imagelabels.mat, setid.mat

    The last 10 % of the training images, in the order of TensorFlow Datasets, are for validation as in the paper
    (table 4); the publisher's own validation split is not used.
    """

    published = FLOWERS
    num_classes = len(NAMES)
    class_names: ClassVar = NAMES
