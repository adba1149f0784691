"""The table of verbs names what is there, and loads nothing."""

import subprocess
import sys
from importlib import import_module

import pytest
from lightning.pytorch.cli import LightningCLI

from vit_lightning.cli.verb_trainer import VerbTrainer
from vit_lightning.commands import LIGHTNING_VERBS, VERBS, named


def test_lightnings_verbs_are_lightnings_and_its_predict_is_ours():
    assert {*LIGHTNING_VERBS, "predict"} == set(LightningCLI.subcommands())


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_verb_is_a_function_of_its_name(verb):
    if verb.name not in LIGHTNING_VERBS:
        assert callable(getattr(import_module(f"vit_lightning.commands.{verb.name}"), verb.name))
    assert hasattr(VerbTrainer, verb.name) == (verb.name in named("run"))
    assert verb.help[0].islower() and not verb.help.endswith(".")


def test_the_table_loads_nothing_heavy():
    code = "import sys, vit_lightning.commands; print({'torch', 'lightning', 'jsonargparse'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
