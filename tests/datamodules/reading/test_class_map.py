import json
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from datamodules.reading.class_map import WrongLabelsError, class_numbers, classes_of
from datamodules.reading.class_map_file import read_class_map
from vit_lightning.errors import InputError


def test_names_in_order_and_files_that_hold_none(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("zebra\n ant \n\n", encoding="utf-8")
    assert read_class_map(path) == ["zebra", "ant"]
    path.write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(InputError, match=r"names\.txt cannot be read: it is not UTF-8 text"):
        read_class_map(path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_class_map(tmp_path / "nowhere")


def test_labels_are_names_or_all_whole_numbers_up_to_the_greatest():
    assert classes_of(["1", "cat"]) == ["1", "cat"]
    assert classes_of(["3", "0"]) == ["0", "1", "2", "3"]
    for label in ("1000000", "9" * 5000):
        with pytest.raises(WrongLabelsError, match=r", which is no class below 1000000; give --data\.class_map"):
            classes_of(["0", label])


def test_labels_are_looked_up_by_name_and_where_wanted_by_number():
    classes = ["cat", "1", "dog"]
    assert class_numbers(["dog", "cat", "cow", "0", "1"], classes).tolist() == [2, 0, -1, -1, 1]
    assert class_numbers(["dog", "0", "1", "2", "3", "-1"], classes, or_numbers=True).tolist() == [2, 0, 1, 2, -1, -1]


@pytest.mark.parametrize("classes", [["1", "2", "3", "none"], ["cat", "2", "dog"], ["01", "cat"]])
def test_numbers_are_no_places_where_a_name_is_another_number(classes):
    assert class_numbers(["0"], classes, or_numbers=True).tolist() == [-1]
    assert class_numbers(classes, classes, or_numbers=True).tolist() == list(range(len(classes)))


def test_a_name_of_two_classes_names_none():
    classes = ["crane", "dog", "crane"]
    assert class_numbers(["dog", "2"], classes, or_numbers=True).tolist() == [1, 2]
    with pytest.raises(InputError, match="the label 'crane' is the name of several classes"):
        class_numbers(["crane"], classes)


def test_whole_numbers_may_be_written_as_floats():
    assert classes_of(["0.0", "10", "2."]) == [str(number) for number in range(11)]
    assert class_numbers(["2.0", "1.", "0.5", "nan"], ["0", "1", "2"]).tolist() == [2, 1, -1, -1]
    assert class_numbers(["2.0", "2"], ["2.0", "x"]).tolist() == [0, -1]
    assert class_numbers(["0"], ["3", "1"], or_numbers=True).tolist() == [-1]
    with pytest.raises(WrongLabelsError, match=r", expected names or whole numbers"):
        classes_of(["0.5", "1"])


@pytest.mark.parametrize("label", ["01", "+1", "1e0", "\u0661", "1_0", "-0.0e0", "0x1", "1,0", "\u00b2"])
def test_what_is_no_whole_number_in_its_usual_form_is_a_name(label):
    assert classes_of([label, "7"]) == sorted([label, "7"])
    assert class_numbers([label], [str(number) for number in range(12)]).tolist() == [-1]


@given(st.lists(st.sampled_from(["0", "1", "2", "10", "01", "001", "+1", "1e1", "cat", "2.0"]), min_size=1))
def test_a_label_means_the_same_whatever_stands_beside_it(labels):
    try:
        names = classes_of(set(labels))
    except WrongLabelsError:
        numbers = Counter(float(label) for label in set(labels) - {"cat"})
        assume(max(numbers.values()) == 1)
        raise
    for label, number in zip(labels, class_numbers(labels, names).tolist(), strict=True):
        assert names[number] == label or (label == "2.0" and names[number] == "2")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["1", "01", "2"], "'01' and '1' are one number in two spellings; write both alike, or give --data.class_map"),
        (["1000", "1e3", "cat"], "'1000' and '1e3' are one number"),
        (["1", "1.0", "cat"], "'1' and '1.0' are one number"),
        (["\u0661", "1"], "are one number in two spellings"),
        (
            ["caf\u00e9", "cafe\u0301"],
            r"look alike, but their code points U\+0065 U\+0301 and U\+00E9 differ; write",
        ),
        (["cat", "\ufeffcat"], r"look alike, but their code points U\+0063 .* and U\+FEFF .* differ"),
        (["-1", "0", "1"], ", which is no class; take out what has it"),
        (["-2.0"], ", which is no class; take out what has it"),
        (["-1", "cat"], ", which stands for a missing one; take out what has it"),
    ],
)
def test_labels_that_cannot_be_classes(labels, message):
    with pytest.raises(WrongLabelsError, match=message) as caught:
        classes_of(labels)
    assert caught.value.labels <= set(labels)


