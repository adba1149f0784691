"""What a resumed run finds of images that have another label since they lie elsewhere."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch
from lightning.pytorch.trainer.states import TrainerFn
from PIL import Image
from pyarrow import parquet

from datamodules.folder import ImageFolder
from datamodules.manifest import Manifest
from datamodules.parquet import Parquet
from datamodules.shards import Shards
from vit_lightning.augment import Augment
from vit_lightning.commands.prepare import prepare
from vit_lightning.data import ImageDataModule
from vit_lightning.errors import InputError
from vit_lightning.training import relabelled
from vit_lightning.training.seen_labels import PARTS, check_labels, seen_labels
from vit_lightning.training.seen_set import SeenSet, hash_of

FORM = {"image_size": 8, "batch_size": 2, "num_workers": 0, "augment": Augment(crop="none")}
CLASSES = ("cat", "dog", "emu")
COUNTS = {"train": 6, "val": 3}


def write(root: Path, named: str) -> Path:
    for split, count in COUNTS.items():
        for shade, name in enumerate(CLASSES):
            (root / split / name).mkdir(parents=True)
            for number in range(count):
                file = root / split / name / named.format(split=split, name=name, number=number)
                Image.new("RGB", (8, 8), (80 * shade, 20 * number, count)).save(file)
    return root


@pytest.fixture(params=["{number}.png", "{split}_{name}_{number}.png"], ids=["one name in all folders", "unique names"])
def folder(tmp_path, request) -> Path:
    return write(tmp_path / "set", request.param)


def ready(data: ImageDataModule) -> ImageDataModule:
    data.setup("fit")
    return data


def images(root: Path) -> ImageDataModule:
    return ready(ImageFolder(root=root, **FORM))


def resumed(then: dict, now: ImageDataModule) -> None:
    trainer = SimpleNamespace(datamodule=now, state=SimpleNamespace(fn=TrainerFn.FITTING))
    check_labels(then, SimpleNamespace(_trainer=trainer))


def swap(folder: Path, one: str = "cat", other: str = "dog") -> None:
    for old, new in ((one, "x"), (other, one), ("x", other)):
        (folder / old).rename(folder / new)


@pytest.mark.parametrize("split", COUNTS)
def test_class_folders_that_were_exchanged(folder, split):
    then = seen_labels(images(folder))
    swap(folder / split)
    with pytest.raises(InputError, match=r"image .* has the label . \('...'\), and had the .*: put that back"):
        resumed(then, images(folder))
    swap(folder / split)
    resumed(then, images(folder))


@pytest.mark.parametrize("split", COUNTS)
def test_one_image_that_was_moved_to_another_class(folder, split):
    then = seen_labels(images(folder))
    first = sorted((folder / split / "cat").iterdir())[0]
    (folder / split / "dog" / first.name).unlink(missing_ok=True)
    first.rename(folder / split / "dog" / first.name)
    what = {"train": "training", "val": "validation"}[split]
    with pytest.raises(
        InputError, match=rf"{what} image dog/{first.name} has the label 1 \('dog'\), and had the label 0 \('cat'\)"
    ):
        resumed(then, images(folder))


def test_images_that_were_moved_removed_and_added_go_on(folder, tmp_path):
    then = seen_labels(images(folder))
    shutil.copytree(folder, tmp_path / "elsewhere")
    resumed(then, images(tmp_path / "elsewhere"))
    first, second = sorted((folder / "train/cat").iterdir())[:2]
    first.unlink()
    Image.new("RGB", (8, 8), (9, 9, 9)).save(folder / "train/dog" / first.name)  # another image of its name
    (folder / "train/cat/deeper").mkdir()
    second.rename(folder / "train/cat/deeper" / second.name)  # the same class
    Image.new("RGB", (8, 8), (1, 2, 3)).save(folder / "train/emu/new.png")
    resumed(then, images(folder))


def test_a_copy_under_another_label_that_was_there_before_goes_on(folder):
    first = sorted((folder / "train/cat").iterdir())[0]
    shutil.copy(first, folder / "train/dog" / first.name)
    then = seen_labels(images(folder))
    resumed(then, images(folder))
    first.unlink()
    resumed(then, images(folder))


def test_files_of_one_name_are_kept_together(folder, monkeypatch):
    then = SeenSet.of(images(folder).train_set)
    monkeypatch.setattr(relabelled, "FILES", 8)
    kept = relabelled.kept_files(then).numpy()
    assert 6 <= kept.shape[1] <= 8
    assert all((kept[0] == name).sum() == (then.file_names == name).sum() for name in kept[0])
    monkeypatch.setattr(relabelled, "FILES", 0)
    assert relabelled.kept_files(then).shape == (4, 0)
    resumed({"train_set": {**then.kept(), "files": relabelled.kept_files(then)}}, images(folder))


def test_a_table_whose_image_was_moved_and_relabelled(tmp_path):
    root = write(tmp_path / "set", "{number}.png")

    def table() -> ImageDataModule:
        (root / "t.csv").write_text(
            "path,label\n"
            + "".join(f"{file.relative_to(root)},{file.parent.name}\n" for file in root.glob("train/*/*"))
        )
        return ready(Manifest(root=root, train=Path("t.csv"), val_fraction=0, cache=tmp_path / "cache", **FORM))

    then = seen_labels(table())
    os.rename(root / "train/cat/0.png", root / "train/dog/0.png")
    with pytest.raises(
        InputError, match=r"training image train/dog/0.png has the label 1 \('dog'\), and had the label 0"
    ):
        resumed(then, table())


def test_older_checkpoints_and_what_is_no_file_go_on(folder, tmp_path):
    then = seen_labels(images(folder))
    older = {name: {part: kept[part] for part in PARTS} for name, kept in then.items()}
    swap(folder / "train")
    if len({path.name for path in folder.glob("train/*/*")}) == COUNTS["train"]:
        resumed(older, images(folder))
    (folder / "train/cat/broken.png").symlink_to(tmp_path / "nowhere")
    os.mkfifo(folder / "train/cat/pipe.png")
    assert seen_labels(images(folder))["train_set"]["files"].shape[0] == relabelled.COLUMNS


@pytest.mark.parametrize("files", [3, torch.zeros(4, 2), torch.zeros(3, 2).long(), torch.zeros(4).long()])
def test_what_is_damaged_is_said(folder, files):
    then = seen_labels(images(folder))
    then["train_set"]["files"] = files
    with pytest.raises(InputError, match="the checkpoint is damaged: its seen_labels"):
        resumed(then, images(folder))


def test_shards_that_were_written_anew_from_exchanged_folders(folder, tmp_path):
    def shards(name: str) -> ImageDataModule:
        trainer = SimpleNamespace(is_global_zero=True)
        prepare(trainer, None, ImageFolder(root=folder, **FORM), out=tmp_path / name, short_side=8)
        return ready(Shards(root=str(tmp_path / name), **FORM))

    then = seen_labels(shards("one"))
    assert set(then["train_set"]["records"].values()) == {0, 1, 2}
    resumed(then, shards("two"))
    swap(folder / "train")
    with pytest.raises(InputError, match=r"training image .* has the label . \('...'\), and had the label .*\(4 of 6 "):
        resumed(then, shards("three"))


def rows_of(kind: str, folder: Path, order: list[int], labels: list[int]) -> pa.Table:
    files = sorted(folder.glob("train/*/*"))
    data = [file.read_bytes() for file in files]
    images = {
        "bytes": data,
        "bytes and paths": [{"bytes": item, "path": f"{number}.png"} for number, item in enumerate(data)],
        "bytes and one path": [{"bytes": item, "path": "image.png"} for item in data],
        "paths": [str(file) for file in files],
    }[kind]
    return pa.table({"image": [images[place] for place in order], "label": [labels[place] for place in order]})


@pytest.mark.parametrize("kind", ["bytes", "bytes and paths", "bytes and one path", "paths"])
@pytest.mark.parametrize("multi_label", [False, True])
def test_rows_of_a_table_in_another_order_go_on_and_other_labels_do_not(folder, tmp_path, kind, multi_label):
    def table(split: str, order, labels=()) -> None:
        (tmp_path / "rows").mkdir(exist_ok=True)
        numbers = [number // 6 for number in range(18)]
        for place, label in labels:
            numbers[place] = label
        rows = [[number] for number in numbers] if multi_label else numbers
        parquet.write_table(rows_of(kind, folder, order, rows), tmp_path / f"rows/{split}.parquet", row_group_size=4)

    def data() -> ImageDataModule:
        return ready(Parquet(root=tmp_path / "rows", multi_label=multi_label, **FORM))

    first, last = [0, 1, 2, *range(7, 16)], [3, 16, 17]
    table("train", first)
    table("val", last)
    then = seen_labels(data())
    for other in (first[::-1], [5, *first], [*first, 6], first[1:]):
        table("train", other)
        resumed(then, data())
    said = r"training image train.parquet:9 has .*, and had .* \(1 of 12 images that were compared\): put that"
    table("train", first[::-1], [(2, 1)])
    with pytest.raises(InputError, match=said):
        resumed(then, data())
    table("train", [5, *first], [(2, 1)])
    with pytest.raises(InputError, match=r"training image train\.parquet:3 has"):
        resumed(then, data())


def test_held_out_rows_have_their_own_names(folder, tmp_path):
    for kind in ("bytes and paths", "bytes"):
        parquet.write_table(
            rows_of(kind, folder, list(range(18)), [number // 6 for number in range(18)]), tmp_path / "train.parquet"
        )
        data = ready(Parquet(root=tmp_path, **FORM))
        seen = SeenSet.of(data.val_set)
        assert (seen.names is None) == (kind == "bytes") and seen.is_in_any_order
        assert len(relabelled.kept_records(seen)) == (2 if kind == "bytes" else 0)
        resumed(seen_labels(data), data)


def test_records_of_two_labels_say_nothing():
    assert relabelled._unambiguous([(1, 0), (2, 1), (1, 1), (1, 0), (3, 2), (3, 2)]) == {2: 1, 3: 2}


@pytest.mark.parametrize("changed", ["nothing", "the begin", "the end", "the size", "the name"])
def test_a_file_is_known_by_its_name_its_size_and_its_end(tmp_path, changed):
    """Large files of one format begin alike, and a damaged begin makes no other image of one."""
    middle = bytes(3 * relabelled.TAIL)
    for folder, name, content in (
        ("one", "1.png", b"a" + middle + b"z"),
        (
            "other",
            "2.png" if changed == "the name" else "1.png",
            (b"b" if changed == "the begin" else b"a")
            + middle
            + b"z" * (changed == "the size")
            + (b"y" if changed == "the end" else b"z"),
        ),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(content)
    one, other = (relabelled._mark(next((tmp_path / folder).iterdir())) for folder in ("one", "other"))
    assert (one == other) == (changed in ("nothing", "the begin")) and relabelled.UNREADABLE not in (one, other)


class Files:
    """Image files that need not be there."""

    def __init__(self, root: Path, labels: dict[str, int]) -> None:
        self.root, self.keys, self.labels = root, list(labels), np.array(list(labels.values()))

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> tuple[Path, int]:
        return self.root / self.keys[index], int(self.labels[index])


def test_files_that_cannot_be_read_are_not_taken_for_each_other(tmp_path):
    for name, content in (("cat/a.png", b"a"), ("dog/b.png", b"b")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(content)
    then = relabelled.kept_files(SeenSet.of(Files(tmp_path, {"cat/a.png": 0, "cat/gone.png": 0, "dog/b.png": 1})))
    moved = SeenSet.of(Files(tmp_path, {"cat/a.png": 0, "dog/gone.png": 1, "dog/b.png": 1}))
    assert relabelled.relabelled_files(then, moved).places == []
    (tmp_path / "cat/a.png").rename(tmp_path / "dog/a.png")
    found = relabelled.relabelled_files(then, SeenSet.of(Files(tmp_path, {"dog/b.png": 1, "dog/a.png": 1})))
    assert (found.places, found.before, found.compared) == ([1], [0], 3)


def test_the_first_two_records_of_each_class_are_kept():
    class Names(list):
        lie_in_records = True

    class Records(Files):
        def __getitem__(self, index: int) -> tuple[bytes, int]:
            return b"image %d" % index, int(self.labels[index])

    images = Records(Path(), {str(number): number % 3 for number in range(12)})
    images.keys = Names(images.keys)
    assert relabelled.kept_records(SeenSet.of(images)) == {hash_of(b"image %d" % n): n % 3 for n in range(6)}
