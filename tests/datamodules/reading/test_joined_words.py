"""Labels of several classes whose sign stands within names too."""

import pytest

from datamodules.reading.joined_words import doubtful, joined_words, likely_lists


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["rust", "scab", "scab rust"], ("scab rust", " ")),
        (["rust", "scab", "scab and rust"], ("scab and rust", " and ")),
        (["a", "b", "a_b"], ("a_b", "_")),
        (["a", "b", "a-b"], ("a-b", "-")),
        (["a", "b", "a.b"], ("a.b", ".")),
        (["2", "0", "2.0"], None),
        (["rust", "scab leaf"], None),
    ],
)
def test_a_name_whose_words_are_all_names(names, found):
    assert joined_words(names) == found


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["1 2", "2 3", "4 5"], ("1 2", " ")),
        (["cat dog", "dog bird", "bird cat"], ("bird cat", " ")),
        (["cat dog", "fish bird"], None),  # four words in two names
        (["cat dog", "cat"], None),
        (["cat;dog", "dog;cat"], ("cat;dog", ";")),
        ([], None),
    ],
)
def test_names_that_are_all_lists(names, found):
    assert likely_lists(names) == found


def test_what_is_doubtful_depends_on_whether_an_image_has_several():
    words, lists = ["a", "b", "a b"], ["a b", "b c", "c a"]
    assert (
        doubtful(words, True, "sign {}") == "the label 'a b' may be several, as each of its words is a label: sign ' '"
    )
    assert doubtful(words, False, "{}") is None and doubtful(lists, True, "{}") is None
    said = "no image has several labels, and each label may be several, such as 'a b': sign ' '"
    assert doubtful(lists, False, "sign {}") == said
