"""Estimated memory of a training step, against what autograd keeps of a real one."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from vit_lightning.compute import memory
from vit_lightning.compute.memory import Step, TrainingMemory, activations
from vit_lightning.models import NetConfig, build, resolve
from vit_lightning.models.recompute import recompute

SIZE, CLASSES, BATCH = 64, 10, 4


def kept(config: NetConfig, *, biases: bool = False, recomputed: bool = False, batch: int = BATCH) -> int:
    """Bytes that autograd keeps of a forward pass, weights and images aside."""
    net = build(config, SIZE, CLASSES)
    if biases:
        for name, parameter in net.named_parameters():
            parameter.requires_grad_(name.endswith("bias"))
    if recomputed:
        recompute(net)
    own = {tensor.untyped_storage().data_ptr() for tensor in net.parameters()}
    saved: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        net.train()(torch.randn(batch, 3, SIZE, SIZE))
    return sum(storage.nbytes() for storage in saved.values())


def passing(config: NetConfig, step: Step) -> int:
    """What an estimate adds for the backward pass and for images: what a step without a kept activation has."""
    return activations(config, SIZE, CLASSES, Step(BATCH, step.activation_bytes, step.stream_bytes, trained="head"))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"pool": "gap"},
        {"dropout": 0.1},
        {"layer_scale": 1e-5, "registers": 4},
        {"swiglu": True},
        {"pool": "map"},
        {"stochastic_depth": 0.1},
        {"attention": "axial", "pool": "gap"},
        {"attention": "axial", "pool": "gap", "position": "relative"},
        {"patch_dropout": 0.5},
    ],
)
def test_the_estimate_is_what_autograd_keeps(fields):
    config = NetConfig("Ti/8", depth=4, **fields)
    step = Step(BATCH)
    found = activations(config, SIZE, CLASSES, step) - passing(config, step)
    assert found == pytest.approx(kept(config), rel=0.1)


def test_relative_positions_keep_the_attention_of_each_image():
    """Not counted: the table of offsets, once for all images."""
    config = NetConfig("Ti/8", depth=4, position="relative")
    each = (kept(config, batch=8) - kept(config, batch=4)) / 4
    step = Step(BATCH)
    assert (activations(config, SIZE, CLASSES, step) - passing(config, step)) / BATCH == pytest.approx(each, rel=0.1)


def test_frozen_kernels_keep_no_inputs():
    config, step = NetConfig("Ti/8", depth=4), Step(BATCH, trained="biases")
    found = activations(config, SIZE, CLASSES, step) - passing(config, step)
    assert found == pytest.approx(kept(config, biases=True), rel=0.1)


@pytest.mark.parametrize("variant", ["R+Ti/16", "R50x1"])
def test_convolutional_nets_are_asked(variant):
    config = NetConfig(variant, **({"depth": 2} if "Ti" in variant else {}))
    found = activations(config, SIZE, CLASSES, Step(BATCH))
    assert found == pytest.approx(kept(config), rel=0.25)


def test_norms_of_convolutional_nets_stay_in_fp32_in_mixed_precision():
    """Of what fp32 keeps of an image, bf16 keeps three quarters and fp64 twice as much."""
    config = NetConfig("R26x1", stages=(1, 1, 1, 1))
    half, single, double = (activations(config, SIZE, CLASSES, Step(BATCH, size, size)) for size in (2, 4, 8))
    assert double - single == 4 * (single - half) > 0


def test_recomputing_keeps_inputs_alone():
    config = NetConfig("Ti/8", depth=12)
    least, most = (activations(config, SIZE, CLASSES, Step(BATCH, recompute=chosen)) for chosen in (True, False))
    assert least < most / 3


def test_half_precision_on_the_fast_path_takes_half():
    config = NetConfig("B/16")
    fp32, mixed, fused = (
        activations(config, 224, 1000, Step(BATCH, e, s, on_gpu))
        for e, s, on_gpu in ((4, 4, False), (2, 4, False), (2, 2, True))
    )
    assert fused / fp32 == pytest.approx(0.5, abs=0.02)
    assert fused < mixed < fp32


def test_a_head_alone_keeps_one_layer_and_batches_add_up():
    config = NetConfig("B/16")
    alone, whole = (activations(config, 224, 1000, Step(8, trained=trained)) for trained in ("head", "all"))
    assert alone < whole / 10
    assert activations(config, 224, 1000, Step(16)) == pytest.approx(2 * whole, rel=1e-6)


def test_images_and_logits_are_kept_as_they_are():
    """Images in fp32 as they arrive and normalised; logits, targets, softmax and gradient."""
    few, more = (activations(NetConfig("Ti/8"), SIZE, classes, Step(BATCH)) for classes in (10, 110))
    assert more - few == BATCH * 4 * 4 * 100
    step = Step(BATCH, trained="head")
    d, m, tokens = 192, 768, 8 * 8 + 1
    expected = 2 * 4 * 3 * SIZE**2 + 4 * 4 * CLASSES + tokens * (2 * m * 4 + 4 * d * 4)
    assert activations(NetConfig("Ti/8"), SIZE, CLASSES, step) == BATCH * expected


def test_the_parts_add_up():
    assert TrainingMemory(4, 3, 2, 1).total == 10


D, M, N = 192, 768, 8 * 8 + 1
"""Width, hidden width and tokens of Ti/8, of which eleven blocks keep what they read: the last has one token to mix."""


def more(fields: dict, step: Step, than: Step | None = None) -> int:
    """Bytes of an image that fields, or another step, add to Ti/8."""
    plain = activations(NetConfig("Ti/8"), SIZE, CLASSES, than or step)
    return (activations(NetConfig("Ti/8", **fields), SIZE, CLASSES, step) - plain) // step.batch


@pytest.mark.parametrize(("on_gpu", "size"), [(True, 1), (False, 4)])
def test_dropout_keeps_a_mask_of_bytes_on_a_gpu_and_of_numbers_elsewhere(on_gpu, size):
    assert more({"dropout": 0.1}, Step(BATCH, on_gpu=on_gpu)) == 11 * N * (2 * D + M) * size


def test_layer_scale_keeps_what_it_scales():
    assert more({"layer_scale": 0.1}, Step(BATCH)) == 11 * N * 2 * D * 4


def test_biases_alone_keep_no_inputs_of_layers_and_no_pixels():
    saved = more({}, Step(BATCH), Step(BATCH, trained="biases"))
    assert saved == 11 * N * (2 * D + M) * 4 + N * 8 * 8 * 3 * 4
    half = {"activation_bytes": 2, "stream_bytes": 2, "on_gpu": True}
    fast = more({}, Step(BATCH, **half), Step(BATCH, **half, trained="biases"))
    assert fast == N * 8 * 8 * 3 * 2  # the fast path's layers keep their inputs all the same


@pytest.mark.parametrize(
    ("half", "each"), [({}, 4), ({"activation_bytes": 2, "stream_bytes": 2, "on_gpu": True}, 2 * 2)]
)
def test_a_block_that_is_recomputed_keeps_its_input(half, each):
    assert more({"depth": 20}, Step(BATCH, **half, recompute=True)) == 8 * N * D * each


@pytest.mark.parametrize(("fields", "pixels"), [({}, 8 * 8 * 2), ({"stages": (0,), "patch": 4}, 0)])
def test_pixels_are_kept_where_no_stem_turns_them_into_a_map(fields, pixels):
    few, many = (resolve(NetConfig("Ti/8", channels=channels, **fields)) for channels in (1, 3))
    of_few, of_many = (memory._encoder(config, (SIZE, SIZE), Step(1)) for config in (few, many))
    assert of_many - of_few == N * pixels * 4
