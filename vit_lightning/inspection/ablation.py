"""What a net loses without a head or a kind of token: each is replaced by its mean or another image's, not by zero.

Zeros are nothing that a net has ever seen, and overstate what is lost (arXiv 2604.14433).
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from vit_lightning.errors import InputError
from vit_lightning.inspection.observation import blocks_of, hooked
from vit_lightning.models.vit import ViT

Replacement = Literal["mean", "shuffle"]
Advance = Callable[[int], Any]


class Lost(NamedTuple):
    """What is lost, in the mean of all images, by what was replaced."""

    features: Tensor
    """1 - cosine between what the head reads with and without; 0: nothing is lost."""
    changed: Tensor | None
    """Share of the images whose best class changes; None: the net has no classes."""


@torch.no_grad()
def ablate_heads(
    net: ViT, images: Tensor, by: Replacement, batch_size: int = 16, advance: Advance = lambda done: None
) -> Lost:
    """Returns what is lost without each head, `(layers, h)`.

    Args:
        net: the net, in evaluation mode.
        images: normalised, `b c height width`.
        by: what takes the place of a head's output. mean: its mean over the images, place by place; shuffle: that of
            another image.
        batch_size: images that are computed at once.
        advance: is called with how many images are done more.

    Raises:
        InputError: there are fewer than two images.
    """
    heads, width = net.config.heads, net.config.width // net.config.heads
    batches = _batches(images, batch_size)
    means = _means(_head_outputs(net, batch) for batch in batches) if by == "mean" else None
    losses = _Losses(net, (len(net.blocks), heads))
    for batch in batches:
        inputs = _inputs(net, batch)
        losses.begin(net.through_blocks(inputs[-1], start=len(net.blocks)))
        for layer, block in enumerate(blocks_of(net)):
            for head in range(heads):
                part = slice(head * width, (head + 1) * width)
                hook = _without(part, None if means is None else means[layer])
                with hooked([(block.attention.out.register_forward_pre_hook, hook)]):
                    losses.add((layer, head), net.through_blocks(inputs[layer], start=layer))
        advance(len(batch))
    return losses.result()


@torch.no_grad()
def ablate_tokens(
    net: ViT, images: Tensor, by: Replacement, batch_size: int = 16, advance: Advance = lambda done: None
) -> dict[str, Lost]:
    """Returns what is lost where a kind of token is replaced behind each block, `(layers,)` by kind.

    The arguments are those of `ablate_heads`.
    """
    batches = _batches(images, batch_size)
    means = _means(_inputs(net, batch)[1:] for batch in batches) if by == "mean" else None
    losses = {name: _Losses(net, (len(net.blocks),)) for name in groups_of(net)}
    for batch in batches:
        inputs = _inputs(net, batch)
        for name, places in groups_of(net).items():
            losses[name].begin(net.through_blocks(inputs[-1], start=len(net.blocks)))
            for layer in range(len(net.blocks)):
                tokens = inputs[layer + 1].clone()
                tokens[:, places] = tokens[:, places].roll(1, 0) if means is None else means[layer][places]
                losses[name].add((layer,), net.through_blocks(tokens, start=layer + 1))
        advance(len(batch))
    return {name: one.result() for name, one in losses.items()}


def groups_of(net: ViT) -> dict[str, slice]:
    """Returns which tokens of a net are of which kind."""
    first, prefix = int(net.config.class_token), net.num_prefix_tokens
    patches = prefix + net.grid[0] * net.grid[1]
    found = {"class token": slice(0, first), "registers": slice(first, prefix), "patches": slice(prefix, patches)}
    return {name: places for name, places in found.items() if places.stop > places.start}


class _Losses:
    """Sums of what is lost, batch by batch."""

    def __init__(self, net: ViT, shape: tuple[int, ...]) -> None:
        self.net, self.count = net, 0
        self.features, self.changed = torch.zeros(shape).double(), torch.zeros(shape).double()

    def begin(self, tokens: Tensor) -> None:
        """Take the encoder's output for the next images, of which nothing is replaced."""
        self.whole, self.best = self._outcome(tokens)
        self.count += len(tokens)

    def add(self, place: tuple[int, ...], tokens: Tensor) -> None:
        """Take the encoder's output for the same images, of which something is replaced."""
        features, best = self._outcome(tokens)
        self.features[place] += (1 - cosine_similarity(features, self.whole, dim=1)).sum().item()
        self.changed[place] += (best != self.best).sum().item()

    def result(self) -> Lost:
        """Return the means."""
        return Lost(self.features / self.count, self.changed / self.count if self.net.num_classes else None)

    def _outcome(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        features = self.net.read(tokens)
        best = self.net.head(features).argmax(1) if self.net.num_classes else torch.zeros(len(features))
        return features.double(), best


def _batches(images: Tensor, batch_size: int) -> list[Tensor]:
    """Returns batches of two images or more: one alone has no other to be exchanged with."""
    if len(images) < 2:
        raise InputError("what a net loses is measured on two images or more; give more images")
    batches = list(images.split(max(2, batch_size)))
    return batches if len(batches[-1]) > 1 else [*batches[:-2], torch.cat(batches[-2:])]


def _inputs(net: ViT, images: Tensor) -> list[Tensor]:
    """Returns the input of each block, and the last one's output, before the last norm."""
    found = [net.place(net.embed(images))]

    def keep(module: nn.Module, inputs: Any, tokens: Tensor) -> None:
        found.append(tokens)

    with hooked((block.register_forward_hook, keep) for block in blocks_of(net)):
        net.through_blocks(found[0])
    return found


def _head_outputs(net: ViT, images: Tensor) -> list[Tensor]:
    """Returns what the heads of each layer give, side by side, `b n (h k)`."""
    found: list[Tensor] = []

    def keep(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        found.append(inputs[0])

    with hooked((block.attention.out.register_forward_pre_hook, keep) for block in blocks_of(net)):
        net.through_blocks(net.place(net.embed(images)))
    return found


def _means(batches: Any) -> list[Tensor]:
    """Returns the mean over all images of each layer, place by place."""
    sums: Sequence[Tensor] = ()
    count = 0
    for layers in batches:
        parts = [layer.double().sum(0) for layer in layers]
        sums = [total + part for total, part in zip(sums, parts, strict=True)] if sums else parts
        dtype, count = layers[0].dtype, count + len(layers[0])
    return [(total / count).to(dtype) for total in sums]


def _without(part: slice, mean: Tensor | None) -> Callable[..., tuple[Tensor]]:
    """Returns a hook that replaces some channels by those of a mean, or of another image."""

    def replace(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
        outputs = inputs[0].clone()
        outputs[..., part] = inputs[0][..., part].roll(1, 0) if mean is None else mean[..., part]
        return (outputs,)

    return replace
