"""Distance and rollout against reference outputs, against loops, and against a net's own attention."""

import numpy as np
import pytest
import torch

from vit_lightning.inspection.attention import (
    MeanDistance,
    Rollout,
    RowsRead,
    mean_distance,
    patch_distances,
    pixels_per_patch,
    reads_of,
    rollout,
    row_read,
)
from vit_lightning.inspection.observation import hooked, observe
from vit_lightning.models import NetConfig, resolve


def softmaxed(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).softmax(-1)


def test_the_reference(golden):
    folder = golden / "I1_attention_distance_rollout"
    attention, expected = np.load(folder / "input.npy"), np.load(folder / "expected.npz")
    distances = mean_distance(attention, (6, 6), 16)
    np.testing.assert_allclose(distances, expected["mean_distance_per_image"], atol=1e-3, rtol=0)
    np.testing.assert_allclose(distances.mean(1), expected["mean_distance"], atol=1e-3, rtol=0)
    taker = Rollout((6, 6))
    for layer in torch.from_numpy(attention):
        taker.append(layer)
    np.testing.assert_allclose(taker.matrix, expected["rollout_matrix"], atol=1e-6, rtol=0)
    maps = rollout(attention, (6, 6))
    np.testing.assert_allclose(maps, expected["rollout_map"], atol=1e-6, rtol=0)
    over = maps / maps.amax((1, 2), keepdim=True)
    np.testing.assert_allclose(over, expected["rollout_map_over_maximum"], atol=2e-5, rtol=0)


@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_uniform_attention_among_196_patches(prefix):
    """With prefix tokens that nobody looks at."""
    attention = torch.zeros(1, 1, 2, prefix + 196, prefix + 196)
    attention[..., prefix:] = 1 / 196
    assert mean_distance(attention, (14, 14), 16, prefix).tolist() == [[[pytest.approx(116.49, abs=0.005)] * 2]]


def test_attention_to_itself_has_no_distance_and_its_rollout_is_the_identity():
    attention = torch.eye(13).expand(4, 2, 3, 13, 13)
    assert mean_distance(attention, (3, 4), 16).abs().max() == 0
    taker = Rollout((3, 4))
    for layer in attention:
        taker.append(layer)
    torch.testing.assert_close(taker.matrix, torch.eye(13).expand(2, 13, 13))
    assert rollout(attention, (3, 4)).abs().max() == 0  # the class token has seen itself alone
    torch.testing.assert_close(rollout(attention, (3, 4), reads="patches"), torch.full((2, 3, 4), 1 / 12))


def test_distances_of_a_grid_that_is_no_square():
    found = patch_distances((2, 3), 10)
    for i in range(6):
        for j in range(6):
            assert found[i, j] == pytest.approx(10 * np.hypot(i // 3 - j // 3, i % 3 - j % 3))


def test_half_floats_and_lists_are_taken():
    attention = softmaxed(2, 1, 2, 10, 10)
    torch.testing.assert_close(
        rollout(list(attention.bfloat16()), (3, 3)), rollout(attention, (3, 3)), atol=2e-3, rtol=0
    )
    assert mean_distance(attention.bfloat16(), (3, 3), 8).dtype == torch.float32


@pytest.mark.parametrize(
    ("fields", "reads", "prefix"),
    [
        ({"pool": "token"}, "token", 1),
        ({"pool": "token", "registers": 4}, "token", 5),
        ({"pool": "gap", "registers": 2}, "patches", 2),
        ({"pool": "gap", "class_token": True}, "patches", 1),
        ({"pool": "map"}, "patches", 0),
        ({"pool": "token_and_gap"}, "token", 1),
    ],
)
def test_the_row_is_that_which_the_head_reads(fields, reads, prefix):
    config = resolve(NetConfig("mu/16", **fields))
    assert (reads_of(config), config.prefix_tokens) == (reads, prefix)
    matrix = softmaxed(2, prefix + 6, prefix + 6)
    found = row_read(matrix, (2, 3), prefix, reads)
    rows = matrix[:, 0] if reads == "token" else matrix[:, prefix:].mean(1)
    torch.testing.assert_close(found, rows[:, prefix:].reshape(2, 2, 3))


@pytest.mark.parametrize(
    ("fields", "pixels"),
    [({}, 16), ({"stride": 8}, 8), ({"variant": "R26+S/32"}, 32), ({"variant": "R50+B/16"}, 16)],
)
def test_neighbouring_patches_lie_a_stride_apart(fields, pixels):
    config = resolve(NetConfig(**{"variant": "B/16"} | fields))
    assert pixels_per_patch(config) == pixels


KINDS = [
    {"pool": "token"},
    {"pool": "token", "registers": 3, "layer_scale": 0.1},
    {"pool": "gap", "position": "relative"},
    {"pool": "gap", "attention": "axial"},
    {"pool": "map", "position": "sincos_2d"},
    {"pool": "token_and_gap", "stride": 4},
    {"pool": "gap", "norm_after_pool": True, "position_at": "every_layer_shared"},
    {"pool": "token", "position_at": "every_layer", "swiglu": True},
]


@pytest.mark.parametrize("fields", KINDS, ids=str)
@torch.no_grad()
def test_explicit_attention_is_that_of_the_fused_function(random_net, fields):
    """Values mixed by it are what scaled_dot_product_attention gives each output layer."""
    net, images = random_net(**fields), torch.randn(2, 3, 32, 32)
    values, mixed = [], []
    hooks = [
        (b.attention.qkv.register_forward_hook, lambda m, i, o: values.append(o.chunk(3, -1)[2])) for b in net.blocks
    ]
    hooks += [(b.attention.out.register_forward_pre_hook, lambda m, i: mixed.append(i[0])) for b in net.blocks]
    with hooked(hooks):
        net.through_blocks(net.place(net.embed(images)))
    for weights, value, output in zip(net.attention(images), values, mixed, strict=True):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        by_head = value.unflatten(-1, (2, 16)).transpose(1, 2)
        torch.testing.assert_close((weights @ by_head).transpose(1, 2).flatten(2), output, atol=1e-5, rtol=0)


def test_a_net_in_half_precision_hands_on_whole_numbers(random_net):
    net, images = random_net(), torch.randn(2, 3, 32, 32)
    rolled = Rollout(net.grid)
    found = observe(net.bfloat16(), images.bfloat16(), rolled)
    assert rolled.result().dtype == found.norms.dtype == torch.float32


@pytest.mark.parametrize("fields", KINDS, ids=str)
def test_streaming_and_whole_stacks_agree(random_net, fields):
    net, images = random_net(**fields), torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        attention, logits, tokens = net.attention(images), net(images), net.tokens(images)
    prefix, reads = net.num_prefix_tokens, reads_of(net.config)
    distance, rolled = MeanDistance(net.grid, 8, prefix), Rollout(net.grid, prefix, reads)
    rows = RowsRead([0, 2], net.grid, prefix, reads)
    seen = observe(net, images, distance, rolled, rows)
    torch.testing.assert_close(seen.logits, logits, atol=1e-5, rtol=0)
    torch.testing.assert_close(seen.tokens, tokens, atol=1e-5, rtol=0)
    torch.testing.assert_close(distance.result(), mean_distance(attention, net.grid, 8, prefix))
    torch.testing.assert_close(rolled.result(), rollout(attention, net.grid, prefix, reads))
    assert set(rows.maps) == {0, 2}
    torch.testing.assert_close(rows.maps[2], row_read(attention[2], net.grid, prefix, reads))
    assert seen.norms.shape == (len(net.blocks), 2, net.grid[0] * net.grid[1])
