"""Files of VTAB's sets: classes from everywhere in the list, damage that everyone counts, what is fetched."""

import random

import numpy as np
import pytest

from datamodules.vtab import kitti, names
from datamodules.vtab.arrays import PATCH_CAMELYON, SVHN, smallnorb
from datamodules.vtab.folders import CALTECH101, by_class
from datamodules.vtab.kitti import KITTI
from datamodules.vtab.labels import smallnorb_azimuth
from datamodules.vtab.retinopathy import RETINOPATHY
from tests.data.test_images_damaged import cut_and_ended, damaged, photo
from vit_lightning.data import images
from vit_lightning.data.images import BrokenImage
from vit_lightning.errors import InputError

CLASSES = (0, 4, 5, 60, 101)


def test_each_class_of_caltech101_trains_on_30_images_chosen_in_the_order_of_their_names(tmp_path):
    folder = tmp_path / "caltech101/101_ObjectCategories"
    for label in CLASSES:
        (folder / names.CALTECH101[label]).mkdir(parents=True)
        for number in range(20 if label == 5 else 34):
            (folder / names.CALTECH101[label] / f"image_{number:04}.jpg").touch()
    train, test = CALTECH101.read(tmp_path, "train"), CALTECH101.read(tmp_path, "test")
    assert np.bincount(train.labels)[list(CLASSES)].tolist() == [30, 30, 20, 30, 30]
    assert np.bincount(test.labels, minlength=102)[list(CLASSES)].tolist() == [4, 4, 0, 4, 4]
    drawn = np.random.RandomState(1234)
    expected = set()
    for name in sorted(names.CALTECH101[label] for label in CLASSES):
        files = [f"{name}/image_{number:04}.jpg" for number in range(34 if name != names.CALTECH101[5] else 20)]
        expected |= {*drawn.choice(files, min(30, len(files)), replace=False)}
    assert {*train.keys} == expected and expected.isdisjoint(test.keys)


def test_files_of_a_class_come_in_the_order_of_their_names(tmp_path):
    for name in "hbgdfaec":
        (tmp_path / "x").mkdir(exist_ok=True)
        (tmp_path / f"x/{name}.jpg").touch()
    assert by_class(tmp_path, ["w", "x"]) == [(f"x/{name}.jpg", 1) for name in "abcdefgh"]


@pytest.mark.filterwarnings("ignore:every photograph is processed")
def test_a_photograph_that_is_damaged_inside_is_shown(publish):
    """In the set that everyone has are some, which count in everyone's scores."""
    file = publish("retinopathy") / "train/0_left.jpeg"
    chance = random.Random(0)
    data = damaged(photo(), cut_and_ended, chance)
    with pytest.raises(BrokenImage):
        images.decode(data, name="x")
    file.write_bytes(data)
    shown, _ = RETINOPATHY.open(file.parents[1], "train", True)[0]
    assert images.decode(shown, name="x").shape[0] == 3


@pytest.mark.parametrize("is_there", [True, False])
def test_the_videos_of_kitti_are_fetched_where_they_are_not_there(tmp_path, monkeypatch, is_there):
    asked: list[tuple] = []
    monkeypatch.setattr(kitti.datasets.Kitti, "__init__", lambda self, root, download: asked.append((root, download)))
    monkeypatch.setattr(kitti, "download_and_extract_archive", lambda url, root: asked.append((url, root)))
    if is_there:
        (tmp_path / "Kitti/raw/mapping").mkdir(parents=True)
    KITTI.download(tmp_path)
    kit = (f"{kitti.datasets.Kitti.data_url}devkit_object.zip", tmp_path / "Kitti/raw")
    assert asked == [(tmp_path, True), *[kit] * (not is_there)]


def test_all_splits_of_patch_camelyon_and_svhn_are_fetched(tmp_path, monkeypatch):
    asked: list[tuple] = []
    for kind in ("PCAM", "SVHN"):
        monkeypatch.setattr(
            f"torchvision.datasets.{kind}",
            lambda root, split, download, kind=kind: asked.append((kind, split, download)),
        )
    PATCH_CAMELYON.download(tmp_path)
    SVHN.download(tmp_path)
    assert asked == [
        *(("PCAM", split, True) for split in ("train", "val", "test")),
        *(("SVHN", split, True) for split in ("train", "test")),
    ]


def test_smallnorb_needs_as_many_labels_as_images(publish):
    root = publish("smallnorb_azimuth")
    info = root / "smallnorb-5x46789x9x18x6x2x96x96-training-info.mat"
    words = np.frombuffer(info.read_bytes(), "<i4").copy()
    words[2] -= 1  # a row less
    info.write_bytes(words[:-4].tobytes())
    with pytest.raises(InputError, match=r"training-dat\.mat has 18 images, .*training-info\.mat 17 labels"):
        smallnorb(smallnorb_azimuth).open(root, "train", allow_incomplete=True)
