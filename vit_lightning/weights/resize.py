"""Resizing a tensor of the weights for a net with another grid of patches, patch size or number of channels."""

from typing import Literal

import torch
from einops import einsum, rearrange, reduce, repeat
from torch import Tensor
from torch.nn.functional import interpolate

from vit_lightning.errors import InputError
from vit_lightning.models import Net, TimmNet
from vit_lightning.models.position import resample

Resampling = Literal["bilinear", "bicubic"]
LEAVE_OUT = "leave out --model.net.variant to take the net from the weights"


FLAGS = {"patch": "it", "channels": "--data.channels (or --model.net.channels)"}
FIRST_LAYERS = ("patches.proj.weight", "stem.conv_root.weight", "conv_root.weight")


class Resizer:
    """Resizes tensors of one net for another that differs in its grid of patches, its patches or its channels.

    Args:
        own: the net that the weights are for.
        net: the net to fill.
        resampling: how position tables get to another grid.
        adapt: whether the first layer may be resized for another patch size or number of channels.
        mean, std: how the images of the weights were normalised, per channel; None: alike in all channels.
    """

    def __init__(
        self,
        own: Net,
        net: Net,
        resampling: Resampling,
        adapt: bool = False,
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
    ) -> None:
        self.own, self.net, self.resampling, self.adapt = own, net, resampling, adapt
        alike = (0.5,) * own.config.channels
        self.mean, self.std = torch.tensor(mean or alike), torch.tensor(std or alike)
        self.shift: Tensor | None = None
        """What the first layer's bias becomes more by, once its kernel is that of grey images."""
        self.shapes = {name: tensor.shape for name, tensor in net.state_dict().items()}

    def __call__(self, name: str, tensor: Tensor) -> tuple[Tensor, str]:
        """Returns a tensor that fits the net, and in words what was done to it; empty: nothing.

        Args:
            name: our name of the tensor.
            tensor: its values in the weights.

        Raises:
            InputError: the tensor cannot be resized, or may not.
        """
        how = ""
        if ".position." in f".{name}" and self.own.grid != self.net.grid:
            tensor, how = self._positions(name, tensor)
        elif name in FIRST_LAYERS or (isinstance(self.net, TimmNet) and name == self.net.first_layer):
            tensor, how = self._first_layer(name, tensor)
        elif name == "patches.proj.bias" and self.shift is not None:
            tensor = tensor + self.shift
        if tensor.shape != self.shapes[name]:
            raise InputError(
                f"{name} is {tuple(tensor.shape)} in the weights, but {tuple(self.shapes[name])} in the net: "
                f"set the net's fields as the weights have them, or {LEAVE_OUT}."
            )
        return tensor, how

    def _positions(self, name: str, tensor: Tensor) -> tuple[Tensor, str]:
        config, old, new = self.own.config, self.own.grid, self.net.grid
        kind = name.rpartition(".")[2]
        if config.position == "relative":
            raise InputError(
                f"Relative positions for {old[0]}x{old[1]} patches cannot be fitted to {new[0]}x{new[1]}: "
                f"set image_size to {self.own.image_size}, the weights' own."
            )
        if kind == "table":
            tensor = resample(tensor, old, new, int(config.class_token), self.resampling)
        elif kind == "rows":
            tensor = self._along(tensor, (old[0], 1), (new[0], 1))
        elif kind == "columns":
            tensor = self._along(tensor, (1, old[1]), (1, new[1]))
        return tensor, f"{old[0]}x{old[1]} -> {new[0]}x{new[1]} patches, {self.resampling}"

    def _along(self, table: Tensor, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
        """Returns a table `n d` of one side of the grid for another length."""
        resized = resample(rearrange(table, "n d -> 1 n d"), old, new, 0, self.resampling)
        return rearrange(resized, "1 n d -> n d")

    def _first_layer(self, name: str, weight: Tensor) -> tuple[Tensor, str]:
        """Resizes the layer that reads the image, or in a hybrid the stem's map."""
        patches = name == "patches.proj.weight"
        fields = ["patch"] * patches + ["channels"] * (not patches or not self.own.config.stages)
        changes = [
            (field, old, new)
            for field in fields
            if (old := getattr(self.own.config, field)) != (new := getattr(self.net.config, field))
        ]
        for field, old, new in changes:
            if not self.adapt:
                out = f", or {LEAVE_OUT}" * (field == "patch")
                raise InputError(
                    f"The weights have net.{field}={old}, but the net has {new}: set {FLAGS[field]} to {old}, or "
                    f"let --model.weights_adapt true (of load_into: adapt) fit the first layer{out}."
                )
        size = self.own.config.patch
        kernel = rearrange(weight, "d (p q c) -> d c p q", p=size, q=size) if patches else weight
        for field, _, new in changes:
            if field == "channels" and patches and new == 1:
                kernel, self.shift = of_grey(kernel, self.mean, self.std)
            else:
                kernel = with_patch(kernel, new) if field == "patch" else with_channels(kernel, new)
        fitted = rearrange(kernel, "d c p q -> d (p q c)") if patches else kernel
        return fitted, ", ".join(f"{field} {old} -> {new}" for field, old, new in changes)


def of_grey(kernel: Tensor, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
    """Returns a kernel `d 1 p q`, and what its bias `d` becomes more by, that answer to grey images as colours' did.

    Args:
        kernel: `d c p q`, for images normalised channel by channel.
        mean: `c`; grey images are normalised by the mean of these.
        std: `c`, likewise.
    """
    scaled = kernel / rearrange(std, "c -> c 1 1")
    grey = reduce(scaled * std.mean(), "d c p q -> d 1 p q", "sum")
    return grey, einsum(scaled, mean.mean() - mean, "d c p q, c -> d")


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

    The pseudo-inverse of resizing stands in for resizing the kernel (FlexiViT, Beyer et al. 2023, section 3.4).

    Args:
        kernel: the kernel for the patch size that it has.
        patch: new side of a patch in pixels.
    """
    old = kernel.shape[-1]
    pixels = rearrange(torch.eye(old * old), "n (p q) -> n 1 p q", p=old)
    resized = interpolate(pixels, size=(patch, patch), mode="bilinear", align_corners=False)
    inverse = torch.linalg.pinv(rearrange(resized, "n 1 p q -> n (p q)"))
    fitted = einsum(inverse, rearrange(kernel, "d c p q -> d c (p q)"), "m n, d c n -> d c m")
    return rearrange(fitted, "d c (p q) -> d c p q", p=patch)
