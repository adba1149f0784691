"""How many images show each class: from a set's list of labels, from its records, by shares."""

import numpy as np
import pytest
import torch

from vit_lightning.data.sampling import IGNORE
from vit_lightning.data.subsets import class_counts, classes_of
from vit_lightning.errors import InputError


class Listed(list):
    """Records that must not be read, since their labels are known."""

    def __init__(self, labels) -> None:
        super().__init__([None] * len(labels))
        self.labels = np.asarray(labels)

    def __getitem__(self, index):
        raise AssertionError("labels that are known must not be read")


def records(labels) -> list:
    return [(None, label) for label in labels]


@pytest.mark.parametrize("source", [Listed, records])
def test_images_of_each_class_are_counted_and_hidden_ones_are_not(source):
    counts = class_counts(source([2, 0, IGNORE, 2, 2]), 5)
    assert counts.images == 4
    assert counts.per_class.tolist() == [1, 0, 3, 0, 0] and counts.per_class.dtype == np.float64


@pytest.mark.parametrize("source", [Listed, records])
def test_images_of_several_classes_count_by_their_shares(source):
    shares = np.array([[1, 0, 0.5], [0, 0, 0], [IGNORE] * 3, [1, 1, 0.25]], np.float32)
    counts = class_counts(source(shares), 3)
    assert counts.images == 3  # one without a class counts too, one that hides them does not
    assert counts.per_class.tolist() == [2, 1, 0.75]


def test_labels_of_records_may_be_tensors():
    assert class_counts(records([torch.tensor(1), torch.tensor(1), torch.tensor(0)]), 2).per_class.tolist() == [1, 2]
    assert class_counts(records([]), 2) == (0, pytest.approx([0, 0]))


@pytest.mark.parametrize("source", [Listed, records])
def test_each_image_has_its_class_in_the_order_of_the_set(source):
    assert classes_of(source([3, IGNORE, 0, 3]), "--flag", "do otherwise").tolist() == [3, IGNORE, 0, 3]
    for wrong in (np.eye(3), [0.0, 1.0, 1.0], [True, False, True]):
        with pytest.raises(InputError, match=r"^--flag needs one class per image, .* do otherwise$"):
            classes_of(source(wrong), "--flag", "do otherwise")


def test_what_is_partly_hidden_counts_for_nothing():
    counts = class_counts(records(np.array([[1, IGNORE, 0], [0, 1, 0.5]], np.float32)), 3)
    assert counts == (1, pytest.approx([0, 1, 0.5]))
