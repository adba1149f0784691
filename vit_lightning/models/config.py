"""NetConfig, the one table of variants, and the geometry that follows from a config."""

import difflib
import math
import re
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from vit_lightning.errors import InputError

Pool = Literal["token", "gap", "map", "token_and_gap"]
Position = Literal["learned", "learned_2d", "sincos_2d", "relative", "none"]
PositionAt = Literal["stem", "every_layer", "every_layer_shared"]
Axes = Literal["global", "axial"]
AttentionInit = Literal["xavier", "mimetic", "local"]
Gelu = Literal["tanh", "exact"]
CHOICES = {"pool": Pool, "position": Position, "position_at": PositionAt, "attention": Axes, "gelu": Gelu}
CHOICES |= {"attention_init": AttentionInit}


@dataclass
class NetConfig:
    """Architecture of a net: a named variant, any single field of which may be overridden (None: the variant's)."""

    variant: str | None = None
    """Named net such as B/16; unset: B/16. Size and patch (Ti/16 ... G/14), a hybrid (R50+B/16), a BiT ResNet (R50x1),
    or any net of timm (timm/<name>)."""
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
    """Rate after the positions and after every dense layer of a block except the queries, keys and values."""
    stochastic_depth: float | None = None
    """Rate at which the last block is skipped per image; it grows linearly from 0 at the first block."""
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
        return int(self.class_token) + self.registers

    @property
    def pooled_width(self) -> int:
        """Width of the pooled vector in a resolved config."""
        return 2 * self.width if self.pool == "token_and_gap" else self.width


# name: (depth, width, mlp, heads), from the paper's Table 1, AugReg's Table 1 and big_vision.
SIZES = {
    "mu": (1, 32, 128, 2),
    "Ti": (12, 192, 768, 3),
    "S": (12, 384, 1536, 6),
    "M": (12, 512, 2048, 8),
    "B": (12, 768, 3072, 12),
    "L": (24, 1024, 4096, 16),
    "So400m": (27, 1152, 4304, 16),
    "H": (32, 1280, 5120, 16),
    "g": (40, 1408, 6144, 16),
    "g-opt": (40, 1536, 6144, 16),
    "G": (48, 1664, 8192, 16),
    "G-opt": (48, 1536, 8192, 16),
    "e": (56, 1792, 15360, 16),
}

# name and total downsampling of a hybrid's stem: (units per stage, patch on its map).
# R+Ti/16 really downsamples by 32: root 4, patch 8, as in the official code.
STEMS = {
    "R/16": ((0,), 8),
    "R26/32": ((2, 2, 2, 2), 1),
    "R50/32": ((3, 4, 6, 3), 1),
    "R50/16": ((3, 4, 9), 1),
}

# layers: units per stage of a BiT ResNet.
RESNETS = {
    "26": (2, 2, 2, 2),
    "50": (3, 4, 6, 3),
    "101": (3, 4, 23, 3),
    "152": (3, 8, 36, 3),
    "200": (3, 24, 36, 3),
}

RESNET_NAME = re.compile(r"R(\d+)x(\d+(?:\.\d+)?)")

# Names to suggest when a name is unknown.
VARIANTS = (
    *(f"{size}/{patch}" for size in SIZES for patch in (8, 14, 16, 32)),
    *("R+Ti/16", "R26+S/32", "R26+B/32", "R50+B/32", "R50+B/16", "R50+L/32", "R50+L/16"),
    *("R50x1", "R50x2", "R50x3", "R101x1", "R101x3", "R152x1", "R152x2", "R152x4", "R200x3"),
)

DEFAULTS: dict[str, Any] = {
    "channels": 3,
    "stages": (),
    "pool": "token",
    "representation": 0,
    "position": "learned",
    "position_temperature": 10_000.0,
    "position_at": "stem",
    "attention": "global",
    "attention_init": "xavier",
    "dropout": 0.0,
    "stochastic_depth": 0.0,
    "patch_dropout": 0.0,
    "layer_scale": 0.0,
    "registers": 0,
    "gelu": "tanh",
    "swiglu": False,
    "norm_after_pool": False,
    "norm_eps": 1e-6,
    "embed_norm": False,
    "head_bias": 0.0,
    "crop_to_patch": False,
}

# What a variant's name begins with if timm builds the net, and the fields that it reads.
TIMM = "timm/"
TIMM_FIELDS = {"variant", "channels", "dropout", "stochastic_depth", "head_bias"}

# The pools that read the class token.
READS_TOKEN = ("token", "token_and_gap")

# The fields that a BiT ResNet reads.
RESNET_FIELDS = {"variant", "width", "stages", "depth", "channels", "head_bias"}


