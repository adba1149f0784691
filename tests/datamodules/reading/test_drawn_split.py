import random
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datamodules.reading.drawn_split import TEST, TRAIN, VAL, by_table, digest, draw, listed_in, read, used_in, write
from vit_lightning.errors import InputError

SHARES = (0.7, 0.15, 0.15)
classes_strategy = st.lists(st.integers(0, 5), min_size=1, max_size=120)
shares_strategy = st.sampled_from([SHARES, (0.8, 0.1, 0.1), (0.9, 0.1, 0.0), (0.2, 0.4, 0.4), (0.5, 0.0, 0.5)])


def names(count: int) -> list[str]:
    return [f"{number}.jpg" for number in range(count)]


def counts(splits: np.ndarray) -> list[int]:
    return [int((splits == split).sum()) for split in (TRAIN, VAL, TEST)]


@pytest.mark.parametrize(
    ("size", "expected"), [(1, [1, 0, 0]), (2, [2, 0, 0]), (20, [14, 3, 3]), (1000, [700, 150, 150])]
)
def test_every_class_has_the_shares(size, expected):
    classes = [0] * size + [1] * 100
    splits = draw(names(len(classes)), classes, SHARES, seed=0)
    assert counts(splits[:size]) == expected
    assert counts(splits[size:]) == [70, 15, 15]


def test_small_classes_alone_still_give_all_splits():
    classes = [number // 3 for number in range(300)]
    splits = draw(names(300), classes, SHARES, seed=0)
    assert counts(splits) == [200, 50, 50]
    assert counts(draw(names(3), [0, 0, 0], SHARES, seed=0)) == [1, 1, 1]
    assert counts(draw(names(2), [0, 1], SHARES, seed=0)) == [2, 0, 0]


@given(classes=classes_strategy, shares=shares_strategy, seed=st.integers(0, 3))
def test_shares_hold_for_any_classes(classes, shares, seed):
    splits = draw(names(len(classes)), classes, shares, seed)
    for label, total in Counter(classes).items():
        found = counts(splits[np.array(classes) == label])
        assert found[TRAIN] >= 1
        assert all(abs(number - share * total) < 2 for number, share in zip(found, shares, strict=True))
        assert all(share > 0 or not number for number, share in zip(found, shares, strict=True))


@given(content=st.data(), shares=shares_strategy)
def test_groups_are_never_divided(content, shares):
    classes = content.draw(classes_strategy)
    size = len(classes)
    groups = content.draw(st.lists(st.sampled_from("abcdefghijkl"), min_size=size, max_size=size))
    splits = draw(groups, classes, shares, seed=0)
    where = {group: {int(split) for split, one in zip(splits, groups, strict=True) if one == group} for group in groups}
    assert all(len(found) == 1 for found in where.values())
    assert set(classes) == {label for label, split in zip(classes, splits, strict=True) if split == TRAIN}


def test_many_groups_keep_the_shares():
    chance = random.Random(0)
    groups = [f"patient {number}" for number in range(200) for _ in range(chance.randint(1, 9))]
    classes = [int(group.split()[1]) % 4 for group in groups]
    splits = draw(groups, classes, SHARES, seed=0)
    for label in range(4):
        found = np.array(counts(splits[np.array(classes) == label])) / classes.count(label)
        assert np.abs(found - SHARES).max() < 0.02


@given(classes=st.lists(st.integers(0, 3), min_size=5, max_size=60), seed=st.integers(0, 3))
def test_the_order_of_the_files_does_not_matter(classes, seed):
    files = names(len(classes))
    splits = dict(zip(files, draw(files, classes, SHARES, seed), strict=True))
    order = random.Random(seed).sample(range(len(files)), len(files))
    again = draw([files[place] for place in order], [classes[place] for place in order], SHARES, seed)
    assert splits == {files[place]: split for place, split in zip(order, again, strict=True)}


def test_another_seed_is_another_split():
    files, classes = names(400), [number % 2 for number in range(400)]
    splits = draw(files, classes, SHARES, seed=0)
    assert (splits != draw(files, classes, SHARES, seed=1)).sum() > 100


ODD = [
    "=1+1.jpg",
    "'=2.jpg",
    "a,b.jpg",
    'say "x".jpg',
    "line\nbreak.jpg",
    "\udcff.jpg",
    "ü/ß.png",
    "'plain.jpg",
    " a.jpg",
]


def test_a_table_is_read_as_it_was_written(tmp_path):
    splits = [number % 3 for number in range(len(ODD))]
    write(tmp_path / "split.csv", ODD, ["=cat"] * len(ODD), splits)
    assert {file: kept[:2] for file, kept in read(tmp_path / "split.csv").items()} == {
        file: (split, "=cat") for file, split in zip(ODD, splits, strict=True)
    }
    write(tmp_path / "split.csv", ODD, ["=cat"] * len(ODD), [0] * len(ODD))  # never over another
    assert {file: kept[:2] for file, kept in read(tmp_path / "split.csv").items()} == {
        file: (split, "=cat") for file, split in zip(ODD, splits, strict=True)
    }
    assert digest(ODD, splits) == digest(reversed(ODD), reversed(splits)) != digest(ODD, [0] * len(ODD))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("path,split\na.jpg,train\n", "lacks file or split in row 1; the columns file and split are needed"),
        ("file,split\na.jpg,train\nb.jpg,\n", "lacks file or split in row 2"),
        (
            "file,split\na.jpg,fold1\n",
            r"has in row 1 \(a\.jpg\) the split 'fold1', expected one of train, training, val",
        ),
        ("file,split\na.jpg,train\na.jpg,test\n", r"has a\.jpg in two splits, in row 1 and in row 2"),
        ("file,class,split\na.jpg,x,train\na.jpg,y,train\n", r"has a\.jpg in two classes, in row 1 and in row 2"),
        ("file,split,split\na.jpg,train,test\n", r"has the column 'split' twice"),
    ],
)
def test_wrong_tables(tmp_path, text, said):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(InputError, match=said):
        read(tmp_path / "x.csv")


