"""Slips of a YAML file that YAML takes, and no parser can: an argument beside its class, a colon without a blank."""

import re
from typing import Any

OF_A_CLASS = ("class_path", "init_args", "dict_kwargs")
"""Keys of a mapping that names a class."""
VALUE = re.compile(r"[-+.\d][-+.\deE]*|true|false|null|\[.*")
"""A number and the like, which no name holds behind a blank."""


def misplaced(content: Any, text: str) -> str | None:
    """Return a sentence about the first key of a file that stands where it means nothing; None: there is none.

    Args:
        content: What the file holds.
        text: The file.
    """
    if isinstance(content, list):
        return next((said for each in content if (said := misplaced(each, text))), None)
    if not isinstance(content, dict):
        return None
    for key, value in content.items():
        if "class_path" in content and key not in OF_A_CLASS:
            named = content["class_path"]
            return f"{_line(text, key)}{key} stands beside the class_path {named}; indent it below init_args: of that"
        name, _, meant = str(key).partition(" ")
        if value is None and name.isidentifier() and VALUE.fullmatch(meant.strip()):
            return f"{_line(text, name)}{key!r} has no colon; write {name}: {meant.strip()}"
        if said := misplaced(value, text):
            return said
    return None


def _line(text: str, key: Any) -> str:
    """Return where a key stands, if it stands in one line alone."""
    written = re.compile(rf"(^|[\s{{,]){re.escape(str(key))}(\s*:|\s)")
    lines = [number for number, row in enumerate(text.splitlines(), 1) if written.search(row)]
    return f"in line {lines[0]} " if len(lines) == 1 else ""
