"""The flags of every verb are those of the frozen list, so that a change of one is a line in a commit.

To write the list anew: python -m tests.cli.test_flags
"""

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.cli.parsers import flags_of
from vit_lightning.cli.plugins import DATAMODULES, data_flags
from vit_lightning.commands import VERBS, named

FOLDER = Path(__file__).parent / "flags"
SHARED = "run"
OURS = sorted(plugin.name for plugin in entry_points(group=DATAMODULES) if plugin.value.startswith("datamodules."))


def lists() -> dict[str, list[str]]:
    """Flags that all run verbs share; those that each verb has besides; those that each datamodule adds."""
    shared = set.intersection(*(set(flags_of(verb)) for verb in named("run")))
    found = {SHARED: sorted(shared)}
    for verb in VERBS:
        flags = flags_of(verb.name)
        found[verb.name] = [flag for flag in flags if flag not in shared] if verb.kind == "run" else flags
    inherited = set(data_flags(None))
    found["data"] = sorted(f"{name} --{flag}" for name in OURS for flag in data_flags(name) if flag not in inherited)
    return found


def test_the_flags_are_the_frozen_ones():
    found = lists()
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(found)
    for name, flags in found.items():
        frozen = (FOLDER / f"{name}.txt").read_text().splitlines()
        assert flags == frozen, f"flags of {name} changed; if that is meant: python -m tests.cli.test_flags"


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_a_verb_has_flags(verb):
    assert "--help" in flags_of(verb)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, flags in lists().items():
        (FOLDER / f"{name}.txt").write_text("".join(f"{flag}\n" for flag in flags))
