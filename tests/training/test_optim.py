"""Recipes held against the formulas of the papers' code and against independent updates."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.training.optim import Optim, Schedule, parameter_groups

TINY = NetConfig(variant="mu/16", patch=8, depth=2, registers=2)


@pytest.fixture
def net() -> nn.Module:
    return build(TINY, image_size=32, num_classes=3)


def test_linear_schedule_ends_at_1e5_as_the_official_code():
    schedule = Schedule(decay="linear", warmup_steps=10_000)
    assert schedule.lr(0, 1e-3, 310_000) == 0
    assert schedule.lr(5_000, 1e-3, 310_000) == pytest.approx(0.5 * (1e-5 + 0.99e-3), rel=1e-12)
    assert schedule.lr(10_000, 1e-3, 310_000) == pytest.approx(1e-3, rel=1e-12)
    assert schedule.lr(160_000, 1e-3, 310_000) == pytest.approx(1e-5 + 0.99e-3 / 2, rel=1e-12)
    assert schedule.lr(310_000, 1e-3, 310_000) == pytest.approx(1e-5, rel=1e-12)


def test_cosine_schedule_ends_at_zero():
    schedule = Schedule(decay="cosine", warmup_steps=500)
    assert schedule.lr(0, 0.03, 20_000) == 0
    assert schedule.lr(500, 0.03, 20_000) == 0.03
    assert schedule.lr(10_250, 0.03, 20_000) == pytest.approx(0.015)
    assert schedule.lr(20_000, 0.03, 20_000) == 0


def test_rsqrt_schedule_with_cooldown():
    schedule = Schedule(decay="rsqrt", warmup_steps=10_000, timescale=10_000, cooldown_steps=50_000)
    assert schedule.lr(10_000, 8e-4, 1_000_000) == 8e-4
    assert schedule.lr(40_000, 8e-4, 1_000_000) == pytest.approx(4e-4)
    assert schedule.lr(975_000, 8e-4, 1_000_000) == pytest.approx(8e-4 / math.sqrt(97.5) / 2)
    assert schedule.lr(1_000_000, 8e-4, 1_000_000) == 0


def test_step_schedule_falls_to_a_tenth_as_bit_does():
    schedule = Schedule(decay="step", warmup_steps=5000)
    epoch = 3466  # steps of 4096 images on ImageNet-21k
    rates = [schedule.lr(round(epochs * epoch), 0.48, 90 * epoch) for epochs in (0, 29.9, 30, 60, 79.9, 80, 90)]
    assert rates == pytest.approx([0, 0.48, 0.048, 0.0048, 0.0048, 0.00048, 0.00048], rel=1e-12)
    with pytest.raises(InputError, match="milestones"):
        Schedule(decay="step", milestones=(30, 60))


@given(
    decay=st.sampled_from(["linear", "cosine", "rsqrt", "constant"]),
    total=st.integers(2, 10_000),
    warmup=st.integers(0, 10_000),
    base=st.floats(1e-5, 1.0),
)
def test_schedule_rises_to_the_peak_and_never_above(decay, total, warmup, base):
    warmup = min(warmup, total - 1)
    schedule = Schedule(decay=decay, warmup_steps=warmup, end_lr=0.0)
    curve = [schedule.lr(step, base, total) for step in range(0, total + 1, max(1, total // 50))]
    assert all(0 <= lr <= base * (1 + 1e-12) for lr in curve)
    assert schedule.lr(warmup, base, total) == pytest.approx(base)
    after = [schedule.lr(step, base, total) for step in range(warmup, total + 1, max(1, total // 50))]
    assert after == sorted(after, reverse=True)


def test_warmup_longer_than_the_run_is_refused():
    with pytest.raises(InputError, match="warm-up of 10 steps does not fit into a run of 10"):
        Schedule(warmup_steps=10).check(10)


def test_paper_adam_decays_every_parameter(net):
    (group,) = parameter_groups(net, Optim(name="adam", weight_decay=0.1))
    assert group["weight_decay"] == 0.1
    assert sorted(group["parameter_names"]) == sorted(name for name, _ in net.named_parameters())


def test_adamw_spares_vectors_tokens_and_tables(net):
    groups = parameter_groups(net, Optim(name="adamw", weight_decay=0.05))
    spared = {name for group in groups if group["weight_decay"] == 0 for name in group["parameter_names"]}
    vectors = {name for name, parameter in net.named_parameters() if parameter.ndim == 1}
    assert spared == vectors | {"class_token", "registers", "position.table"}
    assert sum(len(group["params"]) for group in groups) == len(list(net.parameters()))


def test_layer_decay_sets_the_real_lr(net):
    groups = parameter_groups(net, Optim(name="adamw", lr=0.8, weight_decay=0.05, layer_decay=0.5))
    lr = {name: group["lr"] for group in groups for name in group["parameter_names"]}
    assert [
        lr["patches.proj.weight"],
        lr["blocks.0.mlp.up.weight"],
        lr["blocks.1.mlp.up.weight"],
        lr["head.weight"],
    ] == [
        0.1,
        0.2,
        0.4,
        0.8,
    ]
    assert lr["class_token"] == lr["position.table"] == 0.1


def test_frozen_parameters_are_in_no_group(net):
    net.requires_grad_(False)
    net.head.requires_grad_(True)
    assert [name for group in parameter_groups(net, Optim()) for name in group["parameter_names"]] == [
        "head.weight",
        "head.bias",
    ]


def test_adam_step_is_the_decoupled_rule():
    """p <- p - lr * (adam + wd * p), as the official code decays, by hand for two steps of one parameter."""
    weight = nn.Linear(1, 1, bias=False)
    nn.init.constant_(weight.weight, 2.0)
    optimizer = Optim(name="adam", lr=0.1, weight_decay=0.3).build(weight)
    p, m, v = 2.0, 0.0, 0.0
    for step, gradient in enumerate((0.5, -1.5), start=1):
        weight.weight.grad = torch.tensor([[gradient]])
        optimizer.step()
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        p -= 0.1 * (m / (1 - 0.9**step) / (math.sqrt(v / (1 - 0.999**step)) + 1e-8) + 0.3 * p)
        assert weight.weight.item() == pytest.approx(p, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "idle", "value", "said"),
    [
        ("adam", "momentum", 0.8, "momentum 0.8 does nothing beside --model.optim.name adam,"),
        ("adamw", "momentum", 0.8, "for it is sgd's; leave it at 0.9"),
        ("muon", "momentum", 0.8, "momentum 0.8 does nothing beside --model.optim.name muon,"),
        ("sgd", "betas", (0.9, 0.95), "for it is Adam's; leave it at (0.9, 0.999)"),
    ],
)
def test_a_number_of_another_rule_is_refused(name, idle, value, said):
    with pytest.raises(InputError) as fault:
        Optim(name=name, **{idle: value})
    assert said in str(fault.value)


def test_every_rule_takes_the_defaults_also_as_a_checkpoint_holds_them():
    for name in ("adam", "adamw", "sgd", "muon"):
        optim = Optim(name=name, momentum=0.9, betas=[0.9, 0.999])
        assert (optim.name, optim.momentum, tuple(optim.betas)) == (name, 0.9, (0.9, 0.999))
    assert Optim(name="sgd", momentum=0.8).momentum == 0.8
    assert Optim(name="muon", betas=(0.9, 0.95)).betas == (0.9, 0.95)


def test_sgd_has_plain_momentum_and_no_decay_by_default():
    weight = nn.Linear(1, 1, bias=False)
    nn.init.constant_(weight.weight, 1.0)
    optimizer = Optim(name="sgd", lr=0.1).build(weight)
    for expected in (0.9, 0.71):
        weight.weight.grad = torch.ones(1, 1)
        optimizer.step()
        assert weight.weight.item() == pytest.approx(expected)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lr": -1},
        {"weight_decay": -0.1},
        {"layer_decay": 0},
        {"layer_decay": 1.5},
        {"name": "sgd", "momentum": 1.5},
        {"name": "sgd", "momentum": float("nan")},
        {"betas": (1.5, 0.9)},
        {"betas": (0.9, -0.1)},
    ],
    ids=str,
)
def test_impossible_numbers_are_refused(wrong):
    with pytest.raises(InputError):
        Optim(**wrong)


@pytest.mark.parametrize(
    "allowed",
    [
        {"lr": 0},
        {"weight_decay": 0},
        {"betas": (0.0, 0.0)},
        {"layer_decay": 1},
        {"layer_decay": 1e-3},
        {"name": "sgd", "momentum": 0},
    ],
    ids=str,
)
def test_the_ends_of_a_range_belong_to_it(allowed):
    assert all(getattr(Optim(**allowed), name) == value for name, value in allowed.items())


@pytest.mark.parametrize("field", ["lr", "weight_decay"])
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_rate_without_an_end_is_refused(field, value):
    with pytest.raises(InputError, match=f"--model.optim.{field} is {value}"):
        Optim(**{field: value})


@pytest.mark.parametrize("betas", [(1, 0.9), (0.9, 1)])
def test_a_moment_that_forgets_nothing_is_refused(betas):
    with pytest.raises(InputError, match=r"must lie in \[0, 1\)"):
        Optim(betas=betas)


@pytest.mark.parametrize(
    ("field", "least", "expected"),
    [
        ("warmup_steps", 0, "finite and not negative"),
        ("end_lr", 0, "finite and not negative"),
        ("cooldown_steps", 0, "finite and not negative"),
        ("timescale", 1, "positive"),
    ],
)
def test_steps_and_rates_of_a_schedule_have_limits(field, least, expected):
    assert getattr(Schedule(**{field: least}), field) == least
    for wrong in (least - 1, math.inf, math.nan):
        with pytest.raises(InputError, match=f"--model.schedule.{field} is {wrong}; it must be {expected}"):
            Schedule(**{field: wrong})


@pytest.mark.parametrize("share", [0, 1])
def test_a_milestone_lies_inside_the_run(share):
    with pytest.raises(InputError, match="each is a share of the run, 0 to 1"):
        Schedule(decay="step", milestones=(share,))


def test_a_schedule_needs_a_run_with_room_for_its_warmup():
    Schedule().check(1)
    Schedule(warmup_steps=9).check(10)
    with pytest.raises(InputError, match="the run has no optimiser step"):
        Schedule().check(0)
    with pytest.raises(InputError, match="needs the run's length"):
        Schedule().check(math.inf)


@pytest.mark.parametrize("decay", ["linear", "cosine", "step", "rsqrt", "constant"])
def test_what_follows_the_horizon_is_what_another_length_changes(decay):
    for cooldown in (0, 10):
        schedule = Schedule(decay=decay, warmup_steps=2, cooldown_steps=cooldown)
        differs = any(schedule.lr(step, 1.0, 100) != schedule.lr(step, 1.0, 200) for step in range(100))
        assert schedule.follows_horizon() == differs


@pytest.mark.parametrize(("decay", "last"), [("linear", 1e-5), ("cosine", 0), ("step", 1e-3), ("constant", 1)])
def test_beyond_its_end_a_schedule_stays_where_it_ended(decay, last):
    schedule = Schedule(decay=decay, warmup_steps=2)
    assert [schedule.lr(step, 1.0, 10) for step in (10, 11, 50)] == pytest.approx([last] * 3)
    assert Schedule(decay=decay, cooldown_steps=5).lr(11, 1.0, 10) == 0


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "muon"])
def test_what_decays_may_be_chosen_whatever_the_rule(net, name):
    kernels = {own for own, parameter in net.named_parameters() if parameter.ndim == 2}
    for decay_on, expected in (
        ("all", {own for own, _ in net.named_parameters()}),
        ("kernels", kernels),
        (None, kernels if name in ("adamw", "muon") else {own for own, _ in net.named_parameters()}),
    ):
        groups = parameter_groups(net, Optim(name=name, weight_decay=0.1, decay_on=decay_on))
        decaying = {own for group in groups if group["weight_decay"] == 0.1 for own in group["parameter_names"]}
        assert decaying == expected


def test_a_net_without_anything_to_train_is_refused(net):
    net.requires_grad_(False)
    with pytest.raises(InputError, match="no parameter is left to train"):
        Optim().build(net)


def test_layers_that_have_no_order_cannot_decay():
    with pytest.raises(InputError, match="layer_decay needs a net with layers in order; Linear has none: use 1"):
        parameter_groups(nn.Linear(2, 2), Optim(layer_decay=0.5))
    assert len(parameter_groups(nn.Linear(2, 2), Optim(layer_decay=1))) == 1
