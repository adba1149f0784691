import shutil
import zipfile

import numpy as np
import pytest

from datamodules.vtab.kitti import KITTI, kitti_split, kitti_videos
from vit_lightning.data import images
from vit_lightning.errors import InputError


def test_videos_are_counted_from_1():
    mapping = "2011_09_26 first 0000000000\n2011_09_26 second 0000000000\n2011_09_28 third 0000000001\n"
    assert kitti_videos(mapping, "3,1,1,2\n") == ["third", "first", "first", "second"]


def test_split_by_video():
    videos = [f"drive_{number * 7 % 31:04d}" for number in range(400)]
    split = kitti_split(videos)
    assert sorted(number for part in split.values() for number in part) == list(range(400))
    owners = {name: {videos[number] for number in part} for name, part in split.items()}
    assert [len(owners[name]) for name in ("test", "validation", "train")] == [3, 3, 25]  # 10 % of 31 videos, twice

    np.random.seed(123)
    test = set(np.random.choice(sorted(set(videos)), 3, replace=False))
    validation = set(np.random.choice(sorted(set(videos) - test), 3, replace=False))
    assert (owners["test"], owners["validation"]) == (test, validation)


def test_synthetic(publish):
    root = publish("kitti_distance")
    held = {split: KITTI.open(root, split, allow_incomplete=True) for split in ("train", "validation", "test")}
    assert sum(map(len, held.values())) == 48
    for part in held.values():
        for key, (file, label) in zip(part.keys, part, strict=True):
            number = int(key.removesuffix(".png"))
            depth = 1000 if number % 3 == 2 else number / 2  # every third is a pedestrian
            assert label == (depth > 8) + (depth > 20) + (depth > 999)
            assert images.load(file, name=key).shape == (3, 12, 16)


def test_the_video_lists_are_asked_for(publish):
    root = publish("kitti_distance")
    shutil.rmtree(root / "Kitti" / "raw" / "mapping")
    with pytest.raises(InputError, match=r"train_mapping.txt: No such file.*devkit_object.zip"):
        KITTI.open(root, "train")


def kit_root(root, training, mapping, order):
    shutil.copytree(training, root / "Kitti" / "raw" / "training")
    (root / "Kitti" / "raw" / "mapping").mkdir()
    (root / "Kitti" / "raw" / "mapping" / "train_mapping.txt").write_text(mapping)
    (root / "Kitti" / "raw" / "mapping" / "train_rand.txt").write_text(order)
    return {split: KITTI.open(root, split, allow_incomplete=True) for split in ("train", "validation", "test")}


def test_kit_real_images(kit, tmp_path):
    mapping = "".join(f"2011_09_26 drive_{number} 0000000000\n" for number in range(3))
    held = kit_root(tmp_path, kit / "vtab-layouts" / "real" / "Kitti" / "raw" / "training", mapping, "1,2,3")
    labels = {key: label for part in held.values() for key, label in zip(part.keys, part.labels, strict=True)}
    # A pedestrian alone; a truck at 69.44 m and a car at 58.49 m; a car at 34.38 m.
    assert labels == {"000000.png": 3, "000001.png": 2, "000002.png": 2}
    assert images.load(held["train"][0][0], name="street").shape[0] == 3


def test_kit_video_lists(kit, tmp_path):
    layouts = kit / "vtab-layouts"
    with zipfile.ZipFile(layouts / "fake-tfds" / "kitti" / "devkit_object.zip") as archive:
        mapping, order = (archive.read(f"mapping/train_{name}.txt").decode() for name in ("mapping", "rand"))
    held = kit_root(tmp_path, layouts / "fake-adapted" / "Kitti" / "raw" / "training", mapping, order)
    assert [len(held[split]) for split in ("train", "validation", "test")] == [6, 2, 2]  # two images a video
