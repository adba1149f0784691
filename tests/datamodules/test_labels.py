"""Labels that may be meant in two ways are errors in every reader, and never another class."""

import io
import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from datamodules.folder import ImageFolder
from datamodules.manifest import Manifest
from datamodules.parquet import Parquet
from datamodules.webshards import WebShards
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


@pytest.mark.parametrize("reader", ["jsonl", "WebShards json"])
@pytest.mark.parametrize(("labels", "said"), [([1, True], "truth values or numbers"), (["cat", 1], "numbers or names")])
def test_labels_of_different_kinds(root, reader, labels, said):
    with pytest.raises(InputError, match=rf"the label \w+ beside .*, expected {said} alone"):
        read(root, reader, train=labels)


@pytest.mark.parametrize("labels", [["1", "01", "2"], ["0", "-1", "1"], ["caf\u00e9", "cafe\u0301"]])
def test_doctor_finds_them(app, root, labels):
    lines = [f"{number}.png,{label}" for number, label in enumerate(labels)]
    (root / "train.csv").write_text("\n".join(["path,label", *lines]), encoding="utf-8")
    words = ("--data", "Manifest", "--data.root", root, "--data.cache", root.parent / "cache", "--data.image_size", 8)
    words += ("--data.batch_size", 2, "--data.num_workers", 0)
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert done.code == 1 and f"{root}/train.csv has the label" in done.out + done.err
