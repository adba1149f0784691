"""Training images that resemble another class than their own, in what a net sees of them: likely wrong labels."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from vit_lightning.commands.doctor.findings import Finding
from vit_lightning.commands.doctor.survey import Survey
from vit_lightning.data import images
from vit_lightning.data.image_set import ImageSet, record_of
from vit_lightning.errors import InputError, listing
from vit_lightning.predictor import Predictor

NEIGHBOURS = 10
"""Images that are asked, but not more than the image's class has others."""
AGREED, OWN = 0.8, 0.1
"""Least share of them that must be of one other class, and most that may be of the image's own."""
FEWEST = 3
"""Other images that a class must have, without which its images are not judged."""
QUERIES, REFERENCES = 512, 16_384
"""Images that are compared at once with so many others."""


def suspects(
    source: ImageSet, train: Survey, names: Sequence[str], predictor: Predictor, advance: Callable[[int], object]
) -> list[Finding]:
    """Name training images whose nearest neighbours in a net's features show another class.

    The features of all images stay in memory, two bytes a number.

    Args:
        source: the training set.
        train: what was seen of it.
        names: of the classes.
        predictor: the net.
        advance: called with the number of images that were embedded since the last call.

    Raises:
        InputError: images show several classes.
    """
    if any(len(classes) > 1 for classes in train.class_sets.values()):
        raise InputError("--suspect_labels needs one class per image, and these show several; drop the flag")
    labels = np.array([(train.class_sets.get(int(each)) or (-1,))[0] for each in train.classes])
    usable = train.readable & (labels >= 0) & (labels < len(names))
    records = np.flatnonzero(usable)
    if len(records) <= FEWEST:
        return []
    features = _embedded(predictor, source, records, advance)
    places, others, shares, agreement = _outvoted(features, torch.from_numpy(labels[records]))
    agreed = f"; most neighbours agree with {agreement:.0%} of all labels"
    few = np.flatnonzero((train.counts > 0) & (train.counts <= FEWEST))
    left_out = f"; {len(few)} classes have too few images to say ({listing(names[each] for each in few)})"
    if not len(places):
        return [
            Finding("note", "suspect labels", "no image resembles another class" + agreed + left_out * bool(len(few)))
        ]
    items = tuple(
        f"{train.keys[int(records[place])]} ({names[labels[records[place]]]}, neighbours {names[other]} {share:.0%})"
        for place, other, share in zip(places, others, shares, strict=True)
    )
    text = f"{len(items):,} training image{'s' * (len(items) != 1)} resembling another class"
    fix = "look at them: their labels may be wrong"
    return [Finding("warning", "suspect labels", text + agreed + left_out * bool(len(few)), fix, items)]


def _embedded(predictor: Predictor, source: ImageSet, records: np.ndarray, advance: Callable[[int], object]) -> Tensor:
    """Features `(n, d)` of unit length."""
    found = []
    for start in range(0, len(records), predictor.batch_size):
        batch = records[start : start + predictor.batch_size]
        shown = [images.load(record_of(source, int(each))[0], name=str(each), strict=False) for each in batch]
        found.append(F.normalize(predictor.features(shown).float(), dim=1).half())
        advance(len(batch))
    return torch.cat(found)


def _outvoted(features: Tensor, labels: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Images whose neighbours agree on another class, that class, and its share; those most agreed on come first.

    The last is the share of all images whose neighbours are mostly of their class: how well the net tells classes.
    """
    asked = (labels.bincount()[labels] - 1).clamp(max=NEIGHBOURS)
    places, others, shares, right = [], [], [], 0
    for start in range(0, len(labels), QUERIES):
        queries = torch.arange(start, min(start + QUERIES, len(labels)))
        near = labels[_nearest(features, queries)]
        counted = torch.arange(near.shape[1]) < asked[queries, None]
        own = ((near == labels[queries, None]) & counted).sum(1) / asked[queries].clamp(min=1)
        winner = torch.where(counted, near, -1 - torch.arange(near.shape[1])).mode(1).values
        share = ((near == winner[:, None]) & counted).sum(1) / asked[queries].clamp(min=1)
        right += int((winner == labels[queries]).sum())
        chosen = (asked[queries] >= FEWEST) & (own <= OWN) & (winner >= 0) & (share >= AGREED)
        places.append(queries[chosen])
        others.append(winner[chosen])
        shares.append(share[chosen])
    order = torch.cat(shares).argsort(descending=True, stable=True)
    place, other, share = (torch.cat(each)[order].numpy() for each in (places, others, shares))
    return place, other, share, right / len(labels)


def _nearest(features: Tensor, queries: Tensor) -> Tensor:
    """Numbers `(q, k)` of the images most like each query, the nearest first."""
    most = min(NEIGHBOURS, len(features) - 1)
    values, indices = torch.empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.int64)
    for start in range(0, len(features), REFERENCES):
        likeness = features[queries].float() @ features[start : start + REFERENCES].float().T
        own = (queries >= start) & (queries < start + REFERENCES)
        likeness[own.nonzero()[:, 0], queries[own] - start] = -torch.inf
        values = torch.cat([values, likeness], 1)
        numbers = torch.arange(start, start + likeness.shape[1]).expand(len(queries), -1)
        indices = torch.cat([indices, numbers], 1)
        best = values.topk(min(most, values.shape[1]), dim=1)
        values, indices = best.values, indices.gather(1, best.indices)
    return indices
