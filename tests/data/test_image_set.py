"""Members that a set may have or lack, read with their defaults."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from vit_lightning.data.image_set import announce, blocks_of, keys_of, label_of, labels_of, listed_otherwise, record_of
from vit_lightning.data.subsets import Subset
from vit_lightning.errors import InputError


class Whole:
    """Three records with all that a set may offer."""

    keys = ("a", "b", "c")
    labels = (2, 0, 1)
    blocks = np.array([0, 0, 1])

    def __init__(self) -> None:
        self.announced = []

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[bytes, int]:
        return b"", self.labels[index]

    def announce(self, numbers: np.ndarray) -> None:
        self.announced.append(numbers.tolist())


def test_a_plain_set_has_numbers_for_names_and_nothing_else():
    plain = [(b"", 0)] * 3
    assert list(keys_of(plain)) == [0, 1, 2]
    assert labels_of(plain) is None and blocks_of(plain) is None
    announce(plain, np.arange(3))


def test_what_a_set_offers_is_taken_also_from_a_part_of_it():
    whole = Whole()
    part = Subset(whole, np.array([0, 2]))
    assert list(keys_of(part)) == ["a", "c"]
    assert labels_of(whole).tolist() == [2, 0, 1] and labels_of(part).tolist() == [2, 1]
    assert blocks_of(part).tolist() == [0, 1]
    announce(part, np.array([1]))
    assert whole.announced == [[2]]


def test_a_label_is_had_without_its_image_where_the_set_can_do_without():
    assert [label_of(Whole(), index) for index in range(3)] == [2, 0, 1]

    class Quick(Whole):
        def label_at(self, index: int) -> int:
            return 10 + index

        def __getitem__(self, index: int) -> tuple[bytes, int]:
            raise AssertionError("the image is not needed")

    assert [label_of(Quick(), index) for index in range(3)] == [10, 11, 12]
    part = Subset(Quick(), np.array([2, 0]))
    assert [label_of(part, index) for index in range(2)] == [12, 10]


def test_a_part_of_a_plain_set_keeps_its_numbers():
    part = Subset([(b"", 0)] * 3, np.array([2, 1]))
    assert list(keys_of(part)) == [2, 1]
    assert labels_of(part) is None and blocks_of(part) is None


@pytest.mark.parametrize("records", [[1, 2, 3], [(1, 2, 3)], ["ab"], [{"picture": 0, "label": 1}]])
def test_a_set_that_yields_no_pairs_is_named(records):
    with pytest.raises(
        InputError, match=r"record 0 of the list has the type \w+; expected a pair of an image and its label"
    ):
        record_of(records, 0)


def test_a_record_may_be_a_dict():
    assert record_of([{"image": b"x", "label": 1, "id": 7}], 0) == (b"x", 1)


def four(**members) -> SimpleNamespace:
    """A set of four records with these members."""

    class Four(SimpleNamespace):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> tuple[int, int]:
            return index, index

    return Four(**members)


def test_names_may_be_more_than_records_and_labels_may_not():
    assert keys_of(four(keys="abcde")) == "abcde" and keys_of(four(keys="abcd")) == "abcd"
    with pytest.raises(InputError, match="keys of the Four is a sequence of 3 for 4 records, expected an attribute"):
        keys_of(four(keys="abc"))
    assert labels_of(four(labels=[0, 1, 2, 3])).tolist() == [0, 1, 2, 3]
    with pytest.raises(InputError, match="labels of the Four is a sequence of 3 for 4 records"):
        labels_of(four(labels=[0, 1, 2]))
    with pytest.raises(InputError, match="labels of the Four has 5 numbers for 4 records, expected one for each"):
        labels_of(four(labels=[0, 1, 2, 3, 4]))


@pytest.mark.parametrize(
    "labels", [[True, False, True, True], [0.5, 1.0, 0.0, 0.0], np.array([0, 1, 2, 255], np.uint8), np.eye(4)]
)
def test_numbers_of_every_kind_are_labels(labels):
    assert np.array_equal(labels_of(four(labels=labels)), np.asarray(labels))


@pytest.mark.parametrize(
    ("listed", "own", "said"),
    [
        (2, 2, None),
        (2, 1, 2),
        (2, np.array([0, 0, 1.0]), None),
        (2, np.array([0, 1.0, 0]), 2),
        (2, np.zeros(0), 2),
        (2, torch.tensor(2), None),
    ],
)
def test_a_list_and_its_record_agree_by_the_greatest_share(listed, own, said):
    assert listed_otherwise(four(labels=[9, listed, 9, 9]), 1, own) == said
    assert listed_otherwise(four(labels=[9, listed, 9]), 1, own) is None  # refused elsewhere
    turns = four(labels=[9, listed, 9, 9], target_transform=abs)
    assert listed_otherwise(turns, 1, own) is None and labels_of(turns) is None
