"""Rows of Parquet files that give one image by its path: labels, splits and held-out copies."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from datamodules.reading import parquet_paths
from tests.datamodules.test_parquet import picture, ready
from vit_lightning.errors import InputError


def write_listed(file: Path, paths: list, labels: list, as_struct: bool) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    images = pa.array([{"bytes": None, "path": path} for path in paths], kind) if as_struct else pa.array(paths)
    parquet.write_table(pa.table({"image": images, "label": labels}), file, row_group_size=2)
    for number, path in enumerate(paths):
        place = file.parent / path
        place.parent.mkdir(exist_ok=True)
        if not place.exists():
            place.write_bytes(picture(number))


@pytest.mark.parametrize("as_struct", [True, False])
@pytest.mark.parametrize("multi_label", [True, False])
def test_a_file_in_two_rows_with_two_labels(tmp_path, as_struct, multi_label):
    def labels(*names: str) -> list:
        return [[name] for name in names] if multi_label else list(names)

    write_listed(tmp_path / "train-0.parquet", ["a.png", "b.png", "c.png"], labels("x", "y", "x"), as_struct)
    write_listed(tmp_path / "train-1.parquet", ["./d.png", "./b.png"], labels("x", "x"), as_struct)
    said = (
        r"train-0\.parquet has in row 2 the train image b\.png, which .*train-1\.parquet has in row 2 with other label"
    )
    with pytest.raises(InputError, match=said):
        ready(tmp_path, multi_label=multi_label)
    write_listed(tmp_path / "train-1.parquet", ["./d.png", "./b.png"], labels("x", "y"), as_struct)
    assert len(ready(tmp_path, multi_label=multi_label, val_fraction=0.0).train_set) == 5


@pytest.mark.parametrize("as_struct", [True, False])
def test_a_file_in_two_splits(tmp_path, as_struct):
    write_listed(tmp_path / "train.parquet", ["a.png", "b.png", "c.png"], ["x", "y", "x"], as_struct)
    write_listed(tmp_path / "val.parquet", ["d.png", "b.png"], ["x", "y"], as_struct)
    said = r"train\.parquet has in row 2 the train image b\.png, which .*val\.parquet has in row 2 as a val image; keep"
    with pytest.raises(InputError, match=said):
        ready(tmp_path)
    (tmp_path / "val.parquet").unlink()
    for split in ("train", "test"):  # folders of their own, each with a file of that name
        write_listed(tmp_path / f"{split}2/{split}.parquet", ["a.png", "b.png"], ["x", "y"], as_struct)
    (tmp_path / "train.parquet").rename(tmp_path / "train.kept")
    (tmp_path / "train2").rename(tmp_path / "train")
    (tmp_path / "test2").rename(tmp_path / "test")
    assert len(ready(tmp_path, val_fraction=0.0).test_set) == 2
    for name in ("a.png", "b.png"):
        (tmp_path / "test" / name).unlink()
    (tmp_path / "test/b.png").hardlink_to(tmp_path / "train/b.png")
    with pytest.raises(InputError, match=r"train image b\.png, which .*test\.parquet has in row 2 as a test image"):
        ready(tmp_path, val_fraction=0.0)


@pytest.mark.parametrize("as_struct", [True, False])
def test_an_image_in_two_rows_stays_in_one_split(tmp_path, as_struct):
    paths = [f"{form}{number}.png" for form in ("", "./") for number in range(8)]
    write_listed(tmp_path / "train.parquet", paths, ["xy"[number % 2] for number in range(8)] * 2, as_struct)
    data = ready(tmp_path, val_fraction=0.25)
    parts = [{data_set[row][0].name for row in range(len(data_set))} for data_set in (data.train_set, data.val_set)]
    assert len(parts[0]) == 6 and len(parts[1]) == 2 and not parts[0] & parts[1]


def test_embedded_images_beside_paths(tmp_path):
    write_listed(tmp_path / "kept.parquet", ["a.png", "b.png"], ["x", "y"], True)
    images = [{"bytes": picture(1), "path": "a.png"}, {"bytes": None, "path": "b.png"}] * 2
    parquet.write_table(pa.table({"image": images, "label": ["x", "y", "y", "y"]}), tmp_path / "train.parquet")
    assert len(ready(tmp_path, val_fraction=0.0).train_set) == 4
    parquet.write_table(pa.table({"image": images, "label": ["x", "y", "y", "x"]}), tmp_path / "train.parquet")
    with pytest.raises(InputError, match=r"has in row 2 the train image b\.png, .*has in row 4 with other labels"):
        ready(tmp_path)


def test_rows_of_several_splits_in_files_of_one_are_refused(tmp_path):
    for number, splits in enumerate((["train", "train"], ["train", "test"])):
        images = [{"bytes": picture(10 * number + row), "path": None} for row in range(2)]
        rows = pa.table({"image": images, "label": ["x", "y"], "subset": splits})
        parquet.write_table(rows, tmp_path / f"train-{number}.parquet")
    said = r"train-0.parquet has the column 'subset', which names the splits train and test; write the rows of each"
    with pytest.raises(InputError, match=said):
        ready(tmp_path)
    (tmp_path / "train-1.parquet").rename(tmp_path / "old.kept")
    assert len(ready(tmp_path, val_fraction=0.0).train_set) == 2


@pytest.mark.parametrize("has_statistics", [True, False])
@pytest.mark.parametrize("kind", [pa.null(), pa.binary(), pa.large_binary()])
def test_a_file_in_two_rows_whatever_type_no_bytes_have(tmp_path, kind, has_statistics):
    """As pandas and Table.from_pylist write a column of nulls."""
    write_listed(tmp_path / "kept.parquet", ["a.png", "b.png", "c.png"], ["x", "y", "x"], True)
    images = pa.array(
        [{"bytes": None, "path": path} for path in ("a.png", "b.png", "b.png")],
        pa.struct([("bytes", kind), ("path", pa.string())]),
    )

    def write(split: str, rows: int, labels: list) -> None:
        table = pa.table({"image": images[:rows], "label": labels})
        parquet.write_table(table, tmp_path / f"{split}.parquet", write_statistics=has_statistics)

    write("train", 3, ["x", "y", "x"])
    with pytest.raises(InputError, match=r"has in row 2 the train image b\.png, .*has in row 3 with other labels"):
        ready(tmp_path)
    write("train", 2, ["x", "y"])
    write("test", 2, ["x", "y"])
    with pytest.raises(InputError, match=r"train image a\.png, which .*test\.parquet has in row 1 as a test image"):
        ready(tmp_path)


def test_a_clash_in_one_folder_is_found_behind_many_of_several(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_paths, "LOOKED_AT", 1)
    names = [f"{number}.png" for number in range(20)]
    for split in ("train", "test"):  # each split has files of its own by these names
        write_listed(tmp_path / split / f"{split}-0.parquet", names, ["x", "y"] * 10, True)
    for number, label in ((1, "x"), (2, "y")):
        write_listed(tmp_path / "train" / f"train-{number}.parquet", ["z.png"], [label], True)
    with pytest.raises(InputError, match=r"the train image z\.png, which .* in row 1 with other labels"):
        ready(tmp_path, val_fraction=0.0)
