"""More photographs came: a net is trained again from its run, with the split that it had."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

NET = ("--model.net.variant", "mu/8", "--model.optim.lr", 0.01, "--trainer.accelerator", "cpu")
DATA = ("--data", "ImageFolder", "--data.image_size", 16, "--data.batch_size", 8, "--data.num_workers", 0)
FIT = ("fit", *NET, *DATA, "--trainer.max_epochs", 1)
AGAIN = ("--model.weights", "runs/head/0", "--name", "keep")
KEPT = ("--data.split_file", "runs/head/0/split.csv", "--data.unlisted", "train")


def photograph(root: Path, numbers: range) -> None:
    for shade, name in enumerate(("cat", "dog")):
        (root / name).mkdir(parents=True, exist_ok=True)
        for number in numbers:
            pixels = np.random.default_rng([shade, number]).integers(0, 255, (16, 16, 3), np.uint8)
            Image.fromarray(pixels).save(root / name / f"{name}{number}.png")


def split_of(run: str) -> dict[str, str]:
    with Path(run, "split.csv").open(newline="") as file:
        return {row["file"]: row["split"] for row in csv.DictReader(file)}


@pytest.fixture
def grown(app, tmp_path) -> dict[str, str]:
    """A run whose folder of photographs has grown since; its split."""
    photograph(tmp_path / "photos", range(10))
    done = app(*FIT, "--data.root", "photos", "--name", "head")
    assert done.code == 0, done.err
    photograph(tmp_path / "photos", range(10, 14))
    return split_of("runs/head/0")


def test_a_split_that_is_drawn_anew_is_refused_and_that_of_the_run_is_kept(app, grown, tmp_path):
    done = app(*FIT, "--data.root", "photos", *AGAIN)
    assert done.code == 1 and "are images that runs/head/0 had been trained on" in done.err, done
    assert " ".join(KEPT) in done.err and "--model.weights_overlap warn" in done.err
    done = app(*FIT, "--data.root", "photos", *AGAIN, *KEPT)
    assert done.code == 0, done.err
    (run,) = Path("runs/keep").iterdir()
    assert split_of(run) == {
        **grown,
        **{f"{name}/{name}{number}.png": "train" for name in ("cat", "dog") for number in range(10, 14)},
    }
    (tmp_path / "runs/head").rename(tmp_path / "gone")
    photograph(tmp_path / "photos", range(14, 15))
    done = app("test", run)
    assert done.code == 0, done.err
    assert json.loads((run / "test.json").read_text())["images"] == [*grown.values()].count("test")
    done = app("fit", run, "--trainer.max_epochs", 2, "--model.schedule.allow_horizon_change", "true")
    assert done.code == 0, done.err


def test_what_the_first_weights_saw_is_refused_two_runs_later(app, grown, tmp_path):
    photograph(tmp_path / "others", range(20, 30))
    done = app(*FIT, "--data.root", "others", *AGAIN)
    assert done.code == 0, done.err
    done = app("test", "runs/keep/0", "--data.root", "photos")
    assert done.code == 1 and "the weights that the checkpoint began with had been trained on" in done.err, done
    again = (*FIT, "--data.root", "photos", "--data.split_seed", 5, "--model.weights", "runs/keep/0")
    done = app(*again, "--name", "last")
    assert done.code == 1 and "are images that runs/keep/0 had been trained on" in done.err, done
    with pytest.warns(UserWarning, match=r"such as .* are images that runs/keep/0 had been trained on, so"):
        done = app(*again, "--name", "meant", "--model.weights_overlap", "warn")
    assert done.code == 0, done.err
    checkpoint = torch.load("runs/meant/0/checkpoints/last.ckpt", weights_only=True)
    trained = [*grown.values()].count("train") + sum(split == "train" for split in split_of("runs/keep/0").values())
    assert checkpoint["seen_before"]["files"].shape == (2, trained)
    assert app("test", "runs/meant/0").code == 0
