"""Labels that may be meant in two ways are errors in every reader, and never another class."""

import io
import json
import os
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from PIL import Image
from pyarrow import parquet

from datamodules.folder import ImageFolder
from datamodules.manifest import Manifest
from datamodules.parquet import Parquet
from datamodules.webshards import WebShards
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError

READERS = ("csv", "jsonl", "parquet table", "Parquet", "WebShards json", "WebShards cls")


def picture(shade: int = 0) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (shade, 0, 0)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def root(tmp_path) -> Path:
    folder = tmp_path / "set"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.png").write_bytes(picture(number))
    return folder


def setup(data):
    data.prepare_data()
    data.setup("fit")
    return data


def manifest(root: Path, train: str = "train.csv", **options) -> Manifest:
    options = {"val_fraction": 0.0, "image_size": 8, "num_workers": 0, "cache": root.parent / "cache", **options}
    return setup(Manifest(root=root, train=Path(train), **options))


def csv_cell(label) -> str:
    text = label if isinstance(label, str) else json.dumps(label)
    return '"' + text.replace('"', '""') + '"'


def write_tar(file: Path, labels: list, ending: str) -> None:
    with tarfile.open(file, "w") as tar:
        for number, label in enumerate(labels):
            text = json.dumps({"label": label}) if ending == "json" else label
            if isinstance(text, list):
                text = "\n".join(map(str, text))
            for name, data in ((f"{number}.png", picture(len(file.stem))), (f"{number}.{ending}", str(text).encode())):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


def read(root: Path, reader: str, multi_label: bool = False, class_map=None, **splits: list):
    """Write the labels of some splits as a reader has them, and read them."""
    options = {"multi_label": multi_label, "class_map": class_map, "image_size": 8, "num_workers": 0}
    for split, labels in splits.items():
        paths = [f"{split}{number}.png" for number in range(len(labels))]
        for number, path in enumerate(paths):
            (root / path).write_bytes(picture(number))
        if reader == "csv":
            lines = [f"{path},{csv_cell(label)}" for path, label in zip(paths, labels, strict=True)]
            (root / f"{split}.csv").write_text("\n".join(["path,label", *lines]) + "\n", encoding="utf-8")
        elif reader == "jsonl":
            rows = [{"path": path, "label": label} for path, label in zip(paths, labels, strict=True)]
            (root / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        elif reader == "parquet table":
            parquet.write_table(pa.table({"path": paths, "label": labels}), root / f"{split}.parquet")
        elif reader == "Parquet":
            parquet.write_table(
                pa.table({"image": [picture(len(split))] * len(paths), "label": labels}), root / f"{split}.parquet"
            )
        else:
            write_tar(root / f"{split}.tar", labels, reader.split()[1])
    if reader == "Parquet":
        return setup(Parquet(root=root, val_fraction=0.0, **options))
    if reader.startswith("WebShards"):
        names = {split: f"{split}.tar" for split in splits}
        return setup(WebShards(root=str(root), val_fraction=0.0, cache=root.parent / "cache", **names, **options))
    ending = "parquet" if reader == "parquet table" else reader
    return manifest(root, **{split: f"{split}.{ending}" for split in splits}, **options)


def shown(data, count: int) -> list[set[str]]:
    """The names of each training image's classes."""
    found = []
    for number in range(count):
        label = data.train_set[number][1]
        numbers = [label] if isinstance(label, int) else label.nonzero().flatten().tolist()
        found.append({data.class_names[one] for one in numbers})
    return found


@pytest.mark.parametrize("reader", READERS)
def test_lists_of_a_0_or_1_for_each_class(root, reader):
    with pytest.raises(InputError, match=r"0 or 1 for each class, expected the classes"):
        read(root, reader, multi_label=True, train=[[2], [1, 0, 0], [0, 1, 0]])
    with pytest.raises(InputError, match=r"the list 0, 1 or 1, 0 for every image, which may name both classes"):
        read(root, reader, multi_label=True, train=[[1, 0], [0, 1]])
    data = read(root, reader, multi_label=True, train=[[1, 0], [0, 1], [2]])
    assert shown(data, 3) == [{"0", "1"}, {"0", "1"}, {"2"}]
    data = read(root, reader, multi_label=True, train=[[1, 0], [0], [1]], val=[[0, 1]])
    assert shown(data, 3) == [{"0", "1"}, {"0"}, {"1"}]
    (root / "names.txt").write_text("cat\ndog\nowl\n")
    if reader not in ("WebShards cls", "csv"):
        data = read(root, reader, multi_label=True, train=[[1, 0], [0, 1]], class_map=root / "names.txt")
        assert shown(data, 2) == [{"cat", "dog"}, {"cat", "dog"}]


@pytest.mark.parametrize("reader", [reader for reader in READERS if reader != "WebShards cls"])
def test_lists_of_truth_values(root, reader):
    with pytest.raises(InputError, match=r"truth values|expected the names or the numbers of classes"):
        read(root, reader, multi_label=True, train=[[True, False], [False, True]])


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("labels", [["1", "01", "2"], ["+1", "1"], ["1e3", "1000", "0"], ["\u0661", "1"]])
def test_two_spellings_of_one_number_are_an_error_that_names_the_first_row(root, reader, labels):
    place = r"sample 0 has the label" if reader.startswith("WebShards") else r"in row 1 "
    with pytest.raises(InputError, match=rf"{place}.*are one number in two spellings; write both alike"):
        read(root, reader, train=labels)


@pytest.mark.parametrize("reader", READERS)
def test_numbers_in_another_form_are_names(root, reader):
    data = read(root, reader, train=["001", "002", "010"], val=["010"])
    assert data.class_names == ["001", "002", "010"] and data.val_set[0][1] == 2
    with pytest.raises(InputError, match=r"the label '10'.*, which .*lacks.*'10' and '010' are one number in"):
        read(root, reader, train=["001", "002", "010"], val=["10"])
    data = read(root, reader, train=["2.0", "0", "10.0"], val=["10"])
    assert data.num_classes == 11 and shown(data, 3) == [{"2"}, {"0"}, {"10"}]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("labels", [["0", "-1", "1"], ["cat", "-1"]])
def test_minus_one_is_no_class(root, reader, labels):
    place = "sample 1 has the label '-1'" if reader.startswith("WebShards") else "in row 2 "
    with pytest.raises(InputError, match=rf"{place}.*take out what has it"):
        read(root, reader, train=labels)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (
            ["0", "1", "2", "cat"],
            r"'cat'.* where others are numbers, such as '0'; correct it, or give --data\.class_map",
        ),
        (["cat", "dog", "7"], r"'7'.* where others are names, such as 'cat'; correct it, or give --data\.class_map"),
    ],
)
def test_numbers_beside_names(root, reader, labels, said):
    with pytest.raises(InputError, match=said):
        read(root, reader, train=labels)
    (root / "names.txt").write_text("\n".join(labels))
    data = read(root, reader, train=labels, class_map=root / "names.txt")
    assert shown(data, len(labels)) == [{label} for label in labels]


