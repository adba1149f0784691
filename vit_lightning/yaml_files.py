"""YAML files, read strictly: a key written twice is an error."""

import math
import re
from pathlib import Path
from typing import Any

import yaml

from vit_lightning.errors import InputError
from vit_lightning.files import check_regular

MOST = 100_000
"""Values that a file may hold, counted as often as an alias repeats them."""


TIGHT = re.compile(r"\s*[A-Za-z_][\w.]*:[^\s:/\\].*")
"""A key whose value follows its colon at once, so that YAML takes both for one text."""


class _Strict(yaml.constructor.BaseConstructor):
    """A key written twice is an error; YAML's own loaders keep the last one without a word."""

    def construct_document(self, node: yaml.Node) -> Any:
        if _size(node, {}) > MOST:
            raise yaml.YAMLError(f"its aliases (*) make more than {MOST:,} values of it; write out what is meant")
        return super().construct_document(node)

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
    check_regular(path, f"{flag} {path}")
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), loader)
    except OSError as error:
        raise InputError(f"{flag} {path} cannot be read: {error.strerror}; it must be a YAML file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{flag} {path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except yaml.MarkedYAMLError as error:
        line, hint = error.problem_mark.line + 1, "; indent with spaces" * ("'\\t'" in error.problem)
        hint = hint or _misplaced(path.read_text(encoding="utf-8"), line)
        raise InputError(f"{flag} {path} is not valid YAML in line {line}: {error.problem}{hint}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = getattr(error, "reason", error)
        raise InputError(f"{flag} {path} is not valid YAML: {' '.join(str(reason).split())}") from error
    if not isinstance(content, dict):
        raise InputError(f"{flag} {path} must hold a mapping such as `{example}: ...`, not {kind(content)}")
    return content


def _misplaced(text: str, number: int) -> str:
    """Say that a colon lacks its blank, or a line begins in no column in which one above it does; empty: neither.

    Args:
        text: Content of a YAML file.
        number: The line that YAML stumbles over, from 1.
    """
    tight = [(at, row.strip()) for at, row in enumerate(text.splitlines()[:number], 1) if TIGHT.fullmatch(row)]
    if tight:
        return f"; line {tight[-1][0]}, {tight[-1][1]!r:.60}, needs a blank behind its colon"
    rows = enumerate(text.splitlines()[:number], 1)
    depths = {at: len(row) - len(row.lstrip()) for at, row in rows if row.strip() and not row.lstrip().startswith("#")}
    if number not in depths:
        return ""
    above: dict[int, int] = {}  # the line of each depth that is still open, the nearest first
    for at, depth in reversed(list(depths.items())[:-1]):
        if depth < min(above, default=depth + 1):
            above[depth] = at
    if not above or depths[number] in above:
        return ""
    wanted = " or ".join(f"{depth} as line {at}" for depth, at in above.items())
    row = text.splitlines()[number - 1].strip()
    return f"; {row!r:.60} is indented by {depths[number]}: indent it by {wanted}"


def _size(node: yaml.Node, known: dict[int, float]) -> float:
    """Count the values below a node, those of aliases as often as they stand there; inf: it holds itself."""
    if id(node) not in known:
        known[id(node)] = math.inf
        inside = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = [part for pair in inside for part in pair] if isinstance(node, yaml.MappingNode) else inside
        known[id(node)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(node)]


def kind(content: Any) -> str:
    """What stands where a mapping should."""
    return "nothing" if content in (None, "") else type(content).__name__
