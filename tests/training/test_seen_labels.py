"""What a resumed run finds changed in the labels that its checkpoint was trained with."""

import logging
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning.pytorch.trainer.states import TrainerFn
from PIL import Image

from datamodules.folder import ImageFolder
from datamodules.manifest import Manifest
from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule
from vit_lightning.data.subsets import Subset
from vit_lightning.errors import InputError
from vit_lightning.training import seen_labels as module
from vit_lightning.training import seen_set
from vit_lightning.training.seen_labels import check_labels, check_member, seen_labels, trained_among

FORM = {"image_size": 8, "batch_size": 2, "num_workers": 0, "augment": Augment(crop="none")}
COUNTS = {"train": 5, "val": 2}


class Own(ImageDataModule):
    """Data of a third party."""

    num_classes = 3

    def setup(self, stage: str) -> None:
        pass


class Listed:
    """Images with a list of labels, and perhaps of names."""

    def __init__(self, labels, keys=None, **facts) -> None:
        self.labels = np.asarray(labels)
        vars(self).update(facts)
        if keys is not None:
            self.keys = keys

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int):
        raise AssertionError("no image is looked at")


class Several(Listed):
    """Images that may show several classes."""

    def __init__(self, labels, keys=None) -> None:
        super().__init__(np.zeros(len(labels)), keys)
        del self.labels
        self.vectors = labels

    def __len__(self) -> int:
        return len(self.vectors)

    def label_at(self, index: int) -> torch.Tensor:
        return torch.tensor(self.vectors[index])


def own(train, val=None) -> Own:
    data = Own(**FORM)
    data.train_set, data.val_set = train, val
    return data


def resumed(then: ImageDataModule | dict, now: ImageDataModule, verb: TrainerFn = TrainerFn.FITTING) -> None:
    kept = then if isinstance(then, dict) else seen_labels(then)
    check_labels(kept, model_with(now, verb))


def model_with(data: ImageDataModule, verb: TrainerFn = TrainerFn.FITTING) -> SimpleNamespace:
    return SimpleNamespace(_trainer=SimpleNamespace(datamodule=data, state=SimpleNamespace(fn=verb)))


@pytest.fixture
def folder(tmp_path) -> Path:
    for split, count in COUNTS.items():
        for shade, name in enumerate(("cat", "dog")):
            (tmp_path / "set" / split / name).mkdir(parents=True)
            for number in range(count):
                path = tmp_path / "set" / split / name / f"{number}.png"
                Image.new("RGB", (8, 8), (100 * shade, number, count)).save(path)
    return tmp_path / "set"


def ready(data: ImageDataModule) -> ImageDataModule:
    data.setup("fit")
    return data


def images(root: Path) -> ImageDataModule:
    return ready(ImageFolder(root=root, **FORM))


def table(root: Path, **options) -> ImageDataModule:
    tables = {"train": Path("train.csv"), "val": Path("val.csv")}
    return ready(Manifest(root=root, cache=root / "cache", **tables, **options, **FORM))


def write_tables(root: Path, start: str = "", swapped: bool = False) -> None:
    for split, count in COUNTS.items():
        names = ("dog", "cat") if swapped and split == "val" else ("cat", "dog")
        rows = [
            f"{start}{split}/{folder}/{number}.png,{name}"
            for folder, name in zip(("cat", "dog"), names, strict=True)
            for number in range(count)
        ]
        (root / f"{split}.csv").write_text("\n".join(["path,label", *rows]) + "\n")


def test_the_same_data_elsewhere_go_on(folder, caplog):
    then = images(folder)
    resumed(then, images(folder))
    shutil.copytree(folder, folder.parent / "moved/deeper")
    with caplog.at_level(logging.INFO):
        resumed(then, images(folder.parent / "moved/deeper"))
    assert "differs" not in caplog.text


def test_whole_paths_that_moved_go_on(folder):
    write_tables(folder, f"{folder}/")
    then = table(folder)
    moved = folder.parent / "moved"
    shutil.copytree(folder, moved, ignore=shutil.ignore_patterns("cache"))
    write_tables(moved, f"{moved}/")
    resumed(then, table(moved))


def test_exchanged_folders(folder):
    then = images(folder)
    exchange(folder)
    with pytest.raises(InputError, match=r"cat/2.png is a validation image, and was trained on .*\(6 such\): put that"):
        resumed(then, images(folder))


