"""The split of each row is kept while a run begins, and held against the rows when it goes on."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from datamodules.reading import drawn_split, kept_splits
from datamodules.reading.drawn_split import TEST, TRAIN, VAL
from datamodules.reading.kept_splits import hold_to_run, run_that_begins
from vit_lightning.errors import InputError
from vit_lightning.runs.folders import SPLIT_TABLE

ROWS, NAMES, SPLITS = ["a", "b", "c"], ["cat", "dog", ""], np.array([TRAIN, VAL, TEST], np.int8)


def data(folder: Path | None, verb: str = "fit", first: bool = True, ignores: bool = False) -> SimpleNamespace:
    trainer = SimpleNamespace(state=SimpleNamespace(fn=verb), is_global_zero=first)
    return SimpleNamespace(trainer=trainer, run_folder=folder, ignores_split=ignores)


def held(folder: Path, rows=ROWS, names=NAMES, splits=SPLITS, **facts) -> None:
    hold_to_run(data(folder, **facts), Path("sets/t.parquet"), rows, names, splits)


def test_a_run_begins_in_a_new_folder_and_by_a_fit_alone(tmp_path, monkeypatch):
    assert run_that_begins(data(tmp_path)) == tmp_path
    for other in (data(None), data(tmp_path / "gone"), data(tmp_path, "test")):
        assert run_that_begins(other) is None
    assert run_that_begins(SimpleNamespace(trainer=None, run_folder=tmp_path)) is None
    monkeypatch.setattr(kept_splits, "is_run", lambda folder: True)
    assert run_that_begins(data(tmp_path)) is None


def test_the_first_process_of_a_fit_keeps_the_splits(tmp_path):
    held(tmp_path, first=False)
    held(tmp_path, verb="validate")
    assert not list(tmp_path.iterdir())
    held(tmp_path)
    found = drawn_split.read(tmp_path / SPLIT_TABLE)
    assert [(row, one.split, one.label or "") for row, one in found.items()] == [
        ("a", TRAIN, "cat"),
        ("b", VAL, "dog"),
        ("c", TEST, ""),
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rows": ["a", "b", "d"]}, "sets lacks c, one of 1 rows that"),
        ({"splits": np.array([TRAIN, TRAIN, TEST])}, r"has b in train, and .* has it in val"),
        ({"names": ["cat", "cat", ""]}, r"has b in class 'cat', and .* in 'dog'"),
    ],
)
def test_rows_that_the_run_had_otherwise_are_refused(tmp_path, changed, said):
    held(tmp_path)
    with pytest.raises(InputError, match=rf"{said}.*; put it back, or begin a new run"):
        held(tmp_path, **changed)
    held(tmp_path, **changed, ignores=True)


def test_further_rows_unknown_classes_and_other_data_go_on(tmp_path):
    held(tmp_path)
    before = (tmp_path / SPLIT_TABLE).read_bytes()
    held(tmp_path, [*ROWS, "d"], [*NAMES, "cat"], np.append(SPLITS, VAL))
    held(tmp_path, names=["", "dog", "new"])
    held(tmp_path, rows=["x", "y", "z"], splits=SPLITS[::-1])
    assert (tmp_path / SPLIT_TABLE).read_bytes() == before
