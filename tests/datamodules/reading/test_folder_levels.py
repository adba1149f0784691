"""Folders around those of classes, two levels up: kinds of corruption, of which each strength holds all classes."""

import pytest

from datamodules.reading.folder_layouts import check
from tests.datamodules.test_folder import put
from vit_lightning.errors import InputError


def make(root, places: str) -> list[str]:
    for place in places.split():
        put(root / place / "1.png")
    return sorted({place.partition("/")[0] for place in places.split()})


@pytest.mark.parametrize(
    ("outer", "numbers", "inner"),
    [
        ("brightness fog blur", "1 2 3 4 5", "n01440764 n01443537"),
        ("blur fog", "1 2", "cat dog"),
        ("night day", "2019 2020", "cat dog"),
        ("a_site b_site", "1", "cat dog"),
    ],
)
def test_numbers_that_hold_the_same_folders(tmp_path, outer, numbers, inner):
    places = [f"{one}/{two}/{three}" for one in outer.split() for two in numbers.split() for three in inner.split()]
    names = make(tmp_path, " ".join(places))
    with pytest.raises(InputError, match=f"holds {names[0]} and {names[1]}, each of which holds ") as told:
        check(tmp_path, names, is_flat=True)
    number = numbers.split()[0]
    if " " in numbers:
        assert f"holds {number}/{inner.split()[0]} and {number}/{inner.split()[1]}: if these" in str(told.value)
    assert f"give --data.root {tmp_path / names[0] / number};" in str(told.value)
    check(tmp_path, names, is_flat=True, known=names)


@pytest.mark.parametrize(
    "places",
    [
        "cat/2019 cat/2020 dog/2019 dog/2020",
        "cat/2019/01 cat/2019/02 cat/2020/01 dog/2019/01 dog/2019/02 dog/2020/02",
        "cat/1/siam cat/1/tabby cat/2/tabby dog/1/boxer dog/1/pug dog/2/pug",
        "cat/1/images cat/2/images dog/1/images dog/2/images",
        "cat/1/images cat/1/masks cat/2/images dog/1/images dog/1/masks dog/2/images",
        "cat/p1 cat/p2 dog/p1 dog/p2",
    ],
)
def test_numbers_that_divide_classes(tmp_path, places):
    check(tmp_path, make(tmp_path, places), is_flat=True)
