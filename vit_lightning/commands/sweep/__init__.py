"""The verb `sweep`: all runs of a plan, and their tables and figures."""

from vit_lightning.commands.sweep.verb import sweep

__all__ = ["sweep"]
