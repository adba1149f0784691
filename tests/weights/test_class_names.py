"""The classes of a head that came from weights, held against those of the data."""

from contextlib import nullcontext

import pytest

from datamodules.reading import synsets
from vit_lightning.errors import InputError
from vit_lightning.weights.class_names import check_equal, check_named, check_order


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
        (["x", "y"], ["a", "b"], "class 0 is 'x' in the data but 'a' in the weights.*same classes"),
        (["a", "A"], ["A", "a"], "class 0 is 'a' in the data but 'A' in the weights"),
        (["a", "b"], ["a", "b", "c"], "the data has 2 classes, the weights 3"),
        (["n00000002", "n00000001"], ["n00000001", "n00000002"], "class 0 is 'n00000002'"),
        (["shoe, left", "shoe, right"], ["right, shoe", "left, shoe"], "class 0 is 'shoe, left'"),
        (["shoe", "shoe, left"], ["left, shoe", "Shoe"], "class 1 is 'shoe, left' in the data but 'Shoe'"),
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
        (["a", "b", "c", "d"], ["a", "b", "c"], "the data has 4 classes, the checkpoint 3"),
    ],
)
def test_classes_are_those_that_were_trained_in_their_order(ours, theirs, said):
    with nullcontext() if said is None else pytest.raises(InputError, match=said):
        check_equal(ours, theirs, "checkpoint")


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
