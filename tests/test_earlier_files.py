"""Files that an earlier version wrote still open: a run folder, its checkpoints, and shards.

`assets/version_0_1_0` came from commit 975a5f5, before its modules moved: `fit --data Digits --data.batch_size 64
--model.net.variant mu/4 --model.net.depth 1 --model.net.width 16 --model.net.mlp 16 --model.net.heads 1
--model.optim.lr 0.01 --model.averaging.decay 0.9 --trainer.max_steps 30` with the callback Require, and `prepare` of 12
and 6 images of one colour each. The figures below are what that commit printed when it resumed the run.
"""

import re
import shutil
from pathlib import Path

import pytest

from vit_lightning.weights import load_net

FILES = Path(__file__).parent / "assets" / "version_0_1_0"
TOP1, LOSS = 0.28108, 2.04865
"""Of the run after 40 steps, which averaged weights make on 185 images."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return shutil.copytree(FILES / "run", tmp_path / "runs/default/0")


def score(text: str, column: str) -> float:
    """A score in the table that validate and test print."""
    lines = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    header, row = (next(line for line in lines if line[0] == first) for first in ("set", "validation"))
    value = dict(zip(header, row, strict=True))[column]
    return float(value.removesuffix(" %")) / (100 if "%" in value else 1)


def test_a_run_goes_on(app, run):
    words = ("--trainer.max_steps", 40, "--model.schedule.allow_horizon_change", "true")
    done = app("fit", "-c", run / "config.yaml", "--ckpt_path", run / "checkpoints/last.ckpt", *words)
    assert done.code == 0, done.err
    assert "step 40" in done.out and (run / "config.resume-1.yaml").is_file()
    done = app("validate", "--data", "Digits", "--ckpt_path", run / "checkpoints/last.ckpt")
    assert score(done.out, "loss") == pytest.approx(LOSS, abs=2e-3)
    assert score(done.out, "top-1") == pytest.approx(TOP1, abs=0.011)


def test_weights_come_from_a_checkpoint(run):
    net, report = load_net(run / "checkpoints/best.ckpt")
    assert (net.config.width, net.num_classes, len(report.class_names)) == (16, 10, 10)


def test_shards_are_read(app, tmp_path):
    words = ("--data", "Shards", "--data.root", FILES / "shards", "--data.image_size", 16, "--data.batch_size", 4)
    done = app("fit", *words, "--model.net.variant", "mu/4", "--trainer.max_epochs", 1)
    assert done.code == 0, done.err
    done = app("predict", *words, "--ckpt_path", tmp_path / "runs/default/0/checkpoints/last.ckpt")
    rows = (tmp_path / "runs/default/0/predictions.csv").read_text().splitlines()
    assert done.code == 0 and len(rows) == 7
    assert all(name in rows[1] for name in ("blue", "green", "red"))
