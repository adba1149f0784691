import json

import pytest

from datamodules.reading import strict_json

GRIN = "\U0001f600"


@pytest.mark.parametrize("content", [{"a": 1, "b": [{"a": 2}, {"a": 3}]}, ["a", "a"], "\u00e9" + GRIN, None, 3.5])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_json_is_read(content, is_ascii):
    text = json.dumps(content, ensure_ascii=is_ascii)
    assert strict_json.loads(text) == strict_json.loads(text.encode()) == content


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1, "b": 2, "b": 3}', "an object has the key 'b' twice"),
        ('[{"x": {"a": 1, "a": 1}}]', "an object has the key 'a' twice"),
        ('{"b": 1, "a": 2, "a": 3, "b": 4}', "an object has the key 'b' twice"),
        ('"\\ud83d"', r"it holds half a character, \\ud83d alone; write the whole one"),
        ('"\\uDE00 x"', r"half a character, \\ude00 alone"),
        ('{"\\uD83D": 1}', r"half a character, \\ud83d alone"),
        ("[1,]", "line 1 column"),
    ],
)
def test_what_is_no_plain_json(text, said):
    for form in (text, text.encode()):
        with pytest.raises(ValueError, match=said):
            strict_json.loads(form)


def test_half_a_character_in_bytes():
    with pytest.raises(ValueError, match=r"half a character, \\ud83d alone"):
        strict_json.loads(b'"\xed\xa0\xbd"')
