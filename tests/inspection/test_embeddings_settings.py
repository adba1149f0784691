"""What t-SNE and UMAP are asked for: how many images count as near, and what random numbers begin with."""

import sys
from types import ModuleType

import numpy as np
import pytest

from vit_lightning.errors import InputError
from vit_lightning.inspection import embeddings
from vit_lightning.inspection.embeddings import embed, is_installed


class Asked:
    """Takes the place of either, and keeps what it is asked for."""

    settings: dict

    def __init__(self, **settings) -> None:
        type(self).settings = settings

    def fit_transform(self, features: np.ndarray) -> list:
        assert features.dtype == np.float32
        return [[number, -number] for number in range(len(features))]


@pytest.mark.parametrize(("images", "near"), [(4, 1.0), (10, 3.0), (91, 30.0), (94, 30.0)])
def test_a_third_of_the_others_is_near_up_to_thirty(monkeypatch, images, near):
    monkeypatch.setattr("sklearn.manifold.TSNE", Asked)
    embed(np.zeros((images, 3)), "tsne", seed=7)
    assert Asked.settings == {"perplexity": near, "init": "pca", "random_state": 7}


@pytest.mark.parametrize(("images", "near"), [(4, 2), (10, 3), (12, 3), (100, 30)])
def test_umap_asks_two_neighbours_at_least(monkeypatch, images, near):
    fake = ModuleType("umap")
    fake.UMAP = Asked
    monkeypatch.setitem(sys.modules, "umap", fake)
    monkeypatch.setattr(embeddings, "is_installed", lambda method: True)
    places = embed(np.zeros((images, 3)), "umap", seed=3)
    assert Asked.settings == {"n_neighbors": near, "random_state": 3}
    assert isinstance(places, np.ndarray) and places[2].tolist() == [2, -2]


def test_only_umap_may_be_missing(monkeypatch):
    monkeypatch.setattr(embeddings, "find_spec", lambda name: None)
    assert [is_installed(method) for method in ("pca", "tsne", "umap")] == [True, True, False]
    monkeypatch.setattr(embeddings, "find_spec", lambda name: name == "umap")
    assert is_installed("umap")


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_one_number_that_is_not_finite_spoils_the_map(wrong):
    features = np.ones((5, 3))
    features[4, 2] = wrong
    with pytest.raises(InputError, match="not finite"):
        embed(features)


def test_the_first_place_is_along_the_largest_variance():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(50, 3)) * [1.0, 9.0, 3.0]
    places = embed(features)
    for place, column in ((0, 1), (1, 2)):
        assert abs(np.corrcoef(places[:, place], features[:, column])[0, 1]) > 0.95
    np.testing.assert_allclose(places.mean(0), 0, atol=1e-5)
