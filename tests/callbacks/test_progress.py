import re
import sys

from vit_lightning import terminal as module
from vit_lightning.terminal import progress


def test_a_bar_in_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with progress("training", "looked at", 3) as tell:
        tell(3)
    assert "training" in capsys.readouterr().out


def test_lines_elsewhere(capsys, monkeypatch):
    with progress("test", "looked at", 1000) as tell:
        tell(500)
        monkeypatch.setattr(module, "PAUSE", 0)
        tell(400)
        tell(100)
    assert capsys.readouterr().out.splitlines() == [
        "looked at 900 of 1,000 test images",
        "looked at 1,000 of 1,000 test images",
    ]


def test_lines_count_the_batches_of_each_epoch(app, monkeypatch):
    monkeypatch.setattr("vit_lightning.callbacks.progress.PlainProgress.__init__.__defaults__", (0.0,))
    data = ("--data", "Synthetic", "--data.train_size", 32, "--data.eval_size", 8, "--data.num_workers", 0)
    net = (
        "--data.image_size",
        16,
        "--data.batch_size",
        8,
        "--model.net.variant",
        "mu/8",
        "--trainer.accelerator",
        "cpu",
    )
    done = app("fit", *data, *net, "--trainer.max_epochs", -1, "--trainer.max_steps", 6)
    assert done.code == 0, done.err
    assert re.findall(r"batch (\S+),", done.out) == ["1/4", "2/4", "3/4", "4/4", "1/2", "2/2"]