def resolve(config: NetConfig) -> NetConfig:
    """Returns the config with every field filled in: given fields first, then the variant's row, then the defaults.

    Args:
        config: what the user chose; a resolved config comes back equal.

    Raises:
        InputError: unknown variant, or fields that contradict each other.
    """
    given = {"variant": "B/16"} | {name: value for name, value in asdict(config).items() if value is not None}
    values = DEFAULTS | _row(given["variant"]) | given
    values["stages"] = tuple(values["stages"])
    values.setdefault("stride", values["patch"])
    values.setdefault("class_token", values["pool"] in READS_TOKEN)
    values.setdefault("depth", sum(values["stages"]))
    resolved = NetConfig(**values)
    _check(resolved)
    return resolved


def is_resnet(config: NetConfig) -> bool:
    """Whether the variant is a BiT ResNet rather than a transformer."""
    return RESNET_NAME.fullmatch(config.variant) is not None


def is_timm(config: NetConfig) -> bool:
    """Whether the variant is a net of timm, which timm alone describes."""
    return config.variant.startswith(TIMM)


def as_pair(image_size: int | tuple[int, int]) -> tuple[int, int]:
    """Returns an image size as (y, x)."""
    return (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)


def grid_of(config: NetConfig, image_size: tuple[int, int]) -> tuple[int, int]:
    """Returns the rows and columns of patches that a resolved config cuts from an image (or from its stem's map).

    Args:
        config: a resolved config.
        image_size: (y, x) in pixels.

    Raises:
        InputError: the patch does not divide the size and `crop_to_patch` is off, or the image is too small.
    """
    rows, columns = (_patches_along(config, size) for size in image_size)
    return rows, columns


def patches_kept(config: NetConfig, patches: int) -> int:
    """Returns how many of an image's patches a resolved config keeps in training, at least one."""
    return max(1, round(patches * (1 - config.patch_dropout)))


def check_images(config: NetConfig, image_size: tuple[int, int], shape: Sequence[int]) -> None:
    """Refuses images whose shape `b c height width` is not what a net was built for.

    Raises:
        InputError: other channels or another size than the net's.
    """
    _, channels, height, width = shape
    if channels != config.channels:
        raise InputError(
            f"The images have {channels} channels, but the net expects {config.channels}: "
            f"convert the images or set net.channels={channels}."
        )
    if (height, width) != image_size:
        raise InputError(
            f"The images have {height}x{width} pixels, but the net expects {image_size[0]}x{image_size[1]}: "
            f"resize the images or set image_size."
        )


def _row(variant: str) -> dict[str, Any]:
    """The table row of a variant as NetConfig fields."""
    if (match := re.fullmatch(r"(?:(R\d*)\+)?([\w-]+)/([1-9]\d*)", variant)) and match[2] in SIZES:
        stem, size, patch = match.groups()
        row = dict(zip(("depth", "width", "mlp", "heads"), SIZES[size], strict=True))
        if stem is None:
            return row | {"patch": int(patch)}
        if f"{stem}/{patch}" in STEMS:
            stages, patch = STEMS[f"{stem}/{patch}"]
            return row | {"stages": stages, "patch": patch}
    if (match := RESNET_NAME.fullmatch(variant)) and match[1] in RESNETS:
        row = {"stages": RESNETS[match[1]], "width": int(64 * float(match[2])), "pool": "gap", "position": "none"}
        return row | {"heads": 0, "mlp": 0, "patch": 1}
    if variant.startswith(TIMM):
        return dict.fromkeys(("patch", "width", "depth", "heads", "mlp"), 1) | {"pool": "gap", "position": "none"}
    names = {name.lower(): name for name in VARIANTS}
    close = difflib.get_close_matches(variant.lower(), names, n=1, cutoff=0.5)
    hint = f"did you mean {names[close[0]]}?" if close else "choose for example Ti/16, B/16, R50+B/16 or R50x1."
    raise InputError(f"There is no net variant {variant!r}: {hint}")