def write_codes(root: Path, split: str, names: list[str] | None, paths: bool) -> None:
    """Write the codes 0 and 1 as Hugging Face does, with or without the names that they stand for."""
    files = [f"{split}{number}.png" for number in range(2)]
    for number, file in enumerate(files):
        (root / file).write_bytes(picture(number))
    images = {"path": files} if paths else {"image": [picture(0), picture(1)]}
    table = pa.table({**images, "label": [0, 1]})
    if names:
        info = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
    parquet.write_table(table, root / f"{split}.parquet")


@pytest.mark.parametrize("paths", [True, False])
@pytest.mark.parametrize(("train", "val"), [(["1", "0"], None), (None, ["1", "0"]), (["1", "2"], None)])
def test_numbers_beside_classes_that_are_called_numbers(root, paths, train, val):
    def ready():
        if paths:
            return manifest(root, "train.parquet", val="val.parquet")
        return setup(Parquet(root=root, image_size=8))

    write_codes(root, "train", train, paths)
    write_codes(root, "val", val, paths)
    plain = "val" if val is None else "train"
    with pytest.raises(InputError, match=rf"{plain}\.parquet has numbers .*which may be places among the classes"):
        ready()
    for split in ("train", "val"):
        write_codes(root, split, ["0", "1"] if split != plain else None, paths)
    data = ready()
    assert data.class_names == ["0", "1"] and [data.val_set[number][1] for number in range(2)] == [0, 1]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("missing", ["nan", "NaN", "<NA>", "None", "NULL", "N/A", "#N/A", "NaT"])
def test_text_for_what_is_missing_is_no_class(root, reader, missing):
    with pytest.raises(InputError, match=rf"label '{missing}'.*, which stands for a missing one"):
        read(root, reader, train=["cat", missing])


def test_hidden_labels_as_text_in_parquet(root):
    data = read(root, "Parquet", train=["cat", "dog"], test=["-1", "dog", "nan", None])
    assert [data.test_set[number][1] for number in range(4)] == [IGNORE, 1, IGNORE, IGNORE]
    with pytest.raises(InputError, match="label '-1', which train lacks"):
        read(root, "Parquet", train=["cat", "dog"], val=["-1", "dog"], test=["-1"])


