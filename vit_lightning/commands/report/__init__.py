"""The verb `report`: one HTML file of what a run did, or of how several runs compare."""

from vit_lightning.commands.report.verb import report

__all__ = ["report"]
