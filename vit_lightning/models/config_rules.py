"""Filling in a NetConfig: given fields, then the variant's row, then the defaults; contradictions are refused."""

import math
from collections.abc import Set
from dataclasses import asdict
from typing import Any, get_args

from vit_lightning.errors import InputError
from vit_lightning.models.config import (
    AttentionInit,
    Axes,
    Gelu,
    NetConfig,
    Pool,
    Position,
    PositionAt,
    ResNetCode,
    ResolvedConfig,
    is_resnet,
    is_timm,
)
from vit_lightning.models.variants import row_of

CHOICES = {"pool": Pool, "position": Position, "position_at": PositionAt, "attention": Axes, "gelu": Gelu}
CHOICES |= {"attention_init": AttentionInit, "resnet_code": ResNetCode}

DEFAULTS: dict[str, Any] = {
    "channels": 3,
    "stages": (),
    "resnet_code": "official",
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

# What float32 holds, in which a net computes.
LARGEST_NUMBER = 3.4028234663852886e38

# The fields that a net of timm reads.
TIMM_FIELDS = {"variant", "channels", "dropout", "stochastic_depth", "head_bias"}

# The pools that read the class token.
READS_TOKEN = ("token", "token_and_gap")

# The fields that a BiT ResNet reads.
RESNET_FIELDS = {"variant", "width", "stages", "resnet_code", "depth", "channels", "head_bias"}


def resolve(config: NetConfig) -> ResolvedConfig:
    """Returns the config with every field filled in: given fields first, then the variant's row, then the defaults.

    Args:
        config: what the user chose; a resolved config comes back equal.

    Raises:
        InputError: unknown variant, or fields that contradict each other.
    """
    given = {"variant": "B/16"} | {name: value for name, value in asdict(config).items() if value is not None}
    values = DEFAULTS | row_of(given["variant"]) | given
    values["stages"] = tuple(values["stages"])
    values.setdefault("stride", values["patch"])
    values.setdefault("class_token", values["pool"] in READS_TOKEN)
    values.setdefault("depth", sum(values["stages"]))
    resolved = ResolvedConfig(**values)
    _check(resolved)
    return resolved


def _check(config: ResolvedConfig) -> None:
    """Refuses a resolved config whose fields cannot work together."""
    _check_values(config)
    if is_timm(config):
        _check_meaningless(config, TIMM_FIELDS)
    elif is_resnet(config):
        _check_resnet(config)
    elif config.width % config.heads:
        raise InputError(
            f"{config.heads} heads do not divide a width of {config.width}: change net.heads or net.width."
        )
    if config.resnet_code != DEFAULTS["resnet_code"] and not config.stages:
        raise InputError(
            f"net.resnet_code={config.resnet_code} means nothing without a ResNet, in {config.variant}: leave it out."
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
    if config.attention == "axial":
        _check_axial(config)


def _check_values(config: ResolvedConfig) -> None:
    """Refuses values that no net could have."""
    for name, choices in CHOICES.items():
        value = getattr(config, name)
        if value not in get_args(choices):
            raise InputError(f"net.{name} is {value!r}, which is none of {', '.join(get_args(choices))}.")
    least_of = {"width": 1, "channels": 1, "patch": 1, "registers": 0, "representation": 0}
    if not is_resnet(config):
        least_of |= {"depth": 1, "mlp": 1, "heads": 1}
    for name, least in least_of.items():
        if (value := getattr(config, name)) < least:
            raise InputError(f"net.{name} is {value}: choose {least} or more.")
    for name in ("dropout", "stochastic_depth", "patch_dropout"):
        if not 0 <= (rate := getattr(config, name)) < 1:
            raise InputError(f"net.{name} is {rate}, which is no rate: choose a number from 0 up to, not including, 1.")
    if not 0 < config.norm_eps < 1:
        raise InputError(f"net.norm_eps is {config.norm_eps:g}: choose a number above 0 and below 1, such as 1e-6.")
    for name in ("head_bias", "layer_scale"):
        if not abs(value := getattr(config, name)) <= LARGEST_NUMBER:
            raise InputError(f"net.{name} is {value:g}: choose a number that float32 holds.")
    if config.stages != (0,) and not all(count > 0 for count in config.stages):
        raise InputError(f"net.stages={config.stages} has a stage without units: give every stage at least 1.")


def _check_temperature(config: ResolvedConfig) -> None:
    """Refuses waves that cannot be, and those of positions that have none."""
    temperature = config.position_temperature
    if not 1 < temperature < math.inf:
        raise InputError(f"net.position_temperature is {temperature:g}: choose a number above 1, such as 30.")
    if config.position != "sincos_2d" and temperature != DEFAULTS["position_temperature"]:
        raise InputError(
            f"net.position_temperature={temperature:g} is for net.position=sincos_2d, not {config.position}: "
            "leave one of the two out (--model.net.position_temperature null undoes a file's)."
        )


def _check_local(config: ResolvedConfig) -> None:
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


def _check_axial(config: ResolvedConfig) -> None:
    """Refuses tokens that lie in no row or column."""
    if config.class_token:
        raise InputError(
            f"Axial attention has no row or column for a class token (net.pool={config.pool}): set net.pool=gap."
        )
    if config.registers:
        raise InputError(f"Axial attention has no row for {config.registers} registers: set net.registers=0.")


def _check_patch_dropout(config: ResolvedConfig) -> None:
    """Refuses nets that need every patch in its place after the first positions."""
    whole = {"attention": ("axial",), "position": ("relative",), "position_at": ("every_layer", "every_layer_shared")}
    for name, values in whole.items():
        if (value := getattr(config, name)) in values:
            raise InputError(
                f"net.{name}={value} needs every patch, of which net.patch_dropout={config.patch_dropout} leaves some "
                "out: leave one of the two out."
            )


def _check_resnet(config: ResolvedConfig) -> None:
    """Refuses transformer fields, widths without 32 groups and no stages."""
    _check_meaningless(config, RESNET_FIELDS)
    if config.width < 1 or config.width % 32:
        raise InputError(f"32 groups do not divide the {config.width} channels of {config.variant}'s root.")
    if not config.stages:
        raise InputError(f"The ResNet {config.variant} needs at least one stage: leave net.stages out.")


def _check_meaningless(config: ResolvedConfig, read: Set[str]) -> None:
    """Refuses fields that a net, which reads only some, would silently ignore."""
    row = {"stride": 1, "class_token": False} | DEFAULTS | row_of(config.variant)
    given = {name: getattr(config, name) for name in row if name not in read}
    idle = [f"net.{name}={value}" for name, value in given.items() if value != row[name]]
    if idle:
        means, it = ("mean", "them") if len(idle) > 1 else ("means", "it")
        raise InputError(
            f"{', '.join(idle)} {means} nothing in {config.variant}: leave {it} out, or begin with an experiment of "
            "such a net."
        )
