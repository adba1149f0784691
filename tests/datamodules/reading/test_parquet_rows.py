"""Rows of Parquet files by number."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from datamodules.reading import parquet_rows
from datamodules.reading.parquet_rows import RowNames, Rows, number_of_rows, read_columns
from vit_lightning.data.images import BrokenImage
from vit_lightning.errors import InputError

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402


@pytest.fixture
def files(tmp_path) -> list[Path]:
    """Three files of 5, 1 and 4 rows, in groups of two; each image's bytes are its number."""
    found, first = [], 0
    for name, count in (("b", 5), ("a", 1), ("c", 4)):
        table = pa.table({"n": list(range(count)), "image": [b"%d" % (first + row) for row in range(count)]})
        parquet.write_table(table, tmp_path / f"{name}.parquet", row_group_size=2)
        found.append(tmp_path / f"{name}.parquet")
        first += count
    return found


def test_every_row_is_where_its_number_says(files):
    rows = Rows(files, "image", np.arange(10)[::-1])
    assert [rows[number] for number in range(len(rows))] == [(b"%d" % number, 9 - number) for number in range(10)]
    assert [rows[number][0] for number in (9, 0, 5, 6, 4)] == [b"9", b"0", b"5", b"6", b"4"]
    assert list(rows.keys) == [
        *(f"b.parquet:{row}" for row in range(5)),
        "a.parquet:0",
        *(f"c.parquet:{row}" for row in range(4)),
    ]
    assert number_of_rows(files) == 10 and rows.groups == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1)]


def test_as_many_groups_are_kept_as_fit_and_the_oldest_goes(files, monkeypatch):
    largest = max(
        parquet.ParquetFile(file).metadata.row_group(group).total_byte_size
        for file in files
        for group in range(parquet.ParquetFile(file).num_row_groups)
    )
    monkeypatch.setattr(parquet_rows, "CACHE_BYTES", 2 * largest)
    rows = Rows(files, "image", np.zeros(10, int))
    assert rows.keep == 2
    for number in (0, 2, 0, 4):
        rows[number]
    assert list(rows.cache) == [1, 2]
    again = pickle.loads(pickle.dumps(rows))
    assert again.cache == {} and again[9] == (b"9", 0)
    monkeypatch.setattr(parquet_rows, "CACHE_BYTES", 1)
    assert Rows(files, "image", np.zeros(10, int)).keep == 1


def test_names_count_from_0_in_each_file():
    names = RowNames([Path("x/b"), Path("y/a")], [0, 2, 5], "image")
    assert list(names) == ["b:0", "b:1", "a:0", "a:1", "a:2"] and names[-1] == "a:2" and len(names) == 5
    with pytest.raises(IndexError):
        names[5]


def test_an_image_is_bytes_or_a_path_alone_or_in_a_struct(tmp_path):
    (tmp_path / "deep").mkdir()
    for place in ("deep/x.png", "y.png"):
        (tmp_path / place).touch()
    images = [
        {"bytes": b"a", "path": "gone.png"},
        {"bytes": None, "path": "x.png"},
        {"bytes": None, "path": "y.png"},
        {"bytes": None, "path": None},
    ]
    parquet.write_table(pa.table({"image": images}), tmp_path / "deep/t.parquet")
    rows = Rows([tmp_path / "deep/t.parquet"], "image", np.arange(4), tmp_path)
    assert [rows[number] for number in range(3)] == [(b"a", 0), (tmp_path / "deep/x.png", 1), (tmp_path / "y.png", 2)]
    with pytest.raises(BrokenImage, match="holds no bytes and no path") as told:
        rows[3]
    assert told.value.name == "t.parquet:3"


@pytest.mark.parametrize(
    ("paths", "are_names"),
    [
        ([["x", "y"], ["z"]], True),
        ([["x", "x"], ["z"]], False),
        ([["x", "y"], ["x"]], False),
        ([["x", ""], ["z"]], False),
        ([["x", None], ["z"]], False),
        ([["x", None], [""]], False),
        ([[None], []], False),
    ],
)
@pytest.mark.parametrize("form", ["text", "long text", "struct"])
def test_paths_are_names_where_every_row_has_one_of_its_own(tmp_path, form, paths, are_names):
    kinds = {"text": pa.string(), "long text": pa.large_string()}
    kind = kinds.get(form) or pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    files, whole = [tmp_path / "0.parquet", tmp_path / "1.parquet"], [*paths[0], *paths[1]]
    for file, some in zip(files, paths, strict=True):
        values = [{"bytes": b"", "path": path} for path in some] if form == "struct" else some
        parquet.write_table(pa.table({"image": pa.array(values, kind)}), file)
    found = RowNames(files, [0, len(paths[0]), len(whole)], "image").own_names()
    assert (None if found is None else list(found)) == (whole if are_names else None)


@pytest.mark.parametrize("kind", [pa.binary(), pa.struct([("bytes", pa.binary())])])
def test_images_without_paths_have_no_names(tmp_path, kind):
    image = b"" if kind == pa.binary() else {"bytes": b""}
    parquet.write_table(pa.table({"image": pa.array([image], kind)}), tmp_path / "t.parquet")
    assert RowNames([tmp_path / "t.parquet"], [0, 1], "image").own_names() is None
    (tmp_path / "t.parquet").unlink()
    assert RowNames([tmp_path / "t.parquet"], [0, 1], "image").own_names() is None


def test_columns_come_in_the_order_that_is_asked_for(files):
    assert read_columns(files[0], ["n"]).to_pydict() == {"n": [0, 1, 2, 3, 4]}
    with pytest.raises(InputError, match="has no n and x but n, image"):
        read_columns(files[0], ["n", "x"])