@pytest.mark.parametrize("reader", READERS)
def test_the_first_row_that_cannot_be_matched_is_named(root, reader):
    place = "sample 1 has the label 'zebra'" if reader.startswith("WebShards") else "in row 2 "
    with pytest.raises(InputError, match=rf"val\.\w+.* {place}") as caught:
        read(root, reader, train=["cat", "dog"], val=["cat", "zebra", "ant"])
    assert "'zebra'" in str(caught.value) and "lacks" in str(caught.value)


@pytest.mark.parametrize("reader", READERS)
def test_labels_that_look_alike(root, reader):
    with pytest.raises(InputError, match=r"look alike, but their code points U\+0065 U\+0301 and U\+00E9 differ"):
        read(root, reader, train=["caf\u00e9", "cafe\u0301"])
    with pytest.raises(InputError, match=r"lacks.* look alike, but their code points U\+0065 U\+0301 and U\+00E9"):
        read(root, reader, train=["caf\u00e9", "dog"], val=["cafe\u0301"])


ALIKE = {
    "zero-width space": ("cat", "c\u200bat"),
    "byte order mark": ("cat", "cat\ufeff"),
    "no-break space": ("polar bear", "polar\u00a0bear"),
    "two blanks": ("polar bear", "polar  bear"),
    "joiner": ("cat", "cat\u200d"),
    "mark of direction": ("cat", "\u200ecat"),
    "soft hyphen": ("cat", "c\u00adat"),
    "variation": ("\u2603", "\u2603\ufe0f"),
    "decomposed": ("caf\u00e9", "cafe\u0301"),
    "number": ("1", "1\u200b"),
}


@pytest.mark.parametrize("reader", [*READERS, "folder", "listed", "class map"])
@pytest.mark.parametrize("pair", ALIKE.values(), ids=ALIKE)
def test_signs_that_do_not_show(root, reader, pair):
    said = r"look alike, but their code points .* differ"
    labels = [*pair, "dog"] if pair[0] != "1" else list(pair)
    if reader == "class map":
        (root / "names.json").write_text(json.dumps(labels))
        with pytest.raises(InputError, match=said):
            read(root, "csv", train=[pair[0]], class_map=root / "names.json")
    elif reader == "listed":
        write_codes(root, "train", labels, paths=False)
        with pytest.raises(InputError, match=rf"train\.parquet lists classes .* that may be one: .*{said}"):
            setup(Parquet(root=root, image_size=8))
    elif reader == "folder":
        for split, names in (("train", [pair[0], "dog"]), ("val", [pair[1], "dog"])):
            for name in names:
                (root / split / name).mkdir(parents=True)
                (root / split / name / "0.png").write_bytes(picture())
        with pytest.raises(InputError, match=rf"which .*train lacks.*{said}"):
            setup(ImageFolder(root=root, image_size=8))
        (root / "train" / pair[1]).mkdir()
        with pytest.raises(InputError, match=said):
            setup(ImageFolder(root=root, image_size=8))
    else:
        with pytest.raises(InputError, match=said):
            read(root, reader, train=labels)
        with pytest.raises(InputError, match=rf"lacks.*{said}"):
            read(root, reader, train=[pair[0], "dog"] if pair[0] != "1" else ["1", "0"], val=[pair[1]])


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("blank", ["cat ", " cat", "cat\u00a0", "\u3000cat"])
def test_blanks_around_a_label_are_no_part_of_it(root, reader, blank):
    data = read(root, reader, train=["cat", blank, "dog"], val=[blank])
    assert shown(data, 3) == [{"cat"}, {"cat"}, {"dog"}] and data.val_set[0][1] == 0


@pytest.mark.parametrize("reader", READERS)
def test_a_label_that_shows_nothing(root, reader):
    with pytest.raises(InputError, match=r"shows nothing but holds invisible|\.cls holds .*, expected a name"):
        read(root, reader, train=["cat", "\u200b"])


@pytest.mark.parametrize("reader", READERS)
def test_numbers_of_a_class_map_that_has_numbers_among_its_names(root, reader):
    (root / "names.txt").write_text("1\n2\n3\nnone\n")
    data = read(root, reader, train=["1", "2", "3"], class_map=root / "names.txt")
    assert shown(data, 3) == [{"1"}, {"2"}, {"3"}]
    labels = [0, 1, 2, 3] if reader != "csv" else ["0", "1", "2", "3"]
    with pytest.raises(InputError, match=r"the label '0'.*, which .*names\.txt lacks"):
        read(root, reader, train=labels, class_map=root / "names.txt")


