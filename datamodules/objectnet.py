"""ObjectNet: photographs of household objects in unusual poses, as a test of ImageNet classifiers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from datamodules.reading.damaged_files import read_whole, reading
from datamodules.reading.image_index import Index, IndexedImages
from datamodules.reading.multihot import MultiHot
from datamodules.reading.shared_sequences import Ragged
from vit_lightning.data import images
from vit_lightning.data.subsets import Subset
from vit_lightning.errors import InputError

IMAGES = "objectnet-1.0/images"
MAPPINGS = "objectnet-1.0/mappings"
FILES = (
    "folder_to_objectnet_label.json",
    "objectnet_to_imagenet_1k.json",
    "pytorch_to_imagenet_2012_id.json",
    "imagenet_to_label_2012_v2",
)
FRAME = 2
"""Pixels of red frame around each image, which the authors ask to take off before a test."""


class Unframed:
    """The images of a set without their frames."""

    def __init__(self, source: IndexedImages) -> None:
        self.source = source
        self.keys = source.keys

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> tuple[Tensor, Any]:
        image, label = self.source[index]
        return images.load(image, name=self.keys[index])[:, FRAME:-FRAME, FRAME:-FRAME], label


def read(index: Index, mappings: Path) -> MultiHot:
    """Return the images of the 113 classes that ImageNet has too, each with all ImageNet classes that count as right.

    Args:
        index: of the folder images/<class>/<image>.png.
        mappings: the set's own folder of that name.
    """
    classes = imagenet_classes(mappings)
    rows = Ragged.of([classes.get(folder, ()) for folder in index.folders])
    folder_of = index.spread(range(len(rows)))
    kept = np.flatnonzero(np.diff(rows.ends)[folder_of])
    if not len(kept):
        raise InputError(f"{index.root} holds no <class>/<image>.png of a class that {mappings} gives for ImageNet")
    return MultiHot(Subset(Unframed(IndexedImages(index, folder_of)), kept), rows, folder_of[kept], num_classes=1000)


def imagenet_classes(mappings: Path) -> dict[str, list[int]]:
    """Return the ImageNet classes of each ObjectNet folder, as the set's own four files give them.

    They name the ImageNet classes of an object by words, number those words in an order of their own, and say which
    number each class has in the usual order.
    """
    files = [mappings / name for name in FILES]
    if missing := next((file for file in files if not file.exists()), None):
        raise InputError(f"{missing} is missing (no such file); it comes with ObjectNet")
    with reading(mappings):
        folders, objects, numbers = (json.loads(read_whole(file)) for file in files[:3])
        words = read_whole(files[3]).decode().splitlines()
        usual = {number: int(label) for label, number in numbers.items()}
        label_of = {line.strip(): usual[number] for number, line in enumerate(words) if number in usual}
        return {
            folder: [label_of[word.strip()] for word in objects[name].split(";")]
            for folder, name in folders.items()
            if name in objects
        }
