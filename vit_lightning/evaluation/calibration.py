"""How far a net's confidence is from its accuracy."""

import numpy as np

BINS = 15
"""Bins of equal width, as Guo et al. take them (On Calibration of Modern Neural Networks, 2017)."""


def calibration_error(confidence: np.ndarray, right: np.ndarray, bins: int = BINS) -> float:
    """Return the expected calibration error: |accuracy - confidence| of each bin, weighted by its images.

    A bin holds its upper edge and not its lower one (Guo et al., section 2); the first one holds 0 too.

    Args:
        confidence: Probability of the class that is predicted (images).
        right: Whether it is the image's class (images).
        bins: Number of bins.
    """
    confidence = confidence.astype(np.float64)
    edges = np.linspace(0, 1, bins + 1)[1:-1]
    places = np.digitize(confidence, edges, right=True)
    gaps = np.bincount(places, weights=right - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / len(confidence))


def label_calibration_error(gaps: np.ndarray, images: int, support: np.ndarray) -> float:
    """Return the mean over labels of the expected calibration error of each one's probability; NaN without a label.

    Of images of several labels, whose probabilities are independent: classwise-ECE of Kull et al., Beyond temperature
    scaling, 2019.

    Args:
        gaps: Images that have a label less the sum of its probabilities, of the images of each bin (bins, classes).
        images: Number of images.
        support: Images that have each label (classes); a label of none is left out, as of other means over classes.
    """
    errors = np.abs(gaps).sum(0)[support > 0]  # without images there is no support
    return float(errors.mean() / images) if len(errors) else float("nan")