def test_exchanged_folders_of_the_same_names(folder):
    for split, name in (("train", "cat"), ("train", "dog")):
        for number in (2, 3, 4):
            (folder / split / name / f"{number}.png").unlink()
    then = seen_labels(images(folder))
    resumed(then, images(folder))
    shutil.copytree(folder, folder.parent / "more")
    shutil.copy(folder / "train/cat/0.png", folder.parent / "more/val/cat/2.png")
    Image.new("RGB", (8, 8)).save(folder.parent / "more/train/cat/0.png")
    resumed(then, images(folder.parent / "more"))  # other files, none of which changed places under its name
    exchange(folder)
    with pytest.raises(InputError, match="validation images are those that were trained on before the checkpoint"):
        resumed(then, images(folder))


def exchange(folder: Path) -> None:
    for old, new in (("train", "x"), ("val", "train"), ("x", "val")):
        (folder / old).rename(folder / new)


def test_exchanged_sets_without_names():
    train, val = Listed([0, 1, 2, 1]), Listed([1, 1])
    resumed(own(train, val), own(train, val))
    with pytest.raises(InputError, match="validation images are those that were trained on"):
        resumed(own(train, val), own(val, train))


def test_exchanged_classes(folder):
    then = images(folder)
    os.rename(folder / "train/cat/0.png", folder / "train/dog/9.png")
    os.rename(folder / "train/dog/0.png", folder / "train/cat/9.png")
    resumed(then, images(folder))  # other images by their names


@pytest.mark.parametrize("multi_label", [False, True])
def test_labels_of_a_table_that_were_swapped(folder, multi_label):
    write_tables(folder)
    options = {"multi_label": multi_label, "label_column": "label"}  # given, it is right against folders' names
    then = table(folder, **options)
    write_tables(folder, swapped=True)
    told = "has other labels, and had other" if multi_label else r"has the label 1 \('dog'\), and had the"
    with pytest.raises(InputError, match=rf"validation image val/cat/0.png {told} label.* \(4 of 4 images that were"):
        resumed(then, table(folder, **options))


def test_held_out_images_with_other_labels():
    labels = np.arange(20) % 3
    source, changed = Listed(labels), Listed(np.where(np.arange(20) == 7, 0, labels))
    then = own(Subset(source, np.arange(15)), Subset(source, np.arange(15, 20)))
    now = own(Subset(changed, np.arange(15)), Subset(changed, np.arange(15, 20)))
    resumed(then, then)
    with pytest.raises(InputError, match=r"training image 7 has the label 0, and had the label 1 .* \(1 of 15"):
        resumed(then, now)


def test_more_and_fewer_images_are_said_and_no_fault(caplog):
    keys = [f"{number}.png" for number in range(20)]
    then, more = own(Listed([0, 1] * 8, keys[:16])), own(Listed([1, 0] * 8 + [2], keys[1:16] + keys[15:17]))
    more.train_set = Listed([2, *[0, 1] * 8], [keys[19], *keys[:16]])
    with caplog.at_level(logging.INFO):
        resumed(then, more)
        resumed(more, then)
        resumed(own(Listed([0, 1])), own(Listed([1, 0, 1])))  # numbers of records, which may have moved
    for change in ("16 -> 17", "17 -> 16", "2 -> 3"):
        assert f"differs from the checkpoint: training images: {change}" in caplog.text
    more.train_set = Listed([2, *[1, 0] * 8], [keys[19], *keys[:16]])
    with pytest.raises(InputError, match=r"\(16 of 16 images"):
        resumed(then, more)


def test_another_order_of_the_same_images_goes_on():
    keys, labels = [f"{number}.png" for number in range(9)], np.arange(9) % 3
    order = np.random.default_rng(0).permutation(9)
    resumed(own(Listed(labels, keys)), own(Listed(labels[order], [keys[place] for place in order])))


def test_one_label_of_many(monkeypatch):
    monkeypatch.setattr(seen_set, "SAMPLE", 10)
    keys, labels = [f"{number}.png" for number in range(300)], np.arange(300) % 3
    for place in range(0, 300, 30):
        changed = labels.copy()
        changed[place] = 2 - changed[place] // 2
        with pytest.raises(InputError, match=r"training images? .*when the checkpoint was written"):
            resumed(own(Listed(labels, keys)), own(Listed(changed, keys)))


