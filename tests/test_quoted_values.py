"""Flags in README, help and messages may be pasted into any shell: zsh ends a command with a bare [ ], * or ?."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BARE = re.compile(r"--[a-z][\w.+]*[ =](?!\.\.\.)[^\s'\"`{}()]*[\[*?][^\s`]*")
"""A flag whose value holds one of them outside quotation marks."""
SOURCES = sorted(path for room in ("vit_lightning", "datamodules") for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("--data.window [0,4095] --x", "--data.window [0,4095]"),
        ("--data.train=train-*.tar", "--data.train=train-*.tar"),
        ("--data.root photos/?", "--data.root photos/?"),
        ("--data.window '[0,4095]' --data.train='*.tar'", None),
        ("[--flag value ...] --model.loss sigmoid.", None),
    ],
)
def test_what_a_shell_would_read_as_a_pattern_is_found(text, found):
    assert (BARE.search(text) or [None])[0] == found


def test_no_value_of_the_readme_needs_quotation_marks_that_it_has_not():
    assert BARE.findall((ROOT / "README.md").read_text()) == []
    assert BARE.findall((ROOT / "experiments/README.md").read_text()) == []


def test_no_value_of_help_or_of_a_message_does():
    bare = {str(path.relative_to(ROOT)): BARE.findall(path.read_text()) for path in SOURCES}
    assert {name: found for name, found in bare.items() if found} == {}


def test_a_list_in_the_note_of_help_is_quoted(app):
    assert "A list is written '[a,b]'" in " ".join(app("fit", "--help").out.split())
