"""Soups without the application: what is averaged, what is taken, and which nets are no members."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vit_lightning.commands import average as module
from vit_lightning.commands.average import Scores, _check, _checkpoint, _greedy, mean_state
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report

A, B, C, D = (Path(f"{name}.ckpt") for name in "abcd")


def test_tensors_are_averaged_and_counts_are_the_firsts(monkeypatch):
    states = {
        path: {"w": torch.tensor([value, 1.0]), "half": torch.tensor(value).bfloat16(), "count": torch.tensor(number)}
        for path, value, number in ((A, 1.0, 7), (B, 2.0, 8), (C, 6.0, 9))
    }
    monkeypatch.setattr(module, "load_net", lambda path: (SimpleNamespace(state_dict=lambda: states[path]), None))
    found = mean_state([B, A, C])
    assert found["w"].tolist() == [3.0, 1.0] and found["half"].item() == 3.0 and found["count"].item() == 8
    assert found["w"].dtype == found["half"].dtype == torch.float32 and found["count"].dtype == torch.int64


def test_sums_are_those_of_doubles(monkeypatch):
    """In fp32 the ones would be lost beside the large number."""
    values = iter([2.0**25, 1.0, 1.0, 1.0, 1.0])
    monkeypatch.setattr(
        module, "load_net", lambda path: (SimpleNamespace(state_dict=lambda: {"w": torch.tensor([next(values)])}), None)
    )
    assert mean_state([A] * 5)["w"].item() == torch.tensor((2.0**25 + 4) / 5).item()


class Table:
    """Scores of sets of checkpoints."""

    def __init__(self, sign: int, **scores: float) -> None:
        self.sign, self.scores, self.asked = sign, scores, []

    def of(self, paths: list[Path]) -> float:
        self.asked.append("".join(path.stem for path in paths))
        return self.scores[self.asked[-1]]


@pytest.mark.parametrize(
    ("sign", "alone", "scores", "taken", "value"),
    [
        (1, (0.5, 0.7, 0.6), {"bc": 0.8, "bca": 0.75}, [B, C], 0.8),
        (1, (0.5, 0.7, 0.6), {"bc": 0.6, "ba": 0.9}, [B, A], 0.9),
        (1, (0.5, 0.7, 0.6), {"bc": 0.7, "bca": 0.7}, [B, C, A], 0.7),  # what does not lower the score is taken
        (-1, (0.5, 0.7, 0.6), {"ac": 0.4, "acb": 0.45}, [A, C], 0.4),
        (-1, (0.5, 0.7, 0.6), {"ac": 0.6, "ab": 0.5}, [A, B], 0.5),
        (1, (0.7, 0.7, 0.1), {"ab": 0.1, "ac": 0.1}, [A], 0.7),  # of equals the first
    ],
)
def test_a_greedy_soup(sign, alone, scores, taken, value):
    table = Table(sign, **scores)
    assert _greedy(dict(zip((A, B, C), alone, strict=True)), table) == (taken, value)
    assert table.asked == list(scores)


@pytest.mark.parametrize(
    ("monitor", "sign", "said"),
    [
        (("val/top1", "max"), 1, "top-1 25.00 %"),
        (("val/loss", "min"), -1, "0.25"),
        (("val/own", "max"), 1, "val/own 0.25"),
    ],
)
def test_scores_are_of_the_metric_that_chooses_the_best(monitor, sign, said):
    scores = Scores(None, SimpleNamespace(monitor=monitor), None, None)
    assert (scores.metric, scores.sign) == (monitor[0], sign) and scores.said(0.25).endswith(said)


@pytest.mark.parametrize("is_built", [True, False])
def test_a_mean_is_validated_in_the_net_of_the_first_checkpoint(monkeypatch, is_built):
    called: list[object] = []
    model = SimpleNamespace(monitor=("val/top1", "max"), net=None)
    net = SimpleNamespace(load_state_dict=called.append)

    def validate(given, **options) -> None:
        model.net = net
        called.append({name: each for name, each in options.items() if name != "verbose"})

    model.net = net if is_built else None
    monkeypatch.setattr(module, "drop_lora", lambda net: called.append("plain"))
    monkeypatch.setattr(module, "mean_state", lambda paths: list(paths))
    trainer = SimpleNamespace(validate=validate, callback_metrics={"val/top1": torch.tensor(0.5), "val/loss": 9.0})
    assert Scores(trainer, model, "data", "first.ckpt").of([A, B]) == 0.5
    first = [] if is_built else [{"datamodule": "data", "ckpt_path": "first.ckpt"}]
    assert called == [*first, "plain", [A, B], {"datamodule": "data"}]


def member(**facts):
    torch.manual_seed(0)
    config = NetConfig("mu/8", **facts.pop("config", {}))
    net = build(config, facts.pop("image_size", (8, 8)), facts.pop("classes", 3))
    usual = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "class_names": ["a", "b", "c"], "window": None}
    recipe = {"loss": facts.pop("loss", "softmax")}
    return net, Report("", "", training={"recipe": recipe}, **usual | facts)


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({}, None),
        ({"config": {"gelu": "exact"}}, "config"),
        ({"image_size": (16, 16)}, "image size"),
        ({"classes": 4}, "tensors"),
        ({"class_names": ["a", "c", "b"]}, "class names"),
        ({"mean": (0.4,) * 3}, "normalisation"),
        ({"std": (0.4,) * 3}, "normalisation"),
        ({"window": (0.0, 9.0)}, "window"),
        ({"loss": "sigmoid"}, "loss"),
    ],
)
def test_what_makes_weights_mean_something_else(monkeypatch, facts, what):
    other = member(**facts)
    monkeypatch.setattr(module, "load_net", lambda path: other)
    if what is None:
        _check(B, *member())
        next(other[0].parameters()).data.view(-1)[0] = torch.nan
        what = "weights that are not finite"
        with pytest.raises(InputError, match=r"^b\.ckpt holds weights that are not finite"):
            _check(B, *member())
        return
    with pytest.raises(InputError, match=rf"^b\.ckpt has another {what} than the first net"):
        _check(B, *member())


def test_a_run_folder_stands_for_its_best_checkpoint(monkeypatch, tmp_path):
    monkeypatch.setattr(module.folders, "trained_checkpoint", lambda path: path / "best")
    assert _checkpoint(str(tmp_path)) == tmp_path
    (tmp_path / "checkpoints").mkdir()
    assert _checkpoint(str(tmp_path)) == tmp_path / "best"
