"""What inspect leaves in its folder, and what its table says of it."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from vit_lightning.commands.inspect import results
from vit_lightning.commands.inspect.results import Results, file_stem


@pytest.fixture
def saved(monkeypatch, tmp_path) -> list:
    """Figures as they are saved, with their place and forms."""
    monkeypatch.chdir(tmp_path)
    kept: list = []
    monkeypatch.setattr(results, "save", lambda figure, place, formats: kept.append((figure, place.name, formats)))
    monkeypatch.setattr(results, "pixels", lambda figure: f"pixels of {figure}")
    return kept


def test_a_figure_has_a_row_its_arrays_and_goes_to_loggers_that_take_images(saved, tmp_path):
    shown: list[tuple] = []
    board = SimpleNamespace(add_image=lambda *words, **facts: shown.append((*words, facts)))
    loggers = [SimpleNamespace(experiment=board), SimpleNamespace(), SimpleNamespace(experiment=object())]
    found = Results(tmp_path / "new", ["png", "svg"], loggers)
    found.figure("a", "first", "shows a", {"x": [1, 2], "y": 3.0})
    found.figure("deep/b", "second", "shows b")
    found.single("c", "third")
    assert saved == [("first", "a", ["png", "svg"]), ("second", "b", ["png", "svg"]), ("third", "c", ["png", "svg"])]
    assert shown == [
        ("inspection/a", "pixels of first", 0, {"dataformats": "HWC"}),
        ("inspection/deep/b", "pixels of second", 0, {"dataformats": "HWC"}),
    ]
    assert found.rows == [("a", "new/a.{png,svg,npz}", "shows a"), ("deep/b", "new/deep/b.{png,svg}", "shows b")]
    arrays = np.load(tmp_path / "new/a.npz")
    assert sorted(arrays) == ["x", "y"] and arrays["x"].tolist() == [1, 2] and arrays["y"] == 3
    assert (tmp_path / "new/deep").is_dir() and not (tmp_path / "new/deep/b.npz").exists()


def test_one_form_has_no_braces_and_numbers_and_folders_have_rows(saved, tmp_path):
    found = Results(tmp_path, ["png"])
    found.figure("a", "first", "shows a")
    found.listed("images", "one of each")
    found.facts({"share": 0.5})
    assert [row[:2] for row in found.rows] == [
        ("a", "a.png"),
        ("images", "images/"),
        ("numbers", "inspection.json"),
    ]
    assert json.loads((tmp_path / "inspection.json").read_text()) == {"share": 0.5}
    table = found.table()
    assert [column.header for column in table.columns] == ["figure", "file", "shows"] and table.row_count == 3


@pytest.mark.parametrize(
    ("number", "name", "stem"),
    [
        (7, "cat 1.png", "00007_cat_1"),
        (7, "a/b/../x;y.jpeg", "00007_x_y"),
        (7, "7.png", "00007"),
        (7, "07.png", "00007_07"),
        (123456, "", "123456"),
        (0, "\u00fc.png", "00000"),
        (1, ".hidden", "00001_hidden"),
        (1, "x" * 80, "00001_" + "x" * 60),
    ],
)
def test_names_of_files_are_safe_and_in_order(number, name, stem):
    assert file_stem(number, name) == stem
