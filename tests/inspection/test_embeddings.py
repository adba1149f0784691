"""Maps of images: what is apart stays apart, the same in every run."""

import numpy as np
import pytest

from vit_lightning.errors import InputError
from vit_lightning.inspection import embeddings
from vit_lightning.inspection.embeddings import embed


def two_groups(count=20):
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(0, 1, (count, 8)), rng.normal(9, 1, (count, 8))])


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_groups_stay_apart_and_runs_agree(method):
    places = embed(two_groups(), method)
    assert places.shape == (40, 2)
    centres = places[:20].mean(0), places[20:].mean(0)
    spread = max(places[:20].std(), places[20:].std())
    assert np.linalg.norm(centres[0] - centres[1]) > spread
    np.testing.assert_array_equal(places, embed(two_groups(), method))


def test_few_images_have_a_map_and_fewer_none():
    assert embed(two_groups(2), "tsne").shape == (4, 2)
    with pytest.raises(InputError, match="a map of 3 images shows nothing; give 4 images or more"):
        embed(two_groups()[:3], "pca")
    with pytest.raises(InputError, match="not finite"):
        embed(np.full((5, 3), np.nan))


def test_one_number_per_image_is_a_line():
    places = embed(np.arange(5.0)[:, None])
    assert places.shape == (5, 2) and (places[:, 1] == 0).all()


def test_umap_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(embeddings, "is_installed", lambda method: method != "umap")
    with pytest.raises(InputError, match="pip install umap-learn"):
        embed(two_groups(), "umap")
