"""What is a name and what a number, and which texts are one label written in two ways."""

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datamodules.reading import label_text as text
from datamodules.reading.joined_words import joined_words
from vit_lightning.errors import InputError

CAFE = "caf\u00e9"


@pytest.mark.parametrize(
    ("label", "whole"),
    [
        *(
            ("3.0", "3"),
            ("3.", "3"),
            ("3.00", "3"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("0.0", "0"),
            ("-7.0", "-7"),
            ("10", "10"),
        ),
        *((name, None) for name in ("01", "+1", "1e3", "3.5", "3.01", "00", ".0", "", "1 ", "-01", "1.0a")),
    ],
)
def test_whole_numbers_in_their_usual_form(label, whole):
    assert text.whole_number(label) == (label if whole is None else whole)
    assert text.is_whole(label) is (whole is not None)


@pytest.mark.parametrize(
    ("value", "label"),
    [
        *((None, ""), (math.nan, ""), (Decimal("nan"), ""), (3, "3"), (3.0, "3"), (2.5, "2.5"), (Decimal("4.0"), "4")),
        *((" cat ", "cat"), ("01", "01"), ("3.0", "3.0"), (True, "True"), (np.float64(2), "2"), (-1.0, "-1")),
    ],
)
def test_labels_of_any_type_as_text(value, label):
    assert text.plain_text(value) == label


@pytest.mark.parametrize(
    "value", [math.inf, -math.inf, ["cat"], {"a": 1}, b"cat", "a\nb", "a\u2028b", "a\tb\x00", "\u200b"]
)
def test_what_is_no_label(value):
    with pytest.raises(ValueError, match=r"^the label .*,$"):
        text.plain_text(value)


def test_signs_that_join_are_part_of_a_name():
    family = "\U0001f468\u200d\U0001f469"  # held together by an invisible sign
    assert text.check_name(f"  {family} ") == family
    assert text.check_name("") == ""


def test_lines_end_at_line_feeds_alone():
    assert text.text_lines("a\r\nb\nc\x0bd\u2028e\rf\n") == ["a", "b", "c\x0bd\u2028e\rf", ""]


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        ([1, 2.5, Decimal(3), "7"], None),
        ([True, False, "1", ""], None),
        (["cat", 3], "3 beside 'cat', expected numbers or names alone"),
        ([3, "cat"], "'cat' beside 3, expected names or numbers alone"),
        ([True, 1], "1 beside True, expected numbers or truth values alone"),
        ([0, False], "False beside 0, expected truth values or numbers alone"),
        ([None, math.nan, "cat", "12", " ", "dog"], None),
        (["7", 3, "8"], None),
    ],
)
def test_kinds_of_labels_do_not_mix(values, refused):
    kinds = text.LabelKinds()
    if refused is None:
        for value in values:
            kinds.check(value)
        return
    for value in values[:-1]:
        kinds.check(value)
    with pytest.raises(ValueError, match=refused):
        kinds.check(values[-1])


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ('["cat", "dog"]', ["cat", "dog"]),
        ("['cat', 'dog']", ["cat", "dog"]),
        ("('cat', 'dog')", ["cat", "dog"]),
        ("{'dog', 'cat'}", ["cat", "dog"]),
        ('{"a": 1}', {"a": 1}),
        ("[]", []),
        ("(tabby)", None),
        ("(left) eye; (right)", None),
        ("(0)", None),
        ("(0, 2)", [0, 2]),
        ("cat", None),
        ("[cat] dog", None),
        ("array of pixels", None),
    ],
)
def test_lists_in_text(written, found):
    assert text.nested(written) == found


@pytest.mark.parametrize(
    "written",
    [
        "['cat' 'dog']",
        "[cat, dog]",
        "array(['cat'])",
        "frozenset({1})",
        "(cat, dog)",
        "(0 2)",
        "{cat}",
        "[1, 2"[:-1] + "]x]",
    ],
)
def test_lists_in_a_form_that_is_not_read(written):
    with pytest.raises(ValueError, match="a list or an object in a form that is not read"):
        text.nested(written)


@pytest.mark.parametrize(
    ("labels", "refused"),
    [("0 1 0", True), ("1 1", True), ("0 0", True), ("0 1", False), ("1 0", False), ("0 1 2 1", False), ("a a", False)],
)
def test_vectors_in_place_of_classes(labels, refused):
    some = labels.split()
    names = ["1", "x", "0", "a", "2"]
    places = np.array([3, *(names.index(label) for label in some), 0])
    ends = np.array([0, 1, 1 + len(some), 2 + len(some), 2 + len(some)])
    assert text.has_vectors(places, ends, names).tolist() == [False, refused, False, False]
    if refused:
        with pytest.raises(ValueError, match="has a 0 or 1 for each class"):
            text.refuse_vector(some)
    else:
        text.refuse_vector(some)


def test_vectors_by_what_0_and_1_are_called():
    places, ends = np.array([0, 1, 0]), np.array([0, 3])
    assert text.has_vectors(places, ends, ["no", "yes"], ("no", "yes")).tolist() == [True]
    assert text.has_vectors(places, ends, ["no", "yes"]).tolist() == [False]


@pytest.mark.parametrize(
    ("names", "ends", "classes", "refused"),
    [
        ({"0", "1"}, [0, 2, 4], 2, True),
        ({"0", "1"}, [0, 2, 3], 2, False),
        ({"0", "1"}, [0, 2, 4], 3, False),
        ({"0", "2"}, [0, 2, 4], 2, False),
        ({"0"}, [0, 2, 4], 2, False),
    ],
)
def test_two_numbers_for_every_image_of_two_classes_leave_it_open(names, ends, classes, refused):
    if refused:
        with pytest.raises(InputError, match=r"^the set has the list 0, 1 or 1, 0 for every image"):
            text.check_told("the set", names, np.array(ends), classes)
    else:
        text.check_told("the set", names, np.array(ends), classes)


