"""Rows and columns of every kind of table."""

import gzip
import json

import pytest

from datamodules.reading.table_rows import header, values
from vit_lightning.errors import InputError

ROWS = [("c.jpg", "zebra", 3), ("a.jpg", "ant", None), ("b.jpg", None, 5)]


def write(folder, ending: str):
    table = folder / f"t{ending}"
    if ending.removesuffix(".gz") in (".csv", ".tsv"):
        sign = "," if ".csv" in ending else "\t"
        lines = [
            sign.join(("path", " label ", "n")),
            "",
            *(sign.join("" if c is None else str(c) for c in r) for r in ROWS),
        ]
        text = "\n".join(lines) + "\n"
    elif ".jsonl" in ending:
        text = "\n\n".join(json.dumps(dict(zip(("path", "label", "n"), row, strict=True))) for row in ROWS)
    else:
        text = json.dumps([dict(zip(("path", "label", "n"), row, strict=True)) for row in ROWS])
    data = ("\ufeff" * (".csv" in ending) + text).encode()
    table.write_bytes(gzip.compress(data) if ending.endswith(".gz") else data)
    return table


@pytest.mark.parametrize("ending", [".json", ".jsonl"])
@pytest.mark.parametrize("half", ["\\ud83d", "\\uDE00 a", "\\ude00\\ud83d"])
def test_half_a_character(tmp_path, ending, half):
    table = tmp_path / f"t{ending}"
    row = '{"path": "0.png", "label": "cat %s"}'
    text = [row % "\\ud83d\\ude00", row % "\\\\ud83d", row % half]
    table.write_text("\n".join(text) if ending == ".jsonl" else f"[{','.join(text)}]")
    with pytest.raises(
        InputError, match=r"t\.json.*it holds half a character, \\u(d83d|de00) alone; write the whole one"
    ):
        list(values(table, ["label"]))
    table.write_text("\n".join(text[:2]) if ending == ".jsonl" else f"[{','.join(text[:2])}]")
    assert list(values(table, ["label"])) == [("cat \U0001f600",), ("cat \\ud83d",)]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".json", ".csv.gz", ".tsv.gz", ".jsonl.gz", ".CSV"])
def test_every_kind_gives_the_columns_that_are_asked_for(tmp_path, ending):
    table = write(tmp_path, ending.lower())
    if ending == ".CSV":
        table = table.rename(tmp_path / "t.CSV")
    assert header(table) == ["path", "label", "n"]
    as_text = "csv" in ending.lower() or "tsv" in ending
    none = "" if as_text else None
    assert list(values(table, ["n", "path"])) == [
        (str(n) if as_text and n else none if n is None else n, path) for path, _, n in ROWS
    ]


