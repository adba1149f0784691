"""The parser of file verbs and what it shows as help; it imports no Lightning, whose import may take half a minute."""

import re
from argparse import Action, RawDescriptionHelpFormatter
from typing import Any

from jsonargparse import ArgumentParser, DefaultHelpFormatter

from vit_lightning.cli.parser_errors import shorten
from vit_lightning.errors import InputError
from vit_lightning.private_api import let_any_name_be_typed

let_any_name_be_typed()

OFFERED = (
    "vit_lightning.callbacks.FewShot",
    "vit_lightning.callbacks.Require",
    "vit_lightning.classifier.Classifier",
    "vit_lightning.masked_patch.MaskedPatch",
)
"""Classes of ours that help offers; the others are on by themselves."""


class CompleteFormatter(DefaultHelpFormatter):
    """Lightning's and our sentences without markup, and no class of ours that is on by itself."""

    def _get_help_string(self, action: Action) -> str:
        text = without_markup(super()._get_help_string(action))
        head, known, classes = text.partition(", known subclasses: ")
        offered = [name for name in classes.removesuffix(")").split(", ") if _is_offered(name)]
        return f"{head}{known if offered else ''}{', '.join(offered)})" if known else head


class AsTyped(RawDescriptionHelpFormatter, CompleteFormatter):
    """Help whose description keeps its lines, such as those of an example."""


class FileVerbParser(ArgumentParser):
    """Parser of a file verb that reports wrong arguments in one sentence, without a wall of usage."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"formatter_class": AsTyped} | kwargs)

    def format_help(self) -> str:
        """Name a list of values as the one argument that it is to a reader, not in JSON."""
        for action in self._actions:
            if not action.option_strings and str(action.metavar).startswith("["):
                action.metavar = f"{action.dest.upper()} ..."
        return super().format_help()

    def error(self, message: str, ex: Exception | None = None) -> None:
        words = [action.dest for action in self._actions if not action.option_strings]
        known = self.get_defaults(skip_validation=True).keys()
        text = shorten(message, [name for name in known if name not in words], [])
        bare = f" (without a flag: {', '.join(words).upper()})" if text.startswith("there is no flag") else ""
        if len(words) > 1 and text.partition(" is missing")[0] in words:
            bare = f" (this verb takes {' '.join(words).upper()})"
        raise InputError(text + bare) from ex


def without_markup(text: str) -> str:
    """A sentence without reST's roles and double backticks."""
    return re.sub(r"(?::\w+:)?(`+)~?(.+?)\1", r"\2", text, flags=re.DOTALL)


def _is_offered(name: str) -> bool:
    return not name.startswith("vit_lightning.") or name in OFFERED
