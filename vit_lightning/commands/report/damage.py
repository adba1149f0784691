"""Why a file of a run could not be read, in words for those who did not write its parser, and how its place is said."""

import json
from pathlib import Path

import yaml

from vit_lightning.terminal import near

RUN_PARTS = 3
"""Folders of a run's path that are said of one elsewhere: that of all runs, the experiment, the number."""


class DamagedError(ValueError):
    """A file holds something else than a run writes there; the message says so in words of ours."""


def reason_of(error: BaseException) -> str:
    """Say why a file could not be read, without the words of whatever parser has read it."""
    if isinstance(error, DamagedError):
        return str(error)
    cause = error.__cause__ or error
    if isinstance(cause, UnicodeError):
        return "it is no text in UTF-8"
    if isinstance(cause, json.JSONDecodeError):
        return "it is cut, or no JSON"
    if isinstance(cause, yaml.YAMLError):
        return "it is cut, or no YAML"
    if isinstance(cause, OSError):
        return f"it cannot be read: {cause.strerror}"
    return "it holds something else than a run writes there"


def place_of(path: Path, parts: int = RUN_PARTS) -> Path:
    """Return a path as it is typed in the current folder; of one elsewhere, its last parts."""
    shown = near(path)
    return Path(*shown.parts[-parts:]) if shown.is_absolute() else shown


def within(folder: Path, text: str) -> str:
    """Return a text in which the paths of a run's files are those in its folder."""
    for place in dict.fromkeys((str(folder), str(near(folder)))):
        if len(place) > 1:  # the current folder is a dot
            text = text.replace(f"{place}/", "").replace(place, "this run")
    return text
