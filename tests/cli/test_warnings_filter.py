"""What a run prints of Lightning's and torch's notices."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn

from tests.processes import program
from vit_lightning.cli.warnings_filter import silence

TINY = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data", "Synthetic")
SMALL = ("--data.train_size", 32, "--data.eval_size", 8, "--data.batch_size", 16, "--data.num_workers", 0)
LONGER = ("--trainer.max_epochs", 2, "--model.schedule.allow_horizon_change", "true")
NOISE = ("litlogger", "LeafSpec", "Please add", "is not empty", "dirpath has changed", "GPU available", "TPU available")
NOISE += (
    "Seed set to",
    "many workers",
    "Loading `train_dataloader`",
    "Restor",
    "Loaded model weights",
    "stopped: `max",
)
NOISE += ("smaller than the logging interval", "LOCAL_RANK", "GLOBAL_RANK", "distributed_backend", "DataLoader")


def test_no_verb_prints_what_teaches_nothing(app, tmp_path):
    fit = ("fit", *TINY, *SMALL)
    done = [app(*fit), app(*fit, "--ckpt_path", "last", *LONGER), app("test", *TINY, *SMALL, "--ckpt_path", "last")]
    (tmp_path / "runs/default/0").rename(tmp_path / "moved")
    done.append(app(*fit, "--ckpt_path", "moved/checkpoints/last.ckpt", *LONGER, "--trainer.max_epochs", 3))
    for one in done:
        assert one.code == 0, one.err
        for text in NOISE:
            assert text not in one.out + one.err


@pytest.mark.parametrize(
    "text",
    [
        "The loss is odd",
        "GPU available but not used. You can set it by doing `Trainer(accelerator='gpu')`.",
        "Please add the following callbacks: [\"ModelCheckpoint{'monitor': 'val/loss'}\"].",
        "Please add the following callbacks: ['RandomState', 'Mine'].",
    ],
)
def test_other_warnings_are_shown(text):
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        silence()
        rank_zero_warn(text)
    assert [str(warning.message) for warning in shown] == [text]


def test_a_warning_is_one_line_without_the_code_that_gives_it(app, tmp_path, monkeypatch):
    (tmp_path / "warning.py").write_text(
        "from lightning.pytorch.utilities import rank_zero_warn\n"
        "from datamodules.synthetic import Synthetic\n\n\n"
        "class Warning(Synthetic):\n"
        "    def setup(self, stage):\n"
        "        super().setup(stage)\n"
        "        rank_zero_warn('two classes have no images')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    script = tmp_path / "run.py"
    script.write_text("import sys\nfrom vit_lightning.__main__ import main\nsys.exit(main())\n")
    words = ("fit", *TINY[:4], "--data", "warning.Warning", *SMALL)
    paths = os.pathsep.join((str(tmp_path), str(Path(__file__).parents[2])))
    done = subprocess.run(
        [sys.executable, str(script), *map(str, words)],
        capture_output=True, text=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths}, check=True,
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if "arning" in line or "rank_zero_warn" in line]
    assert "warning: two classes have no images" in lines
    assert all(line.startswith("warning: ") for line in lines)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GPU available: True (cuda), used: False", True),
        ("GPU available: True (cuda), used: True", False),
        ("You are using a CUDA device ('NVIDIA H200') that has Tensor Cores. To properly utilize them, you", False),
        ("TPU available: True, using: 4 TPU cores", True),
        ("LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0]", False),
        ("Time limit reached. Elapsed time is 0:00:10. Signaling Trainer to stop.", True),
    ],
)
def test_a_gpu_that_lies_idle_is_told(text, shown, caplog):
    silence()
    rank_zero_info(text)
    assert (text in caplog.messages) == shown


def test_two_processes_say_nothing_twice(pair, tmp_path):
    done = pair.run(tmp_path, "fit", *TINY, *SMALL, "--trainer.devices", 2, "--trainer.strategy", "ddp")
    assert done.good, done.logs
    first, second = done.logs
    assert not any(text in first for text in NOISE)
    lines = [line for line in first.splitlines() if line.strip()]
    assert len(lines) == len(set(lines)) and [line[:9] for line in lines].count("epoch 1/1") == 1
    assert second.strip() == ""


def test_the_environment_lets_everything_through(tmp_path):
    done = program(("fit", *TINY, *SMALL, "--trainer.max_steps", 1), tmp_path, VIT_LIGHTNING_VERBOSE="1")
    assert done.returncode == 0, done.stderr
    assert "Seed set to 0" in done.stderr and "`Trainer.fit` stopped" in done.stderr
