"""Forms of class lists, without the files."""

import pytest

from datamodules.reading import class_map_forms as forms


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("owl\r\n cat \ndog\n\n", ["owl", "cat", "dog"]),
        ("cat", ["cat"]),
        ("", []),
        ("cat 1\ndog 2\nowl 7\n", ["cat 1", "dog 2", "owl 7"]),
        ("1 cat\n2 dog\nowl\n", ["1 cat", "2 dog", "owl"]),
        ("001.Albatross\n002.Auklet\n", ["001.Albatross", "002.Auklet"]),
        ("1 cat\n1 dog\n", ["1 cat", "1 dog"]),
        ("cat 1\ncat 2\n", ["cat 1", "cat 2"]),
        ("title page\nid card\n", ["title page", "id card"]),
        ("a,\nb\nc,\n", ["a,", "b", "c,"]),
        ("'a'\nb\n", ["'a'", "b"]),
        ("- a\nb\n", ["- a", "b"]),
        ("2.cat\n5.dog\n", ["2.cat", "5.dog"]),
        ("a,1\nb,x\n", ["a,1", "b,x"]),
    ],
)
def test_a_name_a_line(text, names):
    assert forms.names_in_lines(text) == names


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cat\n\ndog", "its line 2 is blank"),
        ("cat\ndog\n  \nowl", "its line 3 is blank"),
        ("0 cat\n1 dog", "its line '0 cat' holds a number and a name"),
        ("5 cat\n9 dog", "its line '5 cat' holds"),
        ("cat 5\ndog 6", "its line 'cat 5' holds"),
        ("cat,5\ndog,9", "its line 'cat,5' holds"),
        ("name,number\ncat,5\ndog,9", "its line 'cat,5' holds"),
        ("x;y\n5 cat\n9 dog", "its line '5 cat' holds"),
        ("2-cat\n1-dog", "its line '2-cat' holds"),
        ("(1) cat\n(2) dog", r"its line '\(1\) cat' holds"),
        ("(1)cat\n(2)dog", r"its line '\(1\)cat' holds"),
        ("1. cat\n2. dog", r"its line '1\. cat' holds"),
        ("cat\n<!-- dog -->", "its line '<!-- dog -->' may be a comment"),
        ("-- cat\ndog", "its line '-- cat' may be a comment"),
        ("/* cat\ndog", r"its line '/\* cat' may be a comment"),
        ("Label Name\ncat", "its first line 'Label Name' may be a header"),
        ("* cat\n- dog", r"its line '\* cat' is an item of a list"),
        ("'cat',\n\"dog\"", "is an item of a list"),
        ("cat,\ndog,\nowl", "its line 'cat,' is an item of a list"),
    ],
)
def test_lines_that_may_be_meant_otherwise(text, said):
    with pytest.raises(ValueError, match=said):
        forms.names_in_lines(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("2,owl\n0,cat\n1,dog\n", ["cat", "dog", "owl"]),
        ("owl,2\ncat,0\ndog,1\n", ["cat", "dog", "owl"]),
        ("class,number\nowl,1\ncat,0\n", ["cat", "owl"]),
        ('"owl, barn",1\n\n , \ncat,0\n', ["cat", "owl, barn"]),
        ("7,0\ncat,1\n", ["7", "cat"]),
    ],
)
def test_a_table_of_names_and_numbers(text, names):
    assert forms.names_in_table(text, ",") == names
    assert forms.names_in_table(text.replace(", barn", " barn").replace(",", "\t"), "\t") == [
        name.replace(",", "") for name in names
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("breed\ncat\n", "its first line 'breed' may be a header"),
        ("a,b,c\n0,1,2\n", "a column of names and one of numbers, without others, but it has 3 columns"),
        ("a,0\nb\n", "but it has 2 columns"),
        ("", "but it has 0 columns"),
        ("0,0\n1,1\n", "expected a column of names and one of whole numbers"),
        ("a,b\nc,d\n", "expected a column of names and one of whole numbers"),
        ("a,0\nb,0\n", "expected the numbers 0 to 1, each once"),
        ("a,1\nb,2\n", "expected the numbers 0 to 1, each once"),
        ("a,0\nb,2\n", "expected the numbers 0 to 1, each once"),
    ],
)
def test_tables_of_other_columns(text, said):
    with pytest.raises(ValueError, match=said):
        forms.names_in_table(text, ",")


@pytest.mark.parametrize(
    ("text", "kind", "pairs"),
    [
        ("n01,tench\nn02,shark\n", ".csv", [("n01", "tench"), ("n02", "shark")]),
        ("wnid,name\nn01,tench\n", ".csv", [("n01", "tench")]),
        ("n01,tench\n", ".csv", [("n01", "tench")]),
        ("Folder\tClass Name\nn01\ttench\n", ".tsv", [("n01", "tench")]),
        ("name,tench\nn01,shark\n", ".csv", [("name", "tench"), ("n01", "shark")]),
        ("name,wnid\nn01,shark\n", ".csv", [("name", "wnid"), ("n01", "shark")]),
        ("tench,0\nshark,1\n", ".csv", []),
        ("0,tench\n1,shark\n", ".csv", []),
        ("name,number\ntench,0\n", ".csv", []),
        ("a,b,c\n", ".csv", []),
        ("1,tench\nn02,2\n", ".csv", [("1", "tench"), ("n02", "2")]),
        ('{"n01": "tench", "name": "class"}', ".json", [("n01", "tench"), ("name", "class")]),
        ('{"name": "class", "n01": "tench"}', ".json", [("name", "class"), ("n01", "tench")]),
        ('{"n01": 0}', ".json", []),
        ('{"0": "tench"}', ".json", []),
        ('["tench"]', ".json", []),
    ],
)
def test_folders_and_their_classes(text, kind, pairs):
    assert forms.renaming_in(text, kind) == pairs


def test_names_in_json_of_both_kinds():
    assert forms.names_in_json('["b", "a"]') == ["b", "a"]
    assert forms.names_in_json('{"b": 1, "a": 0}') == forms.names_in_json('{"1": "b", "0": "a"}') == ["a", "b"]
    for text in ('{"b": true, "a": false}', '{"b": 1.0, "a": 0}', '["a", 1]', "null"):
        with pytest.raises(ValueError, match="expected"):
            forms.names_in_json(text)


@pytest.mark.parametrize(
    ("lines", "are_items"), [(["2. cat", "1. dog"], True), (["7-eleven", "3-pack", "12-inch"], False)]
)
def test_items_are_numbered_without_gaps(lines, are_items):
    assert forms._listed_lines(lines) == are_items
