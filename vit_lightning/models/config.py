"""NetConfig, the fields of a net, and the geometry that follows from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vit_lightning.errors import InputError
from vit_lightning.models.variants import RESNET_NAME, TIMM

Pool = Literal["token", "gap", "map", "token_and_gap"]
Position = Literal["learned", "learned_2d", "sincos_2d", "relative", "none"]
PositionAt = Literal["stem", "every_layer", "every_layer_shared"]
Axes = Literal["global", "axial"]
AttentionInit = Literal["xavier", "mimetic", "local"]
Gelu = Literal["tanh", "exact"]
ResNetCode = Literal["official", "timm"]


@dataclass
class NetConfig:
    """Architecture of a net: a named variant, any single field of which may be overridden (None: the variant's)."""

    variant: str | None = None
    """Named net: size and patch such as B/16, a hybrid such as R50+B/16, a BiT ResNet such as R50x1, or timm/NAME
    (unset: B/16, or that of the weights). Sizes are mu, Ti, S, M, B, L, H, g and G."""
    patch: int | None = None
    """Side of a patch in pixels (in a hybrid: in positions of the stem's map)."""
    stride: int | None = None
    """Distance between patches; smaller than the patch means overlapping patches. None: the patch."""
    width: int | None = None
    """Width of a token (in a BiT ResNet: channels of the root)."""
    depth: int | None = None
    """Number of blocks."""
    heads: int | None = None
    """Attention heads per block; they divide the width."""
    mlp: int | None = None
    """Hidden width of the MLP in a block."""
    channels: int | None = None
    """Channels of the image (3)."""
    stages: tuple[int, ...] | None = None
    """ResNet units per stage in front of a hybrid or in a BiT ResNet; (0,) is the root alone, () no ResNet."""
    resnet_code: ResNetCode | None = None
    """Whose epsilons and padding a ResNet or a hybrid's stem has: the official code's, or those of timm, which differ a
    little and which timm's files were trained or scored with."""
    pool: Pool | None = None
    """What the head reads: the class token, the mean of all patches, a learned attention over the patches, or class
    token and mean side by side (DINOv2's linear head)."""
    class_token: bool | None = None
    """Whether there is a class token. None: where the pool reads it."""
    norm_after_pool: bool | None = None
    """Apply the last LayerNorm to what is pooled rather than to every token (timm's fc_norm)."""
    norm_eps: float | None = None
    """Epsilon of every LayerNorm (1e-6; transformers' ViT has 1e-12)."""
    embed_norm: bool | None = None
    """A LayerNorm on the tokens before the first block (CLIP)."""
    representation: int | None = None
    """Size of the tanh layer before the head; 0: none."""
    position: Position | None = None
    """Kind of position embedding (paper, appendix D.4)."""
    position_temperature: float | None = None
    """Longest wave of sincos_2d over its shortest (10000, as in big_vision); grids of 8 x 8 patches want about 30."""
    position_at: PositionAt | None = None
    """Where positions are added: once, or at every block with an own or the same table."""
    attention: Axes | None = None
    """All tokens with all, or rows then columns (paper, appendix D.6; needs a pool without class token)."""
    attention_init: AttentionInit | None = None
    """How attention begins: at random as in the paper, or, for small data sets, like that of trained nets (mimetic,
    arXiv 2305.09828) or with every head at a neighbour of each patch (local, arXiv 2404.01139; needs sincos_2d)."""
    dropout: float | None = None
    """Rate of dropout (unset: 0). It follows the positions and every dense layer of a block except that of queries,
    keys and values (paper, appendix B.1)."""
    stochastic_depth: float | None = None
    """Rate of stochastic depth in the last block (unset: 0). It grows linearly from 0 at the first block, and says how
    many images skip a block."""
    patch_dropout: float | None = None
    """Share of an image's patches that training leaves out, others each time: faster, and harder to learn by heart
    (arXiv 2208.07220)."""
    layer_scale: float | None = None
    """Initial value of LayerScale; 0: none."""
    registers: int | None = None
    """Number of register tokens: learned, without position, read by no head."""
    gelu: Gelu | None = None
    """The tanh approximation of the official code, or the exact function."""
    swiglu: bool | None = None
    """Gate the MLP with SiLU in place of the GELU; its first layer is twice as wide (DINOv2's largest net)."""
    head_bias: float | None = None
    """Initial bias of the head; about log(1 / classes) for a sigmoid loss."""
    crop_to_patch: bool | None = None
    """Ignore the last pixels of an image that the patch does not divide (H/14 at 384: 378 pixels)."""

    @property
    def prefix_tokens(self) -> int:
        """Tokens in front of the patches in a resolved config: class token and registers."""
        return int(self.class_token or 0) + (self.registers or 0)

    @property
    def pooled_width(self) -> int:
        """Width of the pooled vector in a resolved config."""
        width = self.width or 0
        return 2 * width if self.pool == "token_and_gap" else width


if TYPE_CHECKING:

    @dataclass
    class ResolvedConfig(NetConfig):
        """A NetConfig with every field filled in, which only a type checker tells apart."""

        variant: str
        patch: int
        stride: int
        width: int
        depth: int
        heads: int
        mlp: int
        channels: int
        stages: tuple[int, ...]
        resnet_code: ResNetCode
        pool: Pool
        class_token: bool
        norm_after_pool: bool
        norm_eps: float
        embed_norm: bool
        representation: int
        position: Position
        position_temperature: float
        position_at: PositionAt
        attention: Axes
        attention_init: AttentionInit
        dropout: float
        stochastic_depth: float
        patch_dropout: float
        layer_scale: float
        registers: int
        gelu: Gelu
        swiglu: bool
        head_bias: float
        crop_to_patch: bool

else:
    ResolvedConfig = NetConfig


def is_resnet(config: ResolvedConfig) -> bool:
    """Whether the variant is a BiT ResNet rather than a transformer."""
    return RESNET_NAME.fullmatch(config.variant) is not None


def is_timm(config: ResolvedConfig) -> bool:
    """Whether the variant is a net of timm, which timm alone describes."""
    return config.variant.startswith(TIMM)


def as_pair(image_size: int | tuple[int, int]) -> tuple[int, int]:
    """Returns an image size as (y, x)."""
    y, x = (image_size, image_size) if isinstance(image_size, int) else image_size
    return y, x


def grid_of(config: ResolvedConfig, image_size: tuple[int, int]) -> tuple[int, int]:
    """Returns the rows and columns of patches that a resolved config cuts from an image (or from its stem's map).

    Args:
        config: a resolved config.
        image_size: (y, x) in pixels.

    Raises:
        InputError: the patch does not divide the size and `crop_to_patch` is off, or the image is too small.
    """
    rows, columns = (_patches_along(config, size) for size in image_size)
    return rows, columns


def patches_kept(config: ResolvedConfig, patches: int) -> int:
    """Returns how many of an image's patches a resolved config keeps in training, at least one."""
    return max(1, round(patches * (1 - config.patch_dropout)))


def check_channels(found: int, expected: int) -> None:
    """Refuses images of other channels than a net's.

    Raises:
        InputError: the two differ.
    """
    if found != expected:
        raise InputError(
            f"The images have {found} channels, but the net expects {expected}: "
            f"give --data.channels {expected}, or a net of {found} (--model.net.channels)."
        )


def check_images(config: ResolvedConfig, image_size: tuple[int, int], shape: Sequence[int]) -> None:
    """Refuses images whose shape `b c height width` is not what a net was built for.

    Raises:
        InputError: other channels or another size than the net's.
    """
    _, channels, height, width = shape
    check_channels(channels, config.channels)
    if (height, width) != image_size:
        raise InputError(
            f"The images have {height}x{width} pixels, but the net expects {image_size[0]}x{image_size[1]}: "
            f"resize the images or set image_size."
        )


def _patches_along(config: ResolvedConfig, size: int) -> int:
    """Number of patches along one side of `size` pixels."""
    scale = 2 ** (len(config.stages) + 1) if config.stages else 1
    length = -(-size // scale)
    count, rest = divmod(length - config.patch, config.stride)
    if count < 0 or (rest and not config.crop_to_patch):
        stride = f" at stride {config.stride}" if config.stride != config.patch else ""
        stem = f" ({length} after the stem)" if config.stages else ""
        nearest = max(count + (2 * rest >= config.stride), 0)
        fit = scale * (config.patch + nearest * config.stride)
        crop = ", or set --model.net.crop_to_patch true to ignore the last pixels" if count >= 0 else ""
        raise InputError(
            f"Patches of {config.patch}{stride} do not divide the image size {size}{stem}: "
            f"choose another image_size, for example {fit}{crop}."
        )
    return count + 1