def _check(config: NetConfig) -> None:
    """Refuses a resolved config whose fields cannot work together."""
    for name, choices in CHOICES.items():
        value = getattr(config, name)
        if value not in get_args(choices):
            raise InputError(f"net.{name} is {value!r}, which is none of {', '.join(get_args(choices))}.")
    for name, least in (("width", 1), ("channels", 1), ("patch", 1), ("registers", 0), ("representation", 0)):
        if (value := getattr(config, name)) < least:
            raise InputError(f"net.{name} is {value}: choose {least} or more.")
    if not is_resnet(config):
        for name in ("depth", "mlp", "heads"):
            if (value := getattr(config, name)) < 1:
                raise InputError(f"net.{name} is {value}: choose 1 or more.")
    for name in ("dropout", "stochastic_depth", "patch_dropout"):
        if not 0 <= (rate := getattr(config, name)) < 1:
            raise InputError(f"net.{name} is {rate}, which is no rate: choose a number from 0 up to, not including, 1.")
    if config.stages != (0,) and not all(count > 0 for count in config.stages):
        raise InputError(f"net.stages={config.stages} has a stage without units: give every stage at least 1.")
    if is_timm(config):
        _check_meaningless(config, TIMM_FIELDS)
    elif is_resnet(config):
        _check_resnet(config)
    elif config.heads < 1 or config.width % config.heads:
        raise InputError(
            f"{config.heads} heads do not divide a width of {config.width}: change net.heads or net.width."
        )
    if (parts := {"sincos_2d": 4, "learned_2d": 2}.get(config.position)) and config.width % parts:
        raise InputError(f"net.position={config.position} needs a width divisible by {parts}, got {config.width}.")
    if not 1 <= config.stride <= config.patch:
        raise InputError(f"net.stride is {config.stride}: choose 1 to {config.patch}, the patch, or raise net.patch.")
    if config.pool in READS_TOKEN and not config.class_token:
        raise InputError(f"net.pool={config.pool} reads the class token, but net.class_token is off: leave that out.")
    if config.pool == "token_and_gap" and config.norm_after_pool:
        raise InputError("net.pool=token_and_gap reads normalised tokens: leave net.norm_after_pool out.")
    _check_temperature(config)
    if config.attention_init == "local":
        _check_local(config)
    if config.patch_dropout:
        _check_patch_dropout(config)
    if config.attention == "axial" and config.class_token:
        raise InputError(
            f"Axial attention has no row or column for a class token (net.pool={config.pool}): set net.pool=gap."
        )
    if config.attention == "axial" and config.registers:
        raise InputError(f"Axial attention has no row for {config.registers} registers: set net.registers=0.")


def _check_temperature(config: NetConfig) -> None:
    """Refuses waves that cannot be, and those of positions that have none."""
    temperature = config.position_temperature
    if not 1 < temperature < math.inf:
        raise InputError(f"net.position_temperature is {temperature:g}: choose a number above 1, such as 30.")
    if config.position != "sincos_2d" and temperature != DEFAULTS["position_temperature"]:
        raise InputError(
            f"net.position_temperature={temperature:g} is for net.position=sincos_2d, not {config.position}: "
            "leave one of the two out (--model.net.position_temperature null undoes a file's)."
        )


def _check_local(config: NetConfig) -> None:
    """Refuses nets whose heads cannot find a neighbour by its position."""
    needs = {"position": "sincos_2d", "position_at": "stem", "attention": "global"}
    for name, value in needs.items():
        if (own := getattr(config, name)) != value:
            raise InputError(
                f"net.attention_init=local needs net.{name}={value}, got {own}: set it, or take "
                "net.attention_init=xavier."
            )
    if config.width // config.heads < 4:
        raise InputError(
            f"net.attention_init=local needs heads of 4 features or more, but {config.heads} share a width of "
            f"{config.width}: lower net.heads."
        )


def _check_patch_dropout(config: NetConfig) -> None:
    """Refuses nets that need every patch in its place after the first positions."""
    whole = {"attention": ("axial",), "position": ("relative",), "position_at": ("every_layer", "every_layer_shared")}
    for name, values in whole.items():
        if (value := getattr(config, name)) in values:
            raise InputError(
                f"net.{name}={value} needs every patch, of which net.patch_dropout={config.patch_dropout} leaves some "
                "out: leave one of the two out."
            )


def _check_resnet(config: NetConfig) -> None:
    """Refuses transformer fields, widths without 32 groups and no stages."""
    _check_meaningless(config, RESNET_FIELDS)
    if config.width < 1 or config.width % 32:
        raise InputError(f"32 groups do not divide the {config.width} channels of {config.variant}'s root.")
    if not config.stages:
        raise InputError(f"The ResNet {config.variant} needs at least one stage: leave net.stages out.")


def _check_meaningless(config: NetConfig, read: Set[str]) -> None:
    """Refuses fields that a net, which reads only some, would silently ignore."""
    row = {"stride": 1, "class_token": False} | DEFAULTS | _row(config.variant)
    given = {name: getattr(config, name) for name in row if name not in read}
    idle = [f"net.{name}={value}" for name, value in given.items() if value != row[name]]
    if idle:
        means, it = ("mean", "them") if len(idle) > 1 else ("means", "it")
        raise InputError(
            f"{', '.join(idle)} {means} nothing in {config.variant}: leave {it} out, or begin with an experiment of "
            "such a net."
        )


def _patches_along(config: NetConfig, size: int) -> int:
    """Number of patches along one side of `size` pixels."""
    scale = 2 ** (len(config.stages) + 1) if config.stages else 1
    length = -(-size // scale)
    count, rest = divmod(length - config.patch, config.stride)
    if count < 0 or (rest and not config.crop_to_patch):
        stride = f" at stride {config.stride}" if config.stride != config.patch else ""
        stem = f" ({length} after the stem)" if config.stages else ""
        fit = scale * (config.patch + max(count, 0) * config.stride)
        crop = ", or set --model.net.crop_to_patch true to ignore the last pixels" if count >= 0 else ""
        raise InputError(
            f"Patches of {config.patch}{stride} do not divide the image size {size}{stem}: "
            f"choose another image_size, for example {fit}{crop}."
        )
    return count + 1
