"""Which files and folders are whose split."""

import pytest

from datamodules.reading.splits import CELLS, SPLITS, check_counted, split_files, split_folders
from vit_lightning.errors import InputError

NAMES = [(split, name) for split, names in SPLITS.items() for name in names]


@pytest.fixture
def root(tmp_path):
    def make(*names: str):
        for name in names:
            path = tmp_path / name
            if name.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        return tmp_path

    return make


def test_each_split_has_the_names_that_are_in_use():
    assert SPLITS == {
        "train": ("train", "training"),
        "val": ("val", "valid", "validation", "dev"),
        "test": ("test", "testing", "eval", "evaluation"),
    }
    cells = {"train": "tr trn trainval restval", "val": "va", "test": "ts te tst holdout heldout"}
    assert {word: split for split, names in SPLITS.items() for word in [*names, *cells[split].split()]} == CELLS


@pytest.mark.parametrize(
    ("numbers", "missing"), [((1,), (1, 0)), ((0,), (1, 1)), ((0, 3), (2, 1)), ((1, 2, 3), (1, 0)), ((0, 1, 2), None)]
)
def test_files_that_say_how_many_there_are_are_all_there(root, numbers, missing):
    total = max(2, max(numbers) + 1)
    there = root(*(f"train-{number:05}-of-{total:05}.parquet" for number in numbers), "train-x.parquet")
    files = sorted(there.glob("*.parquet"))
    if missing is None:
        return check_counted(files)
    said = f"one of {total} files, of which {missing[0]} are missing, such as number {missing[1]}; fetch them"
    with pytest.raises(InputError, match=said):
        check_counted(files)


@pytest.mark.parametrize(("split", "name"), NAMES)
def test_folders_have_any_of_the_names_in_any_case(root, split, name):
    there = root(f"{name.title()}/", "others/", ".train/", "val.txt", "training2/", "__MACOSX/")
    assert split_folders(there) == ({split: there / name.title()}, ["others", "training2"])


@pytest.mark.parametrize(("split", "name"), NAMES)
@pytest.mark.parametrize(
    "form", ["{}.parquet", "{}-00000-of-00002.parquet", "{}_x.parquet", "{}2.parquet", "{}/any.parquet"]
)
def test_files_are_named_after_their_split_or_lie_in_its_folder(root, split, name, form):
    file = form.format(name)
    there = root(file, f"{name}.txt", "notes.parquet", ".train.parquet", "folder.parquet/", "data/train.parquet")
    if form.format(name).count("_x"):
        file = form.format(name)
    assert split_files(there, ".parquet") == ({split: [there / file]}, ["notes.parquet"])


def test_files_come_in_the_order_of_their_names(root):
    there = root(*(f"train-{n:05}-of-00012.parquet" for n in (11, 2, 0, 10, 1)), "train_extra-00000-of-00001.parquet")
    with pytest.raises(InputError, match="are both named as train data are; keep one, or rename it"):
        split_files(there, ".parquet")
    (there / "train_extra-00000-of-00001.parquet").unlink()
    files = split_files(there, ".parquet")[0]["train"]
    assert [file.name[6:11] for file in files] == ["00000", "00001", "00002", "00010", "00011"]


def test_folders_of_other_files_are_named(root):
    there = root("train/b.parquet", "train/a.parquet", "extra/x.parquet", "none/x.csv", "data/y.parquet", "x.parquet")
    files, others = split_files(there, ".parquet")
    assert [file.name for file in files["train"]] == ["a.parquet", "b.parquet"]
    assert others == ["x.parquet", "extra/"]
    assert split_files(there / "absent", ".parquet") == ({}, [])


@pytest.mark.parametrize("names", [("val/", "dev/"), ("train/", "Training/"), ("train/", "Train/")])
def test_two_folders_of_one_split_are_refused(root, names):
    with pytest.raises(InputError, match=r"are both named as (val|train) data are"):
        split_folders(root(*names))
    with pytest.raises(InputError, match="are both named as"):
        split_files(root("val.csv", "validation.csv"), ".csv")
