"""Words that sentences of errors are made of."""

import pytest

from vit_lightning.errors import at_most, did_you_mean, listing, one_line, seen


def test_the_nearest_known_word_is_suggested_or_none():
    known = ["train", "test", "validate"]
    assert did_you_mean("tarin", known) == "; did you mean train?"
    assert did_you_mean("validat", iter(known)) == "; did you mean validate?"
    assert did_you_mean("zzz", known) == did_you_mean("train", []) == ""


@pytest.mark.parametrize(("most", "said"), [(0, "1"), (1, "1"), (2, "2 or less"), (17, "17 or less")])
def test_numbers_from_one_up(most, said):
    assert at_most(most) == said


def test_a_line_has_no_character_that_breaks_or_moves_it():
    assert one_line("a\nb\tc\x1b[0m\x7f\x9f\u2028\u2029") == r"a\nb\tc\x1b[0m\x7f\x9f\u2028\u2029"
    assert one_line("a\u202eb\u2066\u200b\u061c") == r"a\u202eb\u2066\u200b\u061c"
    assert one_line("猫\u3000\udcff\xa0") == "猫\u3000\udcff\xa0"
    assert one_line("\u06a9\u200c\u06a9 \U0001f468\u200d\U0001f469") == "\u06a9\u200c\u06a9 \U0001f468\u200d\U0001f469"
    assert seen("a\n\u202eb\r\n") == "a\n\\u202eb\\r\n"
    assert one_line("plain 'text' \\ äß") == "plain 'text' \\ äß"


def test_of_many_names_the_first_are_shown_and_the_others_counted():
    assert listing([]) == "" and listing(["a"]) == "a"
    assert listing("abcde") == "a, b, c, d, e"
    assert listing("abcdef") == "a, b, c, d, e and 1 more"
    assert listing(range(1_205), most=3) == "0, 1, 2 and 1,202 more"
    assert listing(str(number) for number in range(3)) == "0, 1, 2"


def test_a_long_name_is_cut_and_one_that_just_fits_is_not():
    assert listing(["x" * 80, "y" * 81]) == "x" * 80 + ", " + "y" * 77 + "..."
    assert listing(["x" * 11, "y" * 10], longest=10) == "x" * 7 + "..., " + "y" * 10
    assert listing(["\n" * 5], longest=9) == r"\n\n\n..."
