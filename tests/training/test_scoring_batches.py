"""Scores of a split from batches of unequal size, by hand; no pass over it knows of an earlier one."""

import numpy as np
import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.training.scoring import SplitScores, monitored_names

LOGITS = torch.tensor([[2.0, 0.0, -1.0], [0.0, 1.0, 0.5], [1.0, 0.0, 3.0], [0.0, 2.0, 0.0], [5.0, 0.0, 0.0]])
ONE = torch.tensor([0, 2, 2, 0, 1])
"""Predicted are 0, 1, 2, 1, 0; the last one is padding."""
SEVERAL = torch.tensor([[1, 0, 0], [0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1]]).float()
VALID = torch.tensor([True, True, True, True, False])


def of_batches(scores: SplitScores, labels: torch.Tensor, sizes=(3, 2), are_independent: bool = False) -> dict:
    scores.begin()
    batches = zip(*(each.split(list(sizes)) for each in (LOGITS, labels, VALID)), strict=True)
    for logits, some, valid in batches:
        scores.update(logits, some, valid, logits.argmax(1), are_independent)
    return scores.sum_up().values


@pytest.mark.parametrize("sizes", [(5,), (3, 2), (1, 1, 3), (4, 1)])
def test_scores_of_one_label_do_not_depend_on_the_batches(sizes):
    scores = SplitScores(0.5)
    values = of_batches(scores, ONE, sizes)
    assert values["mean_class_accuracy"] == pytest.approx((1 / 2 + 1 / 2) / 2)  # class 1 has no image that counts
    assert values["macro_f1"] == pytest.approx((2 / 3 + 0 + 2 / 3) / 3)  # which was predicted all the same
    chances = np.exp(LOGITS.double().numpy())
    sure = chances.max(1)[:4] / chances.sum(1)[:4]
    right = np.array([True, False, True, False])
    bins = np.ceil(sure * 15)
    gaps = [abs((right[bins == one] - sure[bins == one]).sum()) for one in set(bins)]
    assert values["ece"] == pytest.approx(sum(gaps) / 4)
    assert scores.summed.confusion.counts.support.tolist() == [2, 0, 2]


def test_the_mistakes_of_all_batches_bear_the_numbers_of_their_images():
    scores = SplitScores(0.5)
    of_batches(scores, ONE)
    mistakes = scores.summed.mistakes
    found = zip(mistakes.images.tolist(), mistakes.true.tolist(), mistakes.predicted.tolist(), strict=True)
    assert sorted(found) == [(1, 2, 1), (3, 0, 1)]


@pytest.mark.parametrize("sizes", [(5,), (3, 2), (1, 1, 3)])
def test_scores_of_several_labels_do_not_depend_on_the_batches(sizes):
    """By sigmoid above 0.5, which a logit of 0 is not: predicted are {0}, {1, 2}, {0, 2} and {1}."""
    values = of_batches(SplitScores(0.5), SEVERAL, sizes, are_independent=True)
    f1 = [1, 2 / 3, 2 / 3]
    assert values["macro_f1"] == pytest.approx(sum(f1) / 3)
    assert values["micro_f1"] == pytest.approx(2 * 4 / (4 + 6))
    assert values["exact_match"] == pytest.approx(2 / 4)
    shares, has = 1 / (1 + np.exp(-LOGITS[:4].double().numpy())), SEVERAL[:4].numpy()
    errors = []
    for share, labels in zip(shares.T, has.T, strict=True):
        bins = np.ceil(share * 15)
        errors.append(sum(abs((labels[bins == one] - share[bins == one]).sum()) for one in set(bins)) / 4)
    assert values["ece"] == pytest.approx(sum(errors) / 3, abs=1e-6)


def test_a_label_is_predicted_above_the_threshold_and_not_at_it():
    scores = SplitScores(0.25)
    scores.begin()
    logits = torch.tensor([[0.25, 0.75], [0.26, 0.24]]).logit()
    scores.update(logits, torch.ones(2, 2), torch.tensor([True, True]), logits.argmax(1), are_independent=True)
    assert scores.sum_up().counts.predicted.tolist() == [1, 1]


def test_the_threshold_is_one_of_predictions_and_not_of_labels():
    """A label of 0.4, as annotators who disagree give it, is not shown, whatever is predicted from 0.3 on."""
    scores = SplitScores(0.3)
    scores.begin()
    labels = torch.tensor([[0.4, 0.6], [0.5, 0.0]])
    scores.update(torch.full((2, 2), 9.0), labels, torch.tensor([True, True]), torch.zeros(2).long(), True)
    assert scores.sum_up().counts.support.tolist() == [0, 1]


@pytest.mark.parametrize(("first", "second"), [(ONE, SEVERAL), (SEVERAL, ONE)])
def test_a_pass_begins_with_nothing_of_the_one_before(first, second):
    """A split may come again with other images, with labels of another kind, or with none at all."""
    scores, fresh = SplitScores(0.5), SplitScores(0.5)
    of_batches(scores, first)
    assert scores.explain("test") or scores.summed
    assert of_batches(scores, second) == of_batches(fresh, second)
    scores.begin()
    assert scores.summed is None and scores.sum_up() is None and scores.explain("test") == []


@pytest.mark.parametrize(("asked", "noted"), [(None, False), (["mean_auroc"], True), (["mean_auroc", "ece"], True)])
def test_images_of_one_class_have_scores_and_notes(asked, noted):
    """Three images of class 0 of three classes, two of which are taken for others."""
    scores = SplitScores(0.5)
    scores.want(asked, (), costly=False)
    of_batches(scores, torch.tensor([0, 0, 0, 0, 1]))
    counted_by_macro_f1 = ", but macro F1 counts the 2 of them that some image is taken for as 0" * (asked is None)
    without = ["mean_auroc is left out: every class is shown by all images or by none"] * noted
    assert scores.explain("test") == [
        *without,
        "2 of 3 classes have no test image; means over classes leave them out" + counted_by_macro_f1,
        "all test images are of one class, so that top-1 says little: a net that always answers it scores 100 %",
    ]


def test_images_of_several_labels_that_all_show_one_class_are_not_of_one_class():
    scores = SplitScores(0.5)
    of_batches(scores, torch.tensor([[1.0, 0, 0]] * 5))
    assert not any("top-1" in said for said in scores.explain("test"))


def test_a_score_that_chooses_a_checkpoint_must_have_a_value():
    scores = SplitScores(0.5)
    scores.want(None, ("mean_auroc",), costly=False)
    of_batches(scores, torch.zeros(5, dtype=torch.long))
    with pytest.raises(InputError, match=r"the monitored score mean_auroc has no value: every class is shown by all"):
        scores.explain("validation")


def test_all_that_callbacks_watch_is_monitored():
    class Watches:
        def __init__(self, monitor=None) -> None:
            self.monitor = monitor

    watched = ["val/macro_f1", None, "test/map_macro", "val/loss", "val/ece"]
    assert monitored_names([object(), *map(Watches, watched)]) == {"macro_f1", "ece"}
    assert monitored_names([]) == set()
