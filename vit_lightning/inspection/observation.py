"""One forward pass of a net that shows what happens inside: attention, norms of tokens, tokens, features."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vit_lightning.errors import InputError
from vit_lightning.models.vit import TakesAttention, ViT


@dataclass
class Observation:
    """What a forward pass showed of `b` images."""

    tokens: Tensor
    """The encoder's output `b n d`."""
    norms: Tensor
    """Norms of the patches behind every block, before the last norm, `(layers, b, patches)`."""
    features: Tensor
    """What the head reads, `b d`."""
    logits: Tensor | None
    """`b classes`; None: the net has no classes."""


class Several:
    """Hands each layer's attention to several takers, and keeps none."""

    def __init__(self, *takers: TakesAttention) -> None:
        self.takers = takers

    def append(self, weights: Tensor) -> None:
        """Takes the attention `b h n n` of the next layer."""
        weights = weights.float() if weights.dtype in (torch.bfloat16, torch.float16) else weights
        for taker in self.takers:
            taker.append(weights)


def checked(net: nn.Module) -> ViT:
    """Returns a net that has attention.

    Raises:
        InputError: it has none.
    """
    if not isinstance(net, ViT):
        variant = getattr(getattr(net, "config", None), "variant", type(net).__name__)
        raise InputError(f"{variant} has no attention to look at; give a ViT or a hybrid, such as B/16 or R50+B/16")
    return net


def blocks_of(net: ViT) -> list[Any]:
    """Returns the blocks of a net, of whose parts torch's type hints know nothing."""
    return list(net.blocks)


@torch.no_grad()
def observe(net: ViT, images: Tensor, *takers: TakesAttention) -> Observation:
    """Returns what a forward pass of normalised images `b c height width` showed.

    Args:
        net: the net, in evaluation mode.
        images: the images.
        takers: each takes the attention `b h n n` of one layer after the other, computed explicitly.
    """
    norms: list[Tensor] = []

    def keep(module: nn.Module, inputs: Any, tokens: Tensor) -> None:
        norms.append(tokens[:, net.num_prefix_tokens :].float().norm(dim=-1))

    with hooked((block.register_forward_hook, keep) for block in blocks_of(net)):
        tokens = net.encode(net.embed(images), Several(*takers))
    features = net.read(tokens)
    logits = net.head(features) if net.num_classes else None
    return Observation(tokens, torch.stack(norms), features, logits)


@contextmanager
def hooked(hooks: Iterable[tuple[Callable[..., Any], Callable[..., Any]]]) -> Iterator[None]:
    """Registers hooks, pairs of a registering method and what it calls, and removes them at the end."""
    handles = [register(call) for register, call in hooks]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
