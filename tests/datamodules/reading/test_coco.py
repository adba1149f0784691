"""COCO's JSON, entry by entry."""

from pathlib import Path

import pytest

from datamodules.reading import coco
from vit_lightning.errors import InputError

TABLE = Path("coco.json")


def content(**parts) -> dict:
    return {
        "images": [{"id": 7, "file_name": "b.png"}, {"id": "3", "file_name": "a.png"}, {"id": 9, "file_name": "c.png"}],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2.0, "name": " dog "}],
        "annotations": [
            {"image_id": 3, "category_id": "2"},
            {"image_id": 7.0, "category_id": 2},
            {"image_id": "7", "category_id": 1},
            {"image_id": 7, "category_id": 2},
        ],
    } | parts


def rows(**parts) -> list[tuple]:
    return [(row["file_name"], row.get("label")) for row in coco.rows(content(**parts), TABLE)]


def test_an_image_has_the_classes_of_its_annotations_once_each_in_their_order():
    found = rows()
    assert found == [("b.png", ["dog", "cat"]), ("a.png", ["dog"]), ("c.png", [])]
    assert all(type(label) is coco.Annotated for _, label in found)


@pytest.mark.parametrize("zero", [0, "0", 0.0])
def test_ids_may_count_from_0(zero):
    images, categories = [{"id": zero, "file_name": "a.png"}], [{"id": zero, "name": "cat"}]
    found = rows(images=images, categories=categories, annotations=[{"image_id": 0, "category_id": 0}])
    assert found == [("a.png", ["cat"])]


def test_test_images_have_no_labels():
    whole = content()
    del whole["annotations"]
    found = list(coco.rows(whole, TABLE))
    assert found == [{"file_name": "b.png"}, {"file_name": "a.png"}, {"file_name": "c.png"}]


@pytest.mark.parametrize("annotated", [True, False])
def test_further_fields_of_the_images_are_columns(annotated):
    """What no image is named or labelled by may be its split or its sequence; an image may lack one."""
    images = [{"id": 7, "file_name": "b.png", "seq": 4}, {"id": "3", "file_name": "a.png", "set": "test", "label": "x"}]
    whole = content(images=images, annotations=[])
    if not annotated:
        del whole["annotations"]
    found = [{name: value for name, value in row.items() if name != "label"} for row in coco.rows(whole, TABLE)]
    assert found == [
        {"file_name": "b.png", "seq": 4, "set": None},
        {"file_name": "a.png", "seq": None, "set": "test"},
    ]


@pytest.mark.parametrize(
    ("keys", "is_one"),
    [
        ("images annotations categories", True),
        ("images annotations categories info", True),
        ("images categories licenses", True),
        ("images annotations", False),
        ("annotations categories", False),
        ("images", False),
        ("", False),
    ],
)
def test_what_is_cocos(keys, is_one):
    assert coco.is_one(dict.fromkeys(keys.split(), ())) is is_one


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            {"images": [{"id": 1, "file_name": "a"}, {"id": None, "file_name": "b"}]},
            "no id or no file_name in image 1,",
        ),
        ({"images": [{"id": 1, "file_name": ""}]}, "no id or no file_name in image 0, counted from 0"),
        ({"categories": [{"id": 1}]}, "no id or no name in category 0"),
        ({"categories": ["cat"]}, "no id or no name in category 0"),
        (
            {"categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]},
            "has two of category id 1; give each an id of its own$",
        ),
        (
            {"images": [{"id": 1, "file_name": "a"}, {"id": "1.0", "file_name": "b"}]},
            r'two of image id 1; .* own \(1 and "1\.0" are',
        ),
        (
            {"categories": [{"id": 1, "name": ["a"]}]},
            r"has the label \['a'\], expected a name or a number, as name of category id 1",
        ),
        (
            {"annotations": [{"id": 55, "image_id": 8, "category_id": 1}]},
            "annotation 55 has the image_id 8, which none of its image entries",
        ),
        (
            {"annotations": [{"image_id": 7, "category_id": 1}, {"image_id": 7, "category_id": 4}]},
            "annotation 1 has the category_id 4, which none of its category",
        ),
        ({"annotations": ["x"]}, "annotation 0 has the image_id None"),
    ],
)
def test_entries_that_lack_something_or_belong_to_nothing(parts, said):
    with pytest.raises(InputError, match=said):
        rows(**parts)


def test_two_categories_of_one_name():
    twice = [{"id": 1, "name": "cat"}, {"id": 2, "name": "cat"}]
    with pytest.raises(InputError, match="two categories 'cat', id 2 and id 1; rename one"):
        rows(categories=twice)
    assert rows(categories=twice, annotations=content()["annotations"][:2])[0] == ("b.png", ["cat"])
