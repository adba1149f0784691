"""The verb `inspect`: figures of what a net looks at and what it has learned."""

from vit_lightning.commands.inspect.verb import inspect

__all__ = ["inspect"]
