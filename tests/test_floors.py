"""The shape of the code: imports point down only, and importing a floor does not load a higher or heavier one."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = {
    "errors": 0,
    "text_files": 1,
    "models": 0,
    "weights": 1,
    "optim": 1,
    "muon": 0,
    "metrics": 1,
    "precision": 1,
    "averaging": 1,
    "cuda_graph": 1,
    "analysis": 1,
    "sampling": 1,
    "subsets": 1,
    "signals": 1,
    "images": 1,
    "jpegs": 1,
    "cut_kernel": 1,
    "chunks": 1,
    "progress": 1,
    "randaugment": 1,
    "mixing": 1,
    "augment": 1,
    "batch_augment": 1,
    "recipe": 2,
    "classifier": 2,
    "masked_patch": 2,
    "records": 2,
    "memory": 2,
    "device_decode": 2,
    "loaders": 2,
    "data": 2,
    "packing": 2,
    "checkup": 2,
    "speed": 2,
    "sweeps": 2,
    "commands": 3,
    "callbacks": 3,
    "finite_guard": 3,
    "early_stopping": 3,
    "checkpoints": 3,
    "loggers": 3,
    "monitors": 3,
    "notices": 3,
    "throughput": 3,
    "run_record": 3,
    "telling": 0,
    "runs": 2,
    "parser_errors": 2,
    "arguments": 3,
    "testing": 3,
    "cli": 4,
    "__main__": 4,
}
SIDES = ({"recipe", "classifier", "masked_patch"}, {"records", "memory", "device_decode", "loaders", "data"})
FILES = sorted((ROOT / "vit_lightning").rglob("*.py"))
NOT_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "base", "core"}


def imports(path: Path) -> set[str]:
    """Dotted names a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def part(dotted: str) -> str | None:
    """The floor's key for `vit_lightning.<part>...`."""
    first, _, rest = dotted.partition(".")
    return rest.partition(".")[0] if first == "vit_lightning" and rest else None


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path):
    own = path.relative_to(ROOT / "vit_lightning").with_suffix("").parts[0]
    if own == "__init__":
        assert imports(path) == set()
        return
    assert own in FLOORS, f"{path}: give {own} a floor"
    used = {name for name in map(part, imports(path)) if name in FLOORS} - {own}
    higher = {name for name in used if FLOORS[name] > FLOORS[own]}
    assert not higher, f"{own} imports {higher} from a higher floor"
    mine = next((side for side in SIDES if own in side), None)
    if mine:
        other = set().union(*(side for side in SIDES if side is not mine))
        assert not used & other, f"{own} meets the other side: {used & other}"
    if own == "models":
        assert not any(name.startswith(("lightning", "pytorch_lightning", "torchvision")) for name in imports(path))


def test_nothing_imports_the_plugin_package():
    for path in FILES:
        assert not any(name.partition(".")[0] == "datamodules" for name in imports(path)), path


def test_plugins_use_the_contract_alone():
    allowed = {name for name, floor in FLOORS.items() if floor <= 1} | {"data"}
    for path in (ROOT / "datamodules").rglob("*.py"):
        assert {name for name in map(part, imports(path)) if name in FLOORS} <= allowed, path


def test_names_say_what_a_file_is_for():
    for path in [*FILES, *(ROOT / "datamodules").rglob("*.py")]:
        assert path.stem not in NOT_NAMES, path


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("vit_lightning", ["torch", "lightning"]),
        ("vit_lightning.models", ["lightning", "torchvision"]),
        ("vit_lightning.cli", ["datamodules", "sklearn", "pyarrow"]),
    ],
)
def test_importing_stays_light(module, absent):
    code = f"import sys, {module}; print([name for name in {absent} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
