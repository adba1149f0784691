"""A map of images: their features in two dimensions, near where they are alike."""

from importlib.util import find_spec
from typing import Literal

import numpy as np
import torch

from vit_lightning.errors import InputError
from vit_lightning.inspection.features import RunningPCA

Method = Literal["pca", "tsne", "umap"]
NAMES: dict[str, str] = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}
FEWEST = 4
"""Images of which a map can be made."""


def is_installed(method: Method) -> bool:
    """Whether what a method needs is installed."""
    return method != "umap" or find_spec("umap") is not None


def embed(features: np.ndarray, method: Method = "pca", seed: int = 0) -> np.ndarray:
    """Return places `(n, 2)` of features `(n, d)`, the same for the same seed.

    Args:
        features: A row for each image.
        method: pca shows the two directions of the largest variance; tsne and umap keep near what is near;
            distances between their clusters mean little.
        seed: What random numbers begin with.

    Raises:
        InputError: there are fewer than four images, features are not finite, or umap is not installed.
    """
    features = np.ascontiguousarray(features, dtype=np.float32)
    if len(features) < FEWEST:
        raise InputError(f"a map of {len(features)} images shows nothing; give {FEWEST} images or more")
    if not np.isfinite(features).all():
        raise InputError("features are not finite, so that no map can be made of them; the weights are damaged")
    if method == "pca":
        return _pca(features)
    near = min(30.0, (len(features) - 1) / 3)
    if method == "tsne":
        from sklearn.manifold import TSNE

        return TSNE(perplexity=near, init="pca", random_state=seed).fit_transform(features)
    if not is_installed("umap"):
        raise InputError("a UMAP map needs umap-learn: pip install umap-learn, or choose pca or tsne")
    from umap import UMAP

    return np.asarray(UMAP(n_neighbors=max(2, int(near)), random_state=seed).fit_transform(features))


def _pca(features: np.ndarray) -> np.ndarray:
    vectors, running = torch.from_numpy(features), RunningPCA()
    running.add(vectors)
    places = running.result(2).project(vectors).numpy()
    return places if places.shape[1] == 2 else np.concatenate([places, np.zeros_like(places)], axis=1)
