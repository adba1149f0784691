"""How well scores rank images that have a label above those that have not, for images of several labels."""

from dataclasses import dataclass

import numpy as np

from vit_lightning.evaluation.confusion import mean_of_known


@dataclass(frozen=True)
class Ranking:
    """Average precision and area under the ROC curve; NaN where a class has no image that it is, or is not, of.

    Args:
        average_precision: Of each class (classes).
        auroc: Of each class (classes).
        map_micro: Average precision of all images and classes taken together.
    """

    average_precision: np.ndarray
    auroc: np.ndarray
    map_micro: float

    @property
    def map_macro(self) -> float:
        """Mean average precision of the classes that have an image."""
        return mean_of_known(self.average_precision)

    @property
    def mean_auroc(self) -> float:
        """Mean area of the classes that some images are of, and others are not."""
        return mean_of_known(self.auroc)


def rank(scores: np.ndarray, labels: np.ndarray) -> Ranking:
    """Rank all images, by class and together; scikit-learn counts in float64, and ties as one step.

    Args:
        scores: Any numbers that are higher where a label is more probable (images, classes).
        labels: Whether an image has a label (images, classes), bool.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    precision, area = (np.full(labels.shape[1], np.nan) for _ in range(2))
    for place, (column, has) in enumerate(zip(scores.T, labels.T, strict=True)):
        if not has.any() or not np.isfinite(column).all():
            continue
        precision[place] = average_precision_score(has, column)
        if not has.all():
            area[place] = roc_auc_score(has, column)
    known = labels.any() and bool(np.isfinite(scores).all())
    micro = average_precision_score(labels.ravel(), scores.ravel()) if known else np.nan
    return Ranking(precision, area, float(micro))
