"""The verb `probe`: how well simple classifiers do on the features of a frozen net."""

from vit_lightning.commands.probe.verb import probe

__all__ = ["probe"]
