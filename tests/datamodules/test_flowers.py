import os
import shutil

import pytest
from torchvision import datasets

from datamodules.flowers import FLOWERS, Flowers
from datamodules.vtab.tasks import tfds_order
from vit_lightning.errors import InputError
from vit_lightning.testing import check_datamodule


def test_contract(publish):
    check_datamodule(Flowers(root=publish("flowers102"), image_size=8, batch_size=4, allow_incomplete=True))


def test_labels_count_from_0(publish):
    held = FLOWERS.open(publish("flowers102"), "validation", allow_incomplete=True)
    assert list(held.keys) == [f"image_{number:05d}.jpg" for number in range(21, 25)]
    assert held.labels.tolist() == [20, 21, 22, 23]


def test_damaged_labels_are_an_error(tmp_path):
    folder = tmp_path / "flowers-102"
    (folder / "jpg").mkdir(parents=True)
    for name in ("imagelabels.mat", "setid.mat"):
        (folder / name).write_bytes(b"not what was published")
    with pytest.raises(InputError, match=r"flowers-102/\{jpg"):
        Flowers(root=tmp_path).setup("fit")


def test_kit(kit, tmp_path):
    """The published label files: of 1,020 training images, the last 102 in TFDS's order are for validation."""
    shutil.copytree(kit / "vtab-layouts" / "real" / "flowers-102", tmp_path / "flowers-102")
    (tmp_path / "flowers-102").chmod(0o755)
    (tmp_path / "flowers-102" / "jpg").mkdir()
    data = Flowers(root=tmp_path)
    data.setup("fit")
    assert (len(data.train_set), len(data.val_set), len(data.test_set)) == (918, 102, 6149)
    whole = FLOWERS.open(tmp_path, "train")
    order = [whole.keys[number] for number in tfds_order("train", whole.keys)]
    assert sorted(data.val_set.keys) == sorted(order[918:])
    assert set(whole.labels) == set(range(102))


def test_the_set_is_the_published_one_and_may_be_fetched(monkeypatch, tmp_path):
    asked: list[tuple] = []
    monkeypatch.setattr(datasets, "Flowers102", lambda *words, **facts: asked.append((*words, facts)))
    FLOWERS.download(tmp_path)
    assert asked == [(tmp_path, {"download": True})]
    assert FLOWERS.sizes == {"train": 1020, "validation": 1020, "test": 6149}


@pytest.mark.parametrize("name", ["imagelabels.mat", "setid.mat"])
def test_label_files_are_regular_files(publish, name):
    root = publish("flowers102")
    (root / "flowers-102" / name).unlink()
    os.mkfifo(root / "flowers-102" / name)
    with pytest.raises(InputError, match=rf"{name} is a FIFO, not a regular file"):
        FLOWERS.open(root, "train", allow_incomplete=True)
