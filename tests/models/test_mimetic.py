"""Mimetic initialisation: products of weights near multiples of the identity (arXiv 2305.09828)."""

import pytest
import torch
from torch import eye

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build, resolve

WIDTH, HEADS = 96, 3
SMALL = {"width": WIDTH, "heads": HEADS, "depth": 2, "mlp": 8}


def weights(**changes) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    attention = build(NetConfig("Ti/8", **SMALL | {"attention_init": "mimetic"} | changes), 16, 3).blocks[1].attention
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
