"""What probes find, in files and in a table; and how long each took."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from vit_lightning.commands.probe import methods
from vit_lightning.commands.probe.methods import Probes, Probing, _counts, _possible
from vit_lightning.commands.probe.results import ProbeRow, table, write
from vit_lightning.errors import InputError
from vit_lightning.evaluation.accuracy import Accuracy
from vit_lightning.evaluation.features import FeatureSet

ROWS = [
    ProbeRow("few-shot", "5 per class", [Accuracy(0.5, 0.25), Accuracy(0.7, 0.75)], "l2 1024", 61.0),
    ProbeRow("k-NN", "k 10", [Accuracy(0.25, 0.125)], "", 0.5),
]


def test_files_hold_every_figure(tmp_path):
    (tmp_path / "probe.csv").write_text("earlier")
    paths = write(ROWS, {"net": "x.ckpt", "features": 4}, tmp_path)
    assert paths == (tmp_path / "probe.csv", tmp_path / "probe.json")
    with paths[0].open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["probe", "setting", "top1", "mean_class", "deviation", "runs", "regularisation", "seconds"]
    assert float(rows[0].pop("deviation")) == pytest.approx(0.02**0.5)
    assert list(rows[0].values()) == ["few-shot", "5 per class", "0.6", "0.5", "2", "l2 1024", "61.0"]
    assert list(rows[1].values()) == ["k-NN", "k 10", "0.25", "0.125", "", "1", "", "0.5"]
    content = json.loads(paths[1].read_text())
    assert (content["net"], content["features"]) == ("x.ckpt", 4) and paths[1].read_text().endswith("}\n")
    assert content["rows"][0] == {
        **{"probe": "few-shot", "setting": "5 per class", "top1": 0.6, "mean_class": 0.5},
        **{"deviation": pytest.approx(0.02**0.5), "mean_class_values": [0.25, 0.75]},
        **{"runs": 2, "regularisation": "l2 1024", "seconds": 61.0, "values": [0.5, 0.7]},
    }
    assert content["rows"][1]["deviation"] is None and content["rows"][1]["values"] == [0.25]


def test_the_table_shows_percent_and_times():
    shown = table(ROWS)
    cells = [list(column.cells) for column in shown.columns]
    assert [column.header for column in shown.columns][:4] == ["probe", "setting", "top-1", "per-class"]
    assert cells[2:4] == [["60.00 %", "25.00 %"], ["50.00 %", "12.50 %"]]
    assert cells[4] == ["14.14 %", ""] and cells[5] == ["2", "1"]
    assert cells[7] == ["l2 1024", ""]
    assert [column.justify for column in shown.columns] == ["left", "left", *["right"] * 5, "left"]


def probes(**facts) -> Probes:
    usual = {"chosen": ("fewshot", "knn", "logistic"), "shots": (1, 5), "seeds": (0,), "penalties": (1.0,)}
    return Probes(**usual | {"neighbours": (3, 10), "temperature": 0.07, "missing_is_fine": False} | facts)


NAMES = ["cat", "dog", "owl"]
TRAIN, TEST = np.repeat([0, 1, 2], [7, 5, 6]), np.array([0, 1, 2])


@pytest.mark.parametrize(
    ("facts", "train", "test", "said"),
    [
        ({}, TRAIN, TEST, None),
        ({}, TRAIN - 100, TEST, "none of the training images has a label"),
        ({}, TRAIN, TEST - 100, "none of the test images has a label"),
        ({}, np.zeros(9, int), TEST, "the training images are of one class alone"),
        ({}, TRAIN[:12], TEST, "the training images lack 1 of 3 classes: owl; give data"),
        ({}, TRAIN, TEST[1:], "the test images lack 1 of 3 classes: cat; give data"),
        ({"missing_is_fine": True}, TRAIN[:12], TEST[1:], None),
        (
            {"shots": (5, 6, 1)},
            TRAIN,
            TEST,
            r"--shots 6 is more than the 5 training images of class dog; give --shots \[5,1\], or",
        ),
        ({"shots": (6,)}, TRAIN, TEST, "class dog; give --shots of 5 or less, or leave fewshot out"),
        ({"shots": (9,), "chosen": ("knn",)}, TRAIN, TEST, None),
        ({"shots": (6,), "missing_is_fine": True}, TRAIN[5:], TEST, "more than the 2 training images of class cat"),
        ({"neighbours": (18,)}, TRAIN, TEST, None),
        (
            {"neighbours": (3, 19)},
            TRAIN,
            TEST,
            r"--neighbours 19 is more than the 18 training images; give --neighbours \[3\], or",
        ),
        ({"neighbours": (3, 19), "chosen": ("fewshot",)}, TRAIN, TEST, None),
    ],
)
def test_images_to_which_no_probe_is_fitted(facts, train, test, said):
    if said is None:
        probes(**facts).check(train, test, "test", NAMES)
    else:
        with pytest.raises(InputError, match=said):
            probes(**facts).check(train, test, "test", NAMES)


@pytest.mark.parametrize(
    ("facts", "shots", "neighbours", "said"),
    [
        ({"usual": ("shots", "neighbours")}, [1, 5], [3, 10], []),
        (
            {"usual": ("shots", "neighbours"), "shots": (1, 5, 10, 25), "neighbours": (10, 20, 100)},
            [1, 5],
            [10],
            [
                "without  shots 10, 25, more than the 5 training images of class dog",
                "without  neighbours 20, 100, more than the 18 training images",
            ],
        ),
        ({"usual": ("shots",), "shots": (1, 9), "chosen": ("knn",)}, (1, 9), (3, 10), []),
    ],
)
def test_usual_numbers_beyond_the_images_are_left_out(facts, shots, neighbours, said):
    chosen = probes(**facts)
    chosen.check(TRAIN, TEST, "test", NAMES)
    found, lines = chosen.possible(TRAIN, NAMES)
    assert (list(found.shots), list(found.neighbours), lines) == (list(shots), list(neighbours), said)


@pytest.mark.parametrize("usual", [("shots",), ("neighbours",), ("shots", "neighbours")])
def test_numbers_that_are_stated_and_those_of_which_none_is_left_are_refused(usual):
    stated = probes(usual=usual, shots=(1, 9), neighbours=(3, 19))
    if len(usual) == 1:
        with pytest.raises(InputError, match="is more than the"):
            stated.check(TRAIN, TEST, "test", NAMES)
    none_left = probes(usual=usual, shots=(1,), neighbours=(19, 20))
    with pytest.raises(InputError, match="--neighbours 20 is more than the 18 training images; give --neighbours of 1"):
        none_left.check(TRAIN, TEST, "test", NAMES)


def test_counts_of_classes():
    assert _counts(np.array([0, 2, 2, -100, 3]), 3).tolist() == [1, 0, 2]
    assert _possible("x", [3, 1, 9], 3) == "give --x [3,1]," and _possible("x", [9], 3) == "give --x of 3 or less,"


def test_rows_come_kind_by_kind_with_what_each_took(monkeypatch):
    """All of k-NN comes at once, and shares its time."""
    now = [0.0]

    def made(kind: str, seconds: tuple[float, ...]):
        def rows(*words):
            for number, each in enumerate(seconds):
                now[0] += each
                yield kind, str(number), [0.5], ""

        return rows

    monkeypatch.setattr(methods, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for name, seconds in (("_few_shot", (1.0, 3.0)), ("_knn", (4.0, 2.0)), ("_logistic", (5.0,))):
        monkeypatch.setattr(Probing, name, made(name, seconds))
    one = FeatureSet(torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64))
    found = [(kind, seconds) for kind, *_, seconds in Probing(probes(), one, one, 2).rows(print)]
    assert found == [("_few_shot", 1.0), ("_few_shot", 3.0), ("_knn", 3.0), ("_knn", 3.0), ("_logistic", 5.0)]
    some = Probing(probes(chosen=("logistic", "fewshot")), one, one, 2)
    assert [kind for kind, *_ in some.rows(print)] == ["_few_shot", "_few_shot", "_logistic"]


def test_neighbours_vote_with_the_temperature_and_the_ks_that_are_given():
    """Three near images of one class, and seven further ones of another."""
    train = FeatureSet(torch.tensor([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 7), torch.tensor([1] * 3 + [0] * 7))
    test = FeatureSet(torch.tensor([[1.0, 0.1], [0.1, 1.0]]), torch.tensor([1, 1]))
    for temperature, scores in ((0.07, [0.5, 0.5]), (1e6, [0.5, 0.0])):
        chosen = probes(chosen=("knn",), temperature=temperature)
        rows = [
            (setting, [one.top1 for one in found])
            for _, setting, found, _, _ in Probing(chosen, train, test, 2).rows(print)
        ]
        assert rows == [("k 3", scores[:1]), ("k 10", scores[1:])]