@pytest.mark.parametrize(
    ("labels", "pair"),
    [
        (["1", "2", "01"], ("1", "01")),
        (["2.50", "x", "2.5"], ("2.50", "2.5")),
        (["a  b", "a b"], ("a  b", "a b")),
        ([CAFE, "cafe\u0301"], (CAFE, "cafe\u0301")),
        (["\u2764", "\u2764\ufe0f"], ("\u2764", "\u2764\ufe0f")),
        (["ab", "a\u200bb"], ("ab", "a\u200bb")),
        (["a", "A", "a"], None),
        (["1e9999999999999999999", "x"], None),
    ],
)
def test_labels_in_two_spellings(labels, pair):
    assert text.twins(labels) == pair


def test_numbers_may_be_names():
    assert text.twins(["1", "01"], numbers=False) is None
    assert text.twins(["a b", "a  b"], numbers=False) == ("a b", "a  b")


@pytest.mark.parametrize(
    ("values", "pair"),
    [
        (["p1", "P1"], ("P1", "p1")),
        (["CAT", "Cat"], ("CAT", "Cat")),
        (["aB3x", "Ab3X"], None),
        (["aB3x", "AB3X"], ("AB3X", "aB3x")),
        (["aB3x", "Ab3x"], ("Ab3x", "aB3x")),
        (["1", "1.0"], ("1", "1.0")),
        (["aB3x", "Ab3X", "ab3x"], ("Ab3X", "ab3x")),
    ],
)
def test_values_that_may_be_one(values, pair):
    assert text.alike(values) == text.alike(values[::-1]) == pair


@pytest.mark.parametrize(("letters", "found"), [("abcdefghij", None), ("abcdefghi", ("A", "a"))])
def test_an_alphabet_has_ten_letters_in_both_sizes(letters, found):
    assert text.spelled_twice([*letters, *letters.upper()]) == found
    assert text.spelled_twice([*letters, *letters.upper(), "cat", "Cat"]) == (found or ("Cat", "cat"))
    assert text.spelled_twice(["1", "01"]) == ("1", "01")


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["cat", "dog", "cat,dog"], ("cat,dog", ",")),
        (["cat", "dog", "cat ; dog"], ("cat ; dog", ";")),
        (["cat", "cat,dog"], None),
        (["cat", "cat,"], None),
        (["cat", "cat,cat"], None),
        (["a", "b", "a;b", "a,b"], ("a,b", ",")),
        (["Scab", "rust", "scab,rust"], ("scab,rust", ",")),
    ],
)
def test_names_made_of_others(names, found):
    assert text.joined(names, (",", ";")) == found


def test_words_in_other_letters_are_labels_of_their_own():
    assert joined_words(["Scab", "rust", "scab rust"]) == ("scab rust", " ")
    assert joined_words(["Scab", "rust", "scab spot"]) is None


@pytest.mark.parametrize(
    ("names", "found", "never"),
    [
        (["cat", "cat|dog"], ("cat|dog", "|"), ("cat|dog", "|")),
        (["Cat", "cat|dog"], ("cat|dog", "|"), ("cat|dog", "|")),
        (["cat", "cat,dog"], None, ("cat,dog", ",")),
        (["cat|dog", "cat|owl"], None, ("cat|dog", "|")),
        (["cat|dog", "emu|owl"], None, None),
        (["tabby", "cat| tabby"], None, None),
        (["cat", "cat|"], None, None),
        (["cat", "b;cat", "a|cat"], ("b;cat", ";"), ("b;cat", ";")),
        (["cat", "b|cat", "a|cat"], ("a|cat", "|"), ("a|cat", "|")),
    ],
)
def test_names_with_a_part_that_is_another(names, found, never):
    assert text.partly_joined(names) == found
    assert text.partly_joined(names, is_never_divided=True) == never


@pytest.mark.parametrize(
    ("label", "names", "said"),
    [
        ("CAT", ["dog", "cat"], "; 'CAT' and 'cat' differ in small and large letters alone"),
        ("1.0", ["2", "1"], "; '1.0' and '1' are one number in two spellings"),
        (
            CAFE,
            ["cafe\u0301"],
            "; 'caf\u00e9' and 'cafe\u0301' look alike, but their code points U+00E9 and U+0065 U+0301 differ",
        ),
        ("ab", ["ab\u200b"], "; 'ab' and 'ab\\u200b' look alike, but their code points (none) and U+200B differ"),
        ("owl", ["dog", "cat"], ""),
    ],
)
def test_what_a_label_resembles_is_said(label, names, said):
    assert text.look_alike(label, names) == said


def test_six_code_points_are_shown():
    said = text.difference("x" + CAFE * 2, "x" + "cafe\u0301" * 2)
    assert "U+00E9 U+0063 U+0061 U+0066 U+00E9 and U+0065 U+0301 U+0063 U+0061 U+0066 U+0065 differ" in said


@given(st.floats(allow_nan=False, allow_infinity=False, width=32) | st.integers(-(10**6), 10**6))
def test_a_number_is_one_label_however_it_is_stored(value):
    whole = float(value).is_integer()
    assert text.plain_text(value) == (str(int(value)) if whole else str(value))
    assert text.is_whole(text.plain_text(value)) is whole
