"""The verb `doctor`: what is wrong with data, config and machine, and how to mend it."""

from vit_lightning.commands.doctor.verb import doctor

__all__ = ["doctor"]
