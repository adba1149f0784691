"""The shape of the code: imports point down only, without circles, and importing a floor loads no heavier one."""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = (
    ("__main__",),
    ("cli",),
    ("commands",),
    ("callbacks", "classifier", "masked_patch", "predictor"),
    ("datamodules", "training", "weights", "testing", "evaluation", "inspection"),
    ("data", "runs", "compute"),
    ("augment", "models", "contracts", "files", "yaml_files"),
    ("seeds", "terminal", "errors", "private_api", "processes"),
)
"""Rooms from the top floor down; a room may import those of its own floor and of the floors below."""
FLOOR = {room: -floor for floor, rooms in enumerate(FLOORS) for room in rooms}
FILES = sorted(path for package in ("vit_lightning", "datamodules") for path in (ROOT / package).rglob("*.py"))
NOT_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "base", "core"}


def module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module(path): path for path in FILES}


def imports(path: Path) -> set[str]:
    """Dotted names that a file imports, wherever in the file, type hints included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return found


def room(dotted: str) -> str | None:
    """The room of a module of ours: its folder or file below the package."""
    package, _, rest = dotted.partition(".")
    if package == "datamodules":
        return package
    return rest.partition(".")[0] if package == "vit_lightning" and rest else None


def rooms_used(path: Path) -> set[str]:
    return {name for name in map(room, imports(path)) if name is not None}


def circles(arrows: dict[str, set[str]]) -> list[str]:
    """The modules of a circle of arrows; empty without one."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path):
    own = room(module(path))
    if own is None:
        at_once = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        assert at_once == [], f"importing {module(path)} must load nothing"
        return
    assert own in FLOOR, f"{path}: give {own} a floor"
    above = {name for name in rooms_used(path) if FLOOR[name] > FLOOR[own]}
    assert not above, f"{own} imports {above} from a higher floor"


def test_rooms_import_each_other_in_no_circle():
    arrows: dict[str, set[str]] = {}
    for path in FILES:
        if own := room(module(path)):
            arrows.setdefault(own, set()).update(rooms_used(path) - {own})
    assert circles(arrows) == []


def test_files_import_each_other_in_no_circle():
    """A package's own file only hands on what the files in it hold, and counts as none of them."""
    faces = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    arrows = {name: (imports(path) & MODULES.keys()) - faces for name, path in MODULES.items() if name not in faces}
    assert circles(arrows) == []


def test_models_are_plain_torch():
    for path in (ROOT / "vit_lightning/models").rglob("*.py"):
        assert not {name.partition(".")[0] for name in imports(path)} & {
            "lightning",
            "pytorch_lightning",
            "torchvision",
        }


def test_nothing_imports_the_plugin_package():
    for path in (ROOT / "vit_lightning").rglob("*.py"):
        assert "datamodules" not in rooms_used(path), path


def test_names_say_what_a_file_is_for():
    for path in FILES:
        assert path.stem not in NOT_NAMES, path


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("vit_lightning", ["torch", "lightning"]),
        ("vit_lightning.commands.sweep", ["torch", "lightning"]),
        ("vit_lightning.runs.folders", ["torch", "lightning"]),
        ("vit_lightning.models", ["lightning", "torchvision"]),
        ("vit_lightning.cli.vit_cli", ["datamodules", "sklearn", "pyarrow"]),
    ],
)
def test_importing_stays_light(module, absent):
    code = f"import sys, {module}; print([name for name in {absent} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
