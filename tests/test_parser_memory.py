"""What is kept for a test session answers as the libraries do."""

import gc
import importlib.metadata
import weakref

import pytest
from jsonargparse import Namespace, _util

from tests import parser_memory

FILLED = Namespace({"a": {"b": Namespace(c=1, d=None)}, "e": Namespace(f=Namespace(g=2)), "items": Namespace(keys=3)})
KEYS = ["a", "a.b", "a.b.c", "a.b.d.x", "a.x.y", "e.f.g", "e.f.g.h", "e.x", "x.y", "items.keys", "items.x", "keys"]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_taken_apart_as_the_library_does(key):
    for _ in range(2):
        assert Namespace._parse_key is parser_memory._parsed_key
        leaf, holder, parent = FILLED._parse_key(key)
        expected = parser_memory._parse_key(FILLED, key)
        assert (leaf, parent) == (expected[0], expected[2]) and holder is expected[1]


@pytest.mark.parametrize("key", ["", ".", "a.", ".a", "a..b", "a b", 3, None])
def test_what_is_no_key_is_refused(key):
    with pytest.raises(KeyError, match=r"(Empty nested|Spaces not allowed|must be a string)"):
        FILLED._parse_key(key)


def test_a_class_is_found_where_it_is_and_let_go():
    assert _util.get_import_path(Namespace) == _util.get_import_path(Namespace) == "jsonargparse.Namespace"
    made = type("Made", (), {"__module__": __name__})
    assert _util.get_import_path(made).endswith(".Made")
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None


def test_packages_are_looked_for_anew_where_the_path_has_changed(monkeypatch, tmp_path):
    def ask() -> list[str]:
        return [point.value for point in importlib.metadata.entry_points(group="birds")]

    assert ask() == []
    info = tmp_path / "birds-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: birds\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text("[birds]\nowl = birds:Owl\n")
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("birds")
    monkeypatch.syspath_prepend(tmp_path)
    assert ask() == ["birds:Owl"] and importlib.metadata.version("birds") == "1.5"
