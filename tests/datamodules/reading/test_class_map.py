import pytest

from datamodules.reading.class_map import class_numbers, classes_of, read_class_map
from vit_lightning.errors import InputError


def test_names_in_order_and_files_that_hold_none(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("zebra\n\n ant \n", encoding="utf-8")
    assert read_class_map(path) == ["zebra", "ant"]
    path.write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(InputError, match=r"names\.txt cannot be read: it is not UTF-8 text"):
        read_class_map(path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_class_map(tmp_path / "nowhere")


def test_labels_are_names_or_all_whole_numbers_up_to_the_greatest():
    assert classes_of(["1", "cat"], "t.csv") == ["1", "cat"]
    assert classes_of(["0", "3"], "t.csv") == ["0", "1", "2", "3"]
    with pytest.raises(InputError, match=r"t\.csv has the label 1000000, which is no class below 1000000; give --data"):
        classes_of(["1000000"], "t.csv")


def test_labels_are_looked_up_by_name_and_where_wanted_by_number():
    classes = ["cat", "2", "dog"]
    assert class_numbers(["dog", "cat", "cow", "0", "2"], classes).tolist() == [2, 0, -1, -1, 1]
    assert class_numbers(["dog", "0", "2", "3", "-1"], classes, or_numbers=True).tolist() == [2, 0, 1, -1, -1]


def test_a_name_of_two_classes_names_none():
    classes = ["crane", "dog", "crane"]
    assert class_numbers(["dog", "2"], classes, or_numbers=True).tolist() == [1, 2]
    with pytest.raises(InputError, match="the label 'crane' is the name of several classes"):
        class_numbers(["crane"], classes)


def test_whole_numbers_may_be_written_as_floats():
    assert classes_of(["0.0", "10", "2."], "t.csv") == [str(number) for number in range(11)]
    assert classes_of(["-1.0", "1"], "t.csv") == ["-1", "1"]
    assert class_numbers(["2.0", "1e0", "0.5", "nan"], ["0", "1", "2"]).tolist() == [2, 1, -1, -1]
    assert class_numbers(["2.0", "2"], ["2.0", "x"]).tolist() == [0, -1]
    assert class_numbers(["0"], ["3", "1"], or_numbers=True).tolist() == [-1]
    with pytest.raises(InputError, match=r"t\.csv has the label 0\.5, expected names or whole numbers"):
        classes_of(["0.5", "1"], "t.csv")
