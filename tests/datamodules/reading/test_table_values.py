"""What single values of tables mean: numbers that stand for names, tasks of Label Studio, and ends of tables' names."""

import math
from pathlib import Path

import pytest

from datamodules.reading.table_rows import _kind, _named, _task, header, values
from vit_lightning.errors import InputError

NAMES = ["cat", "dog", "owl"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (0, "cat"),
        (2.0, "owl"),
        (-1, None),
        (None, None),
        ("cow", "cow"),
        ([2, 0], ["owl", "cat"]),
        ([], []),
        ([1, None], ["dog", None]),
        (3, "the label 3, outside its 3 classes"),
        (-2, "the label -2, outside its 3 classes"),
        (1.5, r"the label 1\.5, outside its 3 classes"),
        ([0, 1, 0], "has a 0 or 1 for each class"),
        ([1, 1], "has a 0 or 1 for each class"),
        ([1, 7], "the label 7, outside"),
    ],
)
def test_names_that_numbers_stand_for(value, found):
    if isinstance(found, str) and " " in found:
        with pytest.raises(InputError, match=rf"^t has in row 5 .*{found}"):
            _named(value, NAMES, "t has in row 5")
    else:
        assert _named(value, NAMES, "t has in row 5") == found


def test_a_number_that_is_none_stays_none():
    assert math.isnan(_named(math.nan, NAMES, "t"))


def given(*choices: list[str] | None, cancelled: tuple[int, ...] = ()) -> dict:
    """A task with the choices of several annotators; None: one that chose nothing."""
    made = [
        {"result": [] if some is None else [{"value": {"choices": some}}], "was_cancelled": number in cancelled}
        for number, some in enumerate(choices)
    ]
    return {"data": {"image": "a.png", "label": "old"}, "annotations": made}


@pytest.mark.parametrize(
    ("task", "label"),
    [
        (given(["cat"]), "cat"),
        (given(["cat", "dog"]), ["cat", "dog"]),
        (given(["cat", "dog"], ["dog", "cat"]), ["cat", "dog"]),
        (given(["dog"], ["cat"], cancelled=(0,)), "cat"),
        (given(["dog"], cancelled=(0,)), None),
        (given(None), []),
        (given(), None),
        (given(["cat"], ["dog"]), "disagree"),
        (given(["cat"], None), "disagree"),
        (given(["cat"], ["cat", "dog"]), "disagree"),
    ],
)
def test_choices_of_annotators(task, label):
    if label == "disagree":
        with pytest.raises(InputError, match=r"^t has in row 2 annotations that disagree: .*; keep one of them"):
            _task(task, "t has in row 2")
    else:
        assert _task(task, "t has in row 2") == {"image": "a.png", "label": label}


def test_several_results_of_one_annotator_count_together():
    task = {
        "data": {},
        "annotations": [{"result": [{"value": {"choices": ["a"]}}, {"type": "x"}, {"value": {"choices": ["b"]}}]}],
    }
    assert _task(task, "")["label"] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((f"t.x{kind}", kind) for kind in (".csv", ".tsv", ".jsonl", ".json", ".parquet")),
        *((f"t{kind}.gz", kind) for kind in (".csv", ".tsv", ".jsonl")),
        ("t.CSV", ".csv"),
        *((name, None) for name in ("t.json.gz", "t.parquet.gz", "t.txt", "t", "t.gz", "csv", "t.csv.zip")),
    ],
)
def test_kinds_of_tables(name, kind):
    if kind is None:
        with pytest.raises(InputError, match=rf"^{name} must end in \.csv, \.tsv or \.parquet, or in"):
            _kind(Path(name))
    else:
        assert _kind(Path(name)) == kind


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("path,label\na,x\nb,y,z\n", r"has 3 cells in row 2 \(b\), but 2 columns; put a cell"),
        ("path|label\n", r"has one column 'path\|label', which bars divide, expected commas; save it"),
        ("path;label\na,b;x;y\n", r"has 3 cells in row 1 \(a,b\), but 2 columns; put a cell"),
        ('path,label\na,"x\n', "is there a lone quotation mark"),
    ],
)
def test_rows_that_are_divided_otherwise(tmp_path, text, said):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=said):
        list(values(tmp_path / "t.csv", ["path", "label"]))


@pytest.mark.parametrize("sign", [";", "\t", ","])
@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_the_header_says_what_divides_the_rows(tmp_path, sign, ending):
    """As a spreadsheet writes them where decimals have commas: with a byte order mark, and \\r\\n."""
    rows = [["path", "label", "score"], ["a b.png", '"x, y; z\t"', '"0,5"'], ["ä.png", "dog", '"1,0"']]
    text = "\r\n".join(sign.join(row) for row in rows)
    table = tmp_path / f"t{ending}"
    table.write_text(f"\ufeff{text}\r\n", encoding="utf-8", newline="")
    assert header(table) == ["path", "label", "score"]
    found = [("a b.png", "x, y; z\t", "0,5"), ("ä.png", "dog", "1,0")]
    assert list(values(table, ["path", "label", "score"])) == found


def test_rows_that_are_shorter_have_nothing_there(tmp_path):
    (tmp_path / "t.csv").write_text(" path ,label,n\n\na\nb,x,3\n")
    assert header(tmp_path / "t.csv") == ["path", "label", "n"]
    assert list(values(tmp_path / "t.csv", ["n", "path"])) == [(None, "a"), ("3", "b")]
