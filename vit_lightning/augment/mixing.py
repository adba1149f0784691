"""Mixing the images and labels of a batch, on the device that holds them.

The draws are host numbers from torch's generator, so that nothing waits for the device.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torchvision.transforms import v2

from vit_lightning.errors import InputError

Mix = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def mixer(mixup_alpha: float, cutmix_alpha: float, num_classes: int) -> Mix | None:
    """Return what mixes a batch, or None if both alphas are 0; with both, each batch gets one of them.

    The batch is float images `(b, c, y, x)` with labels `(b)` or float `(b, classes)`, of any size: an image is mixed
    with the one before it, the first with the last. Targets come out float `(b, classes)`; one image alone stays.

    Args:
        mixup_alpha: Beta parameter of MixUp; 0 turns it off.
        cutmix_alpha: Beta parameter of CutMix; 0 turns it off.
        num_classes: classes of the targets.
    """
    kinds = [kind(alpha=alpha) for kind, alpha in ((MixUp, mixup_alpha), (v2.CutMix, cutmix_alpha)) if alpha > 0]
    if not kinds:
        return None
    choice = v2.RandomChoice(kinds)

    def mix(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return choice(images, to_targets(labels, num_classes))

    return mix


class MixUp(v2.MixUp):
    """MixUp as big_vision draws it: one share per batch, and every image keeps the larger part of itself."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        share = super().make_params(flat_inputs)["lam"]
        return {"lam": max(share, 1 - share)}

    def transform(self, inpt: Tensor, params: dict[str, Any]) -> Tensor:
        """Mix images, or targets, in two passes over them; torchvision's own takes four."""
        return torch.lerp(inpt.roll(1, 0), inpt, params["lam"])


def to_targets(labels: Tensor, num_classes: int) -> Tensor:
    """Return float targets `(b, classes)`. Labels on an accelerator are not looked at: that would wait for it."""
    if labels.ndim == 2:
        return labels.float()
    if labels.device.type == "cpu" and labels.max() >= num_classes:
        raise InputError(
            f"a batch to mix has label {labels.max()}, outside the {num_classes} classes 0 to {num_classes - 1}"
        )
    return one_hot(labels, num_classes).float()
