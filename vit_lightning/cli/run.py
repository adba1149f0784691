"""Which verb a command line names, and who runs it: LightningCLI, or the function of a file verb."""

import difflib
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from inspect import getdoc
from types import FrameType

from vit_lightning import __version__
from vit_lightning.cli.arguments import for_function
from vit_lightning.cli.garbage_collection import paused_until_built
from vit_lightning.cli.help import asked_for, overview, page, without_all
from vit_lightning.commands import VERBS, named
from vit_lightning.errors import InputError
from vit_lightning.processes import end_in_time


class Ended(SystemExit):
    """What SIGTERM raises in a verb that has no state to save; Lightning would end it with status 0."""


def run(words: list[str]) -> None:
    """Run the verb that the words of a command line name, or print the help that they ask for.

    Raises:
        InputError: there is no such verb.
    """
    verb = words[0] if words else ""
    if verb in ("-h", "--help"):
        _show(overview())
    elif verb == "--version":
        _show(f"vit-lightning {__version__}")
    elif verb not in {known.name for known in VERBS}:
        raise InputError(_unknown(verb))
    elif asked_for(words):
        _show(page(verb))
    elif verb in named("file"):
        function = getattr(import_module(f"vit_lightning.commands.{verb}"), verb)
        run_file_verb(function, without_all(words[1:]))
    else:
        run_run_verb(verb, without_all(words))


def run_run_verb(verb: str, words: list[str]) -> None:
    """Hand over to LightningCLI."""
    with _ended_by_sigterm(), paused_until_built():
        from vit_lightning.cli.vit_cli import ViTCLI

        ViTCLI(words)


def run_file_verb(function: Callable, words: list[str]) -> None:
    """Call the function of a file verb with what the words say."""
    from jsonargparse import auto_cli

    from vit_lightning.cli.file_verb_parser import FileVerbParser

    verb = function.__name__
    prog, about = f"python -m vit_lightning {verb}", (getdoc(function) or "").partition("\n\nArgs:")[0]
    with _ended_by_sigterm():
        auto_cli(
            function, args=for_function(words, function), prog=prog, description=about, parser_class=FileVerbParser
        )


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM raise Ended; a fit that trains saves its state instead, by a handler of its own."""

    def end(signum: int, frame: FrameType | None) -> None:
        end_in_time(128 + signum)
        logging.disable()  # what libraries say of being ended is no news
        raise Ended

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        logging.disable(logging.NOTSET)


def _show(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:  # a reader such as head has seen enough; what is left goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unknown(verb: str) -> str:
    names = [known.name for known in VERBS]
    close = difflib.get_close_matches(verb, names, n=1)
    said = f"unknown verb {verb!r}" if verb else "a verb is missing"
    return f"{said}{f'; did you mean {close[0]}?' if close else ''} (one of {', '.join(names)})"
