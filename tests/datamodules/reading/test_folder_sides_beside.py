"""Classes called as what belongs to images is, beside others."""

import pytest

from tests.datamodules.reading.test_folder_layouts import SIDE, read
from tests.datamodules.test_folder import put
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    ("tree", "side"),
    [
        ("gloves hats masks", "masks"),
        ("banners thumbnails", "thumbnails"),
        ("train/boxes train/labels train/tags", "labels"),
        ("rgb thermal", "thermal"),
        ("hats labels masks", "labels"),
    ],
)
@pytest.mark.parametrize("form", ["{}_{}", "{}_mask_{}", "{}{}"])
def test_classes_called_as_what_belongs_to_images_is(app, tmp_path, tree, side, form):
    """Images that none of the others belongs to are a class, which the run names; else they are refused."""
    for number, place in enumerate(tree.split()):
        for copy in range(4):
            put(tmp_path / "set" / place / f"{form.format('shot', 10 * number + copy)}.png", 10 * number + copy)
    data = read(tmp_path / "set")
    assert len(data.class_names) == len(tree.split())
    assert f"{side} is called as what belongs to images is, and is read as a class" in "".join(data.notices)
    for copy in range(4):
        put(tmp_path / "set" / tree.split()[0] / f"picture{10 * tree.split().index(tree.split()[-1]) + copy}.png", 9)
        put(tmp_path / "set" / tree.split()[0] / f"picture{copy + 10}.png", 9)
    with pytest.raises(InputError, match=r"called as (what belongs|parts of a set)"):
        read(tmp_path / "set")


@pytest.mark.parametrize("forms", [("{:03}", "{}"), ("{}", "{:03}"), ("shot_{:04}", "mask-{}"), ("{}_1", "{:02}_01")])
def test_masks_have_the_numbers_of_their_images_with_or_without_zeros(tmp_path, forms):
    for place, form, first in (("hats", forms[0], 0), ("masks", forms[1], 0), ("gloves", "{}", 10)):
        for number in range(first, first + 4):
            put(tmp_path / "set" / place / f"{form.format(number)}.png", number)
    with pytest.raises(InputError, match=r"called as what belongs"):
        read(tmp_path / "set")


def test_doctor_warns_of_a_class_called_as_masks(app, tmp_path):
    for number, place in enumerate(("gloves", "hats", "masks")):
        for copy in range(4):
            put(tmp_path / "set" / place / f"{10 * number + copy}.png", 10 * number + copy)
    words = ("--data", "ImageFolder", "--data.root", tmp_path / "set", "--data.image_size", 8, "--data.batch_size", 2)
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert "masks is called as what belongs to images is, and is read as a class" in done.out + done.err


@pytest.mark.parametrize(
    ("side", "form"),
    [
        ("thumbnails", "cat{}_128x128"),
        ("thumbnails", "{}@2x"),
        ("masks", "{}_512"),
        ("masks", "cat_2020_{}"),
        ("annotations", "cat_{}_v2"),
        ("masks", "2021-03-05 {}"),
    ],
)
def test_one_more_number_does_not_part_an_image_from_its_own(tmp_path, side, form):
    for copy in range(20):
        put(tmp_path / "cat" / f"cat{copy}.png", copy)
        put(tmp_path / "dog" / f"dog{copy + 20}.png", copy + 20)
        put(tmp_path / side / f"{form.format(copy)}.png", copy + 40)
    with pytest.raises(InputError, match=f"holds the folder {side}, which {SIDE}"):
        read(tmp_path)
