"""Which patches speak for a class: without gradients, or with those of the attention of all layers."""

from collections.abc import Callable
from typing import Any

import torch
from einops import einsum, rearrange, reduce, repeat
from torch import Tensor, nn
from torch.nn.functional import linear

from vit_lightning.inspection.attention import reads_of, row_read
from vit_lightning.inspection.observation import blocks_of, hooked
from vit_lightning.models.dense import Dense
from vit_lightning.models.vit import ViT


@torch.no_grad()
def gradient_free_relevance(net: ViT, images: Tensor, classes: Tensor) -> Tensor:
    """Returns how much each patch speaks for an image's class, or against it, `(b, y, x)`, without gradients.

    Where the head reads the class token, it is what the patch adds to the logit through the attention of that token in
    all layers, with the last norm held still (Gandelsman et al., 2024, arXiv 2310.05916). Elsewhere it is the logit
    where the head reads that patch alone, in place of all: for a mean over patches the class activation map (Zhou et
    al., 2016). Side by side with the class token, the patch stands for the mean.

    Args:
        net: the net, in evaluation mode.
        images: normalised, `b c height width`.
        classes: a class per image, `(b,)`.
    """
    if net.config.pool == "token":
        found = _added_by_attention(net, images, classes)
    else:
        tokens = net.through_blocks(net.place(net.embed(images)))
        found = torch.stack([_logits_alone(net, *pair) for pair in zip(tokens, classes, strict=True)])
    return rearrange(found, "b (y x) -> b y x", y=net.grid[0], x=net.grid[1])


def _logits_alone(net: ViT, tokens: Tensor, wanted: Tensor) -> Tensor:
    """Returns the logit of a class for each patch of an image's tokens `n d`."""
    patches = rearrange(tokens[net.num_prefix_tokens :], "n d -> n 1 d")
    prefix = repeat(tokens[: net.num_prefix_tokens], "m d -> n m d", n=len(patches))
    logits: Tensor = net.head(net.read(torch.cat([prefix, patches], dim=1)))
    return logits[:, wanted]


def _added_by_attention(net: ViT, images: Tensor, classes: Tensor) -> Tensor:
    """Returns what the patches add to the logit through the class token's attention, `(b, patches)`."""
    parts: list[Tensor] = []

    def keep(block: Any) -> Callable[..., None]:
        def mix(module: Any, inputs: tuple[Tensor, ...]) -> None:
            values = module.split(inputs[0])[2]
            weights = module.weights(inputs[0])[:, :, 0]
            by_head = rearrange(weights[..., None] * values, "b h n k -> b n (h k)")
            written = linear(by_head, module.out.kernel)
            parts.append(written if block.scale1 is None else written * block.scale1)

        return mix

    blocks = blocks_of(net)
    with hooked((block.attention.register_forward_pre_hook, keep(block)) for block in blocks):
        first = net.place(net.embed(images))
        outputs: list[Tensor] = []
        with hooked([(blocks[-1].register_forward_hook, lambda module, inputs, tokens: outputs.append(tokens[:, 0]))]):
            tokens = net.through_blocks(first)
    direction = _direction(net, tokens, classes) * net.norm.weight
    deviation = (outputs[0].var(dim=-1, correction=0, keepdim=True) + net.norm.eps).sqrt()
    added = torch.stack(parts).sum(0)[:, net.num_prefix_tokens :]
    centred = added - added.mean(-1, keepdim=True)
    return einsum(centred, direction / deviation, "b n d, b d -> b n")


def _direction(net: ViT, tokens: Tensor, classes: Tensor) -> Tensor:
    """Returns along what a normed class token raises the logit of a class, `(b, d)`; through a tanh layer, near it."""
    assert isinstance(net.head, Dense)
    rows = net.head.kernel[classes]
    if not isinstance(net.representation, Dense):
        return rows
    slopes = 1 - net.representation(tokens[:, 0]).square()
    return (rows * slopes) @ net.representation.kernel


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
    total = torch.eye(n, device=attention[0].device).expand(b, n, n)
    for weights, value, gradient in zip(attention, values, gradients, strict=True):
        by_head = (rearrange(each, "b n (h k) -> b h n k", h=weights.shape[1]).float() for each in (gradient, value))
        towards, read = by_head
        speaks = (weights.float() * (towards @ read.transpose(-1, -2))).clamp(min=0)
        total = total + reduce(speaks, "b h i j -> b i j", "mean") @ total
    reads = reads_of(net.config)
    own = 0 if reads == "token" else 1 / (net.grid[0] * net.grid[1])  # what the identity adds to every patch
    return row_read(total, net.grid, net.num_prefix_tokens, reads) - own
