"""The flag that says what words of a column stand for, as a notice prints it: a shell and YAML read it as meant."""

import shlex

import pyarrow
import pytest
import yaml
from pyarrow import parquet

from datamodules.parquet import Parquet
from datamodules.reading.splits import CELLS
from datamodules.reading.stated_split import names_flag, naming_all, split_words
from tests.datamodules.reading.test_unread_splits import root  # noqa: F401  # a fixture
from tests.datamodules.test_labels import picture
from tests.datamodules.test_manifest_split import ready, write
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    "word", ["no", "Yes", "on", "off", "null", "~", "012", "1_0", "1:30", "2020-01-01", "l'essai", "a: b", "0x1f", "é"]
)
def test_a_pasted_flag_is_read_as_the_words(word):
    flag, value = shlex.split(names_flag({word: "test", "other": "train"}))
    assert flag == "--data.split_names" and yaml.safe_load(value) == {word: "test", "other": "train"}


def test_what_yaml_takes_for_a_flag_stands_for_the_word():
    words = split_words(yaml.safe_load("{no: test, yes: train}"))
    assert (words["no"], words["yes"]) == ("test", "train")
    words = split_words({"False": "val", "no": "test"})
    assert (words["false"], words["no"]) == ("val", "test")


@pytest.mark.parametrize(
    ("given", "expected"), [('{"no": train, "yes": test}', 4), ("{no: train, yes: test}", 4), ("printed", 4)]
)
def test_doctor_takes_the_flag(root, app, given, expected):  # noqa: F811
    write(
        root / "train.csv",
        "path,label,is_test",
        [f"{n}.png,{'ab'[n % 2]},{'no' if n < 8 else 'yes'}" for n in range(12)],
    )
    if given == "printed":
        (said,) = [text for text in ready(root).notices if "may state each image's split" in text]
        words = shlex.split(said[said.index("--data.split_column") : said.index(", or what")].replace(" and --", " --"))
    else:
        words = ["--data.split_column", "is_test", "--data.split_names", given]
    done = app(
        *("doctor", "--data", "Manifest", "--data.root", root, "--data.image_size", 8, "--data.batch_size", 2),
        *("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", *words),
    )
    text = done.out + done.err
    assert "no split" not in text and "the split 'no'" not in text and "may state" not in text
    assert f"{expected} test" in text, text


def test_all_words_of_a_column_are_named(root, tmp_path):  # noqa: F811
    sets = ["ham"] * 6 + ["isic"] * 3 + ["derm7"] * 3
    said = r"--data\.split_names '\{ham: train, isic: test, derm7: test\}' says their splits, with what each stands for"
    write(root / "train.csv", "path,label,dataset", [f"{n}.png,{'ab'[n % 2]},{sets[n]}" for n in range(12)])
    with pytest.raises(InputError, match=said):
        ready(root, split_column="dataset")
    given = {"ham": "train", "isic": "test", "derm7": "test"}
    assert len(ready(root, split_column="dataset", split_names=given).test_set) == 6
    columns = {"image": [picture(n) for n in range(12)], "label": ["a", "b"] * 6, "dataset": sets}
    folder = tmp_path / "parquet"
    folder.mkdir()
    parquet.write_table(pyarrow.table(columns), folder / "train.parquet")
    with pytest.raises(InputError, match=said):
        Parquet(root=folder, image_size=8, split_column="dataset").setup("fit")


def test_words_beside_known_ones_are_other_splits():
    cells = ["train", "query", "train", "gallery", None, "train", float("nan")]
    assert naming_all(["train", "query", "gallery"], CELLS) == (
        "--data.split_names '{query: test, gallery: test}' says their splits"
    )
    assert naming_all(["train", "test", "query"], CELLS) == "--data.split_names '{query: val}' says its split"
    assert "'{query: test, gallery: test, \"\": SPLIT}'" in naming_all(cells, CELLS)
