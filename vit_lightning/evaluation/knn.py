"""Classes of images by those of their nearest neighbours, as DINO scores frozen features (arXiv 2104.14294)."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from vit_lightning.errors import InputError
from vit_lightning.evaluation.arrays import Array, as_classes, as_features, chunks

NEIGHBOURS = (10, 20, 100)
TEMPERATURE = 0.07


def predict(
    train_features: Array,
    train_labels: Array,
    features: Array,
    num_classes: int,
    neighbours: Sequence[int] = NEIGHBOURS,
    temperature: float = TEMPERATURE,
) -> Tensor:
    """Return the class of each image by the votes of its k nearest neighbours, for each k, int64 `(len(k), n)`.

    A neighbour's vote is exp(cosine / temperature). Of equal votes, the class of the lowest number wins.

    Args:
        train_features: of the labelled images `(m, d)`.
        train_labels: their classes, int `(m,)`.
        features: of the images whose class is asked for `(n, d)`.
        num_classes: number of classes.
        neighbours: each k.
        temperature: the less it is, the more the nearest ones count.

    Raises:
        InputError: a k is more than m or less than 1, the temperature is not above 0, or features are not finite.
    """
    known, asked = as_features(train_features), as_features(features)
    if not 1 <= min(neighbours) <= max(neighbours) <= len(known):
        raise InputError(f"k is {list(neighbours)}; expected numbers from 1 to the {len(known)} training images")
    if not temperature > 0:
        raise InputError(f"the temperature is {temperature}; expected a number above 0, such as {TEMPERATURE}")
    labels = as_classes(train_labels, len(known), num_classes).to(known.device)
    known = normalize(known.float())
    found = []
    for rows in chunks(len(asked), len(known)):
        cosines = normalize(asked[rows].to(known.device).float()) @ known.T
        nearest = cosines.topk(max(neighbours), dim=1)
        # Less than the nearest one's cosine, so that no temperature overflows.
        weights = ((nearest.values - nearest.values[:, :1]) / temperature).exp().double()
        found.append(torch.stack([_voted(labels[nearest.indices], weights, num_classes, k) for k in neighbours]))
    return torch.cat(found, dim=1)


def _voted(classes: Tensor, weights: Tensor, num_classes: int, k: int) -> Tensor:
    votes = weights.new_zeros((len(classes), num_classes))
    return votes.scatter_add_(1, classes[:, :k], weights[:, :k]).argmax(1)
