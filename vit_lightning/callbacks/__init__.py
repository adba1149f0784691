"""Callbacks of a run: the plan, progress, predictions, guards and measurements."""

from vit_lightning.callbacks.few_shot import FewShot
from vit_lightning.callbacks.hyper_rule import HyperRule
from vit_lightning.callbacks.require import Require

__all__ = ["FewShot", "HyperRule", "Require"]
