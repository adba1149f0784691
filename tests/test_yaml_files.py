"""YAML files: what is written twice, too much, or no mapping is refused; all else is what YAML says."""

import pytest
import yaml

from vit_lightning import yaml_files
from vit_lightning.errors import InputError
from vit_lightning.yaml_files import AsWritten, UniqueKeys, kind, read_mapping


def read(tmp_path, text: str, **kwargs) -> dict:
    (tmp_path / "x.yaml").write_text(text, encoding="utf-8")
    return read_mapping(tmp_path / "x.yaml", "-c", **kwargs)


def test_scalars_have_types_or_are_as_they_were_written(tmp_path):
    text = "a: 1e-3\nb: true\nc: 2.50\nd: [1, null]\ne: {f: ü}\n"
    assert read(tmp_path, text) == yaml.safe_load(text)
    words = {"a": "1e-3", "b": "true", "c": "2.50", "d": ["1", "null"], "e": {"f": "ü"}}
    assert read(tmp_path, text, loader=AsWritten) == words


@pytest.mark.parametrize("loader", [UniqueKeys, AsWritten])
@pytest.mark.parametrize(
    ("text", "line", "key"),
    [("a: 1\nb: 2\na: 3\n", 3, "a"), ("a:\n  b: 1\n  c: 2\n  b: 1\n", 4, "b"), ("l:\n- {x: 1, x: 1}\n", 2, "x")],
)
def test_a_key_that_is_written_twice_is_an_error_at_any_depth(tmp_path, loader, text, line, key):
    with pytest.raises(InputError, match=rf"^-c .*x\.yaml is not valid YAML in line {line}: '{key}' is written twice$"):
        read(tmp_path, text, loader=loader)


def test_a_key_may_stand_again_elsewhere_and_over_a_merged_one(tmp_path):
    merged = read(tmp_path, "a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\nc: {<<: *a, <<: {z: 4}}\n")
    assert merged["b"] == {"x": 3, "y": 2} and merged["c"] == {"x": 1, "y": 2, "z": 4}
    assert read(tmp_path, "x: {x: {x: 1}}\n") == {"x": {"x": {"x": 1}}}


@pytest.mark.parametrize(("most", "refused"), [(9, True), (10, True), (11, False)])
def test_values_of_aliases_count_as_often_as_they_stand_there(tmp_path, monkeypatch, most, refused):
    """A mapping, its two keys, a list with three values, and the list again: eleven."""
    monkeypatch.setattr(yaml_files, "MOST", most)
    text = "a: &l [1, 2, 3]\nb: *l\n"
    if refused:
        with pytest.raises(InputError, match=rf"not valid YAML: its aliases \(\*\) make more than {most} values"):
            read(tmp_path, text)
    else:
        assert read(tmp_path, text) == {"a": [1, 2, 3], "b": [1, 2, 3]}


@pytest.mark.parametrize("text", ["a: &a [*a]\n", "a: &a {b: *a}\n", "&a ? *a\n: 1\n"])
def test_what_holds_itself_is_refused(tmp_path, text):
    with pytest.raises(InputError, match="not valid YAML"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "nothing"),
        ("# a comment\n", "nothing"),
        ("''\n", "nothing"),
        ("[1]\n", "list"),
        ("3\n", "int"),
        ("x\n", "str"),
        ("0\n", "int"),
        ("[]\n", "list"),
    ],
)
def test_what_is_no_mapping_is_named(tmp_path, text, said):
    with pytest.raises(InputError, match=rf"x\.yaml must hold a mapping such as `model: \.\.\.`, not {said}$"):
        read(tmp_path, text)
    with pytest.raises(InputError, match=r"a mapping such as `seeds: \.\.\.`"):
        read(tmp_path, text, example="seeds")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: \xff\n", "is not UTF-8 text: invalid start byte at byte 3"),
        (b"a:\n\tb: 1\n", r"is not valid YAML in line 2: .*; indent with spaces$"),
        (b"a: 1\nb: [1\n", r"is not valid YAML in line 3: "),
        (b"a: \x01\n", "is not valid YAML: "),
        (b"a: 2026-13-45\n", "is not valid YAML: month must be in"),
        (b"a: " + b"[" * 1000, "is not valid YAML: "),
    ],
)
def test_damaged_files_say_where(tmp_path, content, said):
    (tmp_path / "x.yaml").write_bytes(content)
    with pytest.raises(InputError, match=said) as error:
        read_mapping(tmp_path / "x.yaml", "-c")
    assert str(error.value).startswith(f"-c {tmp_path}/x.yaml ") and "\n" not in str(error.value)
    assert ("indent with spaces" in str(error.value)) == (b"\t" in content)


def test_files_that_cannot_be_read_say_so(tmp_path):
    with pytest.raises(InputError, match=r"^--plan .*none\.yaml cannot be read: No such file or directory; it must be"):
        read_mapping(tmp_path / "none.yaml", "--plan")


def test_nothing_is_run_from_a_file(tmp_path):
    with pytest.raises(InputError, match="could not determine a constructor"):
        read(tmp_path, "a: !!python/object/apply:os.system ['exit 1']\n")


@pytest.mark.parametrize(
    ("content", "said"), [(None, "nothing"), ("", "nothing"), ([], "list"), (0, "int"), (False, "bool"), ({}, "dict")]
)
def test_kinds_in_words(content, said):
    assert kind(content) == said


@pytest.mark.parametrize("key", ["? [a, b]\n: 1\n", "? {a: 1}\n: 1\n"])
def test_a_key_that_is_no_scalar_is_a_sentence(tmp_path, key):
    with pytest.raises(InputError, match="is not valid YAML in line 1: found unhashable key"):
        read(tmp_path, key)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a:\n  b: 1\n   c: 2\n", "line 3: .*; 'c: 2' is indented by 3: indent it by 2 as line 2 or 0 as line 1$"),
        ("a:\n  b: 1\n c: 2\n", "line 3: .*; 'c: 2' is indented by 1: indent it by 2 as line 2 or 0 as line 1$"),
        (
            "a:\n    b:\n        c: 1\n  # d\n\n    e: 2\n      f: 3\n",
            "line 7: .*; 'f: 3' is indented by 6: indent it by 4 as line 6 or 0 as line 1$",
        ),
        ("a: 1\n  b: 2\n", "line 2: .*; 'b: 2' is indented by 2: indent it by 0 as line 1$"),
        ("a:\n  - 1\n - 2\n", "line 3: .*; '- 2' is indented by 1: indent it by 2 as line 2 or 0 as line 1$"),
        ("a:\n  b: 1\n  c:2\n", "line 4: .*; line 3, 'c:2', needs a blank behind its colon$"),
        ("a: b: 1\n", "line 1: mapping values are not allowed here$"),
        ("a: 1\nb: c: 1\n", "line 2: mapping values are not allowed here$"),
    ],
)
def test_a_line_that_is_indented_as_none_above_it_is_said_to_be(tmp_path, text, said):
    with pytest.raises(InputError, match=rf"is not valid YAML in {said}"):
        read(tmp_path, text)
