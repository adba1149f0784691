"""Which verb the words name, and what becomes of signals meanwhile."""

import logging
import os
import signal

import pytest

from vit_lightning import __version__
from vit_lightning.cli import run as module
from vit_lightning.cli.help import asked_for, without_all
from vit_lightning.commands import VERBS
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    ("words", "page", "parsers"),
    [
        ("fit", False, "fit"),
        ("fit --help", True, "fit --help"),
        ("fit -h", True, "fit -h"),
        ("fit --a 1 --help", True, "fit --a 1 --help"),
        ("fit --help all", False, "fit --help"),
        ("fit --help all --a", False, "fit --help --a"),
        ("fit --help --a all", True, "fit --help --a all"),
        ("fit all", False, "fit all"),
    ],
)
def test_one_page_of_help_or_all_of_it(words, page, parsers):
    assert asked_for(words.split()) == page
    assert without_all(words.split()) == parsers.split()


@pytest.fixture
def ran(monkeypatch) -> list[tuple]:
    met: list[tuple] = []
    monkeypatch.setattr(module, "run_run_verb", lambda verb, words: met.append(("run", verb, words)))
    monkeypatch.setattr(module, "run_file_verb", lambda verb, words: met.append(("file", verb.__name__, words)))
    monkeypatch.setattr(module, "_show", lambda text: met.append(("shown", text.splitlines()[0])))
    return met


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_is_run_with_its_words(ran, verb):
    module.run([verb.name, "--a", "1", "--help", "all"])
    ((kind, name, words),) = ran
    assert name == verb.name
    assert words == (["--a", "1", "--help"] if kind == "file" else [verb.name, "--a", "1", "--help"])
    assert (kind == "file") == (verb.name in ("convert", "export", "report", "sweep"))


def test_help_and_version_are_shown(ran):
    for words in (["--help"], ["-h"], ["--version"], ["fit", "--help"]):
        module.run(words)
    assert [line for _, line in ran] == [
        "usage: python -m vit_lightning VERB [-c EXPERIMENT.yaml ...] [--flag value ...]",
        "usage: python -m vit_lightning VERB [-c EXPERIMENT.yaml ...] [--flag value ...]",
        f"vit-lightning {__version__}",
        "usage: python -m vit_lightning fit [RUN_FOLDER | CHECKPOINT] [-c EXPERIMENT.yaml ...] [--flag value ...]",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [([], "a verb is missing (one of fit, "), (["fti"], "unknown verb 'fti'; did you mean fit? (one of fit, ")],
)
def test_a_verb_that_there_is_not(words, said):
    with pytest.raises(InputError) as told:
        module.run(words)
    assert str(told.value).startswith(said)


def test_sigterm_ends_what_has_no_state_with_its_own_status_and_is_let_go_of(monkeypatch):
    limits: list[int] = []
    monkeypatch.setattr(module, "end_in_time", limits.append)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(module.Ended), module._ended_by_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
    assert limits == [143] and signal.getsignal(signal.SIGTERM) is before
    assert logging.root.manager.disable == logging.NOTSET


def verb(source: str, count: int = 1) -> None:
    """Do it.

    In two paragraphs.

    Args:
        source: Where.
        count: How often.
    """
    CALLED.append((source, count, signal.getsignal(signal.SIGTERM)))


CALLED: list[tuple] = []


def test_a_file_verb_is_called_with_its_words_and_ends_by_sigterm(capsys):
    before = signal.getsignal(signal.SIGTERM)
    module.run_file_verb(verb, ["x", "--count", "3"])
    ((source, count, handler),) = CALLED
    assert (source, count) == ("x", 3) and handler is not before and signal.getsignal(signal.SIGTERM) is before
    with pytest.raises(SystemExit):
        module.run_file_verb(verb, ["--help"])
    text = capsys.readouterr().out
    assert "python -m vit_lightning verb" in text and "Do it.\n\nIn two paragraphs." in text and "Args:" not in text


def test_a_reader_of_help_may_have_seen_enough(monkeypatch, tmp_path):
    def gone(*words: object, flush: bool) -> None:
        assert flush
        raise BrokenPipeError

    monkeypatch.setattr("builtins.print", gone)
    with (tmp_path / "out").open("w") as file:
        monkeypatch.setattr("sys.stdout", file)
        module._show("help")
        file.write("left")
    assert (tmp_path / "out").read_text() == ""
