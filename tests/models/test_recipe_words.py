"""What of a recipe is told: the part of the net that is trained, and the settings that its rules read."""

from dataclasses import asdict

import pytest

from vit_lightning.errors import InputError
from vit_lightning.models.recipe_words import effective, trained_part
from vit_lightning.training.optim import Optim, Schedule


@pytest.mark.parametrize("decay", ["linear", "cosine", "rsqrt", "step", "constant"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("end_lr", 1e-2), ("timescale", 3), ("milestones", (0.2, 0.3)), ("allow_horizon_change", True)),
        *(("warmup_steps", 4), ("cooldown_steps", 4)),
    ],
)
def test_of_a_schedule_what_moves_the_rate_is_told(decay, field, value):
    plain, changed = Schedule(decay=decay), Schedule(**{"decay": decay, field: value})
    moves = any(plain.lr(step, 0.1, 20) != changed.lr(step, 0.1, 20) for step in range(20))
    assert (field in effective("schedule", asdict(changed))) == moves


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "muon"])
@pytest.mark.parametrize(("field", "value"), [("momentum", 0.5), ("betas", (0.5, 0.6))])
def test_of_an_optimiser_what_it_takes_is_told(name, field, value):
    try:
        takes = bool(Optim(**{"name": name, field: value}))
    except InputError:
        takes = False
    assert (field in effective("optim", asdict(Optim(name=name)))) == takes
    assert {"name", "lr", "weight_decay", "layer_decay"} <= effective("optim", asdict(Optim(name=name))).keys()


def test_what_is_not_known_is_told():
    assert effective("own", {"a": 1}) == {"a": 1} and effective("optim", {"odd": 1}) == {"odd": 1}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"freeze_trunk": True, "lora": {"rank": 0}}, "the head alone; the net before it was frozen"),
        ({"bias_only": True, "lora": "odd"}, "the biases, and the head"),
        ({"lora": {"rank": 8}}, "low-rank updates of rank 8, and the head"),
        ({"freeze_trunk": False, "bias_only": False, "lora": {"rank": 0}}, "all parameters"),
        ({}, "all parameters"),
    ],
)
def test_the_part_that_is_trained(settings, said):
    assert trained_part(settings) == said
