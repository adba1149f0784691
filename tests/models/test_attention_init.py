"""How attention begins: mimetic (arXiv 2305.09828), or each head at a neighbour of each patch (arXiv 2404.01139)."""

import pytest
import torch
from torch import eye

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, attention_init, build, resolve

WIDTH, HEADS = 96, 3
MIMETIC_IN = {"width": WIDTH, "heads": HEADS, "depth": 2, "mlp": 8}


def weights(**changes) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    attention = (
        build(NetConfig("Ti/8", **MIMETIC_IN | {"attention_init": "mimetic"} | changes), 16, 3).blocks[1].attention
    )
    return *attention.qkv.weight.detach().chunk(3), attention.out.weight.detach()


def test_values_leave_negated():
    *_, values, out = weights()
    noise = out @ values + 0.4 * eye(WIDTH)
    assert noise.std() == pytest.approx(0.4 / WIDTH**0.5, rel=0.05) and noise.diag().mean().abs() < 0.02


def test_queries_meet_keys_that_are_alike():
    """Of a head's product of full rank, 0.7 on the diagonal, its greatest singular values are kept."""
    queries, keys, *_ = weights()
    for query, key in zip(queries.chunk(HEADS), keys.chunk(HEADS), strict=True):
        assert torch.allclose(query @ query.T, key @ key.T, atol=1e-4)  # both the roots of the singular values
        least = torch.linalg.svdvals(query.T @ key)[WIDTH // HEADS - 1]
        assert least > 0.7 and 0.25 < (query.T @ key).diag().mean() < 0.7
    whole, _, *_ = weights(heads=1)
    assert torch.linalg.matrix_rank(whole) == WIDTH


def test_it_is_not_for_nets_without_attention():
    with pytest.raises(InputError, match=r"net\.attention_init=mimetic means nothing in R50x1"):
        resolve(NetConfig("R50x1", attention_init="mimetic"))


def test_it_is_a_flag(app):
    words = (
        "fit",
        "--data",
        "Synthetic",
        "--data.train_size",
        16,
        "--data.batch_size",
        8,
        "--model.net.variant",
        "mu/8",
    )
    run = app(
        *words, "--model.net.attention_init", "mimetic", "--trainer.accelerator", "cpu", "--trainer.max_epochs", 1
    )
    assert run.code == 0, run.err
    refused = app(*words, "--model.net.attention_init", "mimetik")
    assert refused.code == 1 and "xavier, mimetic" in refused.err.replace("'", "")


NEIGHBOURS_IN = {"width": 128, "heads": 2, "depth": 3, "mlp": 64, "pool": "gap", "position": "sincos_2d"}
SIDE = 6


def net_of_neighbours(**changes) -> torch.nn.Module:
    torch.manual_seed(0)
    fields = NEIGHBOURS_IN | {"position_temperature": 30, "attention_init": "local"} | changes
    return build(NetConfig("Ti/4", **fields), 4 * SIDE, 3).eval()


def offsets(logits: torch.Tensor, place: tuple[int, int]) -> list[tuple[int, int]]:
    """Where each head looks most from a patch, in rows and columns from it."""
    rows, columns = place
    most = logits[0, :, rows * SIDE + columns].argmax(dim=-1).tolist()
    return [(each // SIDE - rows, each % SIDE - columns) for each in most]


@pytest.mark.parametrize("changes", [{}, {"heads": 12, "width": 384}, {"position_temperature": 10_000}])
def test_heads_look_at_different_neighbours_wherever_they_are(changes):
    begun = net_of_neighbours(**changes)
    tokens = begun.position(torch.zeros(1, SIDE**2, begun.config.width))
    layers = []
    for block in begun.blocks:
        queries, keys, *_ = block.attention.split(tokens)
        logits = queries @ keys.mT / queries.shape[-1] ** 0.5
        own = offsets(logits, (2, 3))
        assert {abs(each) for offset in own for each in offset} <= {0, 1}
        assert len(set(own)) == min(len(own), 9)
        assert own == offsets(logits, (3, 2)) == offsets(logits, (4, 4))
        assert torch.allclose(logits[0, :, 2 * SIDE + 3].amax(-1), torch.tensor(9.6), atol=1e-3)
        layers.append(tuple(own))
    assert len(set(layers)) > 1


@pytest.mark.parametrize("offset", [(0, 1), (1, 0), (-1, 0), (1, -1)])
def test_an_offset_is_one_of_rows_and_columns(monkeypatch, offset):
    monkeypatch.setattr(attention_init, "OFFSETS", (offset,))
    begun = net_of_neighbours()
    tokens = begun.position(torch.zeros(1, SIDE**2, begun.config.width))
    queries, keys, *_ = begun.blocks[1].attention.split(tokens)
    assert offsets(queries @ keys.mT, (2, 3)) == [offset] * 2


def test_nothing_is_written_where_positions_are_compared():
    begun = net_of_neighbours()
    waves = torch.arange(128).view(4, 32)[:, :16].flatten()
    tokens = begun.position(begun.embed(torch.rand(1, 3, 24, 24)))
    for block in begun.blocks:
        tokens = block(tokens)
    positions = begun.position(torch.zeros(1, SIDE**2, 128))
    assert torch.allclose(tokens[..., waves], positions[..., waves], atol=1e-4)
    assert not torch.allclose(tokens, positions, atol=0.1)


def test_a_class_token_sees_all_alike_and_the_seed_decides():
    begun = net_of_neighbours(pool="token")
    row = begun.attention(torch.zeros(1, 3, 24, 24))[0][0, :, 0]
    assert torch.allclose(row, torch.full_like(row, 1 / (SIDE**2 + 1)), atol=1e-6)
    again = net_of_neighbours(pool="token")
    assert all(torch.equal(a, b) for a, b in zip(begun.parameters(), again.parameters(), strict=True))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"position": "learned"}, r"needs net\.position=sincos_2d, got learned"),
        ({"position_at": "every_layer"}, r"needs net\.position_at=stem, got every_layer"),
        ({"attention": "axial"}, r"needs net\.attention=global, got axial"),
        ({"heads": 64}, r"heads of 4 features or more, but 64 share a width of 128"),
        ({"position_temperature": 1}, r"net\.position_temperature is 1: choose a number above 1"),
        ({"position_temperature": float("nan")}, r"net\.position_temperature is nan: choose a number above 1"),
        ({"position_temperature": float("inf")}, r"net\.position_temperature is inf: choose a number above 1"),
        (
            {"position_temperature": 30, "position": "none", "attention_init": "xavier"},
            r"position_temperature=30 is for net\.position=sincos_2d, not none",
        ),
    ],
)
def test_nets_without_neighbours_are_refused(fields, said):
    with pytest.raises(InputError, match=said):
        resolve(NetConfig("Ti/4", **NEIGHBOURS_IN | {"attention_init": "local"} | fields))
