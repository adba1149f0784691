"""ImageNet-21k with a validation folder: both sets are indexed, labelled with their ancestors, and told of gaps."""

import pytest

from tests.datamodules.test_imagenet21k import CAT, DOG, ORGANISM, imagenet21k_at, put, ready


@pytest.fixture
def root(tmp_path):
    """Training images of dogs and cats, validation images of dogs and organisms."""
    for wnid in (DOG, CAT):
        put(tmp_path / "21k/train", wnid, 3)
    for wnid, count in ((ORGANISM, 1), (DOG, 2)):
        put(tmp_path / "21k/val", wnid, count)
    (tmp_path / "few.txt").write_text(f"{DOG}\n{ORGANISM}\n{CAT}\n")
    return tmp_path / "21k"


def test_what_is_missing_is_told_of_each_set(root):
    few = str(root.parent / "few.txt")
    with pytest.warns(UserWarning, match="1 of 3 classes have no images") as told:
        data = ready(root, label_set=few)
    assert [str(one.message).partition(", such as ") for one in told if "no images" in str(one.message)] == [
        (f"1 of 3 classes have no images in {root}/train", ", such as ", f"{ORGANISM}; they keep their numbers"),
        (f"1 of 3 classes have no images in {root}/val", ", such as ", f"{CAT}; they keep their numbers"),
    ]
    assert (len(data.train_set), data.val_set.labels.tolist()) == (6, [1, 0, 0])
    for wnid in (DOG, ORGANISM):
        (root / "val" / wnid).rename(root / "val" / f"{wnid}.moved")
    put(root / "val", CAT, 1)
    with pytest.warns(UserWarning, match=f"2 of 3 classes have no images in {root}/val, such as {DOG}; they keep"):
        ready(root, label_set=few, reindex=True)


@pytest.mark.filterwarnings("ignore:.*classes have no images")
def test_validation_images_show_what_is_above_their_classes_too(root):
    data = ready(root, label_set=str(root.parent / "few.txt"), hierarchy=True)
    assert [data.val_set[number][1].tolist() for number in range(3)] == [[0, 1, 0], [1, 1, 0], [1, 1, 0]]
    assert [data.train_set[number][1].tolist() for number in (0, 5)] == [[1, 1, 0], [0, 1, 1]]


def test_both_folders_are_indexed_beforehand(root):
    assert imagenet21k_at(root).places() == [root / "train", root / "val"]
    assert imagenet21k_at(root / "train").places() == [root / "train"]
    assert imagenet21k_at(root / "nowhere").places() == []
