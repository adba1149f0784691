"""Files that list the images of a split, by their names and places."""

import pytest

from datamodules.folder import ImageFolder
from datamodules.reading.unread_splits import listed_split, lists_in, said_of_lists
from tests.datamodules.test_folder import put


@pytest.mark.parametrize(
    ("name", "split"),
    [
        *(("test.txt", "test"), ("test.csv", "test"), ("train.lst", "train"), ("val.list", "val")),
        *(("train_val_list.txt", "train"), ("test_list.txt", "test"), ("testing_list.txt", "test")),
        *(("test1.txt", "test"), ("trainlist.txt", "train"), ("test_files_v2.txt", "test")),
        *(("validation_list.txt", "val"), ("trainlist01.txt", "train"), ("testlist03.txt", "test")),
        *(
            ("test_list_NIH.txt", "test"),
            ("list_test.txt", "test"),
            ("testfiles.txt", "test"),
            ("val_files.json", "val"),
        ),
        *(("Testing_01.txt", "test"), ("train_test_split.txt", "test"), ("list_eval_partition.txt", "test")),
        *(("trainval.txt", "train"), ("split.csv", "test"), ("splits.json", "test"), ("valfilelist.txt", "val")),
    ],
)
def test_the_split_of_a_list_by_its_name(name, split):
    assert listed_split(name) == split


@pytest.mark.parametrize(
    "name",
    [
        *("classes.txt", "wish_list.txt", "files.txt", "train_classes.txt", "test_class_names.txt", "kids_test.csv"),
        *("test_results.csv", "requirements-test.txt", "realistic_test.txt", "test.jpg", "test", "README.txt", "1.txt"),
        *("test_classes_list.txt", "specialist.txt", "profiles_train.csv", "train.py", "split_seed.txt"),
    ],
)
def test_other_files_list_no_split(name):
    assert listed_split(name) is None


def test_the_lists_of_a_folder(tmp_path):
    for name in ("train_val_list.txt", "test_list.txt", "test_list_2.txt", "README.txt"):
        (tmp_path / name).touch()
    (tmp_path / "val.txt").mkdir()
    found = {"train": tmp_path / "train_val_list.txt", "test": tmp_path / "test_list.txt"}
    assert lists_in(tmp_path) == found and lists_in(tmp_path / "none") == {}


@pytest.mark.parametrize(
    ("root", "place"),
    [
        *(("set", "set/test_list.txt"), ("set", "set/testing_list.txt"), ("set", "set/splits/testlist01.txt")),
        *(("food/images", "food/meta/test.txt"), ("cub/images", "cub/train_test_split.txt")),
        *(("dtd/images", "dtd/labels/test1.txt"), ("sun/images", "sun/Partitions/Testing_01.txt")),
        *(("voc/JPEGImages", "voc/ImageSets/test.txt"), ("set", "set/train_test_split/test.lst")),
    ],
)
def test_lists_beside_folders_of_classes(tmp_path, root, place):
    for number in range(24):
        put(tmp_path / root / f"{'ab'[number % 2]}" / f"{number}.png", number)
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).touch()
    data = ImageFolder(root=tmp_path / root, image_size=8)
    data.setup("fit")
    assert f"{tmp_path / place} may list a split's images and is not read" in "".join(data.notices)


@pytest.mark.parametrize(
    ("root", "place"),
    [
        *(("set", "test.txt"), ("set", "other/test.txt"), ("set/images", "test.txt"), ("set", "set/docs/test.txt")),
        *(("set/images", "set/old/test.txt"), ("set", "set/classes.txt"), ("set/images", "set/labels/1.txt")),
    ],
)
def test_lists_elsewhere_are_of_other_images(tmp_path, root, place):
    (tmp_path / root / "a").mkdir(parents=True)
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).touch()
    assert said_of_lists(tmp_path / root, ["val", "test"]) is None
