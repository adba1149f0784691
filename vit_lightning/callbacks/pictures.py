"""Pictures of a fit in TensorBoard: the images that the net sees, where it looks, and which classes it mixes up."""

import io
import math
import time
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.strategies import ModelParallelStrategy
from lightning.pytorch.utilities import rank_zero_warn
from PIL import Image
from torch import Tensor

from vit_lightning.callbacks.class_tables import MOST_IN_A_SQUARE, confusion_picture
from vit_lightning.classifier import Classifier
from vit_lightning.contracts import RecipeTrained
from vit_lightning.inspection.attention import Rollout, reads_of
from vit_lightning.inspection.drawing.photographs import stretched
from vit_lightning.inspection.observation import Several
from vit_lightning.models.vit import ViT
from vit_lightning.runs.loggers import TensorBoard
from vit_lightning.training.recipe import RecipeModel

SHOWN = 32
"""Images of the sheet."""
WATCHED = 6
"""Validation images whose rollout is shown."""
MOST_ENTRIES = 2**25
"""Of the attention of a layer, 128 MiB in fp32; fewer images are watched where they would have more."""
GAP = 2
"""Pixels between them."""
SHARE = 0.01
"""Share of the run's time that drawing may take, half of it for each kind of picture."""


class TrainingPictures(Callback):
    """Show in TensorBoard what a run does: pictures, and the norm of the gradient beside its loss.

    The sheet holds the first batch as it reaches the net, after the augmentation on the device and mixing; a run shows
    it once. val/rollout shows some images of the first validation batch, the same ones every time, and below each the
    image times its attention rollout; not where a strategy has parted the net. The confusion matrix of each validation
    stands there where --model.scores names it and matplotlib is installed. Each is drawn as long as drawing it takes
    less than 0.5 % of the time. train/gradient_norm is the norm before clipping, from
    the norms that FiniteGuard takes anyway. It is read from the device in the steps in which the loss is.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._spent: dict[str, float] = {}
        self._watched: Tensor | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._began, self._spent = time.monotonic(), {}

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

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if self._watched is not None or batch_idx or dataloader_idx or not isinstance(batch, tuple | list):
            return
        if isinstance(images := batch[0], Tensor) and images.ndim == 4:
            places = np.linspace(0, len(images) - 1, min(WATCHED, len(images))).round()
            self._watched = images[places.astype(int).tolist()].clone()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking or not _boards(trainer):
            return
        for show in (self._show_rollout, self._show_confusion):
            began, spent = time.monotonic(), self._spent.get(show.__name__, 0.0)
            if spent <= SHARE / 2 * (began - self._began):
                try:
                    show(trainer, pl_module)
                    self._spent[show.__name__] = spent + time.monotonic() - began
                except Exception as error:  # a run does not end for want of a picture
                    rank_zero_warn(f"a picture for TensorBoard is left out from now on ({error})")
                    self._spent[show.__name__] = math.inf

    def _show_rollout(self, trainer: Trainer, model: LightningModule) -> None:
        """A net that is parted over processes answers only where all of them ask it."""
        if self._watched is None or not isinstance(model, RecipeModel) or not isinstance(model.net, ViT):
            return
        if isinstance(trainer.strategy, ModelParallelStrategy):
            return
        net = model.net
        tokens = net.num_prefix_tokens + net.grid[0] * net.grid[1]
        images = self._watched[: MOST_ENTRIES // (net.config.heads * tokens**2)]
        if len(images):
            taker, precision = Rollout(net.grid, net.num_prefix_tokens, reads_of(net.config)), trainer.precision_plugin
            with precision.forward_context():
                net.encode(net.embed(precision.convert_input(model.normalise(images))), Several(taker))
            self._show(trainer, "val/rollout", rollout_sheet(images, taker.result()), trainer.global_step)

    def _show_confusion(self, trainer: Trainer, model: LightningModule) -> None:
        if not isinstance(model, Classifier) or "confusion" not in (model.hparams.scores or ()):
            return
        summed = model.split_scores["val"].summed
        if summed is None or summed.confusion is None or find_spec("matplotlib") is None:
            return
        names = [str(name) for name in model.scored_names("val") or range(summed.confusion.classes)]
        if len(names) <= MOST_IN_A_SQUARE:
            picture = np.asarray(Image.open(io.BytesIO(confusion_picture(summed.confusion, names))).convert("RGB"))
            self._show(trainer, "val/confusion", picture, trainer.global_step)

    def _show(self, trainer: Trainer, name: str, picture: np.ndarray, step: int) -> None:
        for board in _boards(trainer):
            board.opened = True
            board.experiment.add_image(name, picture, step, dataformats="HWC")


def sheet(images: Tensor, columns: int | None = None) -> np.ndarray:
    """Return images `b c y x`, uint8 or float in [0, 1], side by side as bytes `(y, x, 3)`.

    Args:
        images: The images.
        columns: How many are in a row; None: as many as make it nearly square.
    """
    if images.is_floating_point():
        images = images.float().nan_to_num().clamp(0, 1).mul(255).round().byte()
    tiles = images[:, :3].cpu()
    tiles = tiles if tiles.shape[1] == 3 else tiles[:, :1].expand(-1, 3, -1, -1)
    b, c, y, x = tiles.shape
    columns = columns or math.ceil(math.sqrt(b))
    rows = math.ceil(b / columns)
    whole = np.full((rows * (y + GAP) - GAP, columns * (x + GAP) - GAP, c), 255, np.uint8)
    for i, tile in enumerate(tiles.permute(0, 2, 3, 1).numpy()):
        top, left = i // columns * (y + GAP), i % columns * (x + GAP)
        whole[top : top + y, left : left + x] = tile
    return whole


def rollout_sheet(images: Tensor, maps: Tensor) -> np.ndarray:
    """Return images `b c y x` in a row, and below each the image times its rollout, `(b, y, x)`, as bytes."""
    unit = images.float().cpu() / (1 if images.is_floating_point() else 255)
    size = unit.shape[-2:]
    seen = torch.stack([torch.from_numpy(stretched(one, size)) for one in maps.float().cpu().numpy()])
    return sheet(torch.cat([unit, unit * seen[:, None]]), columns=len(images))


def _boards(trainer: Trainer) -> list[TensorBoard]:
    return [one for one in trainer.loggers if isinstance(one, TensorBoard)] if trainer.is_global_zero else []
