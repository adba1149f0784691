"""What a flag's owner says of it, read from the owner's source, since importing torch for help takes seconds."""

import ast
import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[1]
NO_DEFAULT = object()
LONG = 100
"""Letters from which a claim is cut at its colon."""


class Flag(NamedTuple):
    """A parameter of a class or function."""

    name: str
    sentence: str
    default: str | None
    """As it is typed; None where it says nothing."""
    choices: tuple[str, ...] = ()
    required: bool = False


def read_flags(module: str, name: str) -> tuple[str, dict[str, Flag]]:
    """Description and parameters of a function, of a class with a constructor, or of a dataclass.

    Args:
        module: Dotted name of the module below the package, such as models.config.
        name: The class or function in it.
    """
    owner, literals = _definition(module, name)
    text = cleandoc(ast.get_docstring(owner) or "")
    about, _, entries = text.partition("\n\nArgs:\n")
    said = dict(_entries(entries.partition("\n\n")[0]))
    found = list(_fields(owner) if isinstance(owner, ast.ClassDef) else _parameters(owner))
    flags = {
        key: _flag(key, literals.get(_name(hint), hint), default, attribute or said.get(key, ""))
        for key, hint, default, attribute in found
    }
    return about, flags


def first_sentence(text: str) -> str:
    """The first claim of a text, in one line, and what holds where the flag is unset."""
    claim = re.split(r"(?<=[.?;])\s+(?!unset)", " ".join(text.split()))[0].rstrip(".;")
    head, sign, _ = claim.partition(": ")
    return head if sign and len(claim) > LONG and len(head) > 15 and not head.endswith("nset") else claim


def _definition(module: str, name: str) -> tuple[ast.ClassDef | ast.FunctionDef, dict[str, ast.expr]]:
    """A class or function, and what its module's names for types stand for."""
    path = PACKAGE.joinpath(*module.split("."))
    files = sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    for file in files:
        body = ast.parse(file.read_text(encoding="utf-8")).body
        named = {
            node.targets[0].id: node.value
            for node in body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
                return node, named
    raise LookupError(f"{module} has no {name}")


def _name(hint: ast.expr | None) -> str | None:
    """The name in a hint such as `Pool` or `Pool | None`."""
    hint = hint.left if isinstance(hint, ast.BinOp) else hint
    return hint.id if isinstance(hint, ast.Name) else None


def _fields(owner: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None, object, str]]:
    for node in owner.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            yield from _parameters(node)
            return
    for node, following in zip(owner.body, [*owner.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            documented = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            yield node.target.id, node.annotation, node.value, str(following.value.value) if documented else ""


def _parameters(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr | None, object, str]]:
    """Those of a run verb that are passed by position are its trainer, model and data, which are no flags."""
    arguments = function.args
    missing = [NO_DEFAULT] * (len(arguments.args) - len(arguments.defaults))
    if not arguments.kwonlyargs:
        for parameter, default in zip(arguments.args, [*missing, *arguments.defaults], strict=True):
            if parameter.arg != "self":
                yield parameter.arg, parameter.annotation, default, ""
    for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield parameter.arg, parameter.annotation, NO_DEFAULT if default is None else default, ""


def _flag(name: str, hint: ast.expr | None, default: object, text: str) -> Flag:
    choices = _choices(hint) if hint else ()
    sentence = first_sentence(text)
    first = sentence.partition(" ")[0]
    if first.isalpha() and first not in choices:
        sentence = first.capitalize() + sentence[len(first) :] if first.islower() else sentence
    return Flag(name, sentence, _typed(default), choices, default is NO_DEFAULT)


def _choices(hint: ast.expr) -> tuple[str, ...]:
    literals = (
        node.slice
        for node in ast.walk(hint)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal"
    )
    return tuple(
        str(value.value) for literal in literals for value in ast.walk(literal) if isinstance(value, ast.Constant)
    )


def _typed(default: object) -> str | None:
    """A default as one types it."""
    if isinstance(default, ast.Call) and isinstance(default.func, ast.Name) and default.func.id == "Path":
        default = default.args[0]
    try:
        value = ast.literal_eval(default) if isinstance(default, ast.expr) else None
    except ValueError:
        return None  # an object, whose own fields have defaults
    return None if value is None else spell(value)


def spell(value: object) -> str:
    """A value as one types it."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(spell, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Names and texts of an Args section."""
    least = min((len(line) - len(line.lstrip()) for line in text.splitlines() if line.strip()), default=0)
    for entry in re.split(rf"\n(?= {{{least}}}\S)", text):
        name, _, said = entry.strip().partition(": ")
        yield name, said
