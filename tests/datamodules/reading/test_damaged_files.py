"""Files that were cut short or changed: every reader ends in one sentence, or loads what is still whole."""

import csv
import io
import json
import random
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from datamodules import objectnet
from datamodules.folder import ImageFolder
from datamodules.manifest import Manifest
from datamodules.parquet import Parquet
from datamodules.reading import damaged_files
from datamodules.reading.damaged_files import read_whole, reading, reason
from datamodules.reading.image_index import IndexedImages, open_index
from datamodules.vtab.tasks import TASKS
from vit_lightning.data import images
from vit_lightning.data.image_set import ImageSet
from vit_lightning.errors import InputError

PICTURES = (".jpg", ".jpeg", ".png")
ROUNDS = 24


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The bytes cut short, some of them changed, or a part overwritten."""
    place = chance.randrange(len(data))
    match chance.randrange(4):
        case 0:
            return data[:place]
        case 1:
            return data[:place] + bytes(min(64, len(data) - place)) + data[place + 64 :]
        case _:
            changed = bytearray(data)
            for _ in range(chance.choice((1, 3, 20))):
                place = chance.randrange(chance.choice((len(data), min(len(data), 512))))
                changed[place] = chance.randrange(256)
            return bytes(changed)


def read_all(source: ImageSet) -> None:
    """What a run does with a set: each image is decoded, and its label is a whole number."""
    for index in range(len(source)):
        with suppress(InputError):
            image, label = source[index]
            images.load(image, name=str(index))
            int(label)


def survive(files: list[Path], read: Callable[[], object], rounds: int = ROUNDS) -> None:
    """Damage one file after the other, and mend it."""
    chance = random.Random(0)
    ends = set()
    for number in range(rounds):
        file = files[number % len(files)]
        whole = file.read_bytes()
        file.write_bytes(damaged(whole, chance))
        try:
            read()
            ends.add("loaded")
        except InputError as error:
            ends.add("refused" if len(str(error).splitlines()) == 1 else str(error))
        finally:
            file.write_bytes(whole)
    assert "refused" in ends and ends <= {"refused", "loaded"}


def listed(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and path.suffix not in PICTURES)


@pytest.mark.parametrize(
    "task",
    [
        *("cifar100", "patch_camelyon", "dsprites_location", "smallnorb_azimuth", "dmlab", "clevr_count"),
        *("kitti_distance", "retinopathy", "pets", "dtd"),
    ],
)
def test_original_files(publish, task):
    """Of Flowers and SVHN, no byte is parsed before torchvision has verified the checksums."""
    root = publish(task)
    source = TASKS[task].source
    survive(listed(root), lambda: read_all(source.open(root, "train", allow_incomplete=True)))


def picture() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 100, 50)).save(buffer, "JPEG")
    return buffer.getvalue()


def read_module(data: Parquet | Manifest) -> None:
    data.setup("fit")
    read_all(data.train_set)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("labels", [[0, 1, 2, 1] * 3, ["cat", "dog", "cat", "owl"] * 3])
def test_parquet(tmp_path, compression, labels):
    table = pa.table({"image": pa.array([{"bytes": picture(), "path": "x"}] * len(labels)), "label": pa.array(labels)})
    names = {"info": {"features": {"label": {"names": ["a", "b", "c"]}}}} if labels[0] == 0 else {}
    table = table.replace_schema_metadata({"huggingface": json.dumps(names)})
    file = tmp_path / "train.parquet"
    parquet.write_table(table, file, row_group_size=5, compression=compression)
    survive([file], lambda: read_module(Parquet(root=tmp_path, val_fraction=0)), rounds=60)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_manifest(tmp_path, ending):
    rows = [(f"{number}.jpg", ("cat", "dog")[number % 2]) for number in range(12)]
    for name, _ in rows:
        (tmp_path / name).write_bytes(picture())
    file = tmp_path / f"train.{ending}"
    if ending == "parquet":
        parquet.write_table(
            pa.table(dict(zip(("path", "label"), map(list, zip(*rows, strict=True)), strict=True))), file
        )
    else:
        with file.open("w", newline="") as opened:
            delimiter = {"csv": ",", "tsv": "\t"}[ending]
            csv.writer(opened, delimiter=delimiter).writerows([("path", "label"), *rows])
    names, cache = iter(range(1000)), tmp_path / "cache"

    def read() -> None:
        read_module(Manifest(root=tmp_path, train=Path(file.name), val_fraction=0, cache=cache / str(next(names))))

    survive([file], read, rounds=40)


def test_tars(tmp_path):
    file = tmp_path / "n01440764.tar"
    with tarfile.open(file, "w") as tar:
        for number in range(6):
            member = tarfile.TarInfo(f"n01440764_{number}.JPEG")
            member.size = len(picture())
            tar.addfile(member, io.BytesIO(picture()))
    names = iter(range(1000))

    def read() -> None:
        index = open_index(file, tmp_path / "cache" / str(next(names)))
        read_all(IndexedImages(index, index.spread([0] * len(index.folders))))

    survive([file], read, rounds=60)


def test_objectnets_lists(tmp_path):
    contents = {
        objectnet.FILES[0]: {"alarm_clock": "Alarm clock", "banana": "Banana"},
        objectnet.FILES[1]: {"Alarm clock": "analog clock; digital clock", "Banana": "banana"},
        objectnet.FILES[2]: {"409": 2, "530": 0, "954": 1},
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / objectnet.FILES[3]).write_text("digital clock\nbanana\nanalog clock\n")
    survive(listed(tmp_path), lambda: objectnet.imagenet_classes(tmp_path), rounds=60)


def test_the_file_is_named(tmp_path):
    (tmp_path / "train.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match=r"train\.parquet cannot be read \(.*\); it is damaged or cut short"):
        Parquet(root=tmp_path).num_classes  # noqa: B018


def test_labels_that_are_neither_numbers_nor_text(tmp_path):
    parquet.write_table(pa.table({"image": [picture()], "label": [0.5]}), tmp_path / "train.parquet")
    with pytest.raises(InputError, match=r"has double in its column 'label'; expected whole numbers or text"):
        Parquet(root=tmp_path).num_classes  # noqa: B018
    parquet.write_table(pa.table({"image": [picture()], "label": [2**40]}), tmp_path / "train.parquet")
    with pytest.raises(InputError, match=r"the label '1099511627776', which is no class below 1000000"):
        Parquet(root=tmp_path).num_classes  # noqa: B018


def test_labels_may_be_unsigned(tmp_path):
    labels = pa.array([0, 2], pa.uint8())
    parquet.write_table(pa.table({"image": [picture()] * 2, "label": labels}), tmp_path / "train.parquet")
    assert Parquet(root=tmp_path).class_names == ["0", "1", "2"]


@pytest.mark.parametrize("make", [ImageFolder, Manifest])
def test_a_class_map_that_is_no_text(tmp_path, make):
    (tmp_path / "classes.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(InputError, match=r"classes\.txt cannot be read: it is not UTF-8 text"):
        make(root=tmp_path, class_map=tmp_path / "classes.txt").class_names  # noqa: B018


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("x"), "KeyError 'x'"),
        (ValueError(), "ValueError"),
        (ValueError("it is\n  cut"), "it is cut"),
        (OSError(2, "gone", "a.csv"), "a.csv: gone"),
        (OSError("no name of a file"), "no name of a file"),
    ],
)
def test_whatever_goes_wrong_is_said_in_one_line(error, said):
    assert reason(error) == said
    with pytest.raises(InputError) as told, reading("list"):
        raise error
    assert str(told.value) == f"list cannot be read ({said}); it is damaged or cut short"


@pytest.mark.parametrize("error", [InputError("mine"), ImportError("pandas")])
def test_what_says_enough_itself_stays_as_it_is(error):
    with pytest.raises(type(error), match=f"^{error}$"), reading("list"):
        raise error


def test_a_list_has_its_greatest_size(tmp_path, monkeypatch):
    assert damaged_files.MAX_BYTES == 2**30
    monkeypatch.setattr(damaged_files, "MAX_BYTES", 3)
    (tmp_path / "a").write_bytes(b"abc")
    assert read_whole(tmp_path / "a") == b"abc"
    (tmp_path / "a").write_bytes(b"abcd")
    with pytest.raises(ValueError, match="has more than the 3 bytes that a list of images may have"):
        read_whole(tmp_path / "a")
