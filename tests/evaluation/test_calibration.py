"""The calibration error against plain loops over bins."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit_lightning.evaluation.calibration import calibration_error, label_calibration_error


def by_loops(confidence, right, bins=15):
    """Guo et al., equation 3: sum over bins of |B| / n * |acc(B) - conf(B)|, with B = ((m - 1) / M, m / M]."""
    error = 0.0
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        inside = [(c, r) for c, r in zip(confidence, right, strict=True) if low < c <= high or (number == 0 and c == 0)]
        if inside:
            accuracy = sum(r for _, r in inside) / len(inside)
            mean = sum(c for c, _ in inside) / len(inside)
            error += len(inside) / len(confidence) * abs(accuracy - mean)
    return error


@given(st.lists(st.tuples(st.floats(0, 1, width=32), st.booleans()), min_size=1, max_size=80))
def test_the_error_is_that_of_the_paper(images):
    confidence, right = zip(*images, strict=True)
    found = calibration_error(np.array(confidence, np.float32), np.array(right))
    assert found == pytest.approx(by_loops(confidence, right), abs=1e-9)


def test_values_by_hand():
    """Two images of 0.9, one of them right, and one of 0.5 that is wrong: (2 * |0.5 - 0.9| + |0 - 0.5|) / 3."""
    found = calibration_error(np.array([0.9, 0.9, 0.5]), np.array([True, False, False]))
    assert found == pytest.approx((2 * 0.4 + 0.5) / 3)
    assert calibration_error(np.array([1.0, 1.0]), np.array([True, True])) == 0
    assert math.isnan(calibration_error(np.array([np.nan]), np.array([True])))


def test_a_bin_holds_its_upper_edge():
    """0.5 is right and 0.25 wrong: in one bin of two, their gaps of 0.5 and -0.25 make 0.25; in another, 0.75."""
    right = np.array([True, False])
    assert calibration_error(np.array([0.5, 0.25]), right, bins=2) == pytest.approx(0.25 / 2)
    assert calibration_error(np.array([0.51, 0.25]), right, bins=2) == pytest.approx((0.49 + 0.25) / 2)


def test_the_error_of_several_labels_is_the_mean_of_those_of_labels_that_an_image_has():
    """Two bins of three labels over four images: |2| + |-1| and |-1| + |-1| of 4; the third label is on none."""
    gaps = np.array([[2.0, -1.0, -3.0], [-1.0, -1.0, 0.0]])
    found = label_calibration_error(gaps, 4, np.array([2, 1, 0]))
    assert found == pytest.approx((3 / 4 + 2 / 4) / 2)
    assert math.isnan(label_calibration_error(gaps, 4, np.array([0, 0, 0])))
    assert math.isnan(label_calibration_error(gaps, 0, np.array([0, 0, 0])))