@pytest.mark.parametrize("reader", ["csv", "jsonl", "parquet table", "Parquet", "WebShards json"])
def test_control_characters(root, reader):
    with pytest.raises(InputError, match=r"a line break or another control character"):
        read(root, reader, train=["cat", "dog\nowl"])


@pytest.mark.parametrize("reader", ["jsonl", "parquet table", "Parquet", "WebShards json"])
def test_infinity_is_no_class(root, reader):
    with pytest.raises(InputError, match=r"label'? .*inf"):
        read(root, reader, train=[1.0, float("inf")])


def test_text_in_place_of_lists(root):
    with pytest.raises(InputError, match=r"has text in its column 'label', expected lists of labels; leave out"):
        read(root, "Parquet", multi_label=True, train=["a;b", "b"])


@pytest.mark.parametrize("reader", ["jsonl", "WebShards json"])
@pytest.mark.parametrize(("labels", "said"), [([1, True], "truth values or numbers"), (["cat", 1], "numbers or names")])
def test_labels_of_different_kinds(root, reader, labels, said):
    with pytest.raises(InputError, match=rf"the label \w+ beside .*, expected {said} alone"):
        read(root, reader, train=labels)


FORMS = ["['cat' 'dog']", "['cat'\n 'dog']", "[0 1]", "{cat,dog}", "[cat, dog]", "array(['cat', 'dog'])"]


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reader", ["csv", "parquet table", "Parquet", "WebShards json"])
def test_lists_in_other_forms(root, reader, form, multi_label):
    with pytest.raises(
        InputError, match=r"list or an object in a form that is not read|in row 2 the label|has text in"
    ):
        read(root, reader, multi_label=multi_label, train=["cat", form])


def test_lists_as_python_prints_them(root):
    data = read(root, "csv", multi_label=True, train=["{'cat', 'dog'}", "('cat', 'owl')", "['dog']", "(dog)"])
    assert shown(data, 4) == [{"cat", "dog"}, {"cat", "owl"}, {"dog"}, {"(dog)"}]


