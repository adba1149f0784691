"""Which of the usual shots and neighbours remain where images are few."""

import pytest
import torch

from vit_lightning.commands.probe.methods import Probes
from vit_lightning.errors import InputError

NAMES = ["cat", "dog", "fish"]
LABELS = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, -1, 7])
"""Four cats, three dogs, four fish, and two images that count nothing: eleven in all."""


def probes(**facts) -> Probes:
    usual = {"chosen": ("fewshot", "knn"), "shots": [1, 3, 4, 9], "seeds": (0,), "penalties": (1.0,)}
    usual |= {"neighbours": [5, 11, 12], "temperature": 0.07, "missing_is_fine": True}
    return Probes(**usual | {"usual": ("shots", "neighbours")} | facts)


def test_what_is_beyond_the_images_is_left_out_and_said():
    asked = probes()
    found, lines = asked.possible(LABELS, NAMES)
    assert (found.shots, found.neighbours) == ([1, 3], [5, 11])
    assert lines == [
        "without  shots 4, 9, more than the 3 training images of class dog",
        "without  neighbours 12, more than the 11 training images",
    ]
    assert (asked.shots, asked.neighbours) == ([1, 3, 4, 9], [5, 11, 12])


def test_what_suffices_stays_and_nothing_is_said():
    asked = probes(shots=[1, 3], neighbours=[11])
    assert asked.possible(LABELS, NAMES) == (asked, [])
    alone = probes(chosen=("logistic",))
    assert alone.possible(LABELS, NAMES) == (alone, [])
    found, lines = probes(chosen=("knn",)).possible(LABELS, NAMES)
    assert (found.shots, found.neighbours, len(lines)) == ([1, 3, 4, 9], [5, 11], 1)


@pytest.mark.parametrize(
    ("shots", "usual", "fine"),
    [([1, 4], ("shots",), True), ([1, 4], (), False), ([4, 9], ("shots",), False), ([1, 4], ("neighbours",), False)],
)
def test_only_usual_values_may_be_left_out_and_not_all_of_them(shots, usual, fine):
    asked = probes(shots=shots, neighbours=[1], usual=usual)
    if fine:
        return asked.check(LABELS, LABELS, "test", NAMES)
    with pytest.raises(InputError, match=rf"--shots {shots[-1]} is more than the 3 training images of class dog"):
        asked.check(LABELS, LABELS, "test", NAMES)