def test_files_that_were_added_or_removed_are_named(tmp_path):
    table = tmp_path / "split.csv"
    table.write_text("file,split\na.jpg,train\nb.jpg,Validation\nc.jpg,test\n")
    splits, left_out = by_table(table, ["c.jpg", "a.jpg", "b.jpg"], "photos", is_of_run=True)
    assert (splits.tolist(), left_out) == ([TEST, TRAIN, VAL], 0)
    with pytest.raises(
        InputError, match=r"photos lacks 1 of the 3 images that .*split\.csv lists, such as b\.jpg; put"
    ):
        by_table(table, ["a.jpg", "c.jpg"], "photos", is_of_run=False)
    more = ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]
    with pytest.raises(
        InputError, match=r"photos has 1 image in no split of .*such as d\.jpg; give --data\.split_file"
    ):
        by_table(table, more, "photos", is_of_run=True)
    splits, left_out = by_table(table, more, "photos", is_of_run=False)
    assert (splits.tolist(), left_out) == ([TRAIN, VAL, TEST, -1], 1)


def test_a_file_in_another_class_than_that_of_the_table(tmp_path):
    table = tmp_path / "split.csv"
    table.write_text("file,class,split\na.jpg,cat,train\nb.jpg,'=dog,val\n")
    for labels in (["cat", "=dog"], None):
        assert by_table(table, ["a.jpg", "b.jpg"], "photos", True, labels)[0].tolist() == [TRAIN, VAL]
    said = r"split\.csv has in row 2 b\.jpg in class '=dog', and photos has it in class 'cat'; "
    with pytest.raises(InputError, match=said + "begin a new run"):
        by_table(table, ["a.jpg", "b.jpg"], "photos", True, ["cat", "cat"])
    with pytest.raises(InputError, match=said + "correct the row, or remove the column class"):
        by_table(table, ["a.jpg", "b.jpg"], "photos", False, ["cat", "cat"])


@pytest.mark.parametrize("column", ["label", "Class", " LABELS ", "class_name"])
def test_columns_that_name_classes(tmp_path, column):
    table = tmp_path / "split.csv"
    table.write_text(f"File,Split,{column}\na.jpg,train, cat \nb.jpg,val,1.0\n")
    assert by_table(table, ["a.jpg", "b.jpg"], "photos", False, ["cat", "1"])[0].tolist() == [TRAIN, VAL]
    said = r"has in row 2 b\.jpg in class .1\.0., and .* .dog.; correct the row, or remove the column "
    with pytest.raises(InputError, match=said + column.strip().lower()):
        by_table(table, ["a.jpg", "b.jpg"], "photos", False, ["cat", "dog"])
    table.write_text(f"file,split,{column},category\na.jpg,train,cat,1\n")
    with pytest.raises(InputError, match=r"has the columns .* and category, which may both name classes; keep one"):
        read(table)


