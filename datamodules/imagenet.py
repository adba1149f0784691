"""ImageNet-1k (ILSVRC 2012), tested on its own validation images, their ReaL labels, or shifted sets."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn

from datamodules import objectnet
from datamodules.reading import synsets
from datamodules.reading.image_index import Index, IndexedData, IndexedImages
from datamodules.reading.multihot import MultiHot
from datamodules.reading.parquet_labels import features_of
from datamodules.reading.parquet_rows import Rows, read_columns
from datamodules.reading.published import tfds_order
from datamodules.reading.shared_sequences import Strings
from vit_lightning.data.image_set import ImageSet, keys_of
from vit_lightning.data.subsets import Subset, hold_out
from vit_lightning.errors import InputError
from vit_lightning.files import check_data_root

SIZES = {"train": 1_281_167, "val": 50_000, "a": 7_500, "r": 30_000, "sketch": 50_889, "w": 50_000}
SHIFTED = {
    "a": ("imagenet-a",),
    "r": ("imagenet-r",),
    "sketch": ("sketch", "imagenet-sketch"),
    "w": ("imagenet-w",),
}
"""Folders of the shifted sets, as their archives unpack or as they are often called."""
PARTIAL = ("a", "r")
"""Those that have, and are scored on, 200 of the 1,000 classes."""
Further = Literal["real", "v2", "objectnet", "a", "r", "sketch", "w"]
V2 = "imagenetv2-matched-frequency-format-val"
LAYOUT = (
    "train/<wnid>/<image>.JPEG with val/<wnid>/<image>.JPEG or val/<image>.JPEG, or ILSVRC2012_img_train.tar with "
    "ILSVRC2012_img_val.tar, or Hugging Face's train-*.parquet with validation-*.parquet"
)
VAL_IMAGE = re.compile(r"ILSVRC2012_val_(\d{8})(?!\d)")
TRAIN_IMAGE = re.compile(r"(n\d{8})_\d+(?!\d)")


class ImageNet1k(IndexedData):
    """ImageNet-1k: 1,281,167 training and 50,000 validation images in 1,000 classes.

    Under root lie, for each split in whichever form you have it,

        train/n01440764/n01440764_18.JPEG ...   or ILSVRC2012_img_train.tar   or train-*.parquet
        val/n01440764/ILSVRC2012_val_00000293.JPEG ..., or val/ILSVRC2012_val_00000001.JPEG ...
                                                or ILSVRC2012_img_val.tar     or validation-*.parquet

    Tars are read where they lie; Parquet files are those of Hugging Face, in root or root/data; in Kaggle's copy, root
    is ILSVRC/Data/CLS-LOC. No other file is needed: the order and the names of the classes and the labels of the
    validation images are known here. A file that lies in another class's folder is an error.

    The last 1 % of the training images, in the order of TensorFlow Datasets, are for validation during training
    ("minival", Steiner et al. 2021), the official validation images are for testing.

    Args:
        root: folder as above; it may also hold imagenetv2-matched-frequency-format-val/<0 ... 999>/,
            objectnet-1.0/{images,mappings}/, and imagenet-a/, imagenet-r/, sketch/ and imagenet-w/ with a folder per
            wnid.
        val_fraction: share of the training images held out for validation; 0 trains on all of them and validates on
            the official validation images.
        test: what is tested. val: the official validation images; real: the same with their ReaL labels, where each
            class that an image shows counts as correct and images without any are left out; v2: ImageNet-V2, matched
            frequency; objectnet: the 113 classes of ObjectNet that ImageNet has, usually at image_size 480 with
            augment.evaluation center and augment.zoom 1.0667; a, r: ImageNet-A and -R, scored on the 200 classes of
            each; sketch: ImageNet-Sketch; w: ImageNet-W, the validation images with its watermark drawn in.
        also: what is scored in the same pass as the validation and the test images, as [real, v2, a]; the accuracies
            are val/real, test/real and so on.
        allow_incomplete: accept another number of images than was published.
    """

    num_classes = 1000
    has_published_splits = True

    def __init__(
        self,
        root: Path,
        val_fraction: float = 0.01,
        test: Literal["val"] | Further = "val",
        also: tuple[Further, ...] = (),
        allow_incomplete: bool = False,
        **kwargs,
    ) -> None:
        super().__init__(root=root, **kwargs)
        self.val_fraction = val_fraction
        self.test = test
        self.also = also
        self.allow_incomplete = allow_incomplete

    @cached_property
    def class_names(self) -> list[str]:
        return synsets.names(synsets.wnids("1k"))

    def places(self) -> list[Path]:
        further = {"v2": self.root / V2, "objectnet": self.root / objectnet.IMAGES}
        further |= {name: self._shifted_place(name) for name in SHIFTED}
        places = [self._place("train"), self._place("val"), *map(further.get, {self.test, *self.also})]
        return [place for place in places if place and place.exists()]

    def setup(self, stage: str) -> None:
        official = self._read("val")
        self.test_set = self._test(self.test, official)
        self.further_sets = {name: self._test(name, official) for name in self.also}
        if stage in ("test", "predict"):
            return
        whole = self._read("train")
        if whole is None and (official is None or stage == "fit"):
            raise _absent(self.root, "training")
        if whole is None or self.val_fraction == 0:
            self.train_set, self.val_set = whole, official
        else:
            self.train_set, self.val_set = hold_out(whole, self.val_fraction, tfds_order("train", _originals(whole)))

    def _place(self, split: str) -> Path | None:
        """Return the folder or tar of a split that is there."""
        places = (self.root / split, self.root / f"ILSVRC2012_img_{split}.tar")
        return next((place for place in places if place.exists()), None)

    def _read(self, split: str) -> ImageSet | None:
        place = self._place(split)
        if place is None:
            found: ImageSet | None = _rows(self.root, {"val": "validation"}.get(split, split))
        else:
            index = self.index(place)
            found = IndexedImages(index, _labels(index, split))
        if found is not None:
            self._check_size(len(found), split, place or self.root)
        return found

    def _check_size(self, images: int, split: str, place: Path) -> None:
        if images != SIZES[split] and not self.allow_incomplete:
            self.report(
                InputError(
                    f"{place} has {images:,} {split} images where {SIZES[split]:,} were published; "
                    "complete it, or give --data.allow_incomplete true"
                )
            )

    def _test(self, name: str, official: ImageSet | None) -> ImageSet | None:
        match name:
            case "val":
                return official
            case "real":
                return _real(official, self.root)
            case "v2":
                return _v2(self.index(_there(self.root / V2)))
            case "objectnet":
                place = _there(self.root / objectnet.IMAGES)
                return objectnet.read(self.index(place), self.root / objectnet.MAPPINGS)
            case _:
                return self._shifted(name)

    def _shifted_place(self, name: str) -> Path:
        """Return the folder of a shifted set: the first that is there, else the first of its names."""
        places = [self.root / folder for folder in SHIFTED[name]]
        return next(filter(Path.is_dir, places), places[0])

    def _shifted(self, name: str) -> IndexedImages:
        """Return a set in folders of wnids, scored on the classes that it was published with."""
        index = self.index(_there(self._shifted_place(name)))
        labels = _labels(index, "val" if name == "w" else name)
        self._check_size(len(labels), name, index.root)
        ids = synsets.wnids("1k")
        numbers = np.searchsorted(ids, synsets.wnids(name)) if name in PARTIAL else None
        if numbers is not None and (outside := np.flatnonzero(~np.isin(labels, numbers))).size:
            raise InputError(
                f"{index.root / index[outside[0]]} is of no class of ImageNet-{name.upper()} ({outside.size:,} such); "
                "unpack that set alone there"
            )
        return IndexedImages(index, labels, numbers)


def wnid_labels(index: Index, ids: Sequence[str]) -> np.ndarray:
    """Return the class of each image by the folder or tar that it lies in, -1 if that is named after no class.

    Args:
        index: the images.
        ids: WordNet id of each class.

    Raises:
        InputError: if a file's name says that it belongs to another folder.
    """
    numbers = {wnid: label for label, wnid in enumerate(ids)}
    labels = []
    for folder, path in enumerate(index.folders):
        wnid = synsets.wnid_in(path)
        labels.append(numbers.get(wnid, -1))
        if wnid is None or index.prefixes[folder].startswith(f"{wnid}_"):
            continue
        for name in index.names(folder):
            said = TRAIN_IMAGE.search(name)
            if said and said[1] != wnid:
                raise InputError(f"{index.root / path / name} lies in the wrong folder; move it to {said[1]}")
    return index.spread(labels)


def _labels(index: Index, split: str) -> np.ndarray:
    labels = wnid_labels(index, synsets.wnids("1k"))
    if split == "val":
        labels = _check_val(labels, index)
    unknown = np.flatnonzero(labels < 0)
    if len(unknown):
        raise InputError(
            f"{index.root / index[unknown[0]]} lies in no folder named after one of the 1,000 classes"
            f"{' and is not named ILSVRC2012_val_<number>' * (split == 'val')} ({len(unknown):,} such); "
            f"expected {f'{SHIFTED[split][0]}/<wnid>/<image>' if split in SHIFTED else LAYOUT}"
        )
    missing = sorted(set(range(1000)) - set(labels.tolist()))
    if missing and split == "train":
        wnid = synsets.wnids("1k")[missing[0]]
        rank_zero_warn(f"{len(missing)} classes have no training images, such as {wnid}; they keep their numbers")
    return labels


def _check_val(labels: np.ndarray, keys: Iterable[str]) -> np.ndarray:
    """Fill in labels that are -1 by the images' numbers, and compare the others with them."""
    number = _numbers(keys)
    known = number >= 0
    truth = np.full_like(labels, -1)
    truth[known] = synsets.validation().labels[number[known]]
    wrong = np.flatnonzero(known & (labels >= 0) & (labels != truth))
    if len(wrong):
        key = next(key for place, key in enumerate(keys) if place == wrong[0])
        right = synsets.wnids("1k")[truth[wrong[0]]]
        raise InputError(f"{key} has the label of another class; it belongs to {right} ({len(wrong):,} such)")
    return np.where(known, truth, labels)


