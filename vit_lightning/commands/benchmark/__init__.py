"""The verb `benchmark`: images per second of training, inference, a fit and the loaders, beside peers."""

from vit_lightning.commands.benchmark.verb import benchmark

__all__ = ["benchmark"]
