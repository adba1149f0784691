"""Where each of a few groups goes, worked out by hand: what its classes lack most, then what the split lacks most."""

import pytest

from datamodules.reading.drawn_split import TEST, TRAIN, VAL, draw

HALVES, FIFTHS, QUARTERS = (0.5, 0.5, 0.0), (0.6, 0.2, 0.2), (0.5, 0.25, 0.25)


@pytest.mark.parametrize(
    ("groups", "shares", "expected"),
    [
        # A takes a half of class 0 and a quarter of class 1; C is all of class 1. To E, training lacks 0 of 2 and 1 of
        # 4, validation 1 of 2 and 0 of 4: a half of a class is more than a quarter.
        ({"A": [0, 1], "C": [1, 1], "E": [0, 1]}, HALVES, {"A": TRAIN, "C": VAL, "E": VAL}),
        # D trains, as the only one of class 1, and C validates. To E both lack a sixth of class 0; of all images
        # training has its two, and validation lacks one.
        ({"C": [0], "D": [0, 1], "E": [0]}, HALVES, {"C": VAL, "D": TRAIN, "E": VAL}),
        # A trains. To D, training has half an image of class 0 too many, and lacks half of class 1, of which D has two:
        # 2 / 2 - 0.5 / 5 = 0.9 against 2 / 4 + 1 / 4 of validation. The last two go where nothing is.
        ({"A": [0] * 3, "B": [1], "D": [0, 1, 1], "F": [0]}, QUARTERS, {"A": TRAIN, "B": VAL, "D": TRAIN, "F": TEST}),
        # B trains. To E, training lacks 1.8 / 3 and validation 2 / 5 + 0.6 / 3, which is as much, though not in floats;
        # of all images training lacks 1.8 and validation 1.6.
        ({"B": [0] * 3, "C": [1], "D": [1], "E": [0, 0, 1]}, FIFTHS, {"B": TRAIN, "C": TEST, "D": VAL, "E": TRAIN}),
        # The largest comes first, and trains.
        ({"A": [0], "C": [0, 0], "D": [0]}, FIFTHS, {"A": VAL, "C": TRAIN, "D": TEST}),
    ],
)
def test_a_group_goes_where_its_classes_and_then_all_images_are_wanted_most(groups, shares, expected):
    names = [name for name, classes in groups.items() for _ in classes]
    found = draw(names, [label for classes in groups.values() for label in classes], shares, seed=0)
    assert {name: int(split) for name, split in zip(names, found, strict=True)} == expected
