"""What a run is said to cost, against sums by hand."""

import math
from types import SimpleNamespace

import pytest
import torch
from lightning.fabric.utilities.data import AttributeDict
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, SingleDeviceStrategy
from torch import nn

from tests.callbacks.test_plan_lines import model as classifier
from tests.callbacks.test_plan_lines import planned
from vit_lightning.callbacks.run_estimate import (
    GAPS,
    RunEstimate,
    cost_in_words,
    estimate,
    estimate_line,
    flops_per_image,
    memory_in_words,
    training_memory,
)
from vit_lightning.compute.cost import training_flops
from vit_lightning.compute.memory import Step, TrainingMemory, activations
from vit_lightning.models import NetConfig

CONFIG, SIZE = NetConfig("mu/8", depth=3), (16, 24)
KEPT, BIASES = 6, 2
"""Parameters of the model below: those of a kernel, and those of its bias."""
ALL = KEPT + BIASES


def model(frozen: bool = False, **facts: object) -> nn.Module:
    made = nn.Linear(3, 2)
    made.weight.requires_grad_(not frozen)
    made.config, made.hparams = CONFIG, AttributeDict(image_size=SIZE, num_classes=3, **facts)
    return made


def trainer(made, precision="32-true", strategy=SingleDeviceStrategy, processes=1, device="cpu", optimizer=None):
    """A trainer on devices of a kind, whose optimiser is AdamW if it is not given."""
    standing = type("Standing", (strategy,), {"root_device": torch.device(device)})
    trained = [parameter for parameter in made.parameters() if parameter.requires_grad]
    optimizers = [optimizer(trained) if optimizer else torch.optim.AdamW(trained)]
    strategy = object.__new__(standing)
    return SimpleNamespace(precision=precision, strategy=strategy, world_size=processes, optimizers=optimizers)


def begun() -> SimpleNamespace:
    return planned(callbacks=[], max_steps=-1)


def kept(batch: int = 4, **step: object) -> int:
    return activations(CONFIG, SIZE, 3, Step(batch, **step))


@pytest.mark.parametrize(
    ("precision", "expected", "step"),
    [
        ("32-true", (4 * ALL, 4 * ALL, 8 * ALL), {}),
        ("64-true", (8 * ALL, 8 * ALL, 16 * ALL), {"activation_bytes": 8, "stream_bytes": 8}),
        ("bf16-true", (2 * ALL, 2 * ALL, 4 * ALL), {"activation_bytes": 2, "stream_bytes": 2}),
        ("bf16-mixed", (6 * ALL, 4 * ALL, 8 * ALL), {"activation_bytes": 2}),
        ("16-mixed", (6 * ALL, 4 * ALL, 8 * ALL), {"activation_bytes": 2}),
    ],
)
def test_the_bytes_of_each_precision(precision, expected, step):
    made = model()
    found = training_memory(made, 4, trainer(made, precision))
    assert found == (*expected, int(GAPS * kept(**step)))
    on_gpu = training_memory(made, 4, trainer(made, precision, device="cuda"))
    assert on_gpu == (*expected, kept(on_gpu=True, **step))


@pytest.mark.parametrize(
    ("facts", "weights", "step"),
    [
        ({"averaging": {"decay": 0.9}}, 8 * ALL, {}),
        ({"averaging": {"decay": 0.0}}, 4 * ALL, {}),
        ({"lora": {"rank": 2}}, 8 * ALL, {}),
        ({"lora": {"rank": 0}}, 4 * ALL, {}),
        ({"recompute": True}, 4 * ALL, {"recompute": True}),
        ({"bias_only": True}, 4 * ALL, {"trained": "biases"}),
        ({"freeze_trunk": True}, 4 * ALL, {"trained": "head"}),
        ({"compile": True}, 4 * ALL, {"on_gpu": False}),
    ],
    ids=str,
)
def test_what_a_recipe_adds(facts, weights, step):
    made = model(**facts)
    found = training_memory(made, 4, trainer(made, device="cuda"))
    assert (found.weights, found.activations) == (weights, kept(**{"on_gpu": True} | step))


def test_autocast_keeps_no_copy_of_what_is_frozen():
    made = model(freeze_trunk=True, frozen=True)
    found = training_memory(made, 4, trainer(made, "bf16-mixed"))
    assert found[:3] == (4 * ALL, 4 * BIASES, 8 * BIASES)


