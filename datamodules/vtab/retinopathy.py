"""Diabetic Retinopathy: photographs of the back of the eye, processed as for VTAB."""

import csv
import io
import math
import os
from pathlib import Path

import torch
import torch.nn.functional as F
from einops import rearrange
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor
from torchvision.io import encode_jpeg

from datamodules.reading.damaged_files import read_whole
from datamodules.reading.published import Labelled, PublishedSet, own_folder
from vit_lightning.data import images

RADIUS = 300
"""Radius in pixels to which every eye is scaled."""

SHOWN = 270
"""Radius in pixels of the disc that is shown, 0.9 of the eye's."""

SIGMA = 10.0
"""Standard deviation in pixels of the blur that stands for the local average."""

GREY = 128
QUALITY = 72


def btgraham(image: Tensor) -> Tensor:
    """Bring out the vessels of an eye, as the winner of the competition on this set did.

    The eye is scaled to a radius of 300 pixels, its local average is subtracted, and a disc of 0.9 of the radius is
    cut out. TensorFlow Datasets does the same with OpenCV, which now and then rounds the other way before the contrast
    is raised fourfold.

    Args:
        image: uint8 `(3, y, x)`.

    Returns:
        uint8 `(3, y', x')`, both sides at most 540.
    """
    image = _scale(image, RADIUS / _radius(image))
    image = (4 * (image - _blur(image).round()) + GREY).clamp(0, 255)
    y, x = (torch.arange(side) - side // 2 for side in image.shape[1:])
    far = rearrange(y, "y -> y 1") ** 2 + x**2 > SHOWN**2
    rows, columns = (slice(max(0, side // 2 - SHOWN), side // 2 + SHOWN) for side in image.shape[1:])
    return image.masked_fill(far, GREY).byte()[:, rows, columns]


def _radius(image: Tensor) -> float:
    """Return half the width of the bright part of the middle row, or of the image's height where nothing is bright."""
    brightness = image[:, image.shape[1] // 2].sum(dim=0).float()
    radius = (brightness > brightness.mean() / 10).sum().item() / 2
    return radius if radius >= 1 else image.shape[1] / 2


def _scale(image: Tensor, scale: float) -> Tensor:
    """Resize by exactly that factor, without antialiasing, to sides that are rounded as OpenCV rounds them."""
    y, x = (round(side * scale) for side in image.shape[1:])
    spare = math.ceil(1 / scale)  # torch rounds sides down, OpenCV may round up
    image = F.pad(rearrange(image.float(), "c y x -> 1 c y x"), (0, spare, 0, spare), mode="replicate")
    image = F.interpolate(image, scale_factor=scale, mode="bilinear")
    return rearrange(image.round(), "1 c y x -> c y x")[:, :y, :x]


def _blur(image: Tensor) -> Tensor:
    reach = round(3 * SIGMA)
    weights = torch.exp(-(torch.arange(-reach, reach + 1.0) ** 2) / (2 * SIGMA**2))
    weights = rearrange(weights / weights.sum(), "k -> 1 1 k 1")
    image = F.pad(rearrange(image, "c y x -> c 1 y x"), [reach] * 4, mode="reflect")
    image = F.conv2d(F.conv2d(image, weights), weights.mT)
    return rearrange(image, "c 1 y x -> c y x")


class Eyes:
    """Photographs as VTAB shows them, processed when asked for, and kept if there is a folder for that.

    Args:
        folder: folder of the photographs.
        names: their names without ending.
        kept: folder of processed photographs, read and filled if it exists.
    """

    def __init__(self, folder: Path, names: list[str], kept: Path) -> None:
        self.folder = folder
        self.names = names
        self.kept = kept

    def __getitem__(self, index: int) -> bytes:
        file = self.folder / f"{self.names[index]}.jpeg"
        kept = self.kept / f"{self.folder.name}_{file.name}"
        if kept.is_file():
            return kept.read_bytes()
        data = encode_jpeg(btgraham(images.load(file, name=str(file), strict=False)), quality=QUALITY).numpy().tobytes()
        if self.kept.is_dir():
            _keep(data, kept)
        return data


def _keep(data: bytes, file: Path) -> None:
    """Write a file that is whole or absent at any time, whoever else writes it as well."""
    part = file.with_name(f"{file.name}.{os.getpid()}")
    part.write_bytes(data)
    part.replace(file)


# TensorFlow Datasets: the list of labels, the folder of the photographs, and the share of the list.
SPLITS = {
    "train": ("trainLabels.csv", "train", None),
    "validation": ("retinopathy_solution.csv", "test", "Public"),
    "test": ("retinopathy_solution.csv", "test", "Private"),
}


def _read(root: Path, split: str) -> Labelled:
    folder = own_folder(root, "diabetic_retinopathy")
    table, photographs, usage = SPLITS[split]
    lines = io.StringIO(read_whole(folder / table).decode(), newline="")
    rows = [row for row in csv.DictReader(lines) if row.get("Usage") == usage]
    names = [row["image"] for row in rows]
    kept = folder / f"btgraham-{RADIUS}"
    if not kept.is_dir():
        rank_zero_warn(
            f"every photograph is processed whenever it is read; create the folder {kept} to keep the results"
        )
    return Labelled(Eyes(folder / photographs, names, kept), [int(row["level"]) for row in rows], names)


RETINOPATHY = PublishedSet(
    "Diabetic Retinopathy",
    "{trainLabels,retinopathy_solution}.csv and {train,test}/<number>_{left,right}.jpeg, in a folder "
    "diabetic_retinopathy or loose,",
    {"train": 35_126, "validation": 10_906, "test": 42_670},
    _read,
)
