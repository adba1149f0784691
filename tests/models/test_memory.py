"""A net that cannot fit into memory is refused before it is built."""

from contextlib import nullcontext

import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build, memory, resolve
from vit_lightning.models.memory import least_parameters, memory_of


@pytest.mark.parametrize(
    "fields",
    [
        {"width": 12 * 10**7},
        {"depth": 10**9},
        {"mlp": 10**12},
        {"variant": "R50x1", "width": 32 * 10**6},
    ],
    ids=["width", "depth", "mlp", "ResNet"],
)
def test_a_net_beyond_the_memory_is_one_sentence(fields):
    with pytest.raises(
        InputError,
        match=r"^the memory does not suffice: net\.width=.* parameters, which take .* GiB, .*: choose a smaller net\.$",
    ):
        build(NetConfig(**{"variant": "B/16"} | fields), 32, 10)


@pytest.mark.parametrize("variant", ["B/16", "mu/8", "R50+B/16", "R50x1", "H/14"])
def test_the_least_number_is_below_the_true_one_and_near_it(variant):
    config = resolve(NetConfig(variant))
    with torch.device("meta"):
        true = sum(each.numel() for each in build(config, 224, 1000).parameters())
    assert true / 10 < least_parameters(config, 1000) <= true


def test_without_storage_any_net_is_built(monkeypatch):
    monkeypatch.setattr(memory, "memory_of", lambda device: 0)
    with torch.device("meta"):
        build(NetConfig("mu/8"), 32, 10)
    with pytest.raises(InputError, match="choose a smaller net"):
        build(NetConfig("mu/8"), 32, 10)


def test_a_container_limits_the_memory(tmp_path, monkeypatch):
    whole = memory_of(torch.device("cpu"))
    monkeypatch.setattr(memory, "CGROUP", tmp_path / "memory.max")
    (tmp_path / "memory.max").write_text("1048576\n")
    assert memory_of(torch.device("cpu")) == 1048576
    (tmp_path / "memory.max").write_text("max\n")
    there = memory_of(torch.device("cpu"))
    assert there >= whole > 0
    (tmp_path / "memory.max").write_text(f"{2 * there}\n")  # more than the machine has
    assert memory_of(torch.device("cpu")) == there
    (tmp_path / "memory.max").unlink()
    assert memory_of(torch.device("cpu")) == there


@pytest.mark.parametrize("fields", [{}, {"swiglu": True}, {"channels": 1, "patch": 4}, {"pool": "gap", "mlp": 40}])
def test_the_least_number_is_that_of_kernels(fields):
    config = resolve(NetConfig("mu/8", depth=3, **fields))
    with torch.device("meta"):
        net = build(config, 32, 7)
    kernels = [each.numel() for name, each in net.named_parameters() if each.ndim == 2 and name.endswith("weight")]
    assert least_parameters(config, 7) == sum(kernels)


def test_a_hybrid_s_patches_are_of_its_stem():
    plain, hybrid = (resolve(NetConfig("mu/8", **fields)) for fields in ({}, {"stages": (0,)}))
    assert least_parameters(plain, 7) - least_parameters(hybrid, 7) == 3 * 8 * 8 * 32


def test_a_net_may_fill_the_memory_to_its_last_byte(monkeypatch):
    config = resolve(NetConfig("mu/8", depth=2))
    needed = 4 * least_parameters(config, 7) + 2 * memory.OBJECTS
    for there, fits in ((needed, True), (needed - 1, False)):
        monkeypatch.setattr(memory, "memory_of", lambda device, there=there: there)
        with nullcontext() if fits else pytest.raises(InputError, match="the memory does not suffice"):
            memory.check_fits(config, 7)
