"""Labels that are one class in two spellings, several in one text, none at all, or counted from 1."""

import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from datamodules.parquet import Parquet
from tests.datamodules.test_labels import (
    READERS,
    manifest,
    picture,
    read,
    root,  # noqa: F401  # a fixture
    setup,
    shown,
)
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError

SEVERAL = [reader for reader in READERS if reader != "csv"]


@pytest.mark.parametrize("reader", READERS)
def test_letters_of_another_size(root, reader):  # noqa: F811
    with pytest.raises(InputError, match=r"'Cat' and 'cat' differ in small and large letters alone; write both alike"):
        read(root, reader, train=["Cat", "cat", "dog"])
    with pytest.raises(InputError, match=r"lacks.*; 'CAT' and 'cat' differ in small and large letters alone"):
        read(root, reader, train=["cat", "dog"], val=["CAT"])
    (root / "names.txt").write_text("Cat\ncat\ndog\n")
    (root / "val.parquet").unlink(missing_ok=True)
    data = read(root, reader, train=["Cat", "cat", "dog"], class_map=root / "names.txt")
    assert shown(data, 3) == [{"Cat"}, {"cat"}, {"dog"}]


@pytest.mark.parametrize("reader", READERS)
def test_letters_are_classes_of_their_own(root, reader):  # noqa: F811
    letters = [*"abdefghnqr", *"ABDEFGHNQRKZ"]
    data = read(root, reader, train=[*letters, "aB3x", "Ab3X"], val=["A"])
    assert shown(data, 24) == [{name} for name in (*letters, "aB3x", "Ab3X")]
    assert data.val_set[0][1] == data.class_names.index("A")
    with pytest.raises(InputError, match=r"'Cat' and 'cat' differ in small and large letters alone"):
        read(root, reader, train=[*letters, "Cat", "cat"])


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("labels", ["YNy", "Tt", "yYn", "ABCDFabcdf"])
def test_letters_that_are_no_alphabet(root, reader, labels):  # noqa: F811
    said = r"'[YTA]' and '[yta]' differ in small and large letters alone; write both alike, or give --data\.class_map"
    with pytest.raises(InputError, match=said):
        read(root, reader, train=[*labels, "cat"])
    (root / "names.txt").write_text("\n".join([*labels, "cat"]))
    data = read(root, reader, train=[*labels, "cat"], class_map=root / "names.txt")
    assert data.class_names == [*labels, "cat"] and data.train_set[1][1] == 1


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("word", ["none", "None", "N/A"])
def test_a_class_that_is_called_as_missing_labels_are(root, reader, word):  # noqa: F811
    (root / "names.txt").write_text(f"cat\n{word}\n")
    data = read(root, reader, train=["cat", word], test=[word, "cat"], class_map=root / "names.txt")
    assert shown(data, 2) == [{"cat"}, {word}] and [data.test_set[row][1] for row in range(2)] == [1, 0]


@pytest.mark.parametrize("reader", [reader for reader in READERS if not reader.startswith("WebShards")])
def test_missing_labels_of_test_images(root, reader):  # noqa: F811
    data = read(root, reader, train=["cat", "dog"], test=["dog", "NULL", "n/a"])
    assert [data.test_set[row][1] for row in range(3)] == [1, IGNORE, IGNORE]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("split", ["val", "test"])
def test_one_split_counts_from_1_and_another_from_0(root, reader, split):  # noqa: F811
    train, other = ["1", "2", "3"], ["1", "0", "2"]
    said = rf"{split}\.\w+.* the label '0'.*lacks; the numbers there begin at 1: count all from 0, or give --data\.clas"
    with pytest.raises(InputError, match=said):
        read(root, reader, train=train, **{split: other})
    if not reader.startswith(("csv", "WebShards cls")):
        with pytest.raises(InputError, match=said):
            read(root, reader, train=list(map(int, train)), **{split: list(map(float, other))})
    read(root, reader, train=["2", "5"], **{split: ["0"]})  # classes without a training image


@pytest.mark.parametrize("column", ["path", "image"])
def test_classes_that_are_listed_may_lack_a_training_image(root, column):  # noqa: F811
    info = {"info": {"features": {"label": {"names": ["0", "1", "2"], "_type": "ClassLabel"}}}}
    for split, labels in (("train", [1, 2]), ("val", [0, 1])):
        images = ["0.png", "1.png"] if split == "train" else ["2.png", "3.png"]
        images = images if column == "path" else [picture(), picture()]
        table = pa.table({column: images, "label": labels}).replace_schema_metadata({"huggingface": json.dumps(info)})
        parquet.write_table(table, root / f"{split}.parquet")
    if column == "path":
        data = manifest(root, "train.parquet", val="val.parquet")
    else:
        data = setup(Parquet(root=root, image_size=8))
    assert [data.val_set[row][1] for row in range(2)] == [0, 1]