def _numbers(keys: Iterable[str]) -> np.ndarray:
    """Return the place of each validation image among the 50,000 from its name, -1 if the name does not say it."""
    found = (VAL_IMAGE.search(key) for key in keys)
    numbers = np.array([int(match[1]) - 1 if match else -1 for match in found], dtype=np.int64)
    return np.where(numbers < len(synsets.validation().labels), numbers, -1)


def _originals(images: ImageSet) -> list[str]:
    """Return the original file names, which are the keys of TensorFlow Datasets; Hugging Face's say more."""
    found = ((TRAIN_IMAGE.search(key), key) for key in keys_of(images))
    return [f"{match[0]}.JPEG" if match else key.rpartition("/")[2] for match, key in found]


def _real(official: ImageSet | None, root: Path) -> MultiHot:
    if official is None:
        raise _absent(root, "validation")
    keys = keys_of(official)
    number = _numbers(keys)
    if (number < 0).any():
        key = keys[int(np.argmax(number < 0))]
        raise InputError(f"{key} is not named ILSVRC2012_val_<number>, which is how an image finds its ReaL labels")
    real = synsets.validation().real
    kept = np.flatnonzero(np.diff(real.ends)[number])
    rank_zero_info(f"ReaL: n = {len(kept)} images; {len(number) - len(kept)} without a ReaL label are left out")
    if not len(kept):
        raise InputError(f"ReaL: n = 0, since none of the {len(number)} validation images has a ReaL label")
    return MultiHot(Subset(official, kept), real, number[kept], ImageNet1k.num_classes)


