"""Muon beside torch's own and AdamW, and through the command line."""

import copy
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from vit_lightning.models import NetConfig, build
from vit_lightning.training.muon import Muon, orthogonal
from vit_lightning.training.optim import Optim

DATA = ("--data", "Synthetic", "--data.train_size", 48, "--data.eval_size", 8, "--data.num_workers", 0)
FIT = ("fit", *DATA, "--data.image_size", 16, "--data.batch_size", 8, "--model.net.variant", "mu/8")
FIT += ("--trainer.accelerator", "cpu", "--model.optim.name", "muon", "--model.optim.weight_decay", 0.05)
OPTIM = Optim(name="muon", lr=0.01, weight_decay=0.1)


def net() -> nn.Module:
    torch.manual_seed(0)
    return build(NetConfig("mu/8", depth=2), 16, 5)


def learn(net: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    dice = torch.Generator().manual_seed(1)
    for _ in range(steps):
        for parameter in net.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=dice)
        optimizer.step()


@settings(max_examples=30)
@given(st.integers(1, 3), st.integers(1, 12), st.integers(0, 20), st.floats(1e-6, 1e6), st.integers(0, 2**32))
def test_singular_values_come_near_one(count, rows, more, size, seed):
    dice = torch.Generator().manual_seed(seed)
    values = torch.linalg.svdvals(orthogonal(torch.randn(count, rows, rows + 2 + more, generator=dice) * size))
    assert values.min() > 0.4 and values.max() < 1.3


def test_a_step_without_a_gradient_changes_nothing_but_the_decay():
    assert torch.equal(orthogonal(torch.zeros(1, 2, 3)), torch.zeros(1, 2, 3))


def test_inner_kernels_learn_as_by_torchs_muon_and_the_rest_by_adamw():
    ours, theirs = net(), net()
    learn(ours, OPTIM.build(ours), 3)
    named = dict(theirs.named_parameters())
    inner = [name for name in named if "blocks." in name and named[name].ndim == 2]
    assert len(inner) == 2 * 4
    parts = {name: nn.Parameter(named[name].detach().clone()) for name in inner if "qkv" not in name}
    thirds = {
        f"{name} {third}": nn.Parameter(piece.clone())
        for name in inner
        if "qkv" in name
        for third, piece in enumerate(named[name].detach().chunk(3))
    }
    muon = torch.optim.Muon([*parts.values(), *thirds.values()], 0.01, 0.1, adjust_lr_fn="match_rms_adamw")
    outer = {name: parameter for name, parameter in named.items() if name not in inner}
    kernels = [parameter for name, parameter in outer.items() if name.endswith(".weight") and parameter.ndim == 2]
    others = [parameter for parameter in outer.values() if all(parameter is not kernel for kernel in kernels)]
    adamw = torch.optim.AdamW([{"params": kernels, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], 0.01)
    dice = torch.Generator().manual_seed(1)
    for _ in range(3):
        for name, parameter in named.items():
            gradient = torch.randn(parameter.shape, generator=dice)
            parameter.grad = gradient
            for third, piece in enumerate(gradient.chunk(3)):
                if f"{name} {third}" in thirds:
                    thirds[f"{name} {third}"].grad = piece
            if name in parts:
                parts[name].grad = gradient
        muon.step()
        adamw.step()
    for name, parameter in ours.named_parameters():
        if name in outer:
            torch.testing.assert_close(parameter, outer[name])
        elif name in parts:
            torch.testing.assert_close(parameter, parts[name], atol=2e-3, rtol=0)  # torch's iterates in bf16
        else:
            expected = torch.cat([thirds[f"{name} {third}"] for third in range(3)])
            torch.testing.assert_close(parameter, expected, atol=2e-3, rtol=0)


def test_its_state_goes_on():
    whole, first = net(), net()
    learn(whole, optimizer := OPTIM.build(whole), 2)
    learn(first, before := OPTIM.build(first), 2)
    after = OPTIM.build(rest := copy.deepcopy(first))
    after.load_state_dict(copy.deepcopy(before.state_dict()))
    learn(whole, optimizer, 1)
    learn(rest, after, 1)
    for one, other in zip(whole.parameters(), rest.parameters(), strict=True):
        assert torch.equal(one, other)


def test_frozen_blocks_and_layer_decay():
    some = net()
    some.blocks[0].requires_grad_(False)
    optimizer = Optim(name="muon", lr=1.0, layer_decay=0.5).build(some)
    assert isinstance(optimizer, Muon)
    rates = {group["lr"] for group in optimizer.param_groups if group["muon"]}
    assert rates == {0.5}  # block 1 of 2; the head learns at 1


def test_a_resumed_fit_ends_as_an_uninterrupted_one(app):
    constant = ("--model.schedule.decay", "constant", "--trainer.max_epochs", 2)
    for name, words in (("whole", ()), ("part", ("--trainer.max_steps", 7)), ("part", ("--ckpt_path", "last"))):
        Path(f"{name}.yaml").write_text("{}\n")
        done = app(*FIT, *constant, "-c", f"{name}.yaml", *words)
        assert done.code == 0, done.err
    states = [torch.load(f"runs/{name}/0/checkpoints/last.ckpt", weights_only=True) for name in ("whole", "part")]
    assert [state["global_step"] for state in states] == [12, 12]
    whole, resumed = (state["state_dict"] for state in states)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--model.net.variant", "R26x1"), "muon is for nets of blocks"),
        (("--model.freeze_trunk", "true"), "muon is for nets of blocks"),
    ],
)
def test_nets_without_blocks_to_train_are_refused(app, words, expected):
    done = app(*FIT, *words)
    assert done.code == 1 and expected in done.err
