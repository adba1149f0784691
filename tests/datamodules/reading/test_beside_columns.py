"""Columns that group images, and those that say that a class does not show, are named."""

import shlex

import pytest

from tests.datamodules.test_manifest_split import ready, root, write  # noqa: F401  # root is a fixture


def notices(root, name: str, cells: list, **options) -> list[str]:  # noqa: F811
    write(root / "train.csv", f"path,label,{name}", [f"{n}.png,{'ab'[n % 2]},{cells[n]}" for n in range(40)])
    return list(ready(root, **options).notices)


@pytest.mark.parametrize("name", ["lesion_id", "Case ID", "seq_id", "slideid", "patient", "Subject ID"])
def test_a_column_of_ids_is_named(root, name):  # noqa: F811
    (said,) = notices(root, name, [f"HAM_{n // 4}" for n in range(40)])
    flag = f"--data.group_column {shlex.quote(name)}"
    assert said == f"{root}/train.csv has the column {name}: {flag} keeps all images of one in one split"
    assert not notices(root, name, [f"HAM_{n // 4}" for n in range(40)], group_column=name)


@pytest.mark.parametrize("name", ["location", "slide", "animal"])
def test_a_column_of_many_values_is_named(root, name):  # noqa: F811
    assert len(notices(root, name, [n // 2 for n in range(40)])) == 1


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("location", ["arm", "leg"] * 20),
        ("lesion_id", list(range(40))),
        ("lesion_id", [""] * 40),
        ("localization", [n // 2 for n in range(40)]),
        ("case_id", ["x", "y"] * 20),
        ("patient", list(range(40))),
        ("subject", ["animals"] * 40),
    ],
)
def test_other_columns_group_nothing(root, name, cells):  # noqa: F811
    assert not notices(root, name, cells)


@pytest.mark.parametrize(("no", "yes"), [("0", "1"), ("0.0", "1.0")])
def test_a_confidence_of_0_is_named(root, no, yes):  # noqa: F811
    (said,) = notices(root, "Confidence", [no, yes, yes, yes] * 10)
    assert said == (
        f"{root}/train.csv has 0 in the column 'Confidence' in 10 of 40 rows, which in Open Images says that the class "
        "of the row does not show; they are read as images of it; take them out if so"
    )


@pytest.mark.parametrize("cells", [[1] * 40, [0.5, 1] * 20, [0, 0.5, 1, 1] * 10, [0] * 40, ["low", "high"] * 20])
def test_other_confidences(root, cells):  # noqa: F811
    assert not notices(root, "confidence", cells)


def further(root, rows, **options) -> list[str]:  # noqa: F811
    write(root / "train.csv", "path,a,b,c,d,is_valid", [f"{n}.png,{row}" for n, row in enumerate(rows)])
    return list(ready(root, val_fraction=0.0, **options).notices)


def test_further_columns_of_classes_are_named(root):  # noqa: F811
    rows = ["1,0,0,0,0", "0,1,1,0,1", "0,0,1,0,0", "1,1,0,0,0"]
    said = "of 0 and 1 beside --data.label_column '[a,b]', which no label tells; if it is a class as well, give [a,b,c]"
    options = {"label_column": ["a", "b"], "multi_label": True, "split_column": False}
    assert further(root, rows, **options) == [f"{root}/train.csv has the column c {said}"]
    both = [row[:6] + "1" + row[7:] for row in rows]
    assert further(root, both, **options) == [f"{root}/train.csv has the columns c, d {said}"]
    options["label_column"] = ["a", "b", "c"]
    assert not further(root, rows, **options)


@pytest.mark.parametrize("cells", [["0", "0"], ["0", "2"], ["", "1"], ["no", "yes"], ["0.5", "1"]])
def test_columns_that_are_no_further_classes(root, cells):  # noqa: F811
    options = {"label_column": ["a", "b"], "multi_label": True, "split_column": False}
    assert not further(root, [f"1,0,{cells[0]},0,0", f"0,1,{cells[1]},0,1"], **options)