def test_processes_share_or_gather():
    made = model()
    assert training_memory(made, 4, trainer(made, strategy=DDPStrategy, processes=2))[:3] == (32, 64, 64)
    assert training_memory(made, 4, trainer(made, strategy=DDPStrategy))[:3] == (32, 32, 64)
    sharded = training_memory(made, 4, trainer(made, strategy=ModelParallelStrategy, processes=2))
    assert sharded == (16, 16, 32, int(GAPS * kept()))


def test_each_optimiser_keeps_its_own_numbers():
    made = model()
    assert training_memory(made, 4, trainer(made, optimizer=lambda p: torch.optim.SGD(p, 0.1))).optimizer == 4 * ALL
    groups = trainer(made)
    groups.optimizers[0].param_groups[0]["muon"] = True
    assert training_memory(made, 4, groups).optimizer == 4 * ALL


@pytest.mark.parametrize(("arithmetic", "half"), [("bf16", True), ("fp16", True), ("fp32", False), ("tf32", False)])
def test_a_gpu_that_is_not_here(arithmetic, half):
    made = model()
    found = training_memory(made, 4, trainer(made), arithmetic)
    assert found.weights == (6 if half else 4) * ALL
    assert found.activations == kept(activation_bytes=2 if half else 4, on_gpu=True)


def test_a_run_is_estimated_from_its_length():
    """7 epochs of 4 batches of 5 images on 3 devices."""
    made = classifier()
    found = estimate(begun(), made)
    flops = training_flops(CONFIG, SIZE, 3)
    assert (found.steps, found.images) == (14, 420) and found.exaflops == pytest.approx(420 * flops / 1e18)
    assert found.memory == training_memory(made, 5, begun())
    assert found.figures == {
        "cost/estimated_exaflops": found.exaflops,
        "cost/estimated_memory_gib": sum(found.memory) / 2**30,
    }


def test_a_model_that_names_no_net_is_not_estimated():
    assert estimate(begun(), nn.Linear(1, 1)) == (14, math.inf, None, None)
    assert flops_per_image(nn.Linear(1, 1), computed=True) is None
    nothing = RunEstimate(14, math.inf, None, None)
    assert nothing.figures == {} and estimate_line(nothing) is None


@pytest.mark.parametrize("facts", [{"freeze_trunk": True}, {"bias_only": True}, {}], ids=str)
def test_flops_know_what_is_trained(facts):
    made = classifier(**facts)
    for computed in (True, False):
        frozen, biases = facts.get("freeze_trunk", False), facts.get("bias_only", False)
        expected = training_flops(CONFIG, SIZE, 3, frozen, computed, biases)
        assert flops_per_image(made, computed) == expected


def test_the_words():
    memory = TrainingMemory(2**28, 2**29, 2**30, 2**31)
    assert memory_in_words(memory) == "3.75 GiB on a device (weights 0.25, gradients 0.5, optimiser 1, activations 2)"
    small = TrainingMemory(2**20, 2**21, 2**22, 2**23)
    assert memory_in_words(small) == "15 MiB on a device (weights 1, gradients 2, optimiser 4, activations 8)"
    middling = TrainingMemory(170 * 2**20, 2**20, 199 * 2**20 + 2**19, 652 * 2**20)
    parts = "weights 170, gradients 1, optimiser 200, activations 650"
    assert memory_in_words(middling) == f"1,020 MiB on a device ({parts})"
    line = estimate_line(RunEstimate(1, 1, 12.5, small))
    assert line == f"estimate 12.5 exaFLOPs, {memory_in_words(small)}"


def test_costs_stand_beside_their_estimates():
    figures = {
        "cost/device_hours": 2.5,
        "cost/exaflops": 3.0,
        "cost/estimated_exaflops": 4.0,
        "cost/memory_gib": 5.0,
        "cost/estimated_memory_gib": 6.0,
        "cost/energy_kwh": 7.0,
    }
    found = cost_in_words(figures, on_gpu=True)
    assert found == "3 exaFLOPs (estimated 4), 2.5 device hours, peak memory 5 GiB (estimated 6), 7 kWh"
    on_cpu = "3 exaFLOPs (estimated 4), 2.5 device hours, peak memory of the process 5 GiB, 7 kWh"
    assert cost_in_words(figures, on_gpu=False) == on_cpu
    assert cost_in_words({"cost/device_hours": 2.5}, on_gpu=True) == "2.5 device hours"
