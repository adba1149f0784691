"""What runs look up again and again, kept: a test session makes thousands of them in one process.

Processes of their own, which tests start for every verb, do without this.
"""

import importlib.metadata
import sys
from collections.abc import Callable
from functools import cache, wraps
from typing import Any
from weakref import WeakKeyDictionary

from docstring_parser.attrdoc import AttributeDocstrings
from jsonargparse import Namespace, _core, _namespace, _subcommands, _util, typing

_read_docstrings = AttributeDocstrings.get_attr_docs
_find_action = _subcommands.find_action_and_subcommand
_parse_key = Namespace._parse_key
_find_path = _util.get_import_path
_paths: WeakKeyDictionary[type, str] = WeakKeyDictionary()  # a class that a test is done with must go


@cache
def _docstrings(component: Any) -> dict[str, tuple]:
    return _read_docstrings(AttributeDocstrings(), component)


def _found_action(parser: Any, dest: str, exclude: Any = None) -> tuple[Any, str | None]:
    """The action of a flag, from the parser's own memory as long as its actions are the same ones."""
    actions, found = parser.__dict__.get("_found_actions", (None, {}))
    if actions != parser._actions:
        parser._found_actions = (list(parser._actions), found := {})
    if (dest, exclude) in found:
        return found[dest, exclude]
    action, subcommand = _find_action(parser, dest, exclude)
    if subcommand is None:  # else it depends on the actions of another parser
        found[dest, exclude] = action, subcommand
    return action, subcommand


@cache
def _parts(key: str) -> tuple[list[str], str, str]:
    *parents, leaf = map(_namespace.add_clash_mark, key.split("."))
    return parents, leaf, ".".join(parents)


def _parsed_key(self: Namespace, key: str) -> tuple[str, Any, str]:
    """The leaf of a key, what holds it and the key of that; a key is taken apart once."""
    if type(key) is not str or key in ("", ".") or " " in key or ".." in f".{key}.":
        return _parse_key(self, key)  # which refuses it
    parents, leaf, parent = _parts(key)
    holder: Any = self
    for name in parents:
        holder = holder.get(name, False) if isinstance(holder, dict) else getattr(holder, name, False)
        if holder is not None and not isinstance(holder, Namespace | dict):
            return leaf, None, parent
    return leaf, holder, parent


def _import_path(value: Any) -> str | None:
    """The import path of a class, looked for once."""
    if not isinstance(value, type):
        return _find_path(value)
    if value not in _paths:
        _paths[value] = _find_path(value)
    return _paths[value]


def _once_per_path(function: Callable) -> Callable:
    """What installed packages say, read once for each state of `sys.path`."""

    @cache
    def answer(path: tuple[str, ...], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    @wraps(function)
    def ask(*args: Any, **kwargs: Any) -> Any:
        return answer(tuple(sys.path), *args, **kwargs)

    return ask


def keep() -> None:
    """Read docstrings, paths of classes and what packages say of themselves once, and go through flags for one once."""
    AttributeDocstrings.get_attr_docs = lambda self, component: _docstrings(component)
    _core.find_action_and_subcommand = _subcommands.find_action_and_subcommand = _found_action
    _util.get_import_path = typing.get_import_path = _import_path
    Namespace._parse_key = _parsed_key
    for name in ("entry_points", "version"):
        setattr(importlib.metadata, name, _once_per_path(getattr(importlib.metadata, name)))
