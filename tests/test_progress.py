import sys

from vit_lightning import progress as module
from vit_lightning.progress import progress


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
