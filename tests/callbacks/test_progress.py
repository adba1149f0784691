"""Progress of a run, as plain lines and as a bar."""

import math
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vit_lightning.callbacks.figures import figures, has_several_labels
from vit_lightning.callbacks.progress import PlainProgress, RunBar

DATA = ("--data", "Synthetic", "--data.image_size", 16, "--data.batch_size", 8, "--data.num_workers", 0)
FIT = ("fit", *DATA, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data.eval_size", 8)


def epochs(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith("epoch ")]


def test_lines_count_the_batches_of_each_epoch(app, monkeypatch):
    monkeypatch.setattr("vit_lightning.callbacks.progress.PlainProgress.__init__.__defaults__", (0.0,))
    done = app(*FIT, "--data.train_size", 32, "--trainer.max_epochs", -1, "--trainer.max_steps", 6)
    assert done.code == 0, done.err
    assert re.findall(r"batch (\S+),", done.out) == ["1/4", "2/4", "3/4", "4/4", "1/2", "2/2"]
    assert all("val " not in line for line in epochs(done.out) if ", batch " in line)  # those are of another epoch


def test_a_score_stands_beside_the_epoch_that_it_is_of_alone(app):
    done = app(*FIT, "--data.train_size", 16, "--trainer.max_epochs", 4, "--trainer.check_val_every_n_epoch", 2)
    assert done.code == 0, done.err
    assert ["val top-1 " in line for line in epochs(done.out)] == [False, True, False, True]


def test_every_line_has_the_same_figures_in_the_same_order(app):
    """The first too, of epochs shorter than the logging interval."""
    done = app(*FIT, "--data.train_size", 64, "--trainer.max_epochs", 3)
    assert done.code == 0, done.err
    figure = r"[\d.,]+"
    line = rf"epoch (\d/3) done, step (\d+/24), loss {figure}, val top-1 {figure} %, {figure} images/s, "
    line += rf"waiting for data \d+ %(, {figure} s left)?"
    found = [re.fullmatch(line, text) for text in epochs(done.out)]
    assert all(found), done.out
    assert [(match[1], match[2], bool(match[3])) for match in found] == [
        ("1/3", "8/24", True),
        ("2/3", "16/24", True),
        ("3/3", "24/24", False),
    ]


def test_a_fit_shorter_than_the_logging_interval_logs_loss_and_rate(app):
    import csv

    done = app(*FIT, "--data.train_size", 32, "--trainer.max_steps", 3, "--trainer.max_epochs", -1)
    assert done.code == 0, done.err
    assert re.match(r"epoch 1/1 done, step 3/3, loss [\d.]+, val top-1 ", epochs(done.out)[0])
    with Path("runs/default/0/metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows if row["train/loss"]] == [2]
    assert [int(row["step"]) for row in rows if row["lr"]] == [2]


def test_a_model_s_own_figures_follow_the_known_ones():
    shown = {"mine": 30560.7, "val/top1": 0.9841, "val/f1": 0.5, "train/loss": 1.1414, "perf/mfu": 0.3}
    shown |= {"perf/data_wait": 0.9736, "perf/images_per_s": 1234.5, "val/loss": 0.25}
    trainer = SimpleNamespace(progress_bar_metrics=shown, callback_metrics={}, lightning_module=None)
    *known, speed, wait = figures(trainer, several=False)
    assert known == ["loss 1.141", "val loss 0.25", "val top-1 98.4 %", "val f1 0.5", "mine 30,561"]
    assert (speed, wait) == ("1,234 images/s", "waiting for data 97 %")
    assert "val precision at 1 98.4 %" in figures(trainer, several=True)


@pytest.mark.parametrize(("shape", "several"), [((4,), False), ((4, 3), True)])
def test_labels_of_several_classes_are_rows(shape, several):
    assert has_several_labels((torch.zeros(4, 3, 8, 8), torch.zeros(shape))) is several
    assert not has_several_labels({"image": torch.zeros(4, 3)})


@pytest.mark.parametrize(("verb", "said"), [("validate", "validated"), ("test", "tested"), ("predict", "predicted")])
def test_scoring_counts_the_batches_of_all_sets(app, monkeypatch, verb, said):
    assert app(*FIT, "--data.train_size", 16).code == 0
    monkeypatch.setattr("vit_lightning.callbacks.progress.PlainProgress.__init__.__defaults__", (0.0,))
    done = app(verb, *DATA, "--data.eval_size", 20, "--trainer.accelerator", "cpu", "--ckpt_path", "last")
    assert done.code == 0, done.err
    counted = [line for line in done.out.splitlines() if line.startswith(said)]
    assert counted == [f"{said} {batch}/3 batches" for batch in (1, 2, 3)]


@pytest.mark.parametrize(("said", "lines"), [(0, []), (1, ["tested 3/3 batches"]), (3, [])])
def test_what_began_to_count_counts_to_the_end(capsys, said, lines):
    progress, trainer = PlainProgress(), SimpleNamespace(state=SimpleNamespace(fn="test"))
    if said:
        progress.show_scoring(trainer, said, 3)
        capsys.readouterr()
    progress.scoring_ends(trainer, 3, 3)
    assert capsys.readouterr().out.splitlines() == lines
    progress.scoring_ends(trainer, 3, 3)
    assert not capsys.readouterr().out


def test_sets_without_a_length_have_no_end():
    bar, trainer = RunBar(), SimpleNamespace(state=SimpleNamespace(fn="predict"))
    bar.show_scoring(trainer, 3, math.inf)
    assert (bar.row.share, bar.row.state, bar.row.parts) == (None, "", ["3 batches"])
    bar.show_scoring(trainer, 3, 4)
    assert bar.row.share == 0.75 and bar.row.parts == ["3/4 batches"]


# In a terminal -------------------------------------------------------------------------------------------------------

ROW, ESCAPE = "\r\x1b[2K", re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def in_terminal(folder: Path, columns: int, *words: object) -> str:
    """What a terminal of so many columns gets from the application."""
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "vit_lightning", *map(str, words)],
        **{"cwd": folder, "stdin": theirs, "stdout": theirs, "stderr": theirs},
        env=environment | {"TERM": "xterm-256color", "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            more = os.read(ours, 2**16)
        except OSError:  # on Linux, the end of what was written
            break
        if not more:
            break
        text += more
    os.close(ours)
    assert process.wait(60) == 0, text.decode()
    return text.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
@pytest.mark.parametrize("columns", [80, 150])
def test_a_terminal_gets_one_row_for_the_whole_run(tmp_path, columns):
    words = (*FIT, "--data.train_size", 1024, "--trainer.max_epochs", 2)
    text = in_terminal(tmp_path, columns, *words)
    plain = [ESCAPE.sub("", part) for line in text.replace("\r\n", "\n").split("\n") for part in line.split(ROW)]
    shown = [part.strip("\r") for part in plain if "━" in part]
    assert shown and all(len(row) <= columns for row in shown)
    assert all(re.match(r"epoch [12]/2 [╸╺━]+ ", row) for row in shown)
    lines = [part for part in plain if part.startswith("epoch ") and "━" not in part]
    assert [line[:14] for line in lines] == ["epoch 1/2 done", "epoch 2/2 done"]
    assert all(len(line) <= columns for line in lines)
    assert not re.search(r"v_num|\de\+\d|Epoch", text)
    assert "\x1b[1A\x1b[2K" in text and "━" not in text.rpartition("\x1b[2K")[2]  # nothing of it stands at the end