@pytest.mark.parametrize("reader", ["jsonl", "parquet table", "Parquet"])
@pytest.mark.parametrize("label", [None, ["cat", None]])
def test_nothing_in_or_in_place_of_a_list(root, reader, label):
    with pytest.raises(InputError, match=r"row 2"):
        read(root, reader, multi_label=True, train=[["cat", "dog"], label, ["dog"]])
    data = read(root, reader, multi_label=True, train=[["cat", "dog"], [], ["dog"]])
    assert shown(data, 3) == [{"cat", "dog"}, set(), {"dog"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,label\n0.png,dog\n1.png,cat, big\n", r"has 3 cells in row 2 \(1\.png\), but 2 columns; put a cell"),
        ("path,label,label\n0.png,cat,dog\n", r"has the column 'label' twice"),
        ("path,path,label\n0.png,1.png,dog\n", r"has the column 'path' twice"),
        ("path|label\n0.png|cat\n", r"which bars divide, expected commas"),
        ('path,label\n0.png,"cat\n1.png,dog\n', r"is there a lone quotation mark\?"),
        ('path,label\n0.png,"cat\n1.png,dog"\n2.png,owl\n', r"in row 1 \(0\.png\)"),
        ('path,label\n0.png,"cat" big\n', r"is there a lone quotation mark\?"),
    ],
)
def test_csv_that_says_something_else(root, text, message):
    (root / "train.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        manifest(root)


def test_a_lone_quotation_mark_in_tabs(root):
    (root / "train.tsv").write_text('path\tlabel\n0.png\t"cat\n1.png\tdog\n2.png\towl"\n')
    with pytest.raises(InputError, match=r"a line break or another control character.* in row 1 \(0\.png\)"):
        manifest(root, "train.tsv")


@pytest.mark.parametrize("multi_label", [False, True])
def test_columns_of_classes_that_stand_twice(root, multi_label):
    (root / "train.csv").write_text("path,cat,dog,cat\n0.png,1,0,0\n1.png,0,1,0\n")
    with pytest.raises(InputError, match=r"has the column 'cat' twice; give each column a name of its own"):
        manifest(root, label_column=["cat", "dog"], multi_label=multi_label)
    (root / "_classes.csv").write_text("filename,cat,dog,cat\n0.png,1,0,0\n1.png,0,1,0\n")
    with pytest.raises(InputError, match=r"has the column 'cat' twice"):
        manifest(root, "_classes.csv", multi_label=multi_label)


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("name", ["Unlabeled", "unlabelled"])
def test_a_column_of_unlabelled_images_is_no_class(root, multi_label, name):
    (root / "_classes.csv").write_text(f"filename, cat, dog, {name}\n0.png,1,0,0\n1.png,0,1,0\n")
    (root / "test").mkdir()
    (root / "test/_classes.csv").write_text(f"filename, cat, {name}\n2.png,0,1\n3.png,1,0\n")
    data = manifest(root, "_classes.csv", test=Path("test/_classes.csv"), multi_label=multi_label)
    assert data.class_names == ["cat", "dog"] and len(data.train_set) == 2
    labels = [torch.as_tensor(data.test_set[number][1]).flatten().tolist() for number in range(2)]
    assert set(labels[0]) == {IGNORE} and labels[1] == ([1, 0] if multi_label else [0])
    (root / "_classes.csv").write_text(f"filename,cat,dog,{name}\n0.png,1,0,0\n1.png,0,0,1\n")
    with pytest.raises(InputError, match=rf"has 1 in the column '{name}', which is no class; .* in row 2 \(1\.png\)"):
        manifest(root, "_classes.csv", multi_label=multi_label)


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_other_encodings(root, encoding):
    (root / "train.csv").write_text("path,label\n0.png,caf\u00e9\n", encoding=encoding)
    with pytest.raises(InputError, match=r"train\.csv is not UTF-8 text, but has the byte 0xE9; save it as UTF-8"):
        manifest(root)


def test_columns_that_stand_twice_in_parquet(root):
    for names in (["image", "label", "label"], ["image", "image", "label"]):
        columns = {"image": pa.array([picture()]), "label": pa.array(["cat"])}
        table = pa.Table.from_arrays([columns[name] for name in names], names=names)
        parquet.write_table(table, root / "train.parquet")
        with pytest.raises(InputError, match=r"train\.parquet has the column '\w+' twice"):
            setup(Parquet(root=root, image_size=8))


def test_a_path_that_leads_to_two_files(root):
    (root / "train").mkdir()
    (root / "train/0.png").write_bytes(picture(100))
    (root / "train/metadata.csv").write_text("file_name,label\n0.png,cat\n")
    with pytest.raises(
        (InputError, BrokenImage), match=r"0\.png may be .*set/train/0\.png or .*set/0\.png, which differ"
    ):
        manifest(root, "train/metadata.csv").train_set[0]
    (root / "0.png").write_bytes(picture(100))
    assert manifest(root, "train/metadata.csv").train_set[0][0] == root / "train/0.png"
    table = pa.table({"image": ["1.png"], "label": ["cat"]})
    parquet.write_table(table, root / "train/0000.parquet")
    (root / "train/1.png").write_bytes(picture(100))
    images = setup(Parquet(root=root, image_size=8, val_fraction=0.0)).train_set
    with pytest.raises(
        BrokenImage, match=r"1\.png may be .*set/train/1\.png or .*set/1\.png, which differ; remove one"
    ):
        images[0]


@pytest.mark.parametrize("reader", ["csv", "jsonl", "parquet table", "coco", "label studio"])
@pytest.mark.parametrize("again", ["0.png", "./0.png"])
@pytest.mark.parametrize("multi_label", [False, True])
def test_a_file_that_stands_twice_with_two_labels(root, reader, again, multi_label):
    paths, labels = ["0.png", "1.png", again], ["cat", "dog", "owl"]
    said = r"lists 0\.png in row 1 \(cat\) and in row 3 \(owl\); keep one of the rows"
    with pytest.raises(InputError, match=said):
        manifest(root, write_table(root, reader, paths, labels), multi_label=multi_label)
    data = manifest(root, write_table(root, reader, paths, ["cat", "dog", "cat"]), multi_label=multi_label)
    assert shown(data, 3) == [{"cat"}, {"dog"}, {"cat"}]


def write_table(root: Path, reader: str, paths: list[str], labels: list[str], split: str = "train") -> str:
    """Write a table and return its name."""
    if reader == "csv":
        lines = [f"{path},{label}" for path, label in zip(paths, labels, strict=True)]
        (root / f"{split}.csv").write_text("\n".join(["path,label", *lines]))
        return f"{split}.csv"
    if reader == "parquet table":
        parquet.write_table(pa.table({"path": paths, "label": labels}), root / f"{split}.parquet")
        return f"{split}.parquet"
    rows = [{"path": path, "label": label} for path, label in zip(paths, labels, strict=True)]
    if reader == "jsonl":
        (root / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return f"{split}.jsonl"
    names = sorted(set(labels))
    if reader == "coco":
        content = {
            "images": [{"id": number, "file_name": path} for number, path in enumerate(paths)],
            "annotations": [
                {"id": number, "image_id": number, "category_id": names.index(label)}
                for number, label in enumerate(labels)
            ],
            "categories": [{"id": number, "name": name} for number, name in enumerate(names)],
        }
    else:
        content = [
            {"data": {"image": path}, "annotations": [{"result": [{"value": {"choices": [label]}}]}]}
            for path, label in zip(paths, labels, strict=True)
        ]
    (root / f"{split}.json").write_text(json.dumps(content))
    return f"{split}.json"


@pytest.mark.parametrize("reader", ["csv", "jsonl", "parquet table", "coco", "label studio"])
@pytest.mark.parametrize("split", ["val", "test"])
def test_a_file_in_the_tables_of_two_splits(root, reader, split):
    train = write_table(root, reader, ["0.png", "1.png", "2.png"], ["cat", "dog", "cat"])
    other = write_table(root, reader, ["3.png", "./2.png"], ["cat", "cat"], split)
    with pytest.raises(
        InputError, match=rf"train\.\w+ has in row 3 the train image 2\.png, which .*{split}\.\w+ has in row 2"
    ):
        manifest(root, train, **{split: other})
    with pytest.raises(InputError, match=r"train\.\w+ is the table of train and of val images; give each split a"):
        manifest(root, train, val=train)


LABEL_STUDIO = "annotation_id,annotator,choice,created_at,id,image,lead_time\n"


def write_choices(root: Path, *choices: str, images: tuple[int, ...] = (0, 1, 2)) -> None:
    """Write a table as Label Studio exports it to CSV."""
    rows = zip(images, choices, strict=True)
    lines = [f"{n},1,{csv_cell(choice)},2024-01-01T00:00:00Z,{n},/data/upload/1/{n}.png,3.5" for n, choice in rows]
    (root / "train.csv").write_text(LABEL_STUDIO + "\n".join(lines) + "\n")


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_choices_of_label_studio_in_one_column(root, ending):
    options = {"image_prefix": "/data/upload/1/", "image_folder": root}
    several = '{"choices": ["cat", "dog"]}'

    def ready(*choices: str, **further):
        write_choices(root, *choices)
        if ending == "json":  # the export JSON_MIN
            rows = [{"image": f"/data/upload/1/{n}.png", "id": n, "choice": choice} for n, choice in enumerate(choices)]
            for row in rows:
                row["choice"] = json.loads(row["choice"]) if row["choice"].startswith("{") else row["choice"]
            (root / "train.json").write_text(json.dumps(rows))
        return manifest(root, f"train.{ending}", **options, **further)

    assert shown(ready("cat", '{"choices": ["dog"]}', "cat"), 3) == [{"cat"}, {"dog"}, {"cat"}]
    assert shown(ready("cat", several, "owl", multi_label=True), 3) == [{"cat"}, {"cat", "dog"}, {"owl"}]
    with pytest.raises(
        InputError, match=r"the list \['cat', 'dog'\] as a label; give --data\.multi_label true .*in row 2"
    ):
        ready("cat", several, "owl")
    with pytest.raises(InputError, match=r"has the label .* in row 2"):
        ready("cat", '{"choices": "dog"}', "owl")


def test_annotators_of_label_studio_who_disagree(root):
    write_choices(root, "cat", "dog", "dog", images=(0, 1, 0))
    with pytest.raises(InputError, match=r"lists 0\.png in row 1 \(cat\) and in row 3 \(dog\); keep one of the rows"):
        manifest(root, image_prefix="/data/upload/1/", image_folder=root)


def test_equal_paths_in_the_folders_of_two_splits_are_two_files(root):
    for split, shade in (("train", 7), ("val", 8)):
        (root / split).mkdir()
        (root / split / "a.png").write_bytes(picture(shade))
        (root / split / "metadata.csv").write_text("file_name,label\na.png,cat\n")
    data = manifest(root, "train/metadata.csv", val="val/metadata.csv")
    assert data.val_set[0][0] == root / "val/a.png"
    for split in ("train", "val"):
        (root / split / "metadata.csv").write_text("file_name,label\n1.png,cat\n")
    with pytest.raises(
        InputError, match=r"has in row 1 the train image 1\.png, which .*val/metadata\.csv has in row 1"
    ):
        manifest(root, "train/metadata.csv", val="val/metadata.csv")


def test_a_file_in_two_splits_of_one_table(root):
    (root / "train.csv").write_text("path,label,fold\n0.png,cat,train\n1.png,cat,train\n0.png,cat,test\n")
    said = r"lists 0\.png in row 1 \(cat, train\) and in row 3 \(cat, test\); keep one of the rows"
    with pytest.raises(InputError, match=said):
        manifest(root, split_column="fold")


def test_doctor_finds_a_file_with_two_labels(app, root):
    write_table(root, "csv", ["0.png", "1.png", "0.png"], ["cat", "dog", "dog"])
    words = ("--data", "Manifest", "--data.root", root, "--data.cache", root.parent / "cache", "--data.image_size", 8)
    words += ("--data.batch_size", 2, "--data.num_workers", 0)
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert done.code == 1 and "lists 0.png in row 1 (cat) and in row 3 (dog)" in done.out + done.err


def test_numbers_as_paths(root):
    (root / "train.jsonl").write_text('{"path": 0, "label": "cat"}\n{"path": 5.0, "label": "dog"}\n')
    data = manifest(root, "train.jsonl", image_ending=".png")
    assert [data.train_set[row][0] for row in range(2)] == [root / "0.png", root / "5.png"]
    parquet.write_table(pa.table({"path": [0, 5], "label": ["cat", "dog"]}), root / "train.parquet")
    assert list(manifest(root, "train.parquet", image_ending=".png").train_set.keys) == ["0.png", "5.png"]


def test_keys_that_stand_twice(root):
    (root / "train.jsonl").write_text(
        '{"path": "0.png", "label": "a"}\n{"path": "1.png", "label": "a", "label": "b"}\n'
    )
    with pytest.raises(InputError, match=r"train\.jsonl has in row 2 no JSON that can be read \(an object has the key"):
        manifest(root, "train.jsonl")
    (root / "train.json").write_text('[{"path": "1.png", "label": "a", "label": "b"}]')
    with pytest.raises(InputError, match=r"has the key 'label' twice"):
        manifest(root, "train.json")


COCO = {
    "images": [{"id": 1, "file_name": "0.png"}, {"id": "2", "file_name": "1.png"}],
    "annotations": [{"id": 7, "image_id": "1", "category_id": 3}, {"id": 8, "image_id": 2, "category_id": "4"}],
    "categories": [{"id": "3", "name": "cat"}, {"id": 4, "name": "dog"}, {"id": 5, "name": "cat"}],
}


def test_coco_with_ids_as_text(root):
    (root / "train.json").write_text(json.dumps(COCO))
    assert shown(manifest(root, "train.json"), 2) == [{"cat"}, {"dog"}]


def test_fields_of_cocos_images_are_columns(root):
    images = [{"id": n, "path": "/elsewhere", "file_name": f"{n}.png", "width": 8} for n in range(6)]
    images = [{**image, "location": f"river {n // 2}"} for n, image in enumerate(images)]
    annotations = [{"id": n, "image_id": n, "category_id": n % 2} for n in range(6)]
    categories = [{"id": n, "name": name} for n, name in enumerate(("cat", "dog"))]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (root / "train.json").write_text(json.dumps(content))
    data = manifest(root, "train.json", group_column="location", val_fraction=0.3)
    parts = [{int(key[0]) // 2 for key in part.keys} for part in (data.train_set, data.val_set)]
    assert len(parts[0]) == 2 and len(parts[1]) == 1 and not parts[0] & parts[1]
    stated = [{**image, "split": ["train", "test"][n % 2]} for n, image in enumerate(images)]
    (root / "train.json").write_text(json.dumps({**content, "images": stated}))
    with pytest.raises(InputError, match=r"the label 'dog'.*, which the training images of"):
        manifest(root, "train.json")
    del images[4]["location"]
    (root / "train.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"has nothing in the column 'location' in row 5 \(4\.png\)"):
        manifest(root, "train.json", group_column="location")


def test_coco_of_test_images_without_annotations(root):
    (root / "train.json").write_text(json.dumps(COCO))
    (root / "test.json").write_text(json.dumps({part: COCO[part] for part in ("images", "categories")}))
    data = manifest(root, "train.json", test="test.json")
    assert [data.test_set[row][1] for row in range(2)] == [IGNORE, IGNORE]
    assert data.test_set[1][0] == root / "1.png"
    with pytest.raises(InputError, match=r"test\.json has no column of labels, which test needs; predict does without"):
        data.setup("test")
    with pytest.raises(InputError, match=r"test\.json has no column 'label' but file_name"):
        manifest(root, "test.json")
    (root / "test.json").write_text(json.dumps({part: COCO[part] for part in ("annotations", "images")}))
    with pytest.raises(InputError, match=r"has no images, annotations and categories, as COCO's has"):
        manifest(root, "train.json", test="test.json")


@pytest.mark.parametrize(
    ("part", "more", "message"),
    [
        ("categories", {"id": 3, "name": "owl"}, r"has two of category id 3; give each an id of its own"),
        ("images", {"id": "1", "file_name": "2.png"}, r"has two of image id 1; give each an id of its own"),
        ("annotations", {"id": 9, "image_id": 2, "category_id": 5}, r"two categories 'cat', id 3 and id 5; rename one"),
        ("annotations", {"id": 9, "image_id": 2, "category_id": 6}, r"annotation 9 has the category_id 6, which none"),
        ("annotations", {"id": 9, "image_id": 3, "category_id": 4}, r"annotation 9 has the image_id 3, which none"),
        (
            "annotations",
            {"id": 9, "image_id": 1, "category_id": 4},
            r"has annotations of 2 classes, .* in row 1 \(0\.p",
        ),
        (
            "images",
            {"id": 3, "file_name": "2.png"},
            r"has no annotation, expected one class; give .* in row 3 \(2\.png",
        ),
        ("images", {"id": 3}, r"has no id or no file_name in image 2, counted from 0"),
    ],
)
def test_coco_that_cannot_be_matched(root, part, more, message):
    (root / "train.json").write_text(json.dumps({**COCO, part: [*COCO[part], more]}))
    with pytest.raises(InputError, match=message):
        manifest(root, "train.json")


def test_a_category_of_coco_called_0(root):
    categories = [{"id": 3, "name": 0}, {"id": 4, "name": 1}]
    annotations = [{"id": 1, "image_id": 1, "category_id": 3}, {"id": 2, "image_id": 2, "category_id": 4}]
    images = [{"id": 1, "file_name": "0.png"}, {"id": 2, "file_name": "1.png"}]
    (root / "train.json").write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": categories})
    )
    assert shown(manifest(root, "train.json"), 2) == [{"0"}, {"1"}]


def test_a_mark_of_the_byte_order_is_no_part_of_a_class(root):
    write_tar(root / "train.tar", ["cat", "\ufeffcat", "dog"], "cls")
    data = setup(WebShards(root=str(root), train="train.tar", val_fraction=0.0, cache=root / "cache", image_size=8))
    assert shown(data, 3) == [{"cat"}, {"cat"}, {"dog"}]


def test_lists_and_double_keys_in_tars(root):
    write_tar(root / "train.tar", ["cat", '["cat", "dog"]'], "cls")
    for multi_label in (False, True):
        with pytest.raises(InputError, match=r"train\.tar: sample 1 has no class: \.cls holds the list or object"):
            setup(WebShards(root=str(root), train="train.tar", multi_label=multi_label, cache=root / "c", image_size=8))
    write_tar(root / "train.tar", ["cat"], "cls")
    with tarfile.open(root / "train.tar", "w") as tar:
        for name, data in (("0.png", picture()), ("0.json", b'{"label": "cat", "label": "dog"}')):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    with pytest.raises(InputError, match=r"sample 0 has a damaged \.json .*has the key 'label' twice"):
        setup(WebShards(root=str(root), train="train.tar", cache=root / "c", image_size=8))


@pytest.mark.parametrize("ending", ["csv", "tar"])
def test_a_source_is_read_anew_where_its_time_and_its_size_stay(root, ending):
    for labels in (["cat", "dog"], ["dog", "cat"]):
        made, file = root / "made", root / f"train.{ending}"
        if ending == "tar":
            write_tar(made, labels, "cls")
        else:
            made.write_text(f"path,label\n0.png,{labels[0]}\n1.png,{labels[1]}\n")
        os.utime(made, (5, 5))
        made.replace(file)
        options = {"image_size": 8, "val_fraction": 0.0, "cache": root / "cache"}
        data = (
            setup(WebShards(root=str(root), train="train.tar", **options))
            if ending == "tar"
            else manifest(root, **options)
        )
        assert shown(data, 2) == [{label} for label in labels]


@pytest.mark.parametrize("labels", [["1", "01", "2"], ["0", "-1", "1"], ["caf\u00e9", "cafe\u0301"]])
def test_doctor_finds_them(app, root, labels):
    lines = [f"{number}.png,{label}" for number, label in enumerate(labels)]
    (root / "train.csv").write_text("\n".join(["path,label", *lines]), encoding="utf-8")
    words = ("--data", "Manifest", "--data.root", root, "--data.cache", root.parent / "cache", "--data.image_size", 8)
    words += ("--data.batch_size", 2, "--data.num_workers", 0)
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert done.code == 1 and f"{root}/train.csv has the label" in done.out + done.err
