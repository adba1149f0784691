"""Pictures of a fit in TensorBoard: the images that the net sees, and which classes it takes for which."""

import io
import math
import time
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from PIL import Image
from torch import Tensor

from vit_lightning.callbacks.class_tables import MOST_IN_A_SQUARE, confusion_picture
from vit_lightning.classifier import Classifier
from vit_lightning.contracts import RecipeTrained
from vit_lightning.runs.loggers import TensorBoard

SHOWN = 32
"""Images of the sheet."""
GAP = 2
"""Pixels between them."""
SHARE = 0.01
"""Share of the run's time that drawing may take."""


class TrainingPictures(Callback):
    """Show in TensorBoard what a run does: pictures, and the norm of the gradient beside its loss.

    The sheet holds the first batch as it reaches the net, after the augmentation on the device and mixing; a run shows
    it once. The confusion matrix of each validation stands there where --model.scores names it and matplotlib is
    installed, as long as drawing takes less than 1 % of the time. train/gradient_norm is the norm before clipping, from
    the norms that FiniteGuard takes anyway. It is read from the device in the steps in which the loss is.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._spent = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._began, self._spent = time.monotonic(), 0.0

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if trainer.global_step or batch_idx or not isinstance(batch, tuple | list) or not _boards(trainer):
            return
        if isinstance(images := batch[0], Tensor) and images.ndim == 4:
            self._show(trainer, "train/images", sheet(images[:SHOWN]), step=0)

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        every = trainer.log_every_n_steps
        if not every or (trainer.global_step + 1) % every or not isinstance(pl_module, RecipeTrained):
            return
        if pl_module.gradient_norms is not None:
            pl_module.log("train/gradient_norm", torch.linalg.vector_norm(pl_module.gradient_norms))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking or not isinstance(pl_module, Classifier) or not _boards(trainer):
            return
        began = time.monotonic()
        if self._spent > SHARE * (began - self._began) or "confusion" not in (pl_module.hparams.scores or ()):
            return
        summed = pl_module.split_scores["val"].summed
        if summed is None or summed.confusion is None or find_spec("matplotlib") is None:
            return
        names = [str(name) for name in pl_module.scored_names("val") or range(summed.confusion.classes)]
        if len(names) <= MOST_IN_A_SQUARE:
            picture = np.asarray(Image.open(io.BytesIO(confusion_picture(summed.confusion, names))).convert("RGB"))
            self._show(trainer, "val/confusion", picture, trainer.global_step)
        self._spent += time.monotonic() - began

    def _show(self, trainer: Trainer, name: str, picture: np.ndarray, step: int) -> None:
        for board in _boards(trainer):
            board.opened = True
            board.experiment.add_image(name, picture, step, dataformats="HWC")


def sheet(images: Tensor) -> np.ndarray:
    """Return images `b c y x`, uint8 or float in [0, 1], side by side in a near square, as bytes `(y, x, 3)`."""
    if images.is_floating_point():
        images = images.float().nan_to_num().clamp(0, 1).mul(255).round().byte()
    tiles = images[:, :3].cpu()
    tiles = tiles if tiles.shape[1] == 3 else tiles[:, :1].expand(-1, 3, -1, -1)
    b, c, y, x = tiles.shape
    columns = math.ceil(math.sqrt(b))
    rows = math.ceil(b / columns)
    whole = np.full((rows * (y + GAP) - GAP, columns * (x + GAP) - GAP, c), 255, np.uint8)
    for i, tile in enumerate(tiles.permute(0, 2, 3, 1).numpy()):
        top, left = i // columns * (y + GAP), i % columns * (x + GAP)
        whole[top : top + y, left : left + x] = tile
    return whole


def _boards(trainer: Trainer) -> list[TensorBoard]:
    return [one for one in trainer.loggers if isinstance(one, TensorBoard)] if trainer.is_global_zero else []
