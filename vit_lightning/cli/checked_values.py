"""Values that neither jsonargparse nor Lightning looks at: null where a value is needed, numbers out of bounds."""

from dataclasses import fields
from inspect import Parameter
from pkgutil import resolve_name
from types import NoneType
from typing import Any, get_args

from jsonargparse import Namespace

from vit_lightning.augment import Augment
from vit_lightning.cli.arguments import Argument, CommandLine
from vit_lightning.cli.config_files import DATA_FACTS
from vit_lightning.cli.plugins import constructor_parameters
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig
from vit_lightning.models.config_rules import LARGEST_NUMBER

SMALLEST_POSITIVE = 1e-9
"""Least value of what must be more than 0."""
LEAST = {
    "accumulate_grad_batches": 1,
    "check_val_every_n_epoch": 1,
    "gradient_clip_val": 0,
    "limit_train_batches": SMALLEST_POSITIVE,
    "log_every_n_steps": 0,
    "num_sanity_val_steps": -1,
    "val_check_interval": SMALLEST_POSITIVE,
}
"""Numbers below which Lightning's Trainer divides by zero, does nothing, or climbs the gradient."""
LARGEST_SEED = 2**32 - 1
LARGEST_WHOLE = 2**63 - 1
MAY_BE_NULL = {
    group: {field.name for field in fields(config) if NoneType in get_args(field.type)}
    for group, config in (("--model.net", NetConfig), ("--data.augment", Augment))
}
"""Flags two levels down that may be null."""


def spell_nulls(line: CommandLine) -> None:
    """Type `--model.net.flag null` as `--model.net {flag: null}` where a flag may be null.

    jsonargparse (4.53) takes the former's for the text None.
    """
    for index, (flag, value) in enumerate(line.arguments):
        group, _, name = flag.rpartition(".")
        if value == "null" and name in MAY_BE_NULL.get(group, ()):
            line.arguments[index] = Argument(group, f"{{{name}: null}}")


def check_brackets(line: CommandLine) -> None:
    """Refuse a value in brackets that a shell has divided at its spaces.

    Raises:
        InputError: saying how to type it.
    """
    for index, (flag, value) in enumerate(line.arguments):
        parts = [str(value)]
        for following in line.arguments[index + 1 :]:
            if following.flag or not _is_open("".join(parts)):
                break
            parts.append(str(following.value))
        if flag and len(parts) > 1 and parts[0][:1] in "[{(":
            raise InputError(f"{flag} {' '.join(parts)} has spaces; type {flag} '{''.join(parts)}'")


def _is_open(text: str) -> bool:
    return any(text.count(left) > text.count(right) for left, right in ("[]", "{}", "()"))


def check_values(config: Namespace) -> None:
    """Refuse what cannot work in a parsed config of a verb.

    Raises:
        InputError: one sentence with the flag and what it takes.
    """
    _check_numbers("", config)
    seed = config.get("seed_everything", 0)
    if not 0 <= seed <= LARGEST_SEED:
        raise InputError(f"--seed_everything {seed} must lie between 0 and {LARGEST_SEED}; true draws one")
    for part in ("model", "data"):
        chosen = config[part]
        _refuse_null(part, resolve_name(chosen.class_path), vars(chosen.get("init_args", Namespace())))
    for name, least in LEAST.items():
        value = config.trainer.get(name)
        if isinstance(value, int | float) and value < least:
            expected = "more than 0" if least == SMALLEST_POSITIVE else f"{least} or more"
            raise InputError(f"--trainer.{name} is {value:g}, expected {expected}")


def _check_numbers(flag: str, value: Any) -> None:
    """Refuse numbers, at any depth, with which no net computes: it does so in float32."""
    if isinstance(value, Namespace | dict):
        for name, inside in vars(value).items() if isinstance(value, Namespace) else value.items():
            _check_numbers(flag if name == "init_args" else f"{flag}.{name}".removeprefix("."), inside)
    elif isinstance(value, list | tuple):
        for inside in value:
            _check_numbers(flag, inside)
    elif isinstance(value, float) and not abs(value) <= LARGEST_NUMBER:
        raise InputError(f"--{flag} is {value:g}, expected a number up to {LARGEST_NUMBER:.2g}")
    elif isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        raise InputError(f"--{flag} has {len(str(value))} digits, expected a whole number up to {LARGEST_WHOLE}")


def _refuse_null(part: str, chosen: type, values: dict[str, Any]) -> None:
    """Refuse null for an argument that needs a value; jsonargparse (4.53) lets it through to the class."""
    parameters = constructor_parameters(chosen)
    for name, value in values.items():
        if value is None and name not in DATA_FACTS and name in parameters and not _takes_none(parameters[name]):
            raise InputError(f"--{part}.{name} null: it needs a value; --{part}.help {chosen.__name__} says which")


def _takes_none(parameter: Parameter) -> bool:
    hint = parameter.annotation
    unknown = hint in (Parameter.empty, Any) or isinstance(hint, str)
    return unknown or parameter.default is None or NoneType in get_args(hint)
