"""The two ResNets of the paper: the stem of its hybrids (post-activation) and its baseline BiT (pre-activation).

Both standardise the kernels of their convolutions and normalise by groups; they differ in order, padding and epsilons.
timm has the same nets with other epsilons, and zeros around the map that BiT's first pool reads.
"""

from collections.abc import Callable
from functools import partial
from typing import NoReturn

import torch
from einops import reduce
from torch import Tensor, nn
from torch.nn.functional import conv2d, max_pool2d, pad

from vit_lightning.errors import InputError
from vit_lightning.models.config import ResNetCode, ResolvedConfig, check_images, grid_of
from vit_lightning.models.dense import Dense, lecun_normal_

HYBRID_ROOT = 64
TIMM_EPS = 1e-8
"""Epsilon of timm's standardised kernels, inside the root."""


class GroupNorm(nn.GroupNorm):
    """Group normalisation in 32 groups."""

    def __init__(self, channels: int, eps: float, scale: float = 1.0) -> None:
        self.scale = scale
        super().__init__(32, channels, eps)

    def reset_parameters(self) -> None:
        nn.init.constant_(self.weight, self.scale)
        nn.init.zeros_(self.bias)


class Conv(nn.Conv2d):
    """BiT's convolution: symmetric padding, no bias, standardised kernel with the epsilon inside the root."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, code: ResNetCode = "official"
    ) -> None:
        super().__init__(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
        self.code = code

    def reset_parameters(self) -> None:
        lecun_normal_(self.weight)

    def standardised(self) -> Tensor:
        variance, mean = torch.var_mean(self.weight, dim=(1, 2, 3), correction=0, keepdim=True)
        return (self.weight - mean) * (variance + (TIMM_EPS if self.code == "timm" else 1e-10)).rsqrt()

    def forward(self, maps: Tensor) -> Tensor:
        return conv2d(maps, self.standardised(), stride=self.stride, padding=self.padding)


class SameConv(Conv):
    """The hybrids' convolution: TensorFlow's SAME padding, and in the official code the epsilon beside the root."""

    def standardised(self) -> Tensor:
        if self.code == "timm":
            return super().standardised()
        variance, mean = torch.var_mean(self.weight, dim=(1, 2, 3), correction=0, keepdim=True)
        return (self.weight - mean) / (variance.sqrt() + 1e-5)

    def forward(self, maps: Tensor) -> Tensor:
        if self.stride == (1, 1):
            return super().forward(maps)
        return conv2d(pad_same(maps, self.kernel_size[0], self.stride[0]), self.standardised(), stride=self.stride)


def pad_same(maps: Tensor, kernel: int, stride: int, value: float = 0.0) -> Tensor:
    """Pads the last two axes as TensorFlow's SAME does: just enough, and the odd pixel at the end."""
    sides: list[int] = []
    for size in reversed(maps.shape[2:]):
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        sides += [total // 2, total - total // 2]
    return pad(maps, sides, value=value) if any(sides) else maps


class HybridUnit(nn.Module):
    """Bottleneck that normalises after each convolution (v1); it starts as its shortcut."""

    def __init__(self, inputs: int, mid: int, stride: int, code: ResNetCode = "official") -> None:
        super().__init__()
        conv, norm = partial(SameConv, code=code), partial(GroupNorm, eps=hybrid_eps(code))
        self.conv1, self.norm1 = conv(inputs, mid), norm(mid)
        self.conv2, self.norm2 = conv(mid, mid, 3, stride), norm(mid)
        self.conv3, self.norm3 = conv(mid, 4 * mid), norm(4 * mid, scale=0.0)
        self.project = stride > 1 or inputs != 4 * mid
        if self.project:
            self.conv_proj, self.norm_proj = conv(inputs, 4 * mid, stride=stride), norm(4 * mid)

    def forward(self, maps: Tensor) -> Tensor:
        shortcut = self.norm_proj(self.conv_proj(maps)) if self.project else maps
        maps = self.norm1(self.conv1(maps)).relu()
        maps = self.norm2(self.conv2(maps)).relu()
        return (self.norm3(self.conv3(maps)) + shortcut).relu()


class BiTUnit(nn.Module):
    """Bottleneck that normalises before each convolution (v2)."""

    def __init__(self, inputs: int, mid: int, stride: int, code: ResNetCode = "official") -> None:
        super().__init__()
        conv, norm = partial(Conv, code=code), partial(GroupNorm, eps=1e-5)
        self.norm1, self.conv1 = norm(inputs), conv(inputs, mid)
        self.norm2, self.conv2 = norm(mid), conv(mid, mid, 3, stride)
        self.norm3, self.conv3 = norm(mid), conv(mid, 4 * mid)
        self.project = stride > 1 or inputs != 4 * mid
        if self.project:
            self.conv_proj = conv(inputs, 4 * mid, stride=stride)

    def forward(self, maps: Tensor) -> Tensor:
        active = self.norm1(maps).relu()
        shortcut = self.conv_proj(active) if self.project else maps
        branch = self.conv2(self.norm2(self.conv1(active)).relu())
        return self.conv3(self.norm3(branch).relu()) + shortcut


def hybrid_eps(code: ResNetCode) -> float:
    """Returns the epsilon of the hybrids' group normalisation."""
    return 1e-5 if code == "timm" else 1e-6


def stack(unit: Callable[..., nn.Module], root: int, stages: tuple[int, ...]) -> tuple[nn.Sequential, int]:
    """Returns the stages of units behind a root of so many channels, and the channels that come out."""
    layers, channels = nn.Sequential(), root
    for i, count in enumerate(stages):
        stage, mid = nn.Sequential(), root * 2**i
        for j in range(count):
            stage.append(unit(channels, mid, stride=2 if i and not j else 1))
            channels = 4 * mid
        layers.append(stage)
    return layers, channels


class Stem(nn.Module):
    """The ResNet in front of a hybrid: images to the map that is patched.

    Args:
        channels: channels of the images.
        stages: units per stage; (0,) is the root alone.
        code: whose epsilons it has.
    """

    def __init__(self, channels: int, stages: tuple[int, ...], code: ResNetCode = "official") -> None:
        super().__init__()
        self.conv_root = SameConv(channels, HYBRID_ROOT, 7, 2, code)
        self.norm_root = GroupNorm(HYBRID_ROOT, eps=hybrid_eps(code))
        self.stages, self.out_channels = stack(partial(HybridUnit, code=code), HYBRID_ROOT, stages)

    def forward(self, images: Tensor) -> Tensor:
        maps = self.norm_root(self.conv_root(images)).relu()
        return self.stages(max_pool2d(pad_same(maps, 3, 2, -torch.inf), 3, stride=2))


class ResNet(nn.Module):
    """BiT ResNet-v2, the paper's baseline (Kolesnikov et al., 2020), with the interface of ViT as far as it goes.

    Args:
        config: a resolved config of a ResNet variant.
        image_size: (y, x) in pixels.
        num_classes: size of the logits.
    """

    num_prefix_tokens = 0

    def __init__(self, config: ResolvedConfig, image_size: tuple[int, int], num_classes: int) -> None:
        super().__init__()
        self.config, self.image_size, self.num_classes = config, image_size, num_classes
        self.grid = grid_of(config, image_size)
        self.conv_root = Conv(config.channels, config.width, 7, 2, config.resnet_code)
        self.stages, channels = stack(partial(BiTUnit, code=config.resnet_code), config.width, config.stages)
        self.norm = GroupNorm(channels, eps=1e-5)
        head_bias = partial(nn.init.constant_, val=config.head_bias)
        self.head = Dense(channels, num_classes, nn.init.zeros_, head_bias) if num_classes else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        """Returns the logits `b classes` of normalised images `b c height width`; without classes, the features."""
        return self.head(self.features(images))

    def features(self, images: Tensor) -> Tensor:
        """Returns what the head reads: the mean `b channels` of the last map."""
        return reduce(self.maps(images), "b c y x -> b c", "mean")

    def maps(self, images: Tensor) -> Tensor:
        """Returns the last map `b channels y x`, normalised and rectified.

        Raises:
            InputError: channels or size of the images are not those of the net.
        """
        check_images(self.config, self.image_size, images.shape)
        root = self.conv_root(images)
        if self.config.resnet_code == "timm":
            root = max_pool2d(pad(root, [1, 1, 1, 1]), 3, stride=2)
        else:
            # Minus infinity around the map, as in big_vision; BiT's own code pads with zeros, as timm does.
            root = max_pool2d(root, 3, stride=2, padding=1)
        return self.norm(self.stages(root)).relu()

    def tokens(self, images: Tensor) -> NoReturn:
        """Refuses: a ResNet has no tokens."""
        raise InputError(f"The ResNet {self.config.variant} has no tokens: choose a ViT or a hybrid.")

    def attention(self, images: Tensor) -> NoReturn:
        """Refuses: a ResNet has no attention."""
        raise InputError(f"The ResNet {self.config.variant} has no attention: choose a ViT or a hybrid.")

    def depth_of(self, name: str) -> int:
        """Returns the layer of a parameter: 0 for the root, then one per unit, depth + 1 for the last norm and head."""
        first, *rest = name.split(".")
        if first == "stages":
            stage, unit = int(rest[0]), int(rest[1])
            return sum(self.config.stages[:stage]) + unit + 1
        return 0 if first == "conv_root" else self.config.depth + 1
