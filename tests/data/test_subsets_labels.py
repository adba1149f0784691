"""Which class of several with too few images is named, and labels of parts that are asked for one by one."""

import numpy as np
import pytest

from vit_lightning.data.image_set import label_of
from vit_lightning.data.subsets import Subset, take_per_class
from vit_lightning.errors import InputError


class Asked:
    """Records whose images must not be read for their labels."""

    labels = np.array([0, 0, 1, 2, 2, 2])

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int):
        raise AssertionError("the label alone is wanted")

    def label_at(self, index: int) -> int:
        return 10 * index


def test_the_label_of_a_part_is_that_of_its_own_record():
    part = Subset(Asked(), np.array([4, 1, 3]))
    assert [label_of(part, number) for number in range(3)] == [40, 10, 30]
    assert [label_of(Subset(part, np.array([2, 0])), number) for number in range(2)] == [30, 40]


def test_of_classes_with_too_few_the_smallest_is_named():
    with pytest.raises(InputError, match=r"per_class is 3, but class bee has 1 training image; give 1$"):
        take_per_class(Asked(), 3, ["ant", "bee", "cow"])
