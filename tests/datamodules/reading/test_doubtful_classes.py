"""Numbers that mark images to ignore, and two spellings of one class, in all sets whose labels stand in text."""

import io
import json
import tarfile

import pyarrow
import pytest
from pyarrow import parquet

from datamodules.manifest import Manifest
from datamodules.parquet import Parquet
from datamodules.reading.class_map import WrongLabelsError
from datamodules.reading.doubtful_classes import check_numbers, said_of
from datamodules.reading.folder_spelling import alike_but_for_signs
from datamodules.webshards import WebShards
from tests.datamodules.test_folder import put
from tests.datamodules.test_labels import picture
from vit_lightning.errors import InputError

KINDS = ["Manifest", "Parquet", "WebShards"]


def classes(place, kind: str, labels: list, multi_label: bool = False, **options) -> tuple[list[str], list[str]]:
    """Return the classes of a set of some labels, and what is said of it."""
    place.mkdir(exist_ok=True)
    options |= {"root": place, "image_size": 8, "multi_label": multi_label}
    if kind == "Manifest":
        for number, _ in enumerate(labels):
            put(place / f"{number}.png", number)
        (place / "train.csv").write_text(
            "path,label\n" + "".join(f'{number}.png,"{label}"\n' for number, label in enumerate(labels)), "utf-8"
        )
        data = Manifest(cache=place / "cache", **options)
    elif kind == "Parquet":
        cells = [[label] for label in labels] if multi_label else labels
        columns = {"image": [picture(number) for number in range(len(labels))], "label": cells}
        parquet.write_table(pyarrow.table(columns), place / "train.parquet")
        data = Parquet(**options)
    else:
        with tarfile.open(place / "train.tar", "w") as tar:
            for number, label in enumerate(labels):
                value = json.dumps({"label": [label] if multi_label else label}).encode()
                for ending, content in (("png", picture(number)), ("json", value)):
                    info = tarfile.TarInfo(f"{number}.{ending}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
        data = WebShards(cache=place / "cache", **options)
    data.setup("fit")
    return data.class_names, data.notices


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("value", [255, 99])
def test_a_number_that_marks_images_to_ignore(tmp_path, kind, multi_label, value):
    said = rf"'?{value}'?.* beside 0 to 1, which would make {value + 1} classes and marks images to ignore in many sets"
    with pytest.raises(InputError, match=said):
        classes(tmp_path / "set", kind, [0, 1, 0, 1, value, 0, 1], multi_label)
    (tmp_path / "map.csv").write_text(f"label,name\n0,black\n1,grey\n{value},white\n")
    found, _ = classes(tmp_path / "set", kind, [0, 1, 0, 1, value, 0, 1], multi_label, class_map=tmp_path / "map.csv")
    assert sorted(found) == ["black", "grey", "white"]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_which_most_are_missing(tmp_path, kind):
    found, notices = classes(tmp_path / "set", kind, [3, 7, 3, 7, 40])
    assert len(found) == 41
    (said,) = [text for text in notices if "the label 40 is the greatest of 3 numbers" in text]
    assert "there are 41 classes, 38 of them without an image that trains" in said


@pytest.mark.parametrize("labels", ["0 1 2 100", "0 1 7", "5", "0 255 7", "cat dog 255", *("0 1 254", "0 1 98")])
def test_numbers_that_are_classes(labels):
    check_numbers(labels.split())


@pytest.mark.parametrize("labels", ["0 1 2 255.0", "1 0 99", "9999 0 1"])
def test_numbers_that_are_none(labels):
    with pytest.raises(WrongLabelsError):
        check_numbers(labels.split())


@pytest.mark.parametrize(
    ("labels", "is_said"), [("0 9", True), ("0 8", False), ("0 1 2 3 4 11", False), ("a b", False)]
)
def test_gaps(labels, is_said):
    assert bool(said_of([], labels.split())) == is_said


PAIRS = [
    ("golden retriever", "golden_retriever"),
    ("0-2", "0\u20132"),
    ("lady's slipper", "lady\u2019s slipper"),
    ("cat", "\uff43\uff41\uff54"),
    ("cat", "c\u0430t"),
]


@pytest.mark.parametrize("pair", [*PAIRS, ("TCGA 1", "\u0422CGA-1"), ("\u0392us", "Bus")])
def test_two_spellings(pair):
    assert alike_but_for_signs(["owl", *pair]) == pair


@pytest.mark.parametrize("names", [["A", "\u0410"], ["aB3x", "Ab3X"], ["1-2", "12"], ["1.5", "1-5"]])
def test_two_names(names):
    assert alike_but_for_signs(names) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("pair", PAIRS)
def test_two_spellings_are_said(tmp_path, kind, multi_label, pair):
    found, notices = classes(tmp_path / "set", kind, ["owl", *pair] * 2, multi_label)
    assert len(found) == 3
    (said,) = [text for text in notices if "are read as two" in text]
    assert repr(pair[0]) in said and repr(pair[1]) in said and "if they are one, write both alike" in said
    (tmp_path / "names.txt").write_text("\n".join(["owl", *pair]), "utf-8")
    _, notices = classes(tmp_path / "set", kind, ["owl", *pair] * 2, multi_label, class_map=tmp_path / "names.txt")
    assert not [text for text in notices if "are read as two" in text]
