"""The run verbs that Lightning lacks are methods of the Trainer, and its own stay its own."""

import importlib

import pytest
from lightning.pytorch import Trainer

from vit_lightning.cli.verb_trainer import OWN_VERBS, VerbTrainer
from vit_lightning.commands import VERBS
from vit_lightning.runs.checkpoints import WholeCheckpoints


def test_every_run_verb_is_a_method_of_the_trainer():
    assert issubclass(VerbTrainer, WholeCheckpoints)
    runs = [verb.name for verb in VERBS if verb.kind == "run"]
    assert all(callable(getattr(VerbTrainer, name)) for name in runs)
    assert not any(hasattr(VerbTrainer, verb.name) for verb in VERBS if verb.kind == "file")
    assert [*OWN_VERBS] == [name for name in runs if name not in ("fit", "validate", "test")]


@pytest.mark.parametrize("name", ["fit", "validate", "test"])
def test_lightning_s_verbs_are_lightning_s(name):
    assert getattr(VerbTrainer, name) is getattr(Trainer, name)


@pytest.mark.parametrize("name", OWN_VERBS)
def test_our_verbs_are_the_functions_of_their_modules(name):
    function = getattr(VerbTrainer, name)
    assert function is getattr(importlib.import_module(f"vit_lightning.commands.{name}"), name)
    assert function.__name__ == name and getattr(Trainer, name, None) is not function