def read(path, content: str) -> list[str]:
    path.write_text(content, encoding="utf-8")
    return read_class_map(path)


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        ("csv", "name,id\ndog,1\nowl,2\ncat,0\n"),
        ("csv", "dog,1\nowl,2\ncat,0\n"),
        ("csv", "id,name\n2,owl\n0,cat\n1,dog\n"),
        ("tsv", "0\tcat\n1\tdog\n2\towl\n"),
        ("json", '{"dog": 1, "cat": 0, "owl": 2}'),
        ("txt", "cat\ndog\nowl\n"),
    ],
)
def test_names_and_numbers(tmp_path, ending, content):
    assert read(tmp_path / f"names.{ending}", content) == ["cat", "dog", "owl"]


@pytest.mark.parametrize(
    ("ending", "content", "message"),
    [
        ("txt", "2 cat\n0 dog\n", "its line '2 cat' holds a number and a name; write the names alone in the order"),
        ("txt", "1 person\n3 toothbrush\n", "its line '1 person' holds a number and a name"),
        ("txt", "cat 1\ndog 0\n", "its line 'cat 1' holds a number and a name"),
        ("txt", "cat: 7\ndog: 3\n", "its line 'cat: 7' holds a number and a name"),
        ("txt", "name,id\ndog,0\ncat,1\n", "its line 'dog,0' holds a number and a name"),
        ("txt", "cat\ndog\ncat\n", "it has the name 'cat' twice; give each class a name of its own"),
        ("txt", '["cat", "dog"]\n', "expected a name"),
        *(
            (kind, f"{first}\ncat\ndog\n", f"its first line '{first}' may be a header; save the names alone as .txt")
            for kind in ("csv", "tsv")
            for first in ("breed", "species", "Class Name", "0", "owl")
        ),
        *(
            ("txt", f"{first}\ncat\ndog\n", f"its first line '{first}' may be a header; remove it")
            for first in ("name", "Class Name", "classes", "breed", "label_name", "breed name", "text", "className")
        ),
        ("txt", "# classes\ncat\ndog\n", "its line '# classes' may be a comment; remove it"),
        ("txt", "; classes\ncat\ndog\n", "its line '; classes' may be a comment; remove it"),
        ("txt", "% classes\ncat\ndog\n", "its line '% classes' may be a comment; remove it"),
        ("txt", "cat\n// my classes\ndog\n", "its line '// my classes' may be a comment"),
        ("txt", "2. emu\n0. cat\n1. dog\n", "its line '2. emu' holds a number and a name"),
        ("txt", "0. cat\n1. dog\n", "its line '0. cat' holds a number and a name"),
        ("txt", "2) emu\n0) cat\n1) dog\n", r"its line '2\) emu' holds a number and a name"),
        ("txt", "(0) cat\n(1) dog\n", r"its line '\(0\) cat' holds a number and a name"),
        ("txt", "1-dog\n0-cat\n", "its line '1-dog' holds a number and a name"),
        ("txt", "- cat\n- dog\n", "its line '- cat' is an item of a list; write the name alone"),
        ("txt", "'cat',\n'dog',\n'owl'\n", "is an item of a list"),
        ("txt", '"cat"\n"dog"\n', "is an item of a list"),
        ("txt", "cat,\ndog,\nowl\n", "its line 'cat,' is an item of a list"),
        ("csv", "name\ncat\ndog\n", "its first line 'name' may be a header"),
        ("csv", "cat,0\ndog,2\n", "expected the numbers 0 to 1, each once"),
        ("csv", "cat,dog\nowl,bat\n", "expected a column of names and one of whole numbers"),
        ("csv", "0,1\n1,0\n", "expected a column of names and one of whole numbers"),
        ("csv", "cat,0,x\n", "expected a column of names and one of numbers"),
        ("csv", "cat,0\ncat,1\n", "it has the name 'cat' twice"),
        ("json", '{"cat": 0, "cat": 1}', "an object has the key 'cat' twice"),
        ("json", '["cat", "cat"]', "it has the name 'cat' twice"),
        ("json", '{"cat": false, "dog": true}', "expected an object of names and numbers"),
        ("json", '["cat\\ndog"]', "a line break"),
        ("yaml", "names: [cat, dog]\n", r"\.yaml is not read, but text with a name per line"),
    ],
)
def test_class_maps_that_may_be_meant_otherwise(tmp_path, ending, content, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path / f"names.{ending}", content)


