"""The run verbs as methods of the Trainer, where LightningCLI looks for subcommands."""

from importlib import import_module

from vit_lightning.commands import LIGHTNING_VERBS, named
from vit_lightning.runs.checkpoints import WholeCheckpoints

OWN_VERBS = tuple(name for name in named("run") if name not in LIGHTNING_VERBS)


class VerbTrainer(WholeCheckpoints):
    """Lightning's Trainer, with our run verbs."""


for name in OWN_VERBS:
    setattr(VerbTrainer, name, getattr(import_module(f"vit_lightning.commands.{name}"), name))
