"""Small rules of readers that a whole set rarely shows: sizes of lists, rates, names beside each other, copies."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from datamodules.reading import damaged_files, parquet_paths
from datamodules.reading.damaged_files import read_whole, reason
from datamodules.reading.downloads import Arrival, TooLarge
from datamodules.reading.folder_layouts import beside_images, check
from datamodules.reading.folder_sides import check_inside
from datamodules.reading.image_index import IndexedImages
from datamodules.reading.parquet_labels import holds_numbers
from datamodules.reading.table_repeats import Listed, check_apart, digest
from vit_lightning.errors import InputError


@pytest.mark.parametrize(("size", "fits"), [(7, True), (8, True), (9, False), (20, False)])
def test_lists_of_a_sane_size_are_read_whole(tmp_path, monkeypatch, size, fits):
    assert damaged_files.MAX_BYTES == 1_073_741_824
    monkeypatch.setattr(damaged_files, "MAX_BYTES", 8)
    (tmp_path / "x").write_bytes(b"a" * size)
    if fits:
        assert read_whole(tmp_path / "x") == b"a" * size
        return
    with pytest.raises(ValueError, match="x has more than the 8 bytes that a list of images may have"):
        read_whole(tmp_path / "x")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(2, "No such file", "a.csv"), "a.csv: No such file"),
        (OSError("disk\n is  full"), "disk is full"),
        (KeyError("label"), "KeyError 'label'"),
        (StopIteration(), "StopIteration"),
        (ValueError("two words"), "two words"),
    ],
)
def test_an_exception_in_one_line(error, said):
    assert reason(error) == said


def test_bytes_are_counted_as_what_has_come_in_all():
    arrival = Arrival(100, lambda: 0.0)
    for value in (40, 70, 100):
        arrival.absolute_update(value)
        assert arrival.value == value
    with pytest.raises(TooLarge):
        arrival.absolute_update(101)


@pytest.mark.parametrize(
    ("tree", "refused"),
    [
        ("JPEGImages Annotations", "holds JPEGImages and Annotations, as Pascal VOC has them"),
        ("JPEGImages a", None),
        ("Annotations a", None),
        ("images labels/a.txt", "the boxes of YOLO's detection"),
        ("images labels/train/a.txt", "the boxes of YOLO's detection"),
        ("images labels/a.jpg", None),
        ("labels/a.txt", None),
    ],
)
def test_folders_of_detection(tmp_path, tree, refused):
    for place in tree.split():
        path = tmp_path / place
        (path.parent if path.suffix else path).mkdir(parents=True, exist_ok=True)
        if path.suffix:
            path.touch()
    if refused is None:
        check(tmp_path, [], is_flat=True)
    else:
        with pytest.raises(InputError, match=refused):
            check(tmp_path, [], is_flat=True)


@pytest.mark.parametrize(
    ("images", "aside"),
    [
        ("cat/1.jpg cat/masks/1.jpg", "cat/masks"),
        ("cat/images/1.jpg cat/mask/1.jpg", "cat/mask"),
        ("cat/1.jpg cat/mask/1.jpg", "cat/mask"),
        ("cat/1.jpg cat/mask/2.jpg", None),
        ("cat/masks/1.jpg", None),
        ("cat/1.jpg cat/old/masks/2.jpg", "cat/old/masks"),
        ("cat/1.jpg cat/more/2.jpg", None),
        ("cat/rgb/1.jpg cat/more/2.jpg cat/depth/3.jpg", "cat/depth"),
    ],
)
def test_masks_beside_the_images_of_a_class(images, aside):
    if aside is None:
        check_inside(Path("set"), "cat", images.split())
    else:
        with pytest.raises(InputError, match=f"^set holds {aside} beside other images of the class cat,"):
            check_inside(Path("set"), "cat", images.split())


def test_a_folder_with_the_name_of_a_split_may_be_a_class():
    said = beside_images(Path("set"), Path("set/test"), ["dog", "owl"])
    assert said.startswith("; test holds no folders and lies beside dog: if both are classes, move all classes into a")
    assert said.endswith("folder train, as train/test and train/dog, or list all classes in --data.class_map")
    assert beside_images(Path("set"), Path("set"), ["dog"]) == beside_images(Path("set"), Path("set/test"), []) == ""


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (pa.array([1, 2]), True),
        (pa.array([1.5]), True),
        (pa.array([1, 2], pa.uint8()), True),
        (pa.array([[1], [2, 3]]), True),
        (pa.array([[1.0]], pa.large_list(pa.float32())), True),
        (pa.array([1, 2]).cast(pa.decimal128(22, 1)), True),
        (pa.array([3, 3]).dictionary_encode(), True),
        (pa.array(["1"]), False),
        (pa.array([["1"]]), False),
        (pa.array(["1"]).dictionary_encode(), False),
        (pa.array([True]), False),
    ],
)
def test_columns_of_numbers(tmp_path, values, numbers):
    parquet.write_table(pa.table({"x": ["a"] * len(values), "label": values}), tmp_path / "t.parquet")
    assert holds_numbers(tmp_path / "t.parquet", "label") is numbers


def listed(paths: list[str | None], folders: list[int]) -> parquet_paths.Listed:
    found = object.__new__(parquet_paths.Listed)
    found.rows = paths
    found.numbers = np.array([row for row, path in enumerate(paths) if path is not None], np.int64)
    found.digests = np.array([digest(path) for path in paths if path is not None], np.uint64)
    found.folders = np.array(folders, np.uint64)
    return found


def test_copies_of_one_path_have_one_number():
    groups = listed(["a", None, "b", "./a", "c", "b"], [1, 1, 1, 1, 1]).copies().tolist()
    assert groups[0] == groups[3] and groups[2] == groups[5] and groups[1] == 1
    assert len(set(groups)) == 4 and min(set(groups) - {1}) >= 6  # no other row's number
    assert listed(["a", None, "b"], [1, 1]).copies() is None and listed([None, None], []).copies() is None
    assert listed(["a", "b", "a"], [1, 1, 2]).copies() is None  # in another folder it is another file


def test_images_of_an_index_keep_the_classes_that_are_scored():
    index = SimpleNamespace(image=lambda number: f"image {number}")
    found = IndexedImages(index, np.array([2, 0]), np.array([0, 2]))
    assert (found.keys, len(found), found[1], found.scored_classes.tolist()) == (index, 2, ("image 1", 0), [0, 2])
    assert IndexedImages(index, np.array([2])).scored_classes is None


class Files:
    """Paths of a table, which start from some folders."""

    def __init__(self, names: list[str], *folders: Path) -> None:
        self.names, self.folders = names, list(folders)

    def __getitem__(self, number: int) -> str:
        return self.names[number]

    def image(self, number: int) -> Path:
        return self.folders[0] / self.names[number]


def table(split: str, names: list[str], *folders: Path) -> Listed:
    return Listed(
        split, Path(f"{split}.csv"), np.array([digest(name) for name in names], np.uint64), Files(names, *folders)
    )


@pytest.mark.parametrize(
    ("train", "val", "rows"), [("a b c", "d ./b", (2, 2)), ("c .\\x", "a b x e f", (2, 3)), ("x a", "b x x", (1, 2))]
)
def test_an_image_of_two_tables_is_named_by_both_rows(tmp_path, train, val, rows):
    tables = [
        table("train", train.split(), tmp_path),
        table("val", val.split(), tmp_path),
        table("test", ["z"], tmp_path),
    ]
    name = train.split()[rows[0] - 1]
    with pytest.raises(InputError) as told:
        check_apart(tables)
    assert str(told.value) == (
        f"train.csv has in row {rows[0]} the train image {name}, which val.csv has in row {rows[1]} as a val image; "
        "keep it in one split"
    )
    check_apart([tables[0], tables[2]])
    check_apart([tables[1], tables[1]._replace(split="test")])  # one table may serve for both
    with pytest.raises(InputError, match=r"^train\.csv is the table of train and of test images; give each split"):
        check_apart([tables[0], tables[0]._replace(split="test")])


def test_one_path_from_two_folders_is_one_image_where_the_files_are(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a").write_text(folder)
    train, val = table("train", ["b", "a"], tmp_path / "one"), table("val", ["a", "c"], tmp_path / "two")
    check_apart([train, val])
    (tmp_path / "two/a").unlink()
    check_apart([train, val])
    (tmp_path / "two/a").symlink_to(tmp_path / "one/a")
    with pytest.raises(InputError, match=r"has in row 2 the train image a, which val\.csv has in row 1"):
        check_apart([train, val])
