import numpy as np
import pytest
import torch
from scipy.ndimage import zoom

from vit_lightning.models import NetConfig, resolve
from vit_lightning.models.position import Relative, SinCos2d, additive, resample


def test_resampling_equals_the_golden_table(golden):
    case = golden / "H1_posembed_14_to_24"
    table = torch.from_numpy(np.load(case / "input.npy"))
    assert np.abs(resample(table, (14, 14), (24, 24)) - np.load(case / "expected.npz")["table"]).max() <= 1e-5


@pytest.mark.parametrize("prefix", [0, 1, 5])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((7, 7), (12, 12)),
        ((24, 24), (14, 14)),
        ((16, 16), (37, 37)),
        ((2, 8), (4, 4)),
        ((3, 5), (7, 4)),
        ((1, 4), (3, 6)),
    ],
)
def test_resampling_equals_scipy_zoom_of_order_1(old, new, prefix):
    table = torch.randn(1, prefix + old[0] * old[1], 6)
    resampled = resample(table, old, new, prefix=prefix)
    grid = table[0, prefix:].reshape(*old, 6).numpy()
    expected = zoom(grid, (new[0] / old[0], new[1] / old[1], 1), order=1)
    assert np.abs(resampled[0, prefix:].reshape(*new, 6).numpy() - expected).max() < 1e-5
    assert torch.equal(resampled[:, :prefix], table[:, :prefix])


def test_equal_grids_give_the_very_same_table_and_equal_counts_do_not():
    table = torch.randn(1, 17, 4)
    assert resample(table, (2, 8), (2, 8)) is table
    assert not torch.equal(resample(table, (2, 8), (4, 4)), table)


@pytest.mark.parametrize(("old", "new"), [((4, 4), (6, 6)), ((6, 5), (4, 7))])
def test_bicubic_equals_timms_and_keeps_the_dtype(old, new):
    resample_abs_pos_embed = pytest.importorskip("timm.layers").resample_abs_pos_embed
    table = torch.randn(1, 1 + old[0] * old[1], 4)
    expected = resample_abs_pos_embed(table, list(new), list(old), num_prefix_tokens=1)
    assert torch.allclose(resample(table, old, new, mode="bicubic"), expected, atol=1e-5)
    table = torch.randn(1, 17, 4)
    assert resample(table.bfloat16(), (4, 4), (6, 6)).dtype == torch.bfloat16


@pytest.mark.parametrize("temperature", [None, 30])
def test_sincos_by_hand(temperature):
    config = NetConfig("Ti/16", width=12, pool="gap", position="sincos_2d", position_temperature=temperature)
    table = additive(resolve(config), (2, 3)).table[0]
    omega = np.array([1.0, 10_000**-0.5, 10_000**-1] if temperature is None else [1.0, 30**-0.5, 30**-1])
    for y in range(2):
        for x in range(3):
            expected = np.concatenate([np.sin(x * omega), np.cos(x * omega), np.sin(y * omega), np.cos(y * omega)])
            assert np.abs(table[3 * y + x].numpy() - expected).max() < 1e-6


def test_sincos_gives_the_class_token_no_position_and_saves_nothing():
    position = additive(resolve(NetConfig("Ti/16", position="sincos_2d")), (2, 2))
    assert isinstance(position, SinCos2d)
    assert not position.table[0, 0].any()
    assert not position.state_dict()


def test_learned_2d_by_hand():
    """Columns lie in the first half of a vector and rows in the second; neither grid side stands for the other."""
    position = additive(resolve(NetConfig("Ti/16", width=8, heads=2, position="learned_2d")), (2, 3))
    added = position(torch.zeros(1, 7, 8))[0]
    assert position.rows.shape == (2, 4)
    assert position.columns.shape == (3, 4)
    assert torch.equal(added[0], position.class_row[0, 0])
    for y in range(2):
        for x in range(3):
            assert torch.equal(added[1 + 3 * y + x], torch.cat([position.columns[x], position.rows[y]]))


@pytest.mark.parametrize("kind", ["learned", "learned_2d", "sincos_2d"])
def test_registers_get_no_position(kind):
    position = additive(resolve(NetConfig("Ti/16", width=8, heads=2, position=kind, registers=3)), (2, 2))
    tokens = torch.zeros(1, 8, 8)
    added = position(tokens)
    assert not added[:, 1:4].any()
    assert torch.equal(added[:, [0, 4, 5, 6, 7]], position.vectors())


@pytest.mark.parametrize("kind", ["none", "relative"])
def test_kinds_that_add_nothing(kind):
    tokens = torch.zeros(1, 5, 192)
    assert additive(resolve(NetConfig("Ti/16", position=kind)), (2, 2))(tokens) is tokens


def test_relative_equals_a_loop():
    relative, queries = Relative(5, 4), torch.randn(2, 3, 5, 4)
    bias = relative(queries)
    for i in range(5):
        for j in range(5):
            expected = queries[:, :, i] @ relative.table[i - j + 4] / 2
            assert (bias[:, :, i, j] - expected).abs().max() < 1e-6
