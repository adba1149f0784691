"""Text files: written whole or not at all, and YAML that is read strictly."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from vit_lightning.errors import InputError


def check_place(path: Path, flag: str) -> None:
    """Refuse a file, given with `flag`, that could not be written, before long work for it."""
    if path.is_dir():
        raise InputError(f"{flag} {path} cannot be written: it is a folder; name a file in it")
    if path.parent.exists() and not path.parent.is_dir():
        raise InputError(f"{flag} {path} cannot be written: {path.parent} is no folder; name another place")
    if not path.parent.is_dir():
        raise InputError(f"{flag} {path} cannot be written: there is no folder {path.parent}; make it first")
    if _is_device(path):
        return
    try:
        tempfile.TemporaryFile(dir=path.parent).close()  # what the system allows, only trying tells
    except OSError as error:
        raise unwritable(f"{flag} {path}", error) from error


def unwritable(what: str | Path, error: Exception) -> InputError | None:
    """The sentence about a file or folder that the system does not let us write; None for any other exception.

    torch and safetensors tell of a full disk by exceptions of their own.
    """
    full = any(sign in str(error).lower() for sign in ("inline_container", "no space left", "quota exceeded"))
    if isinstance(error, InputError) or not (full or isinstance(error, OSError)):
        return None
    reason = "no space left" if full else getattr(error, "strerror", None) or error
    return InputError(f"{what} cannot be written: {reason}; {'free space there' if full else 'name another place'}")


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old content or the new, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if _is_device(path):
            path.write_text(text, encoding="utf-8")
            return
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def _is_device(path: Path) -> bool:
    """Whether a path is a device or a pipe, which is written in place: a file would take its name."""
    return path.exists() and not path.is_file()


class _Strict:
    """A key written twice is an error; YAML's own loaders keep the last one without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.MarkedYAMLError(problem=f"{key.value!r} is written twice", problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


class UniqueKeys(_Strict, yaml.SafeLoader):
    """Loader of configs."""


class AsWritten(_Strict, yaml.BaseLoader):
    """Loader for which every scalar is the text that was written: 1e-3 and true are words of a command line."""


def read_mapping(
    path: Path, flag: str, loader: type[UniqueKeys | AsWritten] = UniqueKeys, example: str = "model"
) -> dict[Any, Any]:
    """Content of a YAML file that must hold a mapping of keys such as `example`; `flag` is what it was given with."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), loader)
    except UnicodeDecodeError as error:
        raise InputError(f"{flag} {path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except yaml.MarkedYAMLError as error:
        line, hint = error.problem_mark.line + 1, "; indent with spaces" * ("'\\t'" in error.problem)
        raise InputError(f"{flag} {path} is not valid YAML in line {line}: {error.problem}{hint}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = getattr(error, "reason", error)
        raise InputError(f"{flag} {path} is not valid YAML: {' '.join(str(reason).split())}") from error
    if not isinstance(content, dict):
        raise InputError(f"{flag} {path} must hold a mapping such as `{example}: ...`, not {kind(content)}")
    return content


def kind(content: Any) -> str:
    """What stands where a mapping should."""
    return "nothing" if content in (None, "") else type(content).__name__
