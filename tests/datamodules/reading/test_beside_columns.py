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