def _v2(index: Index) -> IndexedImages:
    """Label ImageNet-V2 by its folders, which are class numbers and not in the order of their names as text."""
    return IndexedImages(index, index.spread([int(path) if path.isdecimal() else -1 for path in index.folders]))


def _absent(root: Path, what: str) -> InputError:
    check_data_root(root)
    return InputError(f"{root} holds no {what} images of ImageNet-1k: expected {LAYOUT}; give --data.root")


def _there(place: Path) -> Path:
    if not place.is_dir():
        raise InputError(f"{place} is missing: unpack the set there, or link to it, for --data.test or also")
    return place


class _NamedRows(Rows):
    def __init__(self, files: Sequence[Path], labels: np.ndarray, keys: Iterable[str]) -> None:
        super().__init__(files, "image", labels)
        self.keys = Strings(keys)


def _rows(root: Path, split: str) -> _NamedRows | None:
    """Read Hugging Face's Parquet files, whose rows hold each image's file name too."""
    files = next(filter(None, (sorted(folder.glob(f"{split}*.parquet")) for folder in (root, root / "data"))), [])
    if not files:
        return None
    for file in files:
        _check_order(file)
    tables = [read_columns(file, ["image.path", "label"]) for file in files]
    labels = np.concatenate([table["label"].to_numpy() for table in tables])
    keys = [path or "" for table in tables for path in table["image"].combine_chunks().field("path").to_pylist()]
    if split == "validation":
        _check_val(labels, keys)
    else:
        _check_train(labels, keys)
    return _NamedRows(files, labels, keys)


def _check_order(file: Path) -> None:
    """Refuse labels whose names, where a file's metadata list them, are not in ImageNet's order."""
    called = features_of(file).get("label", {})
    called = called.get("names") if isinstance(called, dict) else None
    if not isinstance(called, list):
        return
    ids, called = synsets.wnids("1k"), list(map(str, called))
    if found := synsets.misplaced(called, ids):
        number, other = found
        raise InputError(
            f"{file} calls label {number} {called[number]!r:.60}, which is class {other} of ImageNet-1k, where class "
            f"{number} is {synsets.words(ids[number])!r:.60}; number the labels in ImageNet's order, or read the files "
            "with --data Parquet, which takes their own names"
        )


def _check_train(labels: np.ndarray, keys: Sequence[str]) -> None:
    numbers = {wnid: label for label, wnid in enumerate(synsets.wnids("1k"))}
    for label, key in zip(labels, keys, strict=True):
        said = TRAIN_IMAGE.search(key)
        if said and numbers.get(said[1]) != label:
            raise InputError(f"{key} has label {label}, but {said[1]} is class {numbers.get(said[1])} of ImageNet-1k")
