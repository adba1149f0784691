"""Accuracy of predicted classes: over all images, and over all classes alike."""

from typing import NamedTuple

from torch import Tensor

from vit_lightning.evaluation.arrays import Array, as_labels


class Accuracy(NamedTuple):
    """Shares of images that are predicted as their class."""

    top1: float
    """Of all images."""
    mean_class: float
    """Mean over the classes that have an image (scikit-learn's balanced accuracy). Published figures of Pets, Flowers
    and Caltech are often of this kind."""


def accuracy(predicted: Tensor, labels: Array, num_classes: int) -> Accuracy:
    """Return the accuracies of predicted classes `(n,)`.

    Args:
        predicted: class of each image, int `(n,)`.
        labels: its true class, int `(n,)`.
        num_classes: number of classes.
    """
    own = as_labels(labels).to(predicted.device)
    right = predicted == own
    support = own.bincount(minlength=num_classes)
    has_images = support > 0
    recalls = own[right].bincount(minlength=num_classes)[has_images].double() / support[has_images]
    return Accuracy(int(right.sum()) / len(own), float(recalls.mean()))
