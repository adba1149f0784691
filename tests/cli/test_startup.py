"""How long the command line takes to answer, beside what importing Lightning alone takes.

The figures themselves: python tests/cli/test_startup.py [rounds]
"""

import os
import statistics
import subprocess
import sys

import pytest

COMMANDS = {
    "import lightning.pytorch": ("-c", "import lightning.pytorch"),
    "fit --help": ("-m", "vit_lightning", "fit", "--help"),
    "fit --help all": ("-m", "vit_lightning", "fit", "--help", "all"),
    "--help": ("-m", "vit_lightning", "--help"),
    "export --help": ("-m", "vit_lightning", "export", "--help"),
}
GOAL = 1.3
"""What fit --help all may take, in imports of Lightning."""
BOUND = 2.0
"""Where a change must have gone wrong, on the noisiest machine."""

LOADED = """
import sys
import lightning.pytorch, torch
before = set(sys.modules)
import vit_lightning.cli.vit_cli
print(*sorted(set(sys.modules) - before))
"""
NEEDED = {"docstring_parser", "einops", "jsonargparse", "lightning", "safetensors", "torchvision", "typeshed_client"}
"""Packages that parsing and the classes behind the flags of fit need."""


def seconds(words: tuple[str, ...]) -> float:
    """Processor time, which other processes disturb less than they do the wall clock."""
    before = os.times()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def measure(names: tuple[str, ...], rounds: int) -> dict[str, list[float]]:
    figures = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            figures[name].append(seconds(COMMANDS[name]))
    return figures


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """Packages that the command line loads beside Lightning; all are in the caches of files and byte code then."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()} - set(sys.stdlib_module_names)


def test_help_takes_little_more_than_importing_lightning(loaded):
    names = ("import lightning.pytorch", "fit --help all", "fit --help", "--help")
    imported, complete, page, overview = (statistics.median(times) for times in measure(names, 1).values())
    assert complete < BOUND * imported
    assert page < 0.3 * imported
    assert overview < 0.2 * imported


def test_the_command_line_loads_little_beside_lightning(loaded):
    """What a verb, a logger or a sort of checkpoint needs is loaded where it is used."""
    assert loaded <= NEEDED | {"vit_lightning"}


if __name__ == "__main__":
    seconds(COMMANDS["fit --help all"])  # fills the caches of files and byte code, those of all others among them
    figures = measure(tuple(COMMANDS), int(sys.argv[1]) if len(sys.argv) > 1 else 7)
    base = statistics.median(figures["import lightning.pytorch"])
    for name, times in figures.items():
        median = statistics.median(times)
        spread = f"{min(times):.2f} to {max(times):.2f}"
        print(f"{name:<26} {median:.2f} s ({spread}) = {median / base:.2f} imports of Lightning")
    print(f"goal of fit --help all: {GOAL}")
