"""What a net gets right by class, and which classes it takes for which."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

MOST_MISTAKES = 1_000
"""Images that are kept of those that are predicted wrongly."""


@dataclass(frozen=True)
class ClassCounts:
    """Images by class, from which every score by class follows. A share of no image is NaN.

    Args:
        right: Images of the class that are predicted as it (classes).
        support: Images of the class (classes).
        predicted: Images that are predicted as the class (classes).
    """

    right: np.ndarray
    support: np.ndarray
    predicted: np.ndarray

    @cached_property
    def precision(self) -> np.ndarray:
        """Share of the images predicted as a class that are of it; NaN for a class that is never predicted."""
        return _share(self.right, self.predicted)

    @cached_property
    def recall(self) -> np.ndarray:
        """Share of a class's images that are predicted as it; NaN for a class without an image."""
        return _share(self.right, self.support)

    @cached_property
    def f1(self) -> np.ndarray:
        """Harmonic mean of precision and recall; NaN for a class that has no image and is never predicted."""
        return _share(2 * self.right, self.support + self.predicted)

    @property
    def without_image(self) -> int:
        """Number of classes that no image has."""
        return int((self.support == 0).sum())

    @property
    def false_alarms(self) -> int:
        """Number of the classes without an image that some image is predicted as."""
        return int(((self.support == 0) & (self.predicted > 0)).sum())

    @property
    def mean_class_accuracy(self) -> float:
        """Mean of the recalls of the classes that have an image."""
        return mean_of_known(self.recall)

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the classes that have an image or are predicted, as scikit-learn takes it."""
        return mean_of_known(self.f1)

    @property
    def micro_f1(self) -> float:
        """F1 of all images and classes taken together."""
        return float(_share(2 * self.right.sum(), (self.support + self.predicted).sum()))


@dataclass(frozen=True)
class Confusion:
    """How many images of one class are predicted as another: the entries of a matrix that are not 0.

    Args:
        true: Class of the images (entries), ascending.
        predicted: What they are predicted as (entries), ascending for each class.
        images: How many they are (entries).
        classes: Number of classes.
    """

    true: np.ndarray
    predicted: np.ndarray
    images: np.ndarray
    classes: int

    @classmethod
    def of(cls, true: np.ndarray, predicted: np.ndarray, classes: int) -> "Confusion":
        """Count images whose classes are `true` (images) and predicted as `predicted` (images)."""
        pairs, images = np.unique(true.astype(np.int64) * classes + predicted, return_counts=True)
        return cls(pairs // classes, pairs % classes, images, classes)

    @cached_property
    def counts(self) -> ClassCounts:
        """Images by class."""
        diagonal = self.true == self.predicted
        return ClassCounts(
            right=self._sum(self.true[diagonal], self.images[diagonal]),
            support=self._sum(self.true, self.images),
            predicted=self._sum(self.predicted, self.images),
        )

    def matrix(self) -> np.ndarray:
        """Return all of it (classes, classes): a row per true class, a column per predicted one."""
        whole = np.zeros((self.classes, self.classes), np.int64)
        whole[self.true, self.predicted] = self.images
        return whole

    def _sum(self, places: np.ndarray, images: np.ndarray) -> np.ndarray:
        summed = np.zeros(self.classes, np.int64)
        np.add.at(summed, places, images)
        return summed


@dataclass(frozen=True)
class Mistakes:
    """Images that are predicted wrongly, the most confident first, of those the first `MOST_MISTAKES`.

    Args:
        images: Their numbers in the order of the data (mistakes).
        true: Their classes (mistakes).
        predicted: What they are predicted as (mistakes).
        confidence: Probability of that (mistakes).
    """

    images: np.ndarray
    true: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray

    @classmethod
    def of(cls, images: np.ndarray, true: np.ndarray, predicted: np.ndarray, confidence: np.ndarray) -> "Mistakes":
        """Choose among images of number `images`, each array (images); of equal confidence, the first come first."""
        wrong = np.flatnonzero(true != predicted)
        chosen = wrong[np.argsort(-confidence[wrong], kind="stable")[:MOST_MISTAKES]]
        return cls(images[chosen], true[chosen], predicted[chosen], confidence[chosen])


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.asarray(part, np.float64) / whole


def mean_of_known(values: np.ndarray) -> float:
    """Return the mean of the values that are not NaN; NaN where there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
