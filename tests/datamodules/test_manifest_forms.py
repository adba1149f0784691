"""Forms of tables and of the paths in them: JSON, columns of classes, paths of other places, Label Studio's tasks."""

import gzip
import json

import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet

from tests.datamodules.test_manifest import (
    ROWS,
    ready,
    root,  # noqa: F401  # a fixture
    shown,
    write,
)
from vit_lightning.errors import InputError


def test_lists_in_text_are_several_labels_where_that_is_asked_for(root):  # noqa: F811
    cells = ['"[""cat"", ""dog""]"', "\"['owl']\"", '"{""choices"": [""cat"", ""owl""]}"', "cat;owl", "[]"]
    write(root / "train.csv", [(f"images/{row}.png", cell) for row, cell in enumerate(cells)])
    data = ready(root, multi_label=True, val_fraction=0.0)
    vectors = [data.train_set[row][1].tolist() for row in range(5)]
    assert vectors == [[1, 1, 0], [0, 0, 1], [1, 0, 1], [1, 0, 1], [0, 0, 0]]


def test_names_of_numbers_in_parquet_are_those_of_each_file(root):  # noqa: F811
    for split, names in (("train", ["owl", "cat"]), ("val", ["cat", "owl"])):
        first = 5 * (split == "val")
        info = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
        table = pa.table({"path": [f"images/{first + row}.png" for row in range(2)], "label": [0, 1]})
        parquet.write_table(table.replace_schema_metadata({"huggingface": json.dumps(info)}), root / f"{split}.parquet")
    data = ready(root, train="train.parquet", val="val.parquet")
    assert data.class_names == ["cat", "owl"]
    assert (data.train_set.labels.tolist(), data.val_set.labels.tolist()) == ([1, 0], [0, 1])


def test_other_kinds_of_tables(root):  # noqa: F811
    rows = ROWS["train"]
    write(root / "train.csv", rows)
    with gzip.open(root / "train.csv.gz", "wb") as file:
        file.write((root / "train.csv").read_bytes())
    lines = [json.dumps({"path": path, "label": name}) for path, name in rows]
    (root / "train.jsonl").write_text("\n".join(lines))
    (root / "train.json").write_text(f"[{','.join(lines)}]")
    classes = {"cat": 7, "dog": 3, "owl": 5}
    coco = {
        "images": [{"id": 10 + row, "file_name": path} for row, (path, _) in enumerate(rows)],
        "annotations": [{"image_id": 10 + row, "category_id": classes[name]} for row, (_, name) in enumerate(rows)],
        "categories": [{"id": number, "name": name} for name, number in classes.items()],
    }
    (root / "coco.json").write_text(json.dumps(coco))
    for table in ("train.csv.gz", "train.jsonl", "train.json", "coco.json"):
        data = ready(root, train=table, val_fraction=0.0)
        assert data.class_names == ["cat", "dog", "owl"]
        assert shown(data.train_set) == [(path, data.class_names.index(name)) for path, name in rows]


def test_a_column_for_each_class(root):  # noqa: F811
    rows = [("images/0.png", "0", "1.0", "0"), ("images/1.png", "1", "0", "0"), ("images/2.png", "0", "1", "0")]
    write(root / "train.csv", rows, ("path", "owl", "cat", "bat"))
    data = ready(root, label_column=["owl", "cat", "bat"], val_fraction=0.0)
    assert data.class_names == ["bat", "cat", "owl"]
    assert data.train_set.labels.tolist() == [1, 2, 1]
    (root / "split").mkdir()
    write(root / "split/_classes.csv", [*rows, ("images/3.png", "1", "1", "")], ("filename", " owl", " cat", " bat"))
    with pytest.raises(InputError, match=r"_classes\.csv has '' in the column of class bat, expected 0 or 1, in row 4"):
        ready(root, train="split/_classes.csv", multi_label=True)
    write(
        root / "split/_classes.csv", [*rows, ("images/3.png", " 1", " 1", " 0")], ("filename", " owl", " cat", " bat")
    )
    data = ready(root, train="split/_classes.csv", multi_label=True, val_fraction=0.0)
    assert [data.train_set[row][1].tolist() for row in (0, 3)] == [[0, 1, 0], [0, 1, 1]]
    with pytest.raises(InputError, match=r"has 2 labels in row 4 \(images/3\.png\), expected one"):
        ready(root, train="split/_classes.csv")


@pytest.mark.parametrize(
    ("paths", "options"),
    [
        (["0.png", "1.png"], {"image_folder": "images"}),
        (["images/0", "images/1"], {"image_ending": ".png"}),
        (["/kaggle/input/images/0.png", "/kaggle/input/images/1.png"], {"image_prefix": "/kaggle/input/"}),
        (["images\\0.png", "images\\1.png"], {}),
        (["gs://b/0", "gs://b/1"], {"image_prefix": "gs://b/", "image_ending": ".png", "image_folder": "images"}),
    ],
)
def test_paths_of_other_places(root, paths, options):  # noqa: F811
    write(root / "train.csv", [(path, "cat") for path in paths])
    data = ready(root, val_fraction=0.0, **options)
    assert [data.train_set[row][0] for row in range(2)] == [root / "images/0.png", root / "images/1.png"]


