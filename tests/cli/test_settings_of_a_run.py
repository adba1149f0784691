"""`doctor RUN` and the other verbs that look at a fit to begin: config and data come from the run, which stays."""

import os
from pathlib import Path

import pytest

FIT = ("fit", "--data", "Synthetic", "--data.train_size", 48, "--data.eval_size", 16, "--data.num_workers", 0)
FIT += (
    "--data.batch_size",
    16,
    "--model.net.variant",
    "mu/8",
    "--trainer.accelerator",
    "cpu",
    "--trainer.max_epochs",
    1,
)


@pytest.fixture
def run(app) -> Path:
    done = app(*FIT, "--name", "mine", "--model.optim.lr", 0.002)
    assert done.code == 0, done.err
    os.environ.pop("VIT_LIGHTNING_RUN", None)
    return Path("runs/mine/0")


def state(run: Path) -> dict[str, float]:
    return {str(path): path.stat().st_mtime for path in run.rglob("*")}


@pytest.mark.parametrize("word", ["runs/mine/0", "runs/mine/0/config.yaml", "runs/mine/0/checkpoints/last.ckpt"])
def test_doctor_takes_config_and_data_and_writes_nothing(app, run, word):
    before = state(run)
    done = app("doctor", word)
    assert done.code == 0, done.err
    said = done.out + done.err
    assert "looked at 48 of 48 training images" in said and "rehearse the first step of a fit: mu/8, 16 images" in said
    assert state(run) == before and not Path("runs/default").exists()


def test_flags_win_and_other_verbs_follow(app, run, monkeypatch):
    before = state(run)
    done = app("plan", run, "--data.batch_size", 8)
    assert done.code == 0 and "steps    1 epoch of 6 batches" in done.out, done.err
    done = app("prepare", run, "--out", "packed")
    assert done.code == 0 and "48 images" in done.out, done.err
    assert state(run) == before
    monkeypatch.chdir("runs")
    assert "looked at 48 of 48" in (lambda done: done.out + done.err)(app("doctor", "mine/0"))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("runs/mine", "the folder of an experiment, whose newest run is runs/mine/0; give a run folder"),
        ("runs/mime/0", "no such file or folder; did you mean runs/mine/0?"),
        ("stray.txt", "a file in no run folder; give a run folder, such as runs/digits/0"),
    ],
)
def test_what_is_no_run_is_said(app, word, said):
    Path("runs/mine/0/checkpoints").mkdir(parents=True)
    Path("stray.txt").touch()
    done = app("doctor", word)
    assert done.code == 1 and f"error: doctor {word}: {said}" in done.err


def test_the_run_s_own_split_and_weights_are_looked_at_from_any_folder(app, monkeypatch):
    from PIL import Image

    for name in ("cat", "dog"):
        Path("photos", name).mkdir(parents=True)
        for number in range(20):
            Image.new("RGB", (8, 8), (number * 9, len(name), 90)).save(f"photos/{name}/{name}{number}.png")
    assert app(*FIT, "--name", "first").code == 0
    os.environ.pop("VIT_LIGHTNING_RUN", None)
    words = ("--data.root", "photos", "--data.image_size", 32, "--data.batch_size", 4, "--data.num_workers", 0)
    words += ("--trainer.accelerator", "cpu", "--trainer.max_epochs", 1, "--name", "second")
    weights = ("--model.weights", "runs/first/0/checkpoints/best.ckpt", "--model.weights_head", "reset")
    done = app("fit", "--data", "ImageFolder", *words, *weights)
    assert done.code == 0, done.err
    os.environ.pop("VIT_LIGHTNING_RUN", None)
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    done = app("doctor", "../runs/second/0")
    assert done.code == 0, done.err
    assert "split.csv" in done.out + done.err and "best.ckpt" in done.out + done.err
