"""Fitting a tensor of the weights to a net with another grid of patches, patch size or number of channels."""

from typing import Literal

import torch
from einops import rearrange, reduce, repeat
from torch import Tensor
from torch.nn.functional import interpolate

from vit_lightning.errors import InputError
from vit_lightning.models.position import resample
from vit_lightning.weights.table import Net

Resampling = Literal["bilinear", "bicubic"]


def fit(name: str, tensor: Tensor, own: Net, net: Net, resampling: Resampling, adapt: bool) -> tuple[Tensor, str]:
    """Returns a tensor that fits the net, and in words what was done to it; empty: nothing.

    Args:
        name: our name of the tensor.
        tensor: its values in the weights.
        own: the net that the weights are for.
        net: the net to fill.
        resampling: how position tables get to another grid.
        adapt: whether other patch sizes and numbers of channels may be fitted too.

    Raises:
        InputError: the tensor cannot fit, or may not be fitted.
    """
    if ".position." in f".{name}" and own.grid != net.grid:
        return _positions(name, tensor, own, net, resampling)
    if name in ("patches.proj.weight", "stem.conv_root.weight", "conv_root.weight"):
        return _first_layer(tensor, own, net, adapt)
    expected = net.state_dict()[name].shape
    if tensor.shape != expected:
        raise InputError(f"{name} is {tuple(tensor.shape)} in the weights, but {tuple(expected)} in the net: {_FIX}.")
    return tensor, ""


_FIX = "set the net's fields as the weights have them"


def _positions(name: str, tensor: Tensor, own: Net, net: Net, resampling: Resampling) -> tuple[Tensor, str]:
    (rows, columns), (new_rows, new_columns) = own.grid, net.grid
    kind = name.rpartition(".")[2]
    if own.config.position == "learned":
        tensor = resample(tensor, own.grid, net.grid, int(own.config.class_token), resampling)
    elif kind == "rows":
        tensor = resample(tensor[None], (rows, 1), (new_rows, 1), 0, resampling)[0]
    elif kind == "columns":
        tensor = resample(tensor[None], (1, columns), (1, new_columns), 0, resampling)[0]
    elif own.config.position == "relative":
        raise InputError(
            f"Relative positions for {rows}x{columns} patches cannot be fitted to {new_rows}x{new_columns}: "
            f"set image_size to {own.image_size}, the weights' own."
        )
    return tensor, f"{rows}x{columns} -> {new_rows}x{new_columns} patches, {resampling}"


def _first_layer(weight: Tensor, own: Net, net: Net, adapt: bool) -> tuple[Tensor, str]:
    """Fits what reads the image, or the stem's map."""
    old, new = own.config, net.config
    done = []
    for what, before, after in (("patch", old.patch, new.patch), ("channels", old.channels, new.channels)):
        if before != after:
            done.append(f"{what} {before} -> {after}")
            if not adapt:
                raise InputError(
                    f"The weights have net.{what}={before}, but the net has {after}: set it to {before}, "
                    f"or ask with adapt for the first layer to be fitted."
                )
    flat = weight.ndim == 2
    kernel = rearrange(weight, "d (p q c) -> d c p q", p=old.patch, q=old.patch) if flat else weight
    if old.channels != new.channels and (not flat or not old.stages):
        kernel = with_channels(kernel, new.channels)
    if flat and old.patch != new.patch:
        kernel = with_patch(kernel, new.patch)
    if not done:
        return weight, ""
    return rearrange(kernel, "d c p q -> d (p q c)") if flat else kernel, ", ".join(done)


def with_channels(kernel: Tensor, channels: int) -> Tensor:
    """Returns a kernel `d c p q` for another number of channels that answers alike to grey images.

    Args:
        kernel: the kernel for the channels that it has.
        channels: 1 sums them; more repeat them in turn, scaled to the same sum.
    """
    old = kernel.shape[1]
    if channels == 1:
        return reduce(kernel, "d c p q -> d 1 p q", "sum")
    turns = repeat(kernel, "d c p q -> d (n c) p q", n=-(-channels // old))[:, :channels]
    return turns * (old / channels)


def with_patch(kernel: Tensor, patch: int) -> Tensor:
    """Returns a kernel `d c p q` for another patch size that answers as alike as it can to resized patches.

    The pseudo-inverse of the resizing takes the place of resizing the kernel (FlexiViT, Beyer et al. 2023, section 3.4).

    Args:
        kernel: the kernel for the patch size that it has.
        patch: new side of a patch in pixels.
    """
    old = kernel.shape[-1]
    pixels = rearrange(torch.eye(old * old), "n (p q) -> n 1 p q", p=old)
    resized = interpolate(pixels, size=(patch, patch), mode="bilinear", align_corners=False)
    inverse = torch.linalg.pinv(rearrange(resized, "n 1 p q -> n (p q)"))
    fitted = torch.einsum("mn,dcn->dcm", inverse, rearrange(kernel, "d c p q -> d c (p q)"))
    return rearrange(fitted, "d c (p q) -> d c p q", p=patch)
