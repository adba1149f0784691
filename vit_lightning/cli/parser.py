"""The parser of run verbs: errors in one sentence, and the complete help."""

from argparse import SUPPRESS
from collections.abc import Mapping
from typing import Any

from lightning.pytorch.cli import LightningArgumentParser

from vit_lightning.cli.config_files import DATA_FACTS
from vit_lightning.cli.file_verb_parser import CompleteFormatter
from vit_lightning.cli.help import OUR_SENTENCES, PROGRAM, usage
from vit_lightning.errors import InputError

TITLES = {
    "trainer": "Trainer, Lightning's own flags",
    "model": "Model",
    "data": "Data",
    "checkpoint": "Best checkpoint",
    "last": "Last checkpoint",
    "early_stopping": "Early stopping",
}


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
