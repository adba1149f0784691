"""Labels as COCO and Label Studio write them."""

import json
from pathlib import Path

import pytest

from tests.datamodules.test_labels import (
    csv_cell,
    manifest,
    root,  # noqa: F401  # a fixture
    shown,
)
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError

LABEL_STUDIO = "annotation_id,annotator,choice,created_at,id,image,lead_time\n"


def write_choices(root: Path, *choices: str, images: tuple[int, ...] = (0, 1, 2)) -> None:  # noqa: F811
    """Write a table as Label Studio exports it to CSV."""
    rows = zip(images, choices, strict=True)
    lines = [f"{n},1,{csv_cell(choice)},2024-01-01T00:00:00Z,{n},/data/upload/1/{n}.png,3.5" for n, choice in rows]
    (root / "train.csv").write_text(LABEL_STUDIO + "\n".join(lines) + "\n")


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_choices_of_label_studio_in_one_column(root, ending):  # noqa: F811
    options = {"image_prefix": "/data/upload/1/", "image_folder": root}
    several = '{"choices": ["cat", "dog"]}'

    def ready(*choices: str, **further):
        write_choices(root, *choices)
        if ending == "json":  # the export JSON_MIN
            rows = [{"image": f"/data/upload/1/{n}.png", "id": n, "choice": choice} for n, choice in enumerate(choices)]
            for row in rows:
                row["choice"] = json.loads(row["choice"]) if row["choice"].startswith("{") else row["choice"]
            (root / "train.json").write_text(json.dumps(rows))
        return manifest(root, f"train.{ending}", **options, **further)

    assert shown(ready("cat", '{"choices": ["dog"]}', "cat"), 3) == [{"cat"}, {"dog"}, {"cat"}]
    assert shown(ready("cat", several, "owl", multi_label=True), 3) == [{"cat"}, {"cat", "dog"}, {"owl"}]
    with pytest.raises(
        InputError, match=r"the list \['cat', 'dog'\] as a label; give --data\.multi_label true .*in row 2"
    ):
        ready("cat", several, "owl")
    with pytest.raises(InputError, match=r"has the label .* in row 2"):
        ready("cat", '{"choices": "dog"}', "owl")


def test_annotators_of_label_studio_who_disagree(root):  # noqa: F811
    write_choices(root, "cat", "dog", "dog", images=(0, 1, 0))
    with pytest.raises(InputError, match=r"lists 0\.png in row 1 \(cat\) and in row 3 \(dog\); keep one of the rows"):
        manifest(root, image_prefix="/data/upload/1/", image_folder=root)


COCO = {
    "images": [{"id": 1, "file_name": "0.png"}, {"id": "2", "file_name": "1.png"}],
    "annotations": [{"id": 7, "image_id": "1", "category_id": 3}, {"id": 8, "image_id": 2, "category_id": "4"}],
    "categories": [{"id": "3", "name": "cat"}, {"id": 4, "name": "dog"}, {"id": 5, "name": "cat"}],
}


def test_coco_with_ids_as_text(root):  # noqa: F811
    (root / "train.json").write_text(json.dumps(COCO))
    assert shown(manifest(root, "train.json"), 2) == [{"cat"}, {"dog"}]


def test_fields_of_cocos_images_are_columns(root):  # noqa: F811
    images = [{"id": n, "path": "/elsewhere", "file_name": f"{n}.png", "width": 8} for n in range(6)]
    images = [{**image, "location": f"river {n // 2}"} for n, image in enumerate(images)]
    annotations = [{"id": n, "image_id": n, "category_id": n % 2} for n in range(6)]
    categories = [{"id": n, "name": name} for n, name in enumerate(("cat", "dog"))]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (root / "train.json").write_text(json.dumps(content))
    data = manifest(root, "train.json", group_column="location", val_fraction=0.3)
    parts = [{int(key[0]) // 2 for key in part.keys} for part in (data.train_set, data.val_set)]
    assert len(parts[0]) == 2 and len(parts[1]) == 1 and not parts[0] & parts[1]
    stated = [{**image, "split": ["train", "test"][n % 2]} for n, image in enumerate(images)]
    (root / "train.json").write_text(json.dumps({**content, "images": stated}))
    with pytest.raises(InputError, match=r"the label 'dog'.*, which the training images of"):
        manifest(root, "train.json")
    del images[4]["location"]
    (root / "train.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"has nothing in the column 'location' in row 5 \(4\.png\)"):
        manifest(root, "train.json", group_column="location")


def test_coco_of_test_images_without_annotations(root):  # noqa: F811
    (root / "train.json").write_text(json.dumps(COCO))
    (root / "test.json").write_text(json.dumps({part: COCO[part] for part in ("images", "categories")}))
    data = manifest(root, "train.json", test="test.json")
    assert [data.test_set[row][1] for row in range(2)] == [IGNORE, IGNORE]
    assert data.test_set[1][0] == root / "1.png"
    with pytest.raises(InputError, match=r"test\.json has no column of labels, which test needs; predict does without"):
        data.setup("test")
    with pytest.raises(InputError, match=r"test\.json has no column 'label' but file_name"):
        manifest(root, "test.json")
    (root / "test.json").write_text(json.dumps({part: COCO[part] for part in ("annotations", "images")}))
    with pytest.raises(InputError, match=r"has no images, annotations and categories, as COCO's has"):
        manifest(root, "train.json", test="test.json")


@pytest.mark.parametrize(
    ("part", "more", "message"),
    [
        ("categories", {"id": 3, "name": "owl"}, r"has two of category id 3; give each an id of its own"),
        ("images", {"id": "1", "file_name": "2.png"}, r"has two of image id 1; give each an id of its own"),
        ("annotations", {"id": 9, "image_id": 2, "category_id": 5}, r"two categories 'cat', id 3 and id 5; rename one"),
        ("annotations", {"id": 9, "image_id": 2, "category_id": 6}, r"annotation 9 has the category_id 6, which none"),
        ("annotations", {"id": 9, "image_id": 3, "category_id": 4}, r"annotation 9 has the image_id 3, which none"),
        (
            "annotations",
            {"id": 9, "image_id": 1, "category_id": 4},
            r"has annotations of 2 classes, .* in row 1 \(0\.p",
        ),
        (
            "images",
            {"id": 3, "file_name": "2.png"},
            r"has no annotation, expected one class; give .* in row 3 \(2\.png",
        ),
        ("images", {"id": 3}, r"has no id or no file_name in image 2, counted from 0"),
    ],
)
def test_coco_that_cannot_be_matched(root, part, more, message):  # noqa: F811
    (root / "train.json").write_text(json.dumps({**COCO, part: [*COCO[part], more]}))
    with pytest.raises(InputError, match=message):
        manifest(root, "train.json")


def test_a_category_of_coco_called_0(root):  # noqa: F811
    categories = [{"id": 3, "name": 0}, {"id": 4, "name": 1}]
    annotations = [{"id": 1, "image_id": 1, "category_id": 3}, {"id": 2, "image_id": 2, "category_id": 4}]
    images = [{"id": 1, "file_name": "0.png"}, {"id": 2, "file_name": "1.png"}]
    (root / "train.json").write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": categories})
    )
    assert shown(manifest(root, "train.json"), 2) == [{"0"}, {"1"}]
