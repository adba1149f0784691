"""Parts of a set: held out, a share, so many of each class; and what a run makes of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit_lightning.data.sampling import IGNORE
from vit_lightning.data.subsets import Subset, check_share, hold_out, take_fraction, take_per_class
from vit_lightning.errors import InputError

NAMES = ["ant", "bee", "cow"]
HELD_OUT = [3, 6, 9, 10]
STUDIED = [1, 4, 7, 11]
EACH = [1, 3, 11]


class Numbered:
    """Record i is (i, i modulo 3)."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, index % 3


class Labelled(Numbered):
    """Labels that are known at once."""

    def __init__(self, labels) -> None:
        super().__init__(len(labels))
        self.labels = np.asarray(labels)

    def __getitem__(self, index: int) -> tuple[int, int]:
        raise AssertionError("labels that are known must not be read")


def test_hold_out_keeps_groups_together():
    groups = np.array([7, 3, 3, 9, 7, 5, 1, 2, 8, 6])
    for seed in range(8):
        train, val = hold_out(Numbered(10), 0.3, seed=seed, groups=groups)
        assert sorted([*train.indices, *val.indices]) == list(range(10))
        assert not set(groups[train.indices]) & set(groups[val.indices]) and len(set(groups[val.indices])) == 2
        plain, grouped = (hold_out(Numbered(10), 0.3, seed=seed, groups=each) for each in (None, np.arange(10)[::-1]))
        assert [part.indices.tolist() for part in plain] == [part.indices.tolist() for part in grouped]


@pytest.mark.parametrize(("fraction", "groups"), [(0.01, 1), (0.14, 1), (0.16, 2), (0.24, 2), (0.26, 3)])
def test_a_share_of_the_groups_is_rounded_and_is_one_at_least(fraction, groups):
    """Of ten groups of two images each: 0.1, 1.4, 1.6, 2.4 and 2.6."""
    train, val = hold_out(Numbered(20), fraction, groups=np.repeat(np.arange(10), 2))
    assert (len(train), len(val)) == (20 - 2 * groups, 2 * groups)


def test_hold_out_is_stable_and_complete():
    train, val = hold_out(Numbered(50), 0.1)
    again, _ = hold_out(Numbered(50), 0.1)
    assert (len(train), len(val)) == (45, 5)
    assert train.indices.tolist() == again.indices.tolist()
    assert sorted([*train.indices, *val.indices]) == list(range(50))
    assert hold_out(Numbered(50), 0.1, seed=1)[1].indices.tolist() != val.indices.tolist()
    assert hold_out(Numbered(50), 0.04, np.arange(50))[1].indices.tolist() == [48, 49]
    assert len(hold_out(Numbered(50), 0.001)[1]) == 1
    # Rounded, neither cut off nor up: 1.4, 1.6 and 3.4 of 50.
    assert [len(hold_out(Numbered(50), share)[1]) for share in (0.028, 0.032, 0.068)] == [1, 2, 3]
    assert hold_out(source := Numbered(50), 0.0) == (source, None)
    with pytest.raises(InputError, match=r"--data.val_fraction is 1\.5"):
        hold_out(Numbered(50), 1.5)


def test_subset_keeps_labels_and_names():
    source = Numbered(10)
    source.labels = np.arange(10) % 3
    assert list(Subset(source, np.array([7, 2])).keys) == [7, 2]
    source.keys = [f"{index}.png" for index in range(10)]
    subset = Subset(source, np.array([7, 2]))
    assert list(subset.keys) == ["7.png", "2.png"]
    assert list(Subset(subset, np.array([1])).keys) == ["2.png"]
    assert subset.labels.tolist() == [1, 2]
    assert subset[1][1] == 2


@given(st.integers(1, 200), st.floats(0.001, 1), st.floats(0.001, 1))
def test_a_smaller_share_is_part_of_a_larger_one(size, one, other):
    small, large = (take_fraction(Numbered(size), fraction).indices.tolist() for fraction in sorted((one, other)))
    assert set(small) <= set(large)
    assert len(small) == max(1, round(min(one, other) * size))
    assert small == sorted(set(small))


@given(st.lists(st.integers(0, 2), max_size=60), st.integers(1, 5), st.integers(0, 3))
def test_so_many_of_each_class_are_balanced_and_nested(extra, count, more):
    labels = [0, 1, 2] * (count + more) + extra
    small, large = (take_per_class(Labelled(labels), number, NAMES) for number in (count, count + more))
    assert set(small.indices) <= set(large.indices)
    assert np.bincount(small.labels).tolist() == [count] * 3
    assert np.bincount(large.labels).tolist() == [count + more] * 3