def test_paths_in_one_of_several_folders(root):  # noqa: F811
    """As HAM10000 has its images in two parts."""
    (root / "more").mkdir()
    (root / "images/1.png").rename(root / "more/1.png")
    write(root / "train.csv", [("0", "cat"), ("1", "dog")])
    images = ready(root, image_ending="png", image_folder=["images", "more"], val_fraction=0.0).train_set
    assert [images[row][0] for row in range(2)] == [root / "images/0.png", root / "more/1.png"]


@pytest.mark.parametrize("flag", ["image_folder", "path_column", "label_column"])
def test_a_list_is_kept_in_a_runs_config_as_it_was_given(app, flag):
    done = app("fit", "--data", "Manifest", "--data.root", ".", f"--data.{flag}", "[a,b]", "--print_config")
    assert yaml.safe_load(done.out)["data"]["init_args"][flag] == ["a", "b"]


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("cell", ["-1", "-1.0", ""])
def test_cells_of_a_class_that_are_no_0_and_no_1(root, multi_label, cell):  # noqa: F811
    """As CelebA and CheXpert have them."""
    write(root / "train.csv", [("images/0.png", "1", cell), ("images/1.png", "0", "1")], ("path", "owl", "cat"))
    said = rf"has '{cell}' in the column of class cat, expected 0 or 1, in row 1 \(images/0\.png\); write 0 where the"
    with pytest.raises(InputError, match=said):
        ready(root, label_column=["owl", "cat"], multi_label=multi_label)


def test_paths_of_several_columns_and_from_the_tables_folder(root):  # noqa: F811
    write(root / "train.csv", [("images", "0.png", "cat"), ("images/", "1.png", "dog")], ("folder", "file", "label"))
    images = ready(root, path_column=["folder", "file"], val_fraction=0.0).train_set
    assert [images[row][0] for row in range(2)] == [root / "images/0.png", root / "images/1.png"]
    write(root / "images/metadata.csv", [("0.png", "cat"), ("1.png", "dog")], ("file_name", "label"))
    images = ready(root, train="images/metadata.csv", val_fraction=0.0).train_set
    assert [images[row][0] for row in range(2)] == [root / "images/0.png", root / "images/1.png"]


def test_paths_that_lead_nowhere_name_the_nearest_file(root):  # noqa: F811
    write(root / "train.csv", [("images/3.jpg", "cat"), ("images/4.jpg", "dog")])
    with pytest.raises(
        InputError,
        match=r"no path leads to a file\. No such file as images/3\.jpg .*nearest .*images/3\.png; give --data\.im",
    ):
        ready(root)


def test_what_is_not_read_is_named(root):  # noqa: F811
    write(root / "train.csv", ROWS["train"])
    write(root / "valid.csv", ROWS["val"])
    assert ready(root).notices == [
        f"{root}/valid.csv is not read; give --data.val {root}/valid.csv if it holds val images"
    ]
    (root / "train.csv").write_text("path,label\nimages/0.png,cat\n", encoding="utf-16")
    with pytest.raises(InputError, match=r"train\.csv is UTF-16 text; save it as UTF-8"):
        ready(root)


def test_json_of_another_kind(root):  # noqa: F811
    (root / "train.json").write_text('{"images/0.png": "cat"}')
    with pytest.raises(InputError, match=r"train\.json is no list of objects and has no images, annotations"):
        ready(root, train="train.json")
    (root / "train.jsonl").write_text('["images/0.png", "cat"]\n')
    with pytest.raises(InputError, match=r"train\.jsonl has no object in row 1"):
        ready(root, train="train.jsonl")


def tasks(*choices: list[str]) -> list[dict]:
    """Tasks as Label Studio exports them as JSON."""
    return [
        {
            "id": row + 1,
            "data": {"image": f"/data/upload/1/{row}.png"},
            "annotations": [
                {
                    "id": row,
                    "was_cancelled": False,
                    "result": [
                        {"type": "choices", "from_name": "kind", "to_name": "image", "value": {"choices": chosen}}
                    ],
                }
            ],
            "predictions": [],
        }
        for row, chosen in enumerate(choices)
    ]


def test_label_studios_tasks(root):  # noqa: F811
    places = {"train": "train.json", "image_prefix": "/data/upload/1/", "image_folder": "images", "val_fraction": 0.0}
    (root / "train.json").write_text(json.dumps(tasks(["owl"], ["cat"], ["owl"])))
    data = ready(root, **places)
    assert [data.class_names[label] for label in data.train_set.labels] == ["owl", "cat", "owl"]
    assert [data.train_set[row][0] for row in range(3)] == [root / f"images/{row}.png" for row in range(3)]
    (root / "train.json").write_text(json.dumps(tasks(["owl"], ["cat", "owl"])))
    with pytest.raises(InputError, match=r"the list \['cat', 'owl'\] as a label; give --data\.multi_label .*row 2"):
        ready(root, **places)
    data = ready(root, multi_label=True, **places)
    assert [data.train_set[row][1].tolist() for row in range(2)] == [[0, 1], [1, 1]]
    (root / "train.json").write_text(json.dumps(tasks(["owl"], [])))
    with pytest.raises(InputError, match=r"has 0 labels in row 2"):
        ready(root, **places)
    both = tasks(["owl"])
    both[0]["annotations"] += tasks(["cat"])[0]["annotations"]
    (root / "train.json").write_text(json.dumps(both))
    with pytest.raises(InputError, match=r"train\.json has in row 1 annotations that disagree: .*; keep one of them"):
        ready(root, **places)
