"""The classes of a head that came from weights, held against those of the data."""

from contextlib import nullcontext

import pytest

from datamodules.reading import synsets
from vit_lightning.errors import InputError
from vit_lightning.weights.class_names import check_equal, check_named, check_order, distinct, numbers_of


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([], ["a", "b"]),
        (["a", "b"], []),
        (["a", "b"], ["a", "b"]),
        (["tench, Tinca tinca", "crane (n02012849)"], ["tench", "crane"]),
        (["polar_bear", "Cat"], ["polar bear", "cat"]),
        (["shoe, left", "shoe, right"], ["Left, shoe", "right, shoe"]),
        (["crane (n02012849)", "crane (n03126707)"], ["crane", "crane"]),
        (["maillot (n03710637)", "maillot (n03710721)"], ["maillot", "maillot, tank suit"]),
        (["missile", "projectile, missile"], ["missile, rocket", "projectile, missile"]),
    ],
)
def test_equal_classes(ours, theirs):
    assert check_order(ours, theirs) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (["b", "a"], ["a", "b"], "class 0 is 'b' in the data but 'a' in the weights.*order of the weights"),
        (
            ["x", "y"],
            ["a", "b"],
            "the data alone have 'x', 'y'; the weights alone have 'a', 'b'; take data of the same",
        ),
        (["a", "A"], ["A", "a"], "class 0 is 'a' in the data but 'A' in the weights"),
        (["a", "b"], ["a", "b", "c"], "the data has 2 classes, the weights 3.*; the weights alone have 'c'"),
        (["n00000002", "n00000001"], ["n00000001", "n00000002"], "class 0 is 'n00000002'"),
        (["shoe, left", "shoe, right"], ["right, shoe", "left, shoe"], "the data alone have 'shoe, left', 'shoe, r"),
        (["shoe", "shoe, left"], ["left, shoe", "Shoe"], "the data alone have 'shoe', 'shoe, left'; the weights"),
        (["crane (n03126707)", "x", "crane (n02012849)"], ["crane", "X", "crane"], "classes 0 and 2.* other way round"),
    ],
)
def test_other_classes_or_another_order(ours, theirs, said):
    with pytest.raises(InputError, match=said):
        check_order(ours, theirs)


def test_ids_of_wordnet_and_words_cannot_be_compared():
    assert "cannot be compared" in (check_order(["n00000001", "n00000002"], ["cat", "dog"]) or "")


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (["a", "b", "c"], ["a", "b", "c"], None),
        ([], ["a", "b", "c"], None),
        (["a", "b", "c"], [], None),
        (["a", "c", "b"], ["a", "b", "c"], "class 1 is 'c' in the data but 'b' in the checkpoint"),
        (["a", "b"], ["a", "b", "c"], "the data has 2 classes, the checkpoint 3"),
        (["a", "b", "c", "d"], ["a", "b", "c"], "the data has 4 classes, the checkpoint 3.*; the data alone have 'd'"),
    ],
)
def test_classes_are_those_that_were_trained_in_their_order(ours, theirs, said):
    with nullcontext() if said is None else pytest.raises(InputError, match=said):
        check_equal(ours, theirs, "checkpoint")


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (["tench, Tinca tinca", "crane (n02012849)"], ["tench", "crane"], None),
        (["polar_bear", "Cat"], ["polar bear", "cat"], None),
        (["a", "A"], ["A", "a"], "class 0 is 'a' in the data but 'A' in the model; give the data that order"),
        (
            ["a", "b"],
            ["a", "c"],
            "have 'b'; the model alone has 'c'; if they are the same classes, call them so in the",
        ),
        (["shoe", "shoe, left"], ["left, shoe", "Shoe"], "the data alone have 'shoe', 'shoe, left'; the model alone"),
    ],
)
def test_trained_classes_may_be_called_by_a_synonym_that_is_no_other_class(ours, theirs, said):
    with nullcontext() if said is None else pytest.raises(InputError, match=said):
        check_equal(ours, theirs, "model")


def test_numbers_in_the_data_and_names_in_the_weights():
    check_named("Own", ["0", "1"], ["0", "1"])
    check_named("Own", ["0", "1"], [])
    check_named("Own", [], ["cat", "dog"])
    with pytest.raises(InputError, match=r"Own names no classes, .* do \(cat, dog\).* give it class_names"):
        check_named("Own", ["0", "1"], ["cat", "dog"])


@pytest.mark.parametrize("label_set", ["1k", "google"])
@pytest.mark.parametrize("part", [0, -1])
def test_one_word_of_each_synset_of_imagenet(label_set, part):
    ids = synsets.wnids(label_set)
    short = [synsets.words(one).split(", ")[part] for one in ids]
    assert check_order(synsets.names(ids), short) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "numbers"),
    [
        (["c", "a"], ["a", "b", "c"], [2, 0]),
        ([], ["a", "b"], []),
        (["a", "x"], ["a", "b"], None),
        (["b", "Tench"], ["tench, Tinca tinca", "a", "b"], [2, 0]),
        (["A_b"], ["x", "a b"], [1]),
        (["a", "a"], ["a", "b"], None),  # one class of the head for two of the data
        (["a", "A"], ["a", "b"], None),
        (["a"], ["a", "b", "a"], None),  # either
        (["crane"], ["crane, bird", "crane, machine"], None),
        (["crane, bird"], ["crane, bird", "crane, machine"], [0]),
        (["crane, bird", "x"], ["x", "crane, bird", "crane, machine"], [1, 0]),
        (["n00000001"], ["cat"], None),
    ],
)
def test_each_of_the_data_s_classes_is_one_of_the_head_s(ours, theirs, numbers):
    assert numbers_of(ours, theirs) == numbers


@pytest.mark.parametrize(
    ("names", "keys"),
    [
        ([], []),
        (["b", "a"], ["b", "a"]),
        (["a", "b", "a"], ["a (0)", "b", "a (2)"]),
        (["a", "a", "a (0)"], ["a (0)", "a (1)", "a (0) (2)"]),
    ],
)
def test_classes_of_one_name_get_their_numbers(names, keys):
    assert distinct(names) == keys


def test_only_ids_that_are_whole_names_are_ids():
    """Of two sets with a common name, or of which both or neither are ids, a difference is an error."""
    for ours, theirs in (
        (["n00000001", "n00000002"], ["n00000001", "cat"]),
        (["n00000001", "n00000002"], ["n00000003", "n00000004"]),
        (["n00000001 x", "b"], ["cat", "dog"]),
        (["n00000001", "cat"], ["dog", "tench"]),
        (["dog", "tench"], ["cat", "n00000001"]),
    ):
        with pytest.raises(InputError, match=r"the data alone have"):
            check_order(ours, theirs)
    for ours, theirs in ((["cat", "dog"], ["n00000001", "n00000002"]), (["n00000001"], ["cat"])):
        said = check_order(ours, theirs) or ""
        assert said.startswith(f"class 0 is {ours[0]!r} in the data and {theirs[0]!r} in the weights")
