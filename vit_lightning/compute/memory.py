"""What a training step holds in a device's memory at its peak, estimated from the net's config."""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from vit_lightning.models import NetConfig, build, resolve
from vit_lightning.models.config import ResolvedConfig, as_pair, grid_of, is_resnet, is_timm, patches_kept
from vit_lightning.models.fast.fast_path import fusible_net

Trained = Literal["all", "biases", "head"]
PROBED = 2
"""Images of the pass that finds what a convolutional net keeps: batch norm cannot train on one."""
OF_FP32 = {2: 0.75, 4: 1.0, 8: 2.0}
"""Share of what a convolutional net keeps in fp32, by bytes of a number: in mixed precision its norms stay in fp32."""


@dataclass(frozen=True)
class Step:
    """What decides the memory of a training step, on one device.

    Args:
        batch: Images.
        activation_bytes: Bytes of a number that matrix products read.
        stream_bytes: Bytes of a number that blocks hand on; more in mixed precision.
        on_gpu: Whether the fast path may be taken.
        recompute: Whether blocks keep their input alone.
        trained: What the backward pass is for.
    """

    batch: int
    activation_bytes: int = 4
    stream_bytes: int = 4
    on_gpu: bool = False
    recompute: bool = False
    trained: Trained = "all"


class TrainingMemory(NamedTuple):
    """Bytes on one device at the end of a forward pass, where a step's peak is."""

    weights: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        return sum(self)


def activations(config: NetConfig, image_size: int | tuple[int, int], num_classes: int, step: Step) -> int:
    """Return the bytes that a step's forward pass keeps for its backward pass, and what that needs on top.

    Args:
        config: variant and overridden fields.
        image_size: side in pixels, or (y, x).
        num_classes: size of the logits.
        step: batch, arithmetic, and what is trained.
    """
    config, size = resolve(config), as_pair(image_size)
    images = 2 * 4 * config.channels * math.prod(size)  # as they arrive, and normalised
    logits = 4 * 4 * num_classes  # logits, targets, their softmax, its gradient
    is_encoder = not is_timm(config) and not is_resnet(config)
    each, once = _encoder(config, size, step) if is_encoder else 0.0, 0.0
    if not is_encoder or (config.stages and step.trained != "head"):
        net = _without_storage(config, size, num_classes)
        of_convolutions, once = _kept(net.stem if is_encoder else net, config.channels, size, step)  # type: ignore[arg-type]
        each += of_convolutions
    return int(step.batch * (images + logits + each) + once)


def _without_storage(config: ResolvedConfig, size: tuple[int, int], num_classes: int) -> nn.Module:
    """Return the net without storage."""
    with torch.device("meta"):
        return build(config, size, num_classes)


def _encoder(config: ResolvedConfig, size: tuple[int, int], step: Step) -> float:
    """Bytes of an image from its patches to its pooled token."""
    d, e, s = config.width, step.activation_bytes, step.stream_bytes
    patches = patches_kept(config, math.prod(grid_of(config, size)))
    n = patches + config.prefix_tokens
    fused = step.on_gpu and e == 2 and fusible_net(config)
    s = e if fused else s
    block = n * _block_token(config, n, size, step, fused)
    passing = n * (2 * config.mlp * e + 4 * d * s)  # gradients of the widest layer, on their way through a block
    if step.trained == "head":  # nothing is kept, and the widest layer passes by
        return passing
    pixels = config.patch**2 * (config.channels if not config.stages else 0)
    around = n * (pixels * e * (step.trained == "all") + 2 * d * s)
    blocks = config.depth * (2 if config.attention == "axial" else 1)
    if step.recompute:
        return around + blocks * n * d * s * (2 if fused else 1) + block + passing
    full = blocks
    if config.pool == "token" and config.attention == "global" and config.position != "relative":
        full -= 1  # of the last block a class token needs keys and values alone
        around += n * (d * s + 3 * d * e)
    return around + full * block + passing


def _block_token(config: ResolvedConfig, n: int, size: tuple[int, int], step: Step, fused: bool) -> float:
    """Bytes that a block keeps of a token: inputs of norms, layers and GELU; queries, keys and values; what they mix.

    A layer whose kernel is frozen does not keep its input; the fast path's layers keep it all the same.
    """
    d, m, e = config.width, config.mlp, step.activation_bytes
    frozen = step.trained == "biases" and not fused
    inputs = 0 if frozen else 2 * d
    wide = (4 if config.swiglu else 2) * m - (m if frozen else 0)
    kept: float = 2 * d * (e if fused else step.stream_bytes) + (inputs + 4 * d + wide) * e
    if fused:
        return kept + 4 * (config.heads + 4)
    if config.layer_scale:
        kept += 2 * d * e
    if config.dropout:
        kept += (2 * d + m) * (1 if step.on_gpu else e)
    if config.position == "relative":  # attention is kept: its fused form takes no learned bias
        length = sum(grid_of(config, size)) / 2 if config.attention == "axial" else n
        kept += 3 * config.heads * length * e
    return kept


def _kept(net: nn.Module, channels: int, size: tuple[int, int], step: Step) -> tuple[float, float]:
    """Bytes that a convolutional net keeps of each image, and of its kernels, as autograd saves them on two batches."""
    few, more = (_saved(net, torch.empty(images, channels, *size, device="meta")) for images in (PROBED, 2 * PROBED))
    each = (sum(more) - sum(few)) / PROBED
    if step.trained == "head":
        return 2 * max(few) / PROBED, 0.0
    return each * OF_FP32[step.activation_bytes], sum(few) - PROBED * each


def _saved(net: nn.Module, images: Tensor) -> list[int]:
    """Bytes of every tensor that a training pass saves, weights aside."""
    own = {id(tensor.untyped_storage()) for tensor in (*net.parameters(), *net.buffers())}
    saved: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if id(storage) not in own:
            saved[id(storage)] = storage  # kept, so that no other gets its id
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        net.train()(images)
    return [storage.nbytes() for storage in saved.values()]