def test_parquet_gives_the_names_of_its_classes(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    features = {"label": {"names": ["zebra", "ant", "cat"], "_type": "ClassLabel"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pa.table({"path": ["c", "a", "b", "d"], "label": [2, 0, -1, 1]}).replace_schema_metadata(metadata)
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    assert header(tmp_path / "t.parquet") == ["path", "label"]
    found = list(values(tmp_path / "t.parquet", ["label", "path"]))
    assert found == [("cat", "c"), ("zebra", "a"), (None, "b"), ("ant", "d")]
    parquet.write_table(pa.table({"label": [3]}).replace_schema_metadata(metadata), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"the label 3, outside its 3 classes"):
        list(values(tmp_path / "t.parquet", ["label"]))


def test_a_list_of_a_0_or_1_for_each_class_is_no_list_of_named_classes(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    kind = {"feature": {"names": ["no", "yes"], "_type": "ClassLabel"}, "_type": "Sequence"}
    metadata = {"huggingface": json.dumps({"info": {"features": {"labels": kind}}})}
    for lists, found in (([[0, 1], [1]], [["no", "yes"], ["yes"]]), ([[1], [0, 1, 0]], None)):
        table = pa.table({"path": ["a", "b"], "labels": lists}).replace_schema_metadata(metadata)
        parquet.write_table(table, tmp_path / "t.parquet")
        if found:
            assert [labels for (labels,) in values(tmp_path / "t.parquet", ["labels"])] == found
            continue
        with pytest.raises(InputError, match=r"has in row 2 the list 0, 1, 0, which has a 0 or 1 for each class"):
            list(values(tmp_path / "t.parquet", ["labels"]))


def test_a_short_row_has_nothing_in_its_last_columns(tmp_path):
    (tmp_path / "t.csv").write_text("path,label\na.jpg\nb.jpg,x\n")
    assert list(values(tmp_path / "t.csv", ["path", "label"])) == [("a.jpg", None), ("b.jpg", "x")]


def test_cocos_classes_are_those_of_their_images(tmp_path):
    content = {
        "images": [{"id": 7, "file_name": "c.jpg"}, {"id": 2, "file_name": "a.jpg"}, {"id": 5, "file_name": "b.jpg"}],
        "categories": [{"id": 30, "name": "zebra"}, {"id": 10, "name": "ant"}, {"id": 20, "name": "cat"}],
        "annotations": [
            {"image_id": 2, "category_id": 20},
            {"image_id": 7, "category_id": 30},
            {"image_id": 7, "category_id": 10},
            {"image_id": 7, "category_id": 30},
        ],
    }
    (tmp_path / "t.json").write_text(json.dumps(content))
    assert list(values(tmp_path / "t.json", ["file_name", "label"])) == [
        ("c.jpg", ["zebra", "ant"]),
        ("a.jpg", ["cat"]),
        ("b.jpg", []),
    ]
    for part in content:
        (tmp_path / "t.json").write_text(json.dumps({name: each for name, each in content.items() if name != part}))
        if part == "annotations":  # as of test images
            assert header(tmp_path / "t.json") == ["file_name"]
            assert list(values(tmp_path / "t.json", ["file_name"])) == [("c.jpg",), ("a.jpg",), ("b.jpg",)]
            continue
        with pytest.raises(InputError, match="has no images, annotations and categories, as COCO's has"):
            list(values(tmp_path / "t.json", ["label"]))


def task(image: str, *annotations: list[str], **more) -> dict:
    """A task as Label Studio exports it: an annotation holds a result for each control that was used."""
    results = [[{"type": "choices", "value": {"choices": choices}}] if choices else [] for choices in annotations]
    return {"data": {"image": image}, "annotations": [{"result": result, **more} for result in results]}


def test_label_studios_choices_are_those_of_annotations_that_count(tmp_path):
    box = {"type": "rectanglelabels", "value": {"x": 1.5, "rectanglelabels": ["face"]}}
    boxed = task("g.jpg", ["cat"])
    boxed["annotations"][0]["result"].insert(0, box)
    skipped = task("h.jpg", ["cat"])
    skipped["annotations"].append({"result": [], "was_cancelled": True})
    tasks = [
        task("a.jpg", ["cat"], was_cancelled=False),
        task("b.jpg", ["cat", "dog"]),
        task("c.jpg", ["cat", "dog"], ["dog", "cat"]),
        task("d.jpg", []),
        task("e.jpg"),
        task("f.jpg", ["cat"], was_cancelled=True),
        boxed,
        skipped,
    ]
    (tmp_path / "t.json").write_text(json.dumps(tasks))
    assert list(values(tmp_path / "t.json", ["image", "label"])) == [
        ("a.jpg", "cat"),
        ("b.jpg", ["cat", "dog"]),
        ("c.jpg", ["cat", "dog"]),
        ("d.jpg", []),
        ("e.jpg", None),
        ("f.jpg", None),
        ("g.jpg", "cat"),
        ("h.jpg", "cat"),
    ]
    (tmp_path / "t.json").write_text(json.dumps([tasks[0], task("i.jpg", ["cat"], ["dog"])]))
    with pytest.raises(InputError, match=r"t\.json has in row 2 annotations that disagree: .* keep one of them"):
        list(values(tmp_path / "t.json", ["image", "label"]))


@pytest.mark.parametrize("ending", [".txt", ".parquet.gz", ".json.gz", "", ".gz"])
def test_another_ending_is_refused(tmp_path, ending):
    with pytest.raises(InputError, match=r"must end in \.csv, \.tsv or \.parquet"):
        header(tmp_path / f"t{ending}")


def test_a_row_that_is_no_object_and_text_that_is_utf_16_are_named(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"path": "a"}\n\n[1]\n')
    with pytest.raises(InputError, match="has no object in row 2, expected one with a path and a label"):
        list(values(tmp_path / "t.jsonl", ["path"]))
    (tmp_path / "t.csv").write_text("path\n", encoding="utf-16")
    with pytest.raises(InputError, match="is UTF-16 text; save it as UTF-8"):
        header(tmp_path / "t.csv")
