"""A label that may stand for a missing one is said by every reader, in one sentence."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from datamodules.folder import ImageFolder
from datamodules.parquet import Parquet
from datamodules.shards import Shards
from tests.datamodules.test_folder import put
from tests.datamodules.test_labels import READERS, picture, read, root  # noqa: F401  # root is a fixture

WORDS = ["?", "unknown", "-", "tbd", "Missing"]


def said(label: str) -> str:
    return (
        f": the label {label!r} may stand for a missing one, and is read as a class; take out what has it, or list all "
        "classes in --data.class_map"
    )


def notices(data) -> list[str]:
    return [text for text in data.notices if "missing one" in text]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("label", WORDS)
def test_a_doubtful_label(root, reader, label):  # noqa: F811
    data = read(root, reader, train=["cat", "dog", label], val=["cat"])
    assert label in data.class_names
    assert len(notices(data)) == 1 and notices(data)[0].endswith(said(label))
    (root / "names.json").write_text(json.dumps(["cat", "dog", label]))
    assert notices(read(root, reader, train=["cat", "dog", label], class_map=root / "names.json")) == []


@pytest.mark.parametrize("label", [*WORDS, "none", "N_A", "nan"])
@pytest.mark.parametrize("split", ["", "train"])
def test_a_doubtful_folder(tmp_path, label, split):
    for name in ("cat", "dog", label):
        for number in range(3):
            put(tmp_path / "set" / split / name / f"{number}.png", 16 * len(name) + number)
    data = ImageFolder(root=tmp_path / "set", image_size=8)
    data.setup("fit")
    assert notices(data) == ([f"{tmp_path / 'set' / split}{said(label)}"] if label != "N_A" else [])
    (tmp_path / "names.txt").write_text(f"cat\ndog\n{label}\n")
    data = ImageFolder(root=tmp_path / "set", image_size=8, class_map=tmp_path / "names.txt")
    data.setup("fit")
    assert notices(data) == [] and data.class_names == ["cat", "dog", label]


def test_a_doubtful_class_of_metadata(root):  # noqa: F811
    feature = {"info": {"features": {"label": {"names": ["cat", "unknown", "dog"], "_type": "ClassLabel"}}}}
    table = pa.table({"image": [picture(number) for number in range(3)], "label": [0, 1, 2]})
    parquet.write_table(table.replace_schema_metadata({"huggingface": json.dumps(feature)}), root / "train.parquet")
    data = Parquet(root=root, image_size=8)
    data.setup("fit")
    assert notices(data) == [f"{root}{said('unknown')}"]


def test_a_doubtful_class_of_shards(tmp_path: Path):
    (tmp_path / "manifest.json").write_text(json.dumps({"classes": ["cat", "?", "dog"]}))
    data = Shards(root=str(tmp_path), image_size=8)
    assert data.class_names == ["cat", "?", "dog"] and notices(data) == [f"{tmp_path}{said('?')}"]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("label", ["5-Mar", "Oct-14", "12-DEC"])
def test_a_range_that_became_a_date(root, reader, label):  # noqa: F811
    (text,) = [each for each in read(root, reader, train=["3-5", "cat", label]).notices if "spreadsheet" in each]
    assert f"the label {label!r} stands beside '3-5' and may be such a range that a spreadsheet took for a date" in text


@pytest.mark.parametrize("names", [["5-Mar", "6-Mar", "cat"], ["3-5", "6-8", "Mar"], ["3-5", "Mario-7"]])
def test_dates_or_ranges_alone(root, names):  # noqa: F811
    assert not [each for each in read(root, "csv", train=names).notices if "spreadsheet" in each]
