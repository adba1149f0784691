"""What a table of splits leaves open, and which file is named of several that are gone or new."""

from pathlib import Path

import pytest

from datamodules.reading.drawn_split import TEST, TRAIN, VAL, by_table, splits_in
from vit_lightning.errors import InputError


@pytest.fixture
def table(tmp_path):
    def write(*lines: str) -> Path:
        (tmp_path / "split.csv").write_text("\n".join(lines) + "\n")
        return tmp_path / "split.csv"

    return write


def test_a_table_may_be_silent_about_classes(table):
    files, labels = ["a.jpg", "b.jpg", "c.jpg"], ["cat", "dog", "owl"]
    plain = table("file,split", "a.jpg,train", "b.jpg,val", "c.jpg,test")
    assert by_table(plain, files, "photos", True, labels)[0].tolist() == [TRAIN, VAL, TEST]
    some = table("file,split,class", "a.jpg,train,", "b.jpg,val,dog", "c.jpg,test,")
    assert by_table(some, files, "photos", True, labels)[0].tolist() == [TRAIN, VAL, TEST]
    with pytest.raises(InputError, match=r"in row 2 b\.jpg in class 'dog', and photos has it in class 'owl'"):
        by_table(some, files, "photos", True, ["cat", "owl", "dog"])


def test_words_of_splits_may_have_blanks_around_them_and_any_size(table):
    found = splits_in(table("file,split", "a.jpg, Val ", "b.jpg,TRAIN", "c.jpg,\ttest"), ["a.jpg", "b.jpg", "c.jpg"])
    assert found == {"a.jpg": VAL, "b.jpg": TRAIN, "c.jpg": TEST}


def test_of_several_files_the_first_by_name_is_named(table):
    names = [f"{letter}.jpg" for letter in "hbgdfaec"]
    listed = table("file,split", *(f"{name},train" for name in names), "z.jpg,val")
    with pytest.raises(InputError, match=r"photos lacks 8 of the 9 images that .* lists, such as a\.jpg; put"):
        by_table(listed, ["z.jpg"], "photos", True)
    with pytest.raises(InputError, match=r"photos has 8 images in no split of .*, such as a\.jpg; give --data\.split"):
        by_table(table("file,split", "z.jpg,train"), [*names, "z.jpg"], "photos", True)


def test_a_name_that_holds_another_is_not_taken_for_it(table):
    listed = table("file,split", "x/ab.jpg,train", "c.jpg,train")
    with pytest.raises(InputError, match=r"such as x/ab\.jpg; put"):
        by_table(listed, ["b.jpg", "c.jpg"], "photos", False)
