"""The parsers of run verbs and of file verbs: errors in one sentence, and the complete help."""

import re
from argparse import SUPPRESS, Action, RawDescriptionHelpFormatter
from collections.abc import Mapping
from typing import Any

from jsonargparse import ArgumentParser, DefaultHelpFormatter
from lightning.pytorch.cli import LightningArgumentParser

from vit_lightning.cli.config_files import DATA_FACTS
from vit_lightning.cli.help import OUR_SENTENCES, PROGRAM, usage
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
TITLES = {
    "trainer": "Trainer, Lightning's own flags",
    "model": "Model",
    "data": "Data",
    "checkpoint": "Best checkpoint",
    "last": "Last checkpoint",
    "early_stopping": "Early stopping",
}


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


class ViTParser(LightningArgumentParser):
    """Parser of a run verb that reports wrong arguments without a wall of usage."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"prog": PROGRAM, "formatter_class": CompleteFormatter} | kwargs)
        self.chosen: dict[str, type] = {}
        """Classes of the model and the data, by these names, whose flags the complete help shows."""

    def error(self, message: str, ex: Exception | None = None) -> None:
        raise InputError(message) from ex

    def format_help(self) -> str:
        """The complete list of flags; those of the model and of the data that are chosen first."""
        if "trainer" not in self.groups:  # that of --data.help NAME, which does not know the verb
            self.usage = f"{PROGRAM} VERB [--flag value ...]"
            return super().format_help()
        for action in self._actions:
            action.help = OUR_SENTENCES.get(action.dest, (action.help,))[0]
        for name, title in TITLES.items():
            self.groups[name].title = title
        self.usage, self.description = SUPPRESS, None
        verb = self.prog.replace(" [options]", "").rpartition(" ")[2]
        data = self.chosen["data"].__name__ if self.chosen else "every data set"
        more = f"The flags of data are those of {data}; {verb} --data NAME --help all shows those of another data set."
        return f"{usage(verb)}\n\n{chosen_parser(self.chosen).format_help()}\n{super().format_help()}\n{more}\n"


def chosen_parser(chosen: Mapping[str, type]) -> LightningArgumentParser:
    """Parser of the flags that a class chosen at run time would hide.

    Args:
        chosen: Classes of the model and the data; unset: the default model's, and what every datamodule has.
    """
    from vit_lightning.classifier import Classifier
    from vit_lightning.data import ImageDataModule

    parser = LightningArgumentParser(usage=SUPPRESS, add_help=False, description="", formatter_class=CompleteFormatter)
    parser.add_class_arguments(chosen.get("model", Classifier), "model", skip=set(DATA_FACTS))
    parser.add_class_arguments(chosen.get("data", ImageDataModule), "data", instantiate=False)
    return parser


def without_markup(text: str) -> str:
    """A sentence without reST's roles and double backticks."""
    return re.sub(r"(?::\w+:)?(`+)~?(.+?)\1", r"\2", text, flags=re.DOTALL)


def _is_offered(name: str) -> bool:
    return not name.startswith("vit_lightning.") or name in OFFERED
