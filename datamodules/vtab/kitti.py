"""KITTI's street scenes, asked for the nearest vehicle."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from torchvision import datasets
from torchvision.datasets.utils import download_and_extract_archive

from datamodules.reading.damaged_files import read_whole
from datamodules.reading.published import Labelled, PublishedSet
from datamodules.vtab.folders import labelled
from datamodules.vtab.labels import kitti_distance


def _read(root: Path, split: str) -> Labelled:
    raw = root / "Kitti" / "raw"
    videos = kitti_videos(*(read_whole(raw / "mapping" / f"train_{name}.txt").decode() for name in ("mapping", "rand")))
    found = [
        (f"{image:06d}.png", kitti_distance(_objects(raw / "training" / "label_2" / f"{image:06d}.txt")))
        for image in kitti_split(videos)[split]
    ]
    return labelled(raw / "training" / "image_2", found)


def _objects(file: Path) -> list[tuple[str, float]]:
    """Return the type and the depth in metres of each object that a label file lists."""
    return [(fields[0], float(fields[13])) for fields in map(str.split, read_whole(file).decode().splitlines())]


def kitti_videos(mapping: str, order: str) -> list[str]:
    """Return the video that each training image was taken from, in the order of the images.

    Args:
        mapping: lines of date, video and frame.
        order: for each image its line in the mapping, counted from 1, with commas between them.
    """
    lines = mapping.splitlines()
    return [lines[int(number) - 1].split()[1] for number in order.split(",")]


def kitti_split(videos: Sequence[str]) -> dict[str, list[int]]:
    """Deal out the images so that no video has some in two splits, as TensorFlow Datasets does.

    A tenth of the videos each is for testing and for validation.

    Args:
        videos: the video of each image.

    Returns:
        Image numbers by split.
    """
    random = np.random.RandomState(123)
    left = sorted(set(videos))
    share = max(1, len(left) // 10)
    drawn = {}
    for split in ("test", "validation"):
        drawn[split] = set(random.choice(left, share, replace=False))
        left = [video for video in left if video not in drawn[split]]
    drawn["train"] = set(left)
    return {split: [number for number, video in enumerate(videos) if video in drawn[split]] for split in drawn}


def _fetch(root: Path) -> None:
    """Download KITTI, and the kit that tells its videos apart, which torchvision leaves out."""
    datasets.Kitti(root, download=True)
    if not (root / "Kitti" / "raw" / "mapping").is_dir():
        download_and_extract_archive(f"{datasets.Kitti.data_url}devkit_object.zip", root / "Kitti" / "raw")


KITTI = PublishedSet(
    "KITTI",
    "Kitti/raw/{training/{image_2/<number>.png,label_2/<number>.txt},mapping/{train_mapping,train_rand}.txt}, where "
    "mapping comes from devkit_object.zip",
    {"train": 6_347, "validation": 423, "test": 711},
    _read,
    _fetch,
)
