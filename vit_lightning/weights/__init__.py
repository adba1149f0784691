"""Weights from anywhere: `load_net` builds the net that a file is for, `load_into` fills a net that exists."""

from vit_lightning.weights.load import OpenedWeights, load_into, load_net, open_weights
from vit_lightning.weights.report import Report

__all__ = ["OpenedWeights", "Report", "load_into", "load_net", "open_weights"]
