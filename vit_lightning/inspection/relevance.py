"""Which patches speak for a class: with the head alone, or with gradients through the attention of all layers."""

from typing import Any

import torch
from einops import rearrange, reduce, repeat
from torch import Tensor, nn

from vit_lightning.inspection.attention import reads_of, row_read
from vit_lightning.inspection.observation import blocks_of, hooked
from vit_lightning.models.vit import ViT


@torch.no_grad()
def patch_logits(net: ViT, tokens: Tensor, classes: Tensor) -> Tensor:
    """Returns the logit of an image's class for each patch, `(b, y, x)`, without any gradient.

    The head reads one patch alone in the place of what it reads of the image: for a mean over patches this is the
    class activation map (Zhou et al., 2016), for a class token the patch in the class token's space (Vilas et al.,
    2023). Side by side with the class token, the patch stands for the mean.

    Args:
        net: the net, in evaluation mode.
        tokens: the encoder's output `b n d`.
        classes: a class per image, `(b,)`.
    """
    prefix, maps = net.num_prefix_tokens, []
    for image, wanted in zip(tokens, classes.tolist(), strict=True):
        patches = rearrange(image[prefix:], "n d -> n 1 d")
        if net.config.pool == "token":
            alone = patches
        else:
            alone = torch.cat([repeat(image[:prefix], "m d -> n m d", n=len(patches)), patches], dim=1)
        maps.append(net.head(net.read(alone))[:, wanted])
    return rearrange(torch.stack(maps), "b (y x) -> b y x", y=net.grid[0], x=net.grid[1])


def gradient_relevance(net: ViT, images: Tensor, classes: Tensor) -> Tensor:
    """Returns how much each patch speaks for an image's class, `(b, y, x)`, 0 or more.

    A rollout in which the attention of every head is weighted by the gradient of the logit, and what is negative is
    left out before heads are averaged (Chefer et al., 2021, arXiv 2103.15679).

    Args:
        net: the net, in evaluation mode.
        images: normalised, `b c height width`.
        classes: a class per image, `(b,)`.
    """
    values: list[Tensor] = []
    outputs: list[Tensor] = []

    def keep_values(module: nn.Module, inputs: Any, output: Tensor) -> None:
        values.append(output.detach().chunk(3, dim=-1)[2])

    def keep_outputs(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        outputs.append(inputs[0])

    attention: list[Tensor] = []
    parts = [block.attention for block in blocks_of(net)]
    hooks: list[Any] = [(part.qkv.register_forward_hook, keep_values) for part in parts]
    hooks += [(part.out.register_forward_pre_hook, keep_outputs) for part in parts]
    with torch.inference_mode(False):
        with torch.no_grad():
            first = net.place(net.embed(images.clone()))
            net.through_blocks(first, attention)
        with torch.enable_grad(), hooked(hooks):
            tokens = net.through_blocks(first.requires_grad_())
            score = net.head(net.read(tokens)).gather(1, classes.clone()[:, None]).sum()
            gradients = torch.autograd.grad(score, outputs)
    return _rolled(net, attention, values, gradients)


@torch.no_grad()
def _rolled(net: ViT, attention: list[Tensor], values: list[Tensor], gradients: tuple[Tensor, ...]) -> Tensor:
    """Returns the maps: the gradient for a weight is that for its query's output times its key's value."""
    b, _, n, _ = attention[0].shape
    total = torch.eye(n).to(attention[0]).expand(b, n, n)
    for weights, value, gradient in zip(attention, values, gradients, strict=True):
        by_head = (rearrange(each, "b n (h k) -> b h n k", h=weights.shape[1]).float() for each in (gradient, value))
        towards, read = by_head
        speaks = (weights * (towards @ read.transpose(-1, -2))).clamp(min=0)
        total = total + reduce(speaks, "b h i j -> b i j", "mean") @ total
    reads = reads_of(net.config)
    own = 0 if reads == "token" else 1 / (net.grid[0] * net.grid[1])  # what the identity adds to every patch
    return row_read(total, net.grid, net.num_prefix_tokens, reads) - own
