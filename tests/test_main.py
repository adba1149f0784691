"""The door's spelling of words: lists and switches as people type them."""

import pytest

from vit_lightning.__main__ import spelled


def verb(files: list[str], count: int = 1, set: list[str] | None = None, dry: bool = False) -> None:
    """Takes a list, a number, another list and a switch."""


def other(src: str, dst: str, mean: tuple[float, ...] | None = None, raw: bool = False) -> None:
    """Takes no list."""


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("a b", '["a", "b"]'),
        ("--count 2 a --dry", '["a"] --count 2 --dry true'),
        ("--dry a --set x=1 y=2", '["a"] --dry true --set+ x=1 --set+ y=2'),
        ("a --set=x=1 --set y=2 --dry false b", '["a", "b"] --set+ x=1 --set+ y=2 --dry false'),
        ("--help", "--help"),
        ("--count=3", "--count=3"),
    ],
)
def test_lists_and_switches(typed, wanted):
    spelt = spelled(typed.split(), verb)
    assert " ".join(spelt) == wanted


def test_a_verb_without_lists_keeps_its_words():
    words = "x y --mean [-1,2] --raw"
    assert spelled(words.split(), other) == [*words.split(), "true"]
