"""What a dry run says of fits that would be refused."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from vit_lightning.commands.sweep import refusals, run, verb
from vit_lightning.commands.sweep.plan import Cell


def fit(place: str, *words: str) -> Cell:
    return Cell("p", {"at": place}, [["fit", *words], ["test", "--ckpt_path", "last"]])


@pytest.fixture
def planned(monkeypatch) -> list[list[str]]:
    called: list[list[str]] = []

    def answer(words: list[str], **settings: object) -> SimpleNamespace:
        called.append(words[len(run.PYTHON_MODULE) :])
        return SimpleNamespace(returncode=int("9" in words), stderr="a line\nerror: 9 is too long\n")

    monkeypatch.setattr(refusals.subprocess, "run", answer)
    return called


def test_each_fit_is_planned_once_whatever_its_seed(planned):
    cells = [fit(f"{steps}{seed}", "--steps", steps, "--seed_everything", seed) for steps in "89" for seed in "12"]
    cells.append(fit("other", "--seed_everything=3", "--steps", "8"))
    found = refusals.refusals(cells, Path("runs"), print)
    assert sorted(planned) == [["plan", "--steps", "8"], ["plan", "--steps", "9"]]
    assert found == ({"p/at=91": "9 is too long", "p/at=92": "9 is too long"}, [])


def test_a_fit_that_waits_for_another_run_is_not_planned(planned, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs/first/0").mkdir(parents=True)
    cells = [
        fit("there", "--model.weights", "runs/first/0"),
        fit("later", "--model.weights", "runs/second/0/checkpoints/last.ckpt"),
        fit("too", "--model.weights=runs/second/0"),
        fit("elsewhere", "--model.weights", "other/second.ckpt"),
    ]
    found = refusals.refusals(cells, Path("runs"), print)
    assert found == ({}, ["p/at=later", "p/at=too"])
    assert sorted(words[-1] for words in planned) == ["other/second.ckpt", "runs/first/0"]


def test_a_dry_run_lists_the_fits_that_would_be_refused(planned, capsys, tmp_path):
    with pytest.raises(SystemExit, match="1"):
        verb._plan_fits([fit("8", "8"), fit("9", "9")], tmp_path)
    assert capsys.readouterr().err.splitlines() == [
        "refused  p/at=9: 9 is too long",
        "error: 1 of 2 fits would be refused",
    ]
    verb._plan_fits([fit("8", "8"), fit("later", str(tmp_path / "first/0"))], tmp_path)
    assert capsys.readouterr().out == "unknown  1 fit cannot be planned before another run has ended\n"
