"""Flags as their owner's source has them: name, first sentence, default, choices, and whether they are required."""

import pytest

from vit_lightning.cli import help_sentences
from vit_lightning.cli.help_sentences import LONG, Flag, first_sentence, read_flags, spell

SOURCE = '''
"""A module."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Pool = Literal["token", "gap"]


@dataclass
class Fields:
    """A dataclass.

    It has more to say.

    Args:
        never: read, since a field says it itself.
    """

    rate: float = 0.5
    """learning rate of it all; unset: none. And more."""
    pool: Pool = "gap"
    """What the head reads."""
    maybe: Pool | None = None
    """token where it helps."""
    bare: int = 3
    listed: tuple[int, ...] = (1, 2)
    """Numbers."""
    flag = 4


class Made:
    """A class with a constructor.

    Args:
        root: folder of the images,
            over two lines; more follows.
        size: pixels of a side. Then more.
        own: An object.
        place: Where.
        on: Whether.

    Raises:
        ValueError: never.
    """

    other: int = 3

    def before(self, hidden: int) -> None:
        """Not read."""

    def __init__(
        self, root: str, size: int = 224, own: "Fields" = Fields(), place: Path = Path("runs"), on: bool = True
    ) -> None:
        pass


def verb(trainer, model, datamodule, *, out: Path, count: Literal[1, 2] = 2, none: str | None = None) -> None:
    """Do it.

    In two paragraphs.

    Args:
        trainer: Not a flag.
        out: NPZ file to write.
        count: How often.
    """


def file_verb(source: str, to: Pool = "token") -> None:
    """Turn it."""
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "module.py").write_text(SOURCE)
    (tmp_path / "part" / "a_first.py").write_text("verb = 3\n\n\ndef other() -> None:\n    pass\n")
    monkeypatch.setattr(help_sentences, "PACKAGE", tmp_path)


@pytest.mark.parametrize("module", ["part.module", "part"])
def test_a_dataclass_says_its_fields_beside_them(package, module):
    about, flags = read_flags(module, "Fields")
    assert about == "A dataclass.\n\nIt has more to say."
    assert flags == {
        "rate": Flag("rate", "Learning rate of it all; unset: none", "0.5"),
        "pool": Flag("pool", "What the head reads", "gap", ("token", "gap")),
        "maybe": Flag("maybe", "token where it helps", None, ("token", "gap")),
        "bare": Flag("bare", "", "3"),
        "listed": Flag("listed", "Numbers", "[1,2]"),
    }
    assert list(flags) == ["rate", "pool", "maybe", "bare", "listed"]


def test_a_class_says_the_arguments_of_its_constructor_in_its_own_docstring(package):
    about, flags = read_flags("part.module", "Made")
    assert about == "A class with a constructor."
    assert flags == {
        "root": Flag("root", "Folder of the images, over two lines", None, (), required=True),
        "size": Flag("size", "Pixels of a side", "224"),
        "own": Flag("own", "An object", None),
        "place": Flag("place", "Where", "runs"),
        "on": Flag("on", "Whether", "true"),
    }


def test_a_run_verb_s_flags_are_those_that_are_passed_by_name(package):
    about, flags = read_flags("part.module", "verb")
    assert about == "Do it.\n\nIn two paragraphs."
    assert flags == {
        "out": Flag("out", "NPZ file to write", None, (), required=True),
        "count": Flag("count", "How often", "2", ("1", "2")),
        "none": Flag("none", "", None),
    }


def test_a_file_verb_s_flags_are_all_its_parameters(package):
    assert read_flags("part.module", "file_verb") == (
        "Turn it.",
        {
            "source": Flag("source", "", None, (), required=True),
            "to": Flag("to", "", "token", ("token", "gap")),
        },
    )


def test_what_a_module_lacks_is_named(package):
    with pytest.raises(LookupError, match=r"part\.module has no Nothing"):
        read_flags("part.module", "Nothing")


HEAD = "a head of 20 letters"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("One.  Two.", "One"),
        ("One? Two.", "One?"),
        ("Half 0.5 of it. Two.", "Half 0.5 of it"),
        ("Over\n   lines; and more", "Over lines"),
        ("A; unset: none; else", "A; unset: none"),
        ("", ""),
        (f"{HEAD}: {'x' * (LONG - len(HEAD) - 2)}", f"{HEAD}: {'x' * (LONG - len(HEAD) - 2)}"),
        (f"{HEAD}: {'x' * (LONG - len(HEAD) - 1)}", HEAD),
        (f"{'x' * 15}: {'y' * LONG}", f"{'x' * 15}: {'y' * LONG}"),
        (f"{'x' * 16}: {'y' * LONG}: z", "x" * 16),
        (f"What holds; unset: {'y' * LONG}", f"What holds; unset: {'y' * LONG}"),
    ],
)
def test_a_claim_ends_at_its_sign_or_if_it_is_long_at_its_colon(text, sentence):
    assert first_sentence(text) == sentence


@pytest.mark.parametrize(
    ("value", "typed"),
    [(True, "true"), (0, "0"), (1e-05, "1e-05"), ("Text", "Text"), ((1, [True, "a"]), "[1,[true,a]]"), ([], "[]")],
)
def test_values_are_spelt_as_one_types_them(value, typed):
    assert spell(value) == typed