@pytest.mark.parametrize("again", ["./0.png", "a/../0.png", ".\\0.png"])
@pytest.mark.parametrize("there", [["0.png"], ["0.png", "./0.png"]])
def test_one_file_under_two_names(tmp_path, again, there):
    table = tmp_path / "split.csv"
    table.write_text(f"file,split\n0.png,train\n{again},val\n")
    with pytest.raises(InputError, match=r"has 0\.png in two splits, in row 1 and in row 2"):
        by_table(table, there, "photos", False)
    table.write_text(f"file,split,class\n0.png,train,a\n{again},train,b\n")
    with pytest.raises(InputError, match=r"has 0\.png in two classes, in row 1 and in row 2"):
        by_table(table, there, "photos", False)


def test_the_separators_of_a_table_may_be_those_of_windows(tmp_path):
    table = tmp_path / "split.csv"
    table.write_text("file,split\ncat\\a.jpg,train\n./dog/b.jpg,val\n")
    assert by_table(table, ["cat/a.jpg", "dog/b.jpg"], "photos", True)[0].tolist() == [TRAIN, VAL]
    table.write_text("file,split\ncat\\a.jpg,train\ncat/a.jpg,val\n")
    with pytest.raises(InputError, match=r"has cat/a\.jpg in two splits, in row 1 and in row 2"):
        by_table(table, ["cat/a.jpg"], "photos", True)


@pytest.mark.parametrize(
    ("listed", "there"), [("cat/a.jpg", "Cat/A.JPG"), ("cat/a.jpg", "dog/a.jpg"), ("caf\u00e9.jpg", "cafe\u0301.jpg")]
)
def test_what_a_missing_file_may_have_become(tmp_path, listed, there):
    table = tmp_path / "split.csv"
    table.write_text(f"file,split\nb.jpg,train\n{listed},train\n", encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(f"such as {listed} ({there} is there, and not listed); put")):
        by_table(table, ["b.jpg", there], "photos", False)


def test_a_group_that_a_table_divides_is_named_with_both_rows(tmp_path):
    table, files = tmp_path / "split.csv", ["a.jpg", "b.jpg", "c.jpg", "new.jpg"]
    table.write_text("file,split\na.jpg,train\nb.jpg,val\nc.jpg,train\n")
    assert by_table(table, files, "photos", False, groups=["x", "y", "x", "y"])[1] == 1
    said = r"has a\.jpg in train in row 1 and b\.jpg in val in row 2, which are both of 'x' in --data\.group_column"
    with pytest.raises(InputError, match=said):
        by_table(table, files, "photos", False, groups=["x", "x", "z", "y"])


def test_of_some_files_a_table_lists_these(tmp_path):
    table = tmp_path / "split.csv"
    table.write_text("file,split\na\\b.jpg,train\nc.jpg,val\n")
    assert listed_in(table, ["a/b.jpg", "c.jpg", "d.jpg"]) == {"a/b.jpg", "c.jpg"}
    assert listed_in(table, []) == set()


def test_two_files_that_a_missing_one_may_have_become_are_not_guessed_at(tmp_path):
    table = tmp_path / "split.csv"
    table.write_text("file,split\nx/a.jpg,train\n")
    with pytest.raises(InputError, match=r"such as x/a\.jpg; put"):
        by_table(table, ["y/a.jpg", "z/a.jpg"], "photos", False)


def test_the_names_that_the_images_of_some_splits_have():
    arrays = {"splits": np.array([TRAIN, VAL, TEST, TRAIN]), "labels.ends": np.array([0, 2, 3, 3, 4], np.uint32)}
    arrays["labels.values"] = np.array([5, 1, 7, 1])
    assert used_in(arrays, TRAIN).tolist() == [1, 5] and used_in(arrays, VAL, TEST).tolist() == [7]
    assert used_in(arrays, TEST).tolist() == []


def test_of_equals_the_training_images_come_first():
    assert counts(draw(["a", "a", "b"], [0, 0, 0], (1 / 3, 1 / 3, 1 / 3), seed=0)) == [2, 1, 0]
    assert draw(["a", "b"], [0, 0], (0.5, 0.5, 0.0), seed=0).tolist().count(TRAIN) == 1


def test_no_later_version_draws_another_split():
    """Runs that go on, and tables that were cited, rest on it."""
    drawn = "".join("tve"[split] for split in draw(names(20), [number % 2 for number in range(20)], SHARES, seed=3))
    assert drawn == "vtttttetttettttvtvte"
