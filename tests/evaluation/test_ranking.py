"""Rankings against their definition: the precision at each image that has the label, and pairs in order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit_lightning.evaluation.ranking import rank

IMAGES = st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=2, max_size=25)


def average_precision(scores, has):
    """Mean, over images that have the label, of the precision among all that score as high or higher."""
    found = [np.mean(has[scores >= score]) for score in scores[has]]
    return np.mean(found) if found else np.nan


def area(scores, has):
    """Share of pairs, of an image with the label and one without, in the right order; a tie is half a pair."""
    pairs = [np.sign(a - b) / 2 + 0.5 for a in scores[has] for b in scores[~has]]
    return np.mean(pairs) if pairs else np.nan


@given(st.lists(IMAGES, min_size=1, max_size=4))
def test_rankings_are_those_of_their_definition(columns):
    size = min(map(len, columns))
    scores = np.array([[score for score, _ in column[:size]] for column in columns], np.float32).T
    labels = np.array([[has for _, has in column[:size]] for column in columns]).T
    found = rank(scores, labels)
    by_class = [average_precision(*pair) for pair in zip(scores.T, labels.T, strict=True)]
    areas = [area(*pair) for pair in zip(scores.T, labels.T, strict=True)]
    np.testing.assert_allclose(found.average_precision, by_class, atol=1e-9)
    np.testing.assert_allclose(found.auroc, areas, atol=1e-9)
    np.testing.assert_allclose(found.map_micro, average_precision(scores.ravel(), labels.ravel()), atol=1e-9)


def test_classes_that_tell_nothing_are_left_out_of_the_means():
    """The first class has no image, and all images have the last."""
    labels = np.array([[0, 1, 1], [0, 0, 1]], bool)
    found = rank(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), labels)
    assert np.isnan(found.average_precision[0]) and np.isnan(found.auroc[[0, 2]]).all()
    assert found.map_macro == pytest.approx((0.5 + 1) / 2) and found.mean_auroc == 0


def test_outputs_that_are_not_finite_have_no_ranking():
    found = rank(np.array([[1.0, np.nan], [2.0, 3.0]]), np.array([[1, 0], [0, 1]], bool))
    assert np.isnan([found.average_precision[1], found.auroc[1], found.map_micro]).all()
