"""Likely wrong labels, over features and answers that are set by hand."""

import numpy as np
import pytest
import torch

from vit_lightning.commands.doctor import suspects as module
from vit_lightning.commands.doctor.survey import Survey
from vit_lightning.commands.doctor.suspects import _nearest, _outvoted, suspects
from vit_lightning.errors import InputError

NAMES = ["cat", "dog", "owl"]


def neighbours(monkeypatch, labels: list[int], near: list[list[int]]):
    """What is outvoted where each image has these neighbours."""
    monkeypatch.setattr(module, "_nearest", lambda features, queries: torch.tensor(near)[queries])
    place, other, share, right = _outvoted(torch.zeros(len(labels), 1), torch.tensor(labels))
    return list(zip(place.tolist(), other.tolist(), share.astype(float).round(4).tolist(), strict=True)), right


def among(own: int, other: int, third: int = 0) -> list[int]:
    """Neighbours of the first image: so many of its class, of a second and of a third."""
    return [*range(1, own + 1), *range(12, 12 + other), *range(24, 24 + third)]


@pytest.mark.parametrize(
    ("near", "found"),
    [
        (among(0, 10), [(0, 1, 1.0)]),
        (among(1, 9), [(0, 1, 0.9)]),  # a tenth may be of its own
        (among(2, 8), []),
        (among(0, 8, 2), [(0, 1, 0.8)]),  # four fifths must agree
        (among(0, 7, 3), []),
        (among(1, 8, 1), [(0, 1, 0.8)]),
        (among(10, 0), []),
    ],
)
def test_how_many_neighbours_must_agree(monkeypatch, near, found):
    labels = [0] * 12 + [1] * 12 + [2] * 12
    plain = [
        [other for other in range(label * 12, label * 12 + 12) if other != number][:10]
        for number, label in enumerate(labels)
    ]
    suspected, right = neighbours(monkeypatch, labels, [near, *plain[1:]])
    assert suspected == found and right == (35 + (near == among(10, 0))) / 36


def test_no_more_neighbours_are_asked_than_the_class_has_others(monkeypatch):
    """Of four images, three are asked; of three none is judged."""
    labels = [0] * 4 + [1] * 20 + [2] * 3
    near = [[4 + place for place in range(10)]] * len(labels)
    near[1] = [4, 5, 6, 0, 2, 3, 7, 8, 9, 10]  # the next ones are of its own, and not asked
    near[2] = [4, 5, 0, 6, 7, 8, 9, 10, 11, 12]
    found, _ = neighbours(monkeypatch, labels, near)
    assert found == [(0, 1, 1.0), (1, 1, 1.0), (3, 1, 1.0)]


def test_those_most_agreed_on_come_first_and_equal_ones_in_order(monkeypatch):
    labels = [0] * 12 + [1] * 12 + [2] * 12
    plain = [
        [other for other in range(label * 12, label * 12 + 12) if other != number][:10]
        for number, label in enumerate(labels)
    ]
    plain[2], plain[5], plain[7] = (among(0, *shares) for shares in ((8, 2), (10, 0), (8, 2)))
    monkeypatch.setattr(module, "QUERIES", 7)  # in several parts
    assert neighbours(monkeypatch, labels, plain)[0] == [(5, 1, 1.0), (2, 1, 0.8), (7, 1, 0.8)]


def test_an_image_is_not_its_own_neighbour_and_the_nearest_come_first(monkeypatch):
    angles = torch.tensor([0.0, 0.1, 0.3, 1.0, 3.0])
    features = torch.stack([angles.cos(), angles.sin()], 1)
    for size in (2, 3, 100):
        monkeypatch.setattr(module, "REFERENCES", size)
        assert _nearest(features, torch.tensor([1, 4])).tolist() == [[0, 2, 3, 4], [3, 2, 1, 0]]


# All of it -----------------------------------------------------------------------------------------------------------


def seen(labels: list[tuple[int, ...]], faults: tuple[int, ...] = ()) -> Survey:
    counts = np.bincount([label for each in labels for label in each if 0 <= label < 3], minlength=3)
    size = len(labels)
    found = Survey(
        "training",
        [f"{n}.png" for n in range(size)],
        np.array(list(map(hash, labels))),
        counts,
        np.ones((size, 2)),
        np.zeros(size),
    )
    found.class_sets = {hash(each): each for each in labels}
    found.faults = dict.fromkeys(faults, "empty")
    return found


class Net:
    """Sees the numbers that images hold."""

    batch_size = 5

    def features(self, shown: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack([image[:2, 0, 0].float() for image in shown])


def image(label: int) -> torch.Tensor:
    return torch.tensor([[200, 1], [1, 200], [150, 150]][label], dtype=torch.uint8)[:, None, None].expand(2, 2, 2)


def run(shown: list[int], labels: list[tuple[int, ...]], faults: tuple[int, ...] = ()):
    told: list[int] = []
    source = [(torch.cat([image(label), image(label)[:1]]), 0) for label in shown]
    return suspects(source, seen(labels, faults), NAMES, Net(), told.append), told


def test_suspects_are_named_with_what_their_neighbours_are():
    labels = [(0,)] * 12 + [(1,)] * 12
    labels[2], labels[20] = (1,), (0,)
    (found,), told = run([0] * 12 + [1] * 12, labels)
    assert found.items == ("2.png (dog, neighbours cat 100%)", "20.png (cat, neighbours dog 100%)")
    assert found.text == "2 training images resembling another class; most neighbours agree with 92% of all labels"
    assert (found.severity, found.topic, found.fix) == (
        "warning",
        "suspect labels",
        "look at them: their labels may be wrong",
    )
    assert told == [5, 5, 5, 5, 4]


def test_records_that_cannot_be_read_or_have_no_class_are_passed_over():
    labels = [(0,)] * 6 + [(1,)] * 6 + [(), (7,), (2,)]
    labels[2] = (1,)
    (found,), told = run([0] * 6 + [1] * 6 + [0, 0, 0], labels, faults=(0, 7))
    assert found.items == ("2.png (dog, neighbours cat 80%)",) and sum(told) == 11  # of five, four cats are left
    assert found.text.startswith("1 training image resembling another class; ")
    assert found.text.endswith("; 1 classes have too few images to say (owl)")


def test_labels_that_agree_are_a_note():
    (found,), _ = run([0] * 6 + [1] * 6, [(0,)] * 6 + [(1,)] * 6)
    assert (found.severity, found.text) == (
        "note",
        "no image resembles another class; most neighbours agree with 100% of all labels",
    )


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_classes_none_of_whose_images_is_judged_are_named(size):
    (found,), _ = run([0] * 6 + [1] * size, [(0,)] * 6 + [(1,)] * size)
    assert found.text.endswith("; 1 classes have too few images to say (dog)") is (size < 4)


@pytest.mark.parametrize(("size", "is_judged"), [(3, False), (4, True)])
def test_a_few_images_say_nothing(size, is_judged):
    found, _ = run([0] * size, [(0,)] * size)
    assert bool(found) is is_judged


def test_several_classes_an_image_are_refused():
    with pytest.raises(InputError, match=r"--suspect_labels needs one class per image"):
        run([0] * 5, [(0,)] * 4 + [(0, 1)])