def test_one_table_whose_validation_counts_from_0(root):  # noqa: F811
    (root / "train.csv").write_text("path,label,fold\n0.png,1,train\n1.png,2,train\n2.png,0,val\n3.png,1,val\n")
    said = r"has the label '0' in row 3 \(2\.png\), which the training images .* lack by its column 'fold'; "
    with pytest.raises(InputError, match=said):
        manifest(root, split_column="fold")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("sign", [";", ",", "|", "\uff1b", "\u3001"])
def test_several_labels_where_one_is_expected(root, reader, sign):  # noqa: F811
    said = (
        rf"the label 'cat\{sign}dog'.*, whose parts are labels of their own; give --data\.multi_label true if it hold"
    )
    with pytest.raises(InputError, match=said):
        read(root, reader, train=["cat", "dog", f"cat{sign}dog"])
    assert len(read(root, reader, train=["cat", f"cat{sign} black", "red", "white", "red/white"]).class_names) == 5


@pytest.mark.parametrize("reader", SEVERAL)
@pytest.mark.parametrize("sign", [";", ",", "/", " + ", "&", ": ", "\uff0f"])
def test_several_labels_in_an_item_of_a_list(root, reader, sign):  # noqa: F811
    labels = [["cat"], ["dog", "owl"], [f"cat{sign}dog"]]
    with pytest.raises(InputError, match=r"the label 'cat.*dog'.*, whose parts are labels of their own; "):
        read(root, reader, multi_label=True, train=labels)
    (root / "names.txt").write_text(f"cat\ndog\nowl\ncat{sign}dog\n")
    data = read(root, reader, multi_label=True, train=labels, class_map=root / "names.txt")
    assert shown(data, 3) == [{"cat"}, {"dog", "owl"}, {f"cat{sign}dog"}]


@pytest.mark.parametrize("reader", SEVERAL)
def test_numbers_beside_names_in_lists(root, reader):  # noqa: F811
    with pytest.raises(InputError, match=r"the label '0'.* where others are names, such as 'cat'"):
        read(root, reader, multi_label=True, train=[["cat", "0"], ["dog"]])


def test_items_of_a_list_in_a_table_with_this_separator(root):  # noqa: F811
    (root / "train.csv").write_text('path,label\n0.png,"[""cat;dog""]"\n1.png,cat;dog\n')
    said = r"the label 'cat;dog' in row 1 .*, whose parts .*; divide it at ';' into a list if it holds several labels"
    with pytest.raises(InputError, match=said):
        manifest(root, multi_label=True)


@pytest.mark.parametrize("kind", [pa.string_view(), pa.large_string(), pa.string()])
@pytest.mark.parametrize("multi_label", [False, True])
def test_every_kind_of_text_in_parquet(root, kind, multi_label):  # noqa: F811
    def write(labels):
        items = pa.array(labels, pa.string()).cast(kind)
        parquet.write_table(pa.table({"image": [picture()] * len(labels), "label": items}), root / "train.parquet")
        return setup(Parquet(root=root, image_size=8, val_fraction=0.0, multi_label=multi_label))

    with pytest.raises(InputError, match="has text in its column" if multi_label else "whose parts are labels"):
        write(["cat;dog", "cat", "dog"])
    if not multi_label:
        assert shown(write(["cat", "dog"]), 2) == [{"cat"}, {"dog"}]


def test_names_in_one_file_and_text_digits_in_another(root):  # noqa: F811
    info = {"info": {"features": {"label": {"names": ["a", "b"], "_type": "ClassLabel"}}}}
    table = pa.table({"image": [picture()] * 2, "label": [0, 1]}).replace_schema_metadata(
        {"huggingface": json.dumps(info)}
    )
    parquet.write_table(table, root / "train-0.parquet")
    parquet.write_table(pa.table({"image": [picture()] * 2, "label": ["0", "1"]}), root / "train-1.parquet")
    with pytest.raises(InputError, match=r"train-1\.parquet has in row 1 the label '0' where others are names"):
        setup(Parquet(root=root, image_size=8))


WRONG = {
    "case": (["Cat", "cat"], ["cat"]),
    "missing": (["cat", "None"], ["cat"]),
    "from 1": (["1", "2"], ["0"]),
    "several": (["cat", "dog", "cat;dog"], ["cat"]),
    "kinds": (["0", "cat", "1"], ["0"]),
}


@pytest.mark.parametrize("labels", WRONG.values(), ids=WRONG)
def test_doctor_finds_them(app, root, labels):  # noqa: F811
    for split, some in zip(("train", "val"), labels, strict=True):
        table = pa.table({"image": [picture(number) for number in range(len(some))], "label": some})
        parquet.write_table(table, root / f"{split}.parquet")
    words = ("--data", "Parquet", "--data.root", root, "--data.image_size", 8, "--data.batch_size", 2)
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert done.code == 1 and ".parquet has in row " in done.out + done.err
