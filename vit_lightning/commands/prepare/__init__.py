"""The verb `prepare`: any data's images as shards."""

from vit_lightning.commands.prepare.verb import prepare

__all__ = ["prepare"]
