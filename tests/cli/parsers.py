"""The real parsers of all verbs, for tests."""

from functools import cache
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

from jsonargparse import auto_parser
from lightning.pytorch.cli import LightningArgumentParser

from vit_lightning.cli.file_verb_parser import FileVerbParser
from vit_lightning.cli.parser import chosen_parser
from vit_lightning.cli.vit_cli import ViTCLI
from vit_lightning.commands import LIGHTNING_VERBS, named


class NotParsedError(Exception):
    """The parser is built, and nothing is parsed."""


class Builder(ViTCLI):
    """The command line that ends once its parser is built."""

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        raise NotParsedError(parser, self._parser(self.line.verb))


@cache
def _run_parsers(verb: str) -> tuple[LightningArgumentParser, LightningArgumentParser]:
    try:
        Builder([verb])
    except NotParsedError as stop:
        return stop.args
    raise AssertionError


def run_parser(verb: str) -> LightningArgumentParser:
    """The parser of a run verb, which is typed first."""
    return _run_parsers(verb)[0]


@cache
def flags_of(verb: str) -> list[str]:
    """Every flag of a verb, as the real parser knows them."""
    if verb in named("run"):
        parsers = [_run_parsers(verb)[1], chosen_parser({})]
    else:
        parsers = [auto_parser(_function(verb), parser_class=FileVerbParser)]
    found = {flag for parser in parsers for action in parser._actions for flag in action.option_strings}
    return sorted(flag for flag in found if flag.startswith("--"))


def defaults(verb: str) -> dict[str, Any]:
    """Own flags of a verb that is a function of ours, with their defaults."""
    parameters = signature(_function(verb)).parameters.values()
    if verb in named("run"):
        parameters = [parameter for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY]
    return {one.name: one.default for one in parameters if one.default is not Parameter.empty}


def _function(verb: str) -> Any:
    assert verb not in LIGHTNING_VERBS
    return getattr(import_module(f"vit_lightning.commands.{verb}"), verb)
