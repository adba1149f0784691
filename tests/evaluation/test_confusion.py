"""Scores by class against scikit-learn, on random confusions."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, f1_score, precision_recall_fscore_support

from vit_lightning.evaluation.confusion import ClassCounts, Confusion, Mistakes

ANSWERS = st.integers(2, 7).flatmap(
    lambda classes: st.tuples(
        st.just(classes),
        st.lists(st.tuples(*[st.integers(0, classes - 1)] * 2), min_size=1, max_size=60),
    )
)


@given(ANSWERS)
def test_every_score_by_class_is_scikit_learns(drawn):
    """Classes without an image, never predicted, or neither are among them."""
    classes, pairs = drawn
    true, predicted = np.array(pairs).T
    confusion = Confusion.of(true, predicted, classes)
    counts, everything = confusion.counts, range(classes)
    assert (confusion.matrix() == confusion_matrix(true, predicted, labels=everything)).all()
    precision, recall, f1, support = precision_recall_fscore_support(
        true, predicted, labels=everything, zero_division=np.nan
    )
    for ours, theirs in ((counts.precision, precision), (counts.recall, recall), (counts.f1, f1)):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    assert (counts.support == support).all() and counts.without_image == classes - len(set(true))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that are predicted and have no image
        assert counts.mean_class_accuracy == pytest.approx(balanced_accuracy_score(true, predicted), abs=1e-12)
        assert counts.macro_f1 == pytest.approx(f1_score(true, predicted, average="macro"), abs=1e-12)
        assert counts.micro_f1 == pytest.approx(f1_score(true, predicted, average="micro"), abs=1e-12)


@given(ANSWERS)
def test_the_order_of_the_images_says_nothing_and_twice_all_images_say_the_same(drawn):
    classes, pairs = drawn
    true, predicted = np.array(pairs).T
    one = Confusion.of(true, predicted, classes)
    other = Confusion.of(true[::-1], predicted[::-1], classes)
    assert (one.matrix() == other.matrix()).all()
    twice = Confusion.of(np.tile(true, 2), np.tile(predicted, 2), classes).counts
    assert (twice.support == 2 * one.counts.support).all()
    assert twice.macro_f1 == pytest.approx(one.counts.macro_f1, abs=1e-12)
    assert twice.mean_class_accuracy == pytest.approx(one.counts.mean_class_accuracy, abs=1e-12)


def test_many_classes_need_no_square():
    """Those of ImageNet-21k: a square of them would have 477 million entries."""
    true, predicted = np.array([21_840, 0, 21_840]), np.array([0, 0, 0])
    confusion = Confusion.of(true, predicted, 21_841)
    assert confusion.true.tolist() == [0, 21_840] and confusion.predicted.tolist() == [0, 0]
    assert confusion.images.tolist() == [1, 2]
    assert confusion.counts.mean_class_accuracy == 0.5 and confusion.counts.without_image == 21_839


def test_no_image_has_no_score():
    counts = ClassCounts(*np.zeros((3, 4), np.int64))
    assert np.isnan([counts.mean_class_accuracy, counts.macro_f1, counts.micro_f1]).all()


@given(st.lists(st.sampled_from([0.25, 0.5, 0.75]), min_size=20, max_size=200))
def test_of_mistakes_of_one_confidence_the_first_images_come_first(confidence):
    """Of many: numpy's default sorts few as they come."""
    true, number = np.zeros(len(confidence), np.int64), np.arange(len(confidence))
    found = Mistakes.of(number, true, true + 1, np.array(confidence, np.float32))
    assert found.images.tolist() == sorted(number.tolist(), key=lambda place: (-confidence[place], place))


def test_right_answers_are_no_mistakes_and_of_many_a_thousand_are_kept():
    """Confidence falls from image to image; every third is right."""
    count = 1_800
    true, predicted = np.zeros(count, np.int64), np.arange(count) % 3
    found = Mistakes.of(np.arange(count) + 7, true, predicted, np.linspace(1, 0, count))
    assert len(found.images) == 1_000 and found.images[:3].tolist() == [8, 9, 11]
    assert found.predicted[:3].tolist() == [1, 2, 1] and not found.true.any()
    assert found.confidence[0] == 1 - 1 / 1_799
    assert found.images[-1] == 999 // 2 * 3 + 2 + 7


def test_what_no_image_says_is_no_number_and_no_warning():
    counts = ClassCounts(*np.zeros((3, 2), np.int64))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(counts.mean_class_accuracy) and np.isnan(counts.precision).all()
        assert counts.without_image == 2
