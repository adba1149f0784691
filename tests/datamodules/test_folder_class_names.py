"""Names of classes that are those of splits, begin the names of images, or stand in a map with a header."""

import re
import subprocess
from pathlib import Path

import pytest

from datamodules.folder import ImageFolder
from datamodules.manifest import Manifest
from tests.datamodules.test_folder import put, ready
from vit_lightning.errors import InputError


def test_a_class_that_is_called_as_a_split_is(tmp_path):
    for number, name in enumerate(("train", "bus", "car")):
        put(tmp_path / name / "0.jpg", number)
    (tmp_path / "names.txt").write_text("train\nbus\ncar\n")
    data = ready(tmp_path, class_map=tmp_path / "names.txt", val_fraction=0.0, test_fraction=0.0)
    assert data.class_names == ["train", "bus", "car"]
    assert list(data.train_set.keys) == ["train/0.jpg", "bus/0.jpg", "car/0.jpg"]
    for place in ("data/train/train/0.jpg", "data/train/bus/0.jpg", "data/val/bus/0.jpg"):
        put(tmp_path / place)
    data = ready(tmp_path / "data", class_map=tmp_path / "names.txt")
    assert list(data.train_set.keys) == ["train/0.jpg", "bus/0.jpg"] and list(data.val_set.keys) == ["bus/0.jpg"]


def test_images_whose_names_begin_with_their_classes(tmp_path):
    """As Kaggle's Dogs vs. Cats has them; what the error says is what reads them."""
    for number in range(8):
        put(tmp_path / f"train/{('cat', 'dog')[number % 2]}.{number}.png", number)
    with pytest.raises(InputError, match=r"names of its images begin with cat and dog: if these are") as caught:
        ImageFolder(root=tmp_path, image_size=8).setup("fit")
    command, table = re.search(
        r"write a table by (.*), and give --data Manifest --data.train (\S+) ", str(caught.value)
    ).groups()
    subprocess.run(command, shell=True, check=True)
    data = Manifest(root=tmp_path, train=Path(table), image_folder=tmp_path / "train", cache=tmp_path / ".cache")
    data.setup("fit")
    assert data.class_names == ["cat", "dog"] and len(data.train_set) + len(data.val_set) == 8
    for file in (tmp_path / "train").iterdir():
        file.rename(file.with_name(f"{file.name.split('.')[1]}.png"))
    with pytest.raises(InputError, match=r"give --data\.root$"):
        ImageFolder(root=tmp_path, image_size=8).setup("fit")


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        ("american_bulldog_{} american_pit_bull_terrier_{}", ["american_bulldog", "american_pit_bull_terrier"]),
        ("n01440764_1{} n02102040_1{}", ["n01440764", "n02102040"]),
        ("cat{} dog{}", ["cat", "dog"]),
        ("cat-({}) sea-lion-({})", ["cat", "sea-lion"]),
        ("set.1.cat_{} set.2.cat_{}", ["set.1.cat", "set.2.cat"]),
        ("b\u00e4r_{} katze_{}", ["b\u00e4r", "katze"]),
        ("Cat_{} cat_{}", "which may be one class"),
        ("cat,tabby_{} dog_{}", ""),
        ("cat_{} {}", ""),
    ],
)
def test_the_whole_beginning_of_a_name_is_the_class(tmp_path, names, classes):
    for number in range(8):
        put(tmp_path / f"train/{names.split()[number % 2].format(number + 2)}.png", number)
    (tmp_path / "train/notes_1.txt").touch()
    with pytest.raises(InputError) as caught:
        ImageFolder(root=tmp_path, image_size=8).setup("fit")
    found = re.search(r"write a table by (.*), and give --data Manifest --data.train (\S+) ", str(caught.value))
    if isinstance(classes, str):
        assert found is None and classes in str(caught.value)
        return
    subprocess.run(found[1], shell=True, check=True)
    data = Manifest(root=tmp_path, train=Path(found[2]), image_folder=tmp_path / "train", cache=tmp_path / ".cache")
    data.setup("fit")
    assert data.class_names == classes and len(data.train_set) + len(data.val_set) == 8


@pytest.mark.parametrize("header", ["labels", "class", "ClassName"])
def test_a_header_of_a_class_map_of_folders(tmp_path, header):
    for number, name in enumerate(("owl", "cat")):
        put(tmp_path / f"set/train/{name}/0.jpg", number)
    (tmp_path / "names.txt").write_text(f"{header}\nowl\ncat\n")
    options = {"class_map": tmp_path / "names.txt", "val_fraction": 0.0}
    assert ready(tmp_path / "set", **options).class_names == ["owl", "cat"]
    put(tmp_path / f"set/train/{header}/0.jpg", 3)
    assert ready(tmp_path / "set", **options).class_names == [header, "owl", "cat"]
