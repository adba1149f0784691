"""Tables as many publish them are read without a flag too many and without a word that is not true of them."""

import pytest

from tests.datamodules.test_manifest_split import ready, root, write  # noqa: F401  # root is a fixture

COLUMNS = {
    "confidence": (0.3, 0.9, 1.0),
    "fold": (0, 1, 2, 3, 4),
    "group": ("A", "B"),
    "set": ("A", "B"),
    "tags": ("indoor", "outdoor;night", "dev kit"),
    "source": ("web", "flickr"),
    "quality": ("high", "low", "test"),
    "weight": (0.5, 1.0),
    "hash": ("a1b2", "c3d4"),
    "width": (640, 480),
    "is_augmented": (0, 1),
    "verified": ("yes", "no"),
    "partition": ("A", "B", "C"),
    "stage": ("I", "II", "III"),
    "usage": ("Public", "Private"),
    "dataset": ("coco", "voc"),
    "dataset_id": (1, 2),
    "batch": (1, 2, 3),
    "train_id": (1, 2, 3),
    "exam": ("e1", "e2"),
    "score": (1, 0),
    "class_id": (7, 9),
    "supercategory": ("animal",),
    "lang": ("te", "tr", "en"),
    "subject": ("portrait",),
    "sex": ("M", "F"),
    "site": ("A", "B"),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_columns_beside_a_label(root, column):  # noqa: F811
    cells, labels = COLUMNS[column], ["ab"[number % 2] for number in range(40)]
    rows = [f"{number}.png,{label},{cells[number % len(cells)]}" for number, label in enumerate(labels)]
    write(root / "train.csv", f"path,label,{column}", rows)
    data = ready(root)
    assert not data.notices and len(data.train_set) + len(data.val_set) == 40
    for key, label in zip(data.val_set.keys, data.val_set.labels, strict=True):
        assert data.class_names[label] == labels[int(key.removesuffix(".png"))]


def test_numbers_of_classes_that_are_named_after_each_other(root):  # noqa: F811
    """As the wafers of WM-811K are."""
    names = ["Edge Loc", "Edge Ring", "Loc", "Ring"]
    rows = [f"{number}.png,{number % 4},{names[number % 4]}" for number in range(40)]
    write(root / "train.csv", "path,label,class_name", rows[:20])
    write(root / "val.csv", "path,label,class_name", rows[20:])
    data = ready(root, val="val.csv")
    assert not data.notices and data.val_set.labels.tolist() == [0, 1, 2, 3] * 5
