"""What a net costs: exact multiply-accumulates and parameters, from its config alone."""

import math

import torch
from torch.utils.flop_counter import FlopCounterMode

from vit_lightning.models import NetConfig, build, resolve
from vit_lightning.models.config import ResolvedConfig, as_pair, grid_of, is_resnet, is_timm, patches_kept
from vit_lightning.models.resnet import HYBRID_ROOT


def macs(
    config: NetConfig,
    image_size: int | tuple[int, int],
    num_classes: int,
    training: bool = False,
    computed: bool = False,
) -> int:
    """Returns the multiply-accumulates of one image's forward pass; FLOPs are twice as many.

    Counts matrix products and convolutions; norms, softmax, GELU, additions and biases are left out.

    Args:
        config: variant and overridden fields.
        image_size: side in pixels, or (y, x).
        num_classes: size of the logits.
        training: patch dropout leaves out patches.
        computed: count what is computed. The paper's count, the default, is of every token in every block, of whose
            last one a classifier computes what the class token needs.
    """
    config, size = resolve(config), as_pair(image_size)
    if is_timm(config):
        return _counted(config, size, num_classes)
    if is_resnet(config):
        convolutions, channels = _resnet(config, config.width, size)
        return convolutions + channels * num_classes
    stem, channels = _resnet(config, HYBRID_ROOT, size) if config.stages else (0, config.channels)
    patches = math.prod(grid_of(config, size))
    embed = patches * config.patch**2 * channels * config.width
    patches = patches_kept(config, patches) if training else patches
    n = config.prefix_tokens + patches
    left_out = _left_out(config, n) if computed and num_classes else 0
    blocks = config.depth * _block(config, size, n) - left_out
    return stem + embed + blocks + _pool(config, patches) + _head(config, num_classes)


def training_flops(
    config: NetConfig,
    image_size: int | tuple[int, int],
    num_classes: int,
    frozen_trunk: bool = False,
    computed: bool = False,
    bias_only: bool = False,
) -> int:
    """Returns the FLOPs of training on one image: the backward pass costs twice the forward pass.

    Args:
        config: variant and overridden fields.
        image_size: side in pixels, or (y, x).
        num_classes: size of the logits.
        frozen_trunk: only the head is trained, so that the backward pass ends there.
        computed: count what is computed, as for a share of a device's peak; else the paper's count, as for its cost.
        bias_only: no kernel is trained, whose gradients are half of the backward pass.
    """
    config = resolve(config)
    forward = macs(config, image_size, num_classes, training=True, computed=computed)
    if not frozen_trunk:
        return (4 if bias_only else 6) * forward
    r = config.representation
    return 2 * forward + 2 * (r or config.pooled_width) * num_classes


def parameters(config: NetConfig, image_size: int | tuple[int, int], num_classes: int) -> int:
    """Returns the number of parameters, by building the net without storage."""
    with torch.device("meta"):
        net = build(config, image_size, num_classes)
    return sum(parameter.numel() for parameter in net.parameters())


def _counted(config: ResolvedConfig, size: tuple[int, int], num_classes: int) -> int:
    """What torch counts in a forward pass without storage, for a net that no formula describes."""
    with torch.device("meta"):
        # Batch norm could not train on one image.
        net, images = build(config, size, num_classes).eval(), torch.empty(1, config.channels, *size)
    with FlopCounterMode(display=False) as counter:
        net(images)
    return counter.get_total_flops() // 2


def _block(config: ResolvedConfig, size: tuple[int, int], n: int) -> int:
    """A block over n tokens: four projections, MLP, queries with keys and weights with values."""
    d, (rows, columns) = config.width, grid_of(config, size)
    dense = 4 * n * d * d + (3 if config.swiglu else 2) * n * d * config.mlp
    # Relative positions multiply the queries once more.
    products = 3 if config.position == "relative" else 2
    if config.attention == "axial":
        return 2 * dense + products * n * (rows + columns) * d
    return dense + products * n * n * d


def _left_out(config: ResolvedConfig, n: int) -> int:
    """What the last block does not compute of n tokens where the head reads the class token alone."""
    if config.pool != "token" or config.attention != "global" or config.position == "relative" or not config.depth:
        return 0
    d = config.width
    return (n - 1) * (2 * d * d + (3 if config.swiglu else 2) * d * config.mlp + 2 * n * d)


def _resnet(config: ResolvedConfig, root: int, size: tuple[int, int]) -> tuple[int, int]:
    """Root and stages of a ResNet, taps on the padding included, and the channels that come out."""

    def places(scale: int) -> int:
        return math.prod(-(-side // scale) for side in size)

    total, channels = 49 * config.channels * root * places(2), root
    for i, count in enumerate(config.stages):
        mid, out = root * 2**i, 4 * root * 2**i
        before, after = places(2 * 2 ** max(i, 1)), places(4 * 2**i)
        for j in range(count):
            total += channels * mid * (after if j else before) + (9 * mid + out) * mid * after
            total += 0 if j else channels * out * after
            channels = out
    return total, channels


def _pool(config: ResolvedConfig, n: int) -> int:
    """A MAP head: keys and values of n patches, one query, two products, output projection and MLP."""
    d = config.width
    mlp = (3 if config.swiglu else 2) * d * config.mlp
    return (2 * n + 2) * d * d + 2 * n * d + mlp if config.pool == "map" else 0


def _head(config: ResolvedConfig, num_classes: int) -> int:
    """The tanh layer, if there is one, and the head."""
    r = config.representation
    return config.pooled_width * r + (r or config.pooled_width) * num_classes
