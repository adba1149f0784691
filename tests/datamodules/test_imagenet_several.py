"""ImageNet-1k in several Parquet files, and in several places at once."""

import json
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from datamodules import imagenet
from datamodules.reading import synsets
from tests.datamodules.test_imagenet import (
    EXPECTED,
    GOLDFISH,
    SHARK,
    TENCH,
    V2,
    VAL,
    picture,
    put,
    ready,
    tar_of,
    val_name,
)
from tests.datamodules.test_imagenet import imagenet as unprepared
from vit_lightning.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:.*classes have no training images")
WNIDS = [TENCH, GOLDFISH, SHARK]
TRAIN = [[f"{TENCH}_1", f"{SHARK}_1"], [f"{SHARK}_2"], [f"{GOLDFISH}_1", f"{TENCH}_2", f"{GOLDFISH}_2"]]
LABELS = [0, 2, 2, 1, 0, 1]


def write(file: Path, names: list[str], labels: list[int], called: list[str] | None = None) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"image": [{"bytes": name.encode(), "path": f"{name}.JPEG"} for name in names], "label": labels})
    if called is not None:
        info = {"info": {"features": {"label": {"names": called, "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
    parquet.write_table(table, file)


@pytest.fixture
def hub(tmp_path) -> Path:
    """Three training files, of which the last was written first, and two of validation."""
    root = tmp_path / "hub"
    for number in (2, 0, 1):
        names = TRAIN[number]
        labels = [WNIDS.index(name[:9]) for name in names]
        write(root / f"data/train-{number:05}-of-00003.parquet", names, labels)
    for number, part in ((1, [3, 4]), (0, [1, 2])):
        names = [f"ILSVRC2012_val_{image:08}_{VAL[image]}" for image in part]
        labels = [EXPECTED[val_name(image)] for image in part]
        write(root / f"data/validation-{number:05}-of-00002.parquet", names, labels)
    return root


def test_rows_of_several_files_keep_their_images_labels_and_names(hub):
    data = ready(hub, val_fraction=0)
    names = [name for some in TRAIN for name in some]
    assert list(data.train_set.keys) == [f"{name}.JPEG" for name in names]
    assert [data.train_set[number] for number in range(6)] == [
        (name.encode(), label) for name, label in zip(names, LABELS, strict=True)
    ]
    assert data.test_set.labels.tolist() == list(EXPECTED.values())
    assert [image for image, _ in (data.test_set[number] for number in range(4))] == [
        f"ILSVRC2012_val_{image:08}_{wnid}".encode() for image, wnid in VAL.items()
    ]


def test_files_in_root_come_before_those_in_its_folder_data(hub):
    write(hub / "train-0.parquet", [f"{SHARK}_7"], [2])
    assert list(ready(hub, val_fraction=0).train_set.keys) == [f"{SHARK}_7.JPEG"]


@pytest.mark.parametrize("number", [0, 2])
def test_wrong_labels_of_any_file_are_found(hub, number):
    names = TRAIN[number]
    write(hub / f"data/train-{number:05}-of-00003.parquet", names, [1 for _ in names])
    with pytest.raises(InputError, match=rf"{TENCH}_\d\.JPEG has label 1, but {TENCH} is class 0 of ImageNet-1k"):
        ready(hub)


@pytest.mark.parametrize("number", [0, 2])
def test_names_out_of_order_in_any_file_are_found(hub, number):
    file = hub / f"data/train-{number:05}-of-00003.parquet"
    write(file, ["a" for _ in TRAIN[number]], [0 for _ in TRAIN[number]], list(synsets.wnids("1k")[::-1]))
    with pytest.raises(InputError, match=rf"train-{number:05}-of-00003\.parquet calls label 0 'n15075141', which is"):
        ready(hub)


def test_folders_come_before_tars_and_tars_before_parquet(hub):
    classes = {f"{wnid}.tar": tar_of({f"{wnid}_5.JPEG": picture()}) for wnid in (TENCH, SHARK)}
    (hub / "ILSVRC2012_img_train.tar").write_bytes(tar_of(classes))
    found = ready(hub, val_fraction=0).train_set
    assert [(key.rpartition("/")[2], found[place][1]) for place, key in enumerate(found.keys)] == [
        *((f"{TENCH}_5.JPEG", 0), (f"{SHARK}_5.JPEG", 2)),
    ]
    put(hub / f"train/{GOLDFISH}/{GOLDFISH}_6.JPEG")
    found = ready(hub, val_fraction=0).train_set
    assert list(found.keys) == [f"{GOLDFISH}/{GOLDFISH}_6.JPEG"] and found[0][1] == 1


def test_as_many_images_as_were_published_and_no_more(hub, monkeypatch):
    """Russakovsky et al. 2015, and the sets of Hendrycks, Wang and Li."""
    assert imagenet.SIZES == {"train": 1281167, "val": 50000, "a": 7500, "r": 30000, "sketch": 50889, "w": 50000}
    for train, val, said in (
        (6, 4, ""),
        (7, 4, "6 train images where 7"),
        (5, 4, "6 train images where 5"),
        (6, 3, "val"),
    ):
        monkeypatch.setattr(imagenet, "SIZES", {"train": train, "val": val})
        with pytest.raises(InputError, match=said) if said else nullcontext():
            ready(hub, allow_incomplete=False)


def test_every_further_set_that_is_there_is_indexed_beforehand(tmp_path):
    for place in (f"train/{TENCH}", f"val/{TENCH}", V2, "sketch", "imagenet-a"):
        (tmp_path / "set" / place).mkdir(parents=True)
    names = ["train", "val", V2, "sketch"]
    found = unprepared(tmp_path / "set", test="v2", also=("sketch", "objectnet")).places()
    assert sorted(found) == sorted(tmp_path / "set" / name for name in names)
    assert sorted(unprepared(tmp_path / "set").places()) == sorted(tmp_path / "set" / name for name in names[:2])


def test_a_folder_of_imagenet_v2_that_is_no_number_is_of_no_class(hub):
    put(hub / V2 / "3/a.jpeg")
    put(hub / V2 / "x/a.jpeg")
    data = ready(hub, "test", test="v2")
    assert data.test_set.labels.tolist() == [3, -1]
    with pytest.raises(InputError, match=r"test image x/a\.jpeg has label -1, outside the 1000 classes"):
        data.test_dataloader()


@pytest.mark.filterwarnings("always:.*classes have no training images")
def test_classes_without_images_are_told_of_training_alone(hub, recwarn):
    for wnid in WNIDS:
        put(hub / f"train/{wnid}/{wnid}_1.JPEG")
    for image, wnid in VAL.items():
        put(hub / f"val/{wnid}/{val_name(image)}")
    ready(hub, val_fraction=0)
    said = [str(one.message) for one in recwarn if "images" in str(one.message)]
    assert [one.partition(",")[0] for one in said] == ["997 classes have no training images"]
