"""Private names of other libraries: each exists as expected, each use is listed, each library has an upper bound."""

import ast
import importlib
import inspect
import pkgutil
import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from filelock import FileLock
from lightning.pytorch import Trainer
from packaging.requirements import Requirement

from vit_lightning.private_api import PRIVATE_NAMES, PrivateName, cluster_environment, lock_descriptor

ROOT = Path(__file__).parent.parent
OURS = ("vit_lightning", "datamodules")
FILES = sorted(path for package in OURS for path in (ROOT / package).rglob("*.py") if path.stem != "__main__")
PRIVATE = re.compile(r"_[A-Za-z]\w*")
NAMEDTUPLE = {"_replace", "_asdict", "_fields", "_make"}
"""Public in spite of their names."""


def is_private(name: str) -> bool:
    return PRIVATE.fullmatch(name) is not None and name not in NAMEDTUPLE


def room(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "vit_lightning" else parts[0]


def accessed(tree: ast.AST) -> set[str]:
    """Private names that a file imports from others, or asks of anything but self and cls."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
                found.add(name)
            case ast.ImportFrom(module=module, names=names) if module.partition(".")[0] not in OURS:
                found |= {*module.split("."), *(alias.name for alias in names)}
            case ast.Import(names=names):
                found |= {part for alias in names for part in alias.name.split(".")}
    return {name for name in found if is_private(name)}


def defined(tree: ast.AST) -> set[str]:
    """Private names that a file defines itself."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                found.add(name)
    return {name for name in found if is_private(name)}


def privates_of(owner: type) -> set[str]:
    """Private names in the source of a class that are its own: methods, and attributes of self."""
    try:
        source = inspect.getsource(owner)
    except (OSError, TypeError):  # it is not written in Python
        return set()
    found = re.findall(r"\b(?:self|cls|super\(\))\.(_[a-z]\w*)|\bdef (_[a-z]\w*)", source)
    return {name for names in found for name in names if name and is_private(name)}


def shared_with_bases(path: Path) -> set[str]:
    """Private names that a class of ours has in common with a base class from another library."""
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    found: set[str] = set()
    for owner in vars(module).values():
        if not (inspect.isclass(owner) and owner.__module__ == module.__name__):
            continue
        for base in owner.__mro__[1:]:
            package = base.__module__.partition(".")[0]
            if package not in OURS and package not in sys.stdlib_module_names - {"argparse"}:
                found |= privates_of(owner) & privates_of(base)
    return found


def listed(row: PrivateName) -> set[str]:
    """Private parts of a row's name: `_utils` and `_flatten_dense_tensors` of torch's."""
    return {part for part in row.name.split(".") if is_private(part)}


def owner_and_attribute(row: PrivateName) -> tuple[object, str]:
    owner, _, attribute = row.name.rpartition(".")
    return pkgutil.resolve_name(owner), attribute


@pytest.mark.parametrize("row", PRIVATE_NAMES, ids=lambda row: row.name)
def test_a_private_name_exists_as_it_is_used(row):
    owner, attribute = owner_and_attribute(row)
    if not hasattr(owner, attribute):  # an instance gets it
        sources = [inspect.getsource(base) for base in owner.__mro__ if base is not object and base.__module__ != "abc"]
        assert any(re.search(rf"\bself\.{attribute}\b", source) for source in sources), f"{row.name} is gone"
    if row.parameters is not None:
        assert tuple(inspect.signature(getattr(owner, attribute)).parameters) == row.parameters


def test_every_use_is_listed_and_nothing_else():
    trees = {path: ast.parse(path.read_text()) for path in FILES}
    ours = set().union(*map(defined, trees.values())) - set().union(*map(listed, PRIVATE_NAMES))
    used: dict[str, set[str]] = {}
    for path, tree in trees.items():
        used.setdefault(room(path), set()).update(accessed(tree) - ours, shared_with_bases(path))
    known: dict[str, set[str]] = {}
    for row in PRIVATE_NAMES:
        known.setdefault(row.room, set()).update(listed(row))
    for name, found in used.items():
        assert found <= known.get(name, set()), f"add to private_api.PRIVATE_NAMES what {name} uses"
    for row in PRIVATE_NAMES:
        assert row.name.rpartition(".")[2] in used[row.room], f"{row.room} no longer uses {row.name}: remove its row"


def test_libraries_whose_private_names_are_used_have_an_upper_bound():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = {need.name: need.specifier for need in map(Requirement, project["dependencies"])}
    for library in {row.library for row in PRIVATE_NAMES} - {"python"}:
        assert any(bound.operator == "<" for bound in bounds[library]), library
        assert version(library).partition("+")[0] in bounds[library], f"{library} was not tested"


def test_a_held_lock_has_a_descriptor(tmp_path):
    lock = FileLock(tmp_path / "lock")
    assert lock_descriptor(lock) is None
    with lock:
        assert lock_descriptor(lock) > 0


def test_a_trainer_of_one_device_knows_no_cluster():
    trainer = Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False)
    assert cluster_environment(trainer) is None or not cluster_environment(trainer).creates_processes_externally
