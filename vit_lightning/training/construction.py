"""What follows a model's constructor: its own arguments are kept, and its net is built where its sizes are known."""

from abc import ABCMeta
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any

import torch

from vit_lightning.errors import InputError

PLAIN = (bool, int, float, str, type(None))
_LATER: ContextVar[bool] = ContextVar("later", default=False)


class Completed(ABCMeta):
    """Tells a model that its outermost constructor is done, which no constructor of its bases can know."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        model = super().__call__(*args, **kwargs)
        model.complete(_arguments(cls, model, args, kwargs))
        return model

    @property
    def __signature__(cls) -> Signature:
        """That of the constructor, which `__call__` would hide."""
        found = signature(cls.__init__)  # type: ignore[misc]  # the class's own
        return found.replace(parameters=list(found.parameters.values())[1:])


@contextmanager
def nets_built_by_trainers() -> Iterator[None]:
    """Leave the nets of models that are made here to `configure_model`, which a Trainer calls on the right device."""
    token = _LATER.set(True)
    try:
        yield
    finally:
        _LATER.reset(token)


def may_build() -> bool:
    """Whether a net may be built where its model is made: not where tensors would have no storage."""
    return not _LATER.get() and torch.get_default_device().type != "meta"


def plain(name: str, value: Any, owner: str) -> Any:
    """Return a constructor's argument as a checkpoint holds it, in plain types.

    Args:
        name: The argument's name.
        value: What was given.
        owner: Name of the class.

    Raises:
        InputError: it is no plain value.
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {plain(name, key, owner): plain(name, each, owner) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(name, each, owner) for each in value)
    if isinstance(value, PLAIN):
        return value
    raise InputError(
        f"{owner}'s argument {name} is a {type(value).__name__}, which no checkpoint can hold: take numbers, text, "
        f"lists and dicts, or name it in the class's `unsaved`, and give it again wherever a checkpoint is opened"
    )


def _arguments(cls: type, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a constructor by name, those that it hands on in **kwargs included."""
    called = signature(cls.__init__)  # type: ignore[misc]  # the class's own
    given = called.bind(model, *args, **kwargs)
    given.apply_defaults()
    found: dict[str, Any] = {}
    for name, value in list(given.arguments.items())[1:]:
        kind = called.parameters[name].kind
        if kind is Parameter.VAR_KEYWORD:
            found |= value
        elif kind is not Parameter.VAR_POSITIONAL:
            found[name] = value
    return found