def test_vectors_are_compared_without_their_images():
    then, now = own(Several([[0.0, 1.0], [1.0, 1.0]], ["a", "b"])), own(Several([[0.0, 1.0], [1.0, 0.0]], ["a", "b"]))
    resumed(then, then)
    with pytest.raises(InputError, match=r"training image b has other labels, and had other labels"):
        resumed(then, now)


def test_names_that_stand_twice_say_nothing():
    resumed(own(Listed([0, 1, 2], ["a", "a", "b"])), own(Listed([1, 0, 2], ["a", "b", "b"])))


@pytest.mark.parametrize("verb", [TrainerFn.TESTING, TrainerFn.VALIDATING])
def test_sets_that_name_their_classes_in_another_order_than_in_training(verb):
    then, now = own(Listed([0, 1, 2], classes=["ant", "bee", "cat"])), own(None, Listed([0, 1], classes=["bee", "cat"]))
    now.test_set = now.val_set
    with pytest.raises(
        InputError, match=r"class 'bee' has the label 0 in the .* and 1 in the checkpoint's training set"
    ):
        resumed(then, now, verb)
    resumed(then, now, TrainerFn.PREDICTING)


def test_older_checkpoints_and_data_that_tell_nothing_go_on():
    check_labels({}, model_with(own(Listed([0]))))
    check_labels(seen_labels(own(Listed([0]))), SimpleNamespace(_trainer=None))
    plain = own([(b"", 0)], [(b"", 1)])
    assert seen_labels(plain) == {} and seen_labels(None) == {}
    resumed(plain, own(Listed([0])))
    resumed(own(Listed([0])), plain)


@pytest.mark.parametrize(
    "then",
    [
        [1],
        {"class_names": 3},
        {"class_names": {}, "train_set": 3},
        {"train_set": {"images": 1, "names": 3, "labels": torch.zeros(1).long(), "all_names": "", "all_labels": ""}},
        {"train_set": {"images": 1, "names": None, "labels": torch.zeros(1), "all_names": "", "all_labels": ""}},
        {"train_set": dict.fromkeys(module.PARTS)},
    ],
)
def test_what_is_damaged_is_said(then):
    with pytest.raises(InputError, match="the checkpoint is damaged: its seen_labels"):
        check_labels(then, model_with(own(Listed([0]))))


def test_a_run_that_is_resumed_on_swapped_labels(app, folder):
    write_tables(folder)
    flags = ("--data", "Manifest", "--data.root", folder, "--data.val", "val.csv", "--data.image_size", 16)
    flags += ("--data.cache", folder / "cache", "--data.batch_size", 4, "--data.num_workers", 0)
    flags += ("--data.label_column", "label")
    fit = ("fit", *flags, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.max_epochs")
    assert app(*fit, 1).code == 0
    again = app(*fit, 2, "--ckpt_path", "last", "--model.schedule.allow_horizon_change", "true")
    assert again.code == 0, again.err
    write_tables(folder, swapped=True)
    done = app(*fit, 3, "--ckpt_path", "last", "--model.schedule.allow_horizon_change", "true")
    assert done.code == 1 and "when the checkpoint was written (4 of 4 images" in done.err, done.err


def test_a_member_was_trained_on_no_image_that_is_scored(folder):
    then = seen_labels(images(folder))
    scored = images(folder)
    scored.test_set, scored.train_set = scored.train_set, None
    model = SimpleNamespace(trainer=SimpleNamespace(datamodule=scored), shifted=None)
    model._trainer = SimpleNamespace(datamodule=scored, state=SimpleNamespace(fn=TrainerFn.TESTING))
    with pytest.raises(
        InputError, match=r"^b\.ckpt: .* is among the test images, and the checkpoint was trained on it"
    ):
        check_member("b.ckpt", {"seen_labels": then}, model)
    check_member("b.ckpt", {}, model)


def test_images_that_were_trained_on_are_counted(folder):
    data = images(folder)
    then = seen_labels(data)
    assert trained_among(then, data.train_set) == len(data.train_set)
    assert trained_among(then, Subset(data.train_set, np.arange(3))) == 3
    assert trained_among(then, data.val_set) == 0
    assert trained_among({}, data.train_set) == trained_among({"train_set": 3}, data.train_set) == 0
    unnamed = seen_labels(own(Listed([0, 1, 1])))
    assert [trained_among(unnamed, Listed(labels)) for labels in ([0, 1, 1], [1, 1, 0])] == [3, 0]
