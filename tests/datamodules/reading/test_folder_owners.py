"""Folders whose names hold those of other classes: masks of these, or classes such as Edge-Loc beside Loc."""

import pytest

from datamodules.reading import folder_names, folder_sides
from vit_lightning.errors import InputError

REFUSED = "which is called as what belongs to images is, not as a class"
WAFERS = "Center Donut Edge-Loc Edge-Ring Loc Near-full Random Scratch none"


def make(root, counts: dict[str, int], form: str = "{}") -> list[str]:
    for name, count in counts.items():
        (root / name).mkdir(parents=True)
        for number in range(1, count + 1):
            (root / name / f"{form.format(number, name=name)}.png").touch()
    return sorted(counts)


@pytest.mark.parametrize("form", ["{}", "{name}_{}", "{name} ({})", "img_{}"])
@pytest.mark.parametrize(
    "counts",
    [
        {name: 20 + 3 * number for number, name in enumerate(WAFERS.split())},
        {name: 40 - 3 * number for number, name in enumerate(WAFERS.split())},
        dict.fromkeys(WAFERS.split(), 20),
        {"Ring": 20, "Edge Ring": 30, "none": 10},
        {"camera": 20, "depth camera": 25, "phone": 20},
        {"Ford": 20, "Ford GT": 20, "Audi": 20, "Kia": 18},
        {"skin": 20, "mask_skin": 30, "hair": 20},
        {"Ring": 20, "Edge Ring": 20, "none": 20},
        {"store_1": 20, "target_store_1": 20, "store_2": 20, "target_store_2": 20},
        {"store_1": 20, "target_store_1": 20},
    ],
)
def test_classes_that_hold_the_name_of_another(tmp_path, counts, form):
    names = make(tmp_path, counts, form)
    folder_sides.check(tmp_path, names)
    assert "each folder counts its own" in str(folder_sides.aside(tmp_path, names))
    assert folder_sides.aside(tmp_path, names, known=names) is None


@pytest.mark.parametrize("form", ["{}", "{name}_{}", "img_{}"])
@pytest.mark.parametrize(
    "counts",
    [
        {"cat": 20, "cat_masks": 20, "dog": 20, "dog_masks": 20},
        {"cat": 20, "cat_masks": 30, "dog": 40},
        {"tumor": 20, "tumor_mask": 20},
        {"tumor": 20, "tumor_mask": 18, "healthy": 90},
        {"cat": 20, "cat_depth": 20, "dog": 20, "dog_depth": 20},
        {"cat": 20, "cat_edges": 20, "dog": 20, "bird": 20, "cow": 20},
        {"cat": 20, "cat_edge": 20, "dog": 20},
        {"cat": 20, "depth_edge_cat": 20},
    ],
)
def test_masks_of_a_class(tmp_path, counts, form):
    names = make(tmp_path, counts, form)
    with pytest.raises(InputError, match=REFUSED):
        folder_sides.check(tmp_path, names)


def test_masks_that_are_called_through_all_classes(tmp_path):
    for name, first in {"Loc": 0, "Edge-Loc": 0, "Ring": 20, "none": 40, "Donut": 60}.items():
        (tmp_path / name).mkdir()
        for number in range(first, first + 20):
            (tmp_path / name / f"{number}.png").touch()
    with pytest.raises(InputError, match=REFUSED):
        folder_sides.check(tmp_path, ["Donut", "Edge-Loc", "Loc", "Ring", "none"])


@pytest.mark.parametrize("side", ["Segmentation", "mask", "depth", "seg"])
def test_a_folder_called_as_one_class_is(tmp_path, side):
    for name, form in {"apple": "a{}", "pear": "p{}", side: "a{}"}.items():
        (tmp_path / name).mkdir()
        for number in range(6):
            (tmp_path / name / f"{form.format(number)}.png").touch()
    with pytest.raises(InputError, match=REFUSED):
        folder_sides.check(tmp_path, ["apple", "pear", side])


@pytest.mark.parametrize(
    "forms",
    [
        {"mask": "m{}", "metal": "m{}", "wood": "w{}"},
        {"thumb": "hand{}", "fist": "hand{}", "palm": "hand{}"},
        {"edge": "img{}", "center": "img{}", "donut": "photo{}"},
    ],
)
def test_classes_called_alike_that_count_anew(tmp_path, forms):
    for name, form in forms.items():
        (tmp_path / name).mkdir()
        for number in range(6):
            (tmp_path / name / f"{form.format(number)}.png").touch()
    folder_sides.check(tmp_path, sorted(forms))


def test_words_that_may_describe_a_class():
    assert all(map(folder_names.may_describe, ["Edge-Loc", "depth camera", "Ford GT", "cat"]))
    assert not any(map(folder_names.may_describe, ["mask_skin", "cat_masks", "cat_edges", "depth_seg"]))
