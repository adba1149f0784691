"""Similarity of position embeddings against numpy, and what each kind of position gives."""

import numpy as np
import pytest
import torch

from vit_lightning.inspection.position import positions_of, similarity


def test_the_cosines_are_those_of_numpy():
    vectors = np.random.default_rng(0).normal(size=(6, 10))
    found = similarity(torch.from_numpy(vectors), (2, 3))
    assert found.shape == (2, 3, 2, 3)
    for i in range(6):
        for j in range(6):
            wanted = vectors[i] @ vectors[j] / np.linalg.norm(vectors[i]) / np.linalg.norm(vectors[j])
            assert found[i // 3, i % 3, j // 3, j % 3] == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "learned, a vector for each place"),
        ({"registers": 2}, "learned, a vector for each place"),
        ({"position": "learned_2d"}, "each row and each column"),
        ({"position": "sincos_2d"}, "not learned"),
        ({"position_at": "every_layer"}, "those of the first block"),
        ({"position_at": "every_layer_shared", "pool": "gap"}, "learned"),
    ],
)
def test_the_vectors_are_those_that_the_patches_get(random_net, fields, said):
    net = random_net((16, 24), **fields)
    found = positions_of(net)
    assert said in found.said and found.vectors.shape == (6, 32)
    patches = torch.zeros(1, 6, 32)
    tokens = net.place(patches)
    if fields.get("position_at") == "every_layer":
        tokens = net.blocks[0].position(tokens)
    torch.testing.assert_close(tokens[0, net.num_prefix_tokens :], found.vectors)
    assert similarity(found.vectors, net.grid).diagonal().shape


@pytest.mark.parametrize(("position", "said"), [("none", "has no position"), ("relative", "relative positions")])
def test_some_nets_have_no_vectors(random_net, position, said):
    found = positions_of(random_net(position=position, pool="gap"))
    assert found.vectors is None and said in found.said
