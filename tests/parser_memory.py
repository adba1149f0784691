"""What parsers look up again and again, kept: a test session makes thousands of them in one process.

Processes of their own, which tests start for every verb, do without this.
"""

from functools import cache
from typing import Any

from docstring_parser.attrdoc import AttributeDocstrings
from jsonargparse import _core, _subcommands

_read_docstrings = AttributeDocstrings.get_attr_docs
_find_action = _subcommands.find_action_and_subcommand


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


def keep() -> None:
    """Read the source of a class for its docstrings once, and go through all flags for one of them once."""
    AttributeDocstrings.get_attr_docs = lambda self, component: _docstrings(component)
    _core.find_action_and_subcommand = _subcommands.find_action_and_subcommand = _found_action
