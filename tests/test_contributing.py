"""The guide for contributors names files that exist, commands that CI runs, and the floors that are tested."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.test_floors import FLOORS

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / ".github/CONTRIBUTING.md").read_text()
PATHS = sorted(
    set(re.findall(r"`((?:\.?\w[\w.]*/)+[\w.*]*|\.ci/run|[\w.]+\.(?:md|toml|yaml))`", GUIDE))
    - {"golden/", "last.ckpt", "config.yaml"}
)
ROWS = [line.strip("| ").split(" | ") for line in GUIDE.splitlines() if line.startswith("| ")]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_exists(path):
    assert list(ROOT.glob(path)), f"{path} does not exist: name the file that is copied or changed today"


def test_every_kind_of_part_has_a_place():
    parts = " ".join(row[0] for row in ROWS)
    for part in (
        *("augmentation", "optimiser", "score", "callback", "verb", "datamodule", "weights layout", "net"),
        *("GPU kernel", "experiment", "test"),
    ):
        assert part in parts


def test_the_floors_are_those_that_are_tested():
    drawn = re.search(r"```\n(__main__\n.*?)```", GUIDE, flags=re.S)[1]
    assert [tuple(line.split()) for line in drawn.splitlines()] == [tuple(floor) for floor in FLOORS]


def test_ci_runs_the_commands_of_the_guide():
    ci = (ROOT / ".ci/run").read_text()
    for command in ("ruff check .", "ruff format --check .", "mypy", "OMP_NUM_THREADS=1 python -m pytest -n auto"):
        assert command in GUIDE and command in ci


def test_ci_tries_the_lowest_versions_of_pyproject():
    ci = (ROOT / ".ci/run").read_text()
    second = ci.partition("the second run")[2]
    assert "--resolution lowest-direct -e '.[test]'" in second and not re.search(r"[=~<>]=\d", second)
    tried = re.findall(r"tests/\S+", second)
    assert tried and all((ROOT / path).exists() for path in tried)


def test_what_is_installed_has_a_lowest_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [need for extra in project["optional-dependencies"].values() for need in extra]
    for need in [*project["dependencies"], *extras]:
        assert ">=" in need or "==" in need or need.startswith("vit-lightning["), f"{need} has no lower bound"


def test_hooks_run_what_the_test_extra_installs():
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["test"]
    [repository] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    tools = {hook["entry"].split()[0] for hook in repository["hooks"]}
    assert tools == {"ruff", "mypy"}
    assert all(any(line.startswith(f"{tool}==") for line in extra) for tool in tools)
    assert repository["repo"] == "local" and all(hook["language"] == "system" for hook in repository["hooks"])


def test_the_types_that_are_checked_exist():
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["files"]
    for path in checked:
        assert (ROOT / path).exists(), path
    for package in ("vit_lightning", "datamodules"):
        assert (ROOT / package / "py.typed").is_file()
