"""Principal components of filters against numpy, and which filters a net has."""

import numpy as np
import torch

from vit_lightning.inspection.filters import filters_of, principal_filters
from vit_lightning.models import NetConfig, build


def test_the_components_are_those_of_numpy():
    rng = np.random.default_rng(0)
    filters = rng.normal(size=(40, 4, 4, 3)) * rng.uniform(0.1, 2, size=(4, 4, 3))
    tiles, shares = principal_filters(torch.from_numpy(filters), 28)
    rows = filters.reshape(40, -1)
    values, vectors = np.linalg.eigh(np.cov(rows, rowvar=False))
    values, vectors = values[::-1], vectors[:, ::-1]
    assert tiles.shape == (28, 4, 4, 3)
    np.testing.assert_allclose(shares, values[:28] / values.sum(), rtol=1e-9)
    for found, wanted in zip(tiles.numpy().reshape(28, -1), vectors.T, strict=False):
        np.testing.assert_allclose(found * np.sign(found @ wanted), wanted, atol=1e-7)
        assert found[np.abs(found).argmax()] > 0


def test_a_filter_is_what_a_patch_is_multiplied_by(random_net):
    net, image = random_net(), torch.randn(1, 3, 32, 32)
    filters = filters_of(net)
    assert filters.shape == (32, 8, 8, 3)
    patch = image[0, :, 8:16, 24:32]  # row 1, column 3 of 4 x 4 patches
    expected = torch.einsum("dpqc,cpq->d", filters, patch) + net.patches.proj.bias
    torch.testing.assert_close(net.embed(image)[0, 7], expected, atol=1e-5, rtol=0)


def test_a_hybrid_has_the_filters_of_its_first_layer():
    net = build(NetConfig("R26+S/32", stages=(1,), width=32, heads=2, depth=1, mlp=32), 32, 3)
    filters = filters_of(net)
    assert filters.shape == (64, 7, 7, 3)
    np.testing.assert_allclose(filters.mean((1, 2, 3)), 0, atol=1e-6)  # standardised, as they are applied


def test_fewer_filters_than_components():
    tiles, shares = principal_filters(torch.randn(5, 2, 2, 1, generator=torch.Generator().manual_seed(0)))
    assert len(tiles) == len(shares) == 4
