"""Files that say how many there are, of several sets and in several folders, and the order of what is found."""

from pathlib import Path

import pytest

from datamodules.reading.splits import check_counted, split_files, split_folders
from vit_lightning.errors import InputError

WHOLE = ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"]


@pytest.mark.parametrize("names", [[*WHOLE, "train-00002-of-00003.parquet"], ["train-00002-of-00003.parquet", *WHOLE]])
def test_files_of_two_sets_are_refused_whichever_is_larger(names):
    one, other = (3, 2) if names[0] != WHOLE[0] else (2, 3)
    with pytest.raises(InputError, match=rf"{names[0]} is one of {one} files and .*\.parquet one of {other}; remove"):
        check_counted(map(Path, names))


@pytest.mark.parametrize("lacking", [None, "a/train-00001-of-00002.parquet", "b/train-00001-of-00003.parquet"])
def test_each_folder_and_each_name_has_a_count_of_its_own(lacking):
    names = [f"a/{name}" for name in WHOLE] + [f"b/train-{number:05}-of-00003.parquet" for number in range(3)]
    names += [f"b/test-{number:05}-of-00004.parquet" for number in range(4)] + ["b/train-x-of-00009.parquet"]
    files = [Path(name) for name in names if name != lacking]
    if lacking is None:
        return check_counted(files)
    series = lacking[:7]
    said = rf"^{series}-00000-of-0000\d\.parquet is one of \d files, of which 1 are missing, such as number 1; fetch"
    with pytest.raises(InputError, match=said):
        check_counted(files)


def test_one_number_in_two_writings_is_refused():
    names = [*WHOLE, "train-1-of-2.parquet"]
    with pytest.raises(InputError, match=rf"{WHOLE[1]} and train-1-of-2\.parquet are both file 1 of 2; remove one"):
        check_counted(map(Path, names))
    check_counted(map(Path, [*WHOLE, WHOLE[0]]))  # one file, named twice


def test_the_first_missing_number_is_named():
    with pytest.raises(InputError, match="of which 10 are missing, such as number 2; fetch"):
        check_counted(Path(f"train-{number}-of-13.parquet") for number in (0, 12, 1))


def test_other_folders_and_files_come_in_the_order_of_their_names(tmp_path):
    for name in "hbgdfaec":
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.csv").touch()
        (tmp_path / name / "x.csv").touch()
    (tmp_path / "train").mkdir()
    assert split_folders(tmp_path) == ({"train": tmp_path / "train"}, list("abcdefgh"))
    assert split_files(tmp_path, ".csv")[1] == [f"{name}.csv" for name in "abcdefgh"] + [f"{n}/" for n in "abcdefgh"]