LIONS = ["lion, king of beasts, Panthera leo", "crane"]
CUB = ["001.Black_footed_Albatross", "002.Laysan_Albatross"]


def test_names_with_numbers_in_them_are_names(tmp_path):
    for names in (
        ["class 1", "class 2"],
        ["Boeing 707", "Airbus 320"],
        ["3 series", "5 series"],
        ["1", "2"],
        ["7-up"],
        ["2-door", "4-wheeler"],
        LIONS,
        CUB,
        ["'t Hooft", "O'Neil"],
    ):
        assert read(tmp_path / "names.txt", "\n".join(names)) == names


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e", "\r"])
@pytest.mark.parametrize("ending", ["txt", "json", "csv"])
def test_signs_that_end_no_line_make_no_two_classes(tmp_path, sign, ending):
    file = tmp_path / f"names.{ending}"
    text = {"txt": f"a{sign}b\nc\n", "json": json.dumps([f"a{sign}b", "c"]), "csv": f'"a{sign}b",0\nc,1\n'}[ending]
    file.write_text(text, encoding="utf-8", newline="")
    with pytest.raises(InputError, match=r"it has the name 'a.*b', which holds a line break or another control"):
        read_class_map(file)


def test_windows_line_ends(tmp_path):
    (tmp_path / "names.txt").write_bytes(b"a\r\nb\r\n\r\n")
    assert read_class_map(tmp_path / "names.txt") == ["a", "b"]


@pytest.mark.parametrize("text", ["a\n\nb\n", "a\n  \nb", "\na\nb\n", "a\r\n\r\nb\r\n"])
def test_a_blank_line_between_names(tmp_path, text):
    (tmp_path / "names.txt").write_bytes(text.encode())
    with pytest.raises(InputError, match=r"its line [12] is blank, .*; remove it"):
        read_class_map(tmp_path / "names.txt")


@pytest.mark.parametrize("content", [["a", ""], ["a", " "], {"0": "a", "1": ""}, {"a": 0, " ": 1}])
def test_an_empty_name(tmp_path, content):
    (tmp_path / "names.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"it has the name ' ?', which is empty; write a name"):
        read_class_map(tmp_path / "names.json")


def test_a_third_column(tmp_path):
    (tmp_path / "names.csv").write_text("name,id,colour\na,0,red\nb,1,blue\n")
    with pytest.raises(InputError, match=r"names and one of numbers, without others, but it has 3 columns"):
        read_class_map(tmp_path / "names.csv")