def test_the_choice_is_no_slice_and_does_not_follow_the_runs_seed(monkeypatch):
    chosen = take_fraction(Numbered(1000), 0.1).indices
    assert abs(chosen.mean() - 500) < 4 * 1000 / np.sqrt(12 * 100)
    each = take_per_class(Numbered(999), 20, NAMES).indices
    assert each.max() > 900
    monkeypatch.setenv("PL_GLOBAL_SEED", "7")
    assert take_fraction(Numbered(1000), 0.1).indices.tolist() == chosen.tolist()
    assert take_per_class(Numbered(999), 20, NAMES).indices.tolist() == each.tolist()


def test_labels_are_read_where_no_list_is_known():
    assert [label for _, label in take_per_class(Numbered(30), 2, NAMES)].count(1) == 2
    multi_hot = [(0, np.array([1.0, 0.0, 1.0]))] * 4
    with pytest.raises(InputError, match=r"one class per image.*use --data\.fraction"):
        take_per_class(multi_hot, 1, NAMES)


def test_a_class_with_too_few_is_named():
    with pytest.raises(InputError, match="per_class is 3, but class bee has 2 training images; give 2 or less"):
        take_per_class(Labelled([0, 0, 0, 1, 1, 2, 2, 2]), 3, NAMES)
    with pytest.raises(InputError, match=r"per_class is 2, but class cow has 1 training image; give 1$"):
        take_per_class(Labelled([0, 0, 1, 1, 2]), 2, NAMES)
    with pytest.raises(InputError, match="class cow has 0 training images, so no count would do"):
        take_per_class(Labelled([0, 1, IGNORE]), 1, NAMES)


WORDS = ("fit", "--data", "Digits", "--data.batch_size", 16, "--model.net.variant", "mu/8")
WORDS += ("--trainer.accelerator", "cpu", "--trainer.limit_train_batches", 1, "--trainer.limit_val_batches", 1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("flag", "records"), [(("fraction", 0.1), 125), (("per_class", 5), 50)])
def test_a_run_says_what_part_it_trains_on(app, flag, records):
    done = app(*WORDS, f"--data.{flag[0]}", flag[1])
    assert done.code == 0, done.err
    assert f"data     {records} of 1248 training images" in done.out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--data.fraction", 0), "--data.fraction is 0.0, expected a share above 0 and at most 1"),
        (("--data.fraction", 1.5), "--data.fraction is 1.5, expected a share above 0 and at most 1"),
        (("--data.per_class", 0), "--data.per_class is 0, expected 1 or more"),
        (("--data.per_class", 5, "--data.fraction", 0.5), "cannot both be; give one"),
        (
            ("--data.fraction", 0.002),
            "the training set has 2 images, too few for one batch of 16 on each of 1 device; "
            "give --data.fraction 0.018 or more, or --data.batch_size 2 or less",
        ),
        (("--data.per_class", 500), "class 8 has 120 training images; give 120 or less"),
    ],
)
def test_what_cannot_be_chosen_is_one_sentence(app, flags, said):
    done = app(*WORDS, *flags)
    assert done.code == 1
    assert said in done.err.strip().splitlines()[-1]


def test_the_same_records_are_held_out_on_every_machine_and_in_every_version():
    """Else earlier runs would have trained on what later ones validate on."""
    assert hold_out(Numbered(12), 0.34)[1].indices.tolist() == HELD_OUT
    assert take_fraction(Numbered(12), 0.34).indices.tolist() == STUDIED
    assert take_per_class(Labelled([0, 1, 2] * 4), 1, NAMES).indices.tolist() == EACH


@pytest.mark.parametrize("share", [-0.01, 1, 1.5, float("nan")])
def test_a_share_leaves_something_to_train_on(share):
    with pytest.raises(InputError, match=f"--data.val_fraction is {share}, expected a share .* from 0 to below 1"):
        check_share(share)
    assert check_share(0) == 0 and check_share(0.999) == 0.999


def test_blocks_and_what_comes_next_are_those_of_the_records_that_are_left():
    source = Labelled([0, 1, 2, 0, 1])
    source.blocks = np.array([0, 0, 1, 1, 2])
    told: list[list[int]] = []
    source.announce = lambda numbers: told.append(numbers.tolist())
    subset = Subset(source, np.array([4, 0, 3]))
    assert subset.blocks.tolist() == [2, 0, 1] and subset.labels.tolist() == [1, 0, 0]
    subset.announce(np.array([2, 0]))
    assert told == [[3, 4]]
    assert not hasattr(Subset(Numbered(3), np.array([1])), "labels") and len(subset) == 3


def test_records_without_a_class_are_never_chosen_and_shares_are_no_classes():
    chosen = take_per_class(Labelled([IGNORE, 0, 1, 2, IGNORE, 0, 1, 2]), 2, NAMES)
    assert chosen.indices.tolist() == [1, 2, 3, 5, 6, 7]
    with pytest.raises(InputError, match="needs one class per image"):
        take_per_class(Labelled([0.0, 1.0, 2.0]), 1, NAMES)
    assert len(take_per_class(Labelled(np.array([0, 1, 2], dtype=np.uint8)), 1, NAMES)) == 3
