"""Names that would break or turn a line are seen as they are wherever they are printed."""

import logging
import warnings

import pytest

from vit_lightning.cli import ending, warnings_filter
from vit_lightning.terminal import report

RAW, SHOWN = "owl\u202egnp\x1b[2J", r"owl\u202egnp\x1b[2J"


@pytest.mark.parametrize(("say", "stream"), [(report, "out"), (ending.say, "err")])
def test_a_line_is_printed_with_them_escaped(capsys, say, stream):
    say(f"classes {RAW}\nnext")
    assert getattr(capsys.readouterr(), stream) == f"classes {SHOWN}\nnext\n"


def test_a_warning_has_them_escaped():
    assert warnings_filter._one_line(RAW, UserWarning, "x.py", 1) == f"warning: {SHOWN}\n"


def test_a_message_of_lightning_has_them_escaped(caplog, monkeypatch):
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    warnings_filter.silence()
    with caplog.at_level(logging.INFO):
        warnings_filter.rank_zero.log.info("class %s", RAW)
    assert f"class {SHOWN}" in [record.getMessage() for record in caplog.records]
