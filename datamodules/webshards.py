"""WebDataset tars: samples of an image file and a label file that share their name."""

import os
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
from lightning.pytorch.utilities import rank_zero_info

from datamodules.reading import array_cache, doubtful_classes, renamed_folders
from datamodules.reading.class_map import (
    FROM_ZERO,
    WrongLabelsError,
    called_otherwise,
    check_order,
    class_numbers,
    classes_in_text,
    counted_from_zero,
    first_of,
)
from datamodules.reading.class_map_file import ClassMap
from datamodules.reading.class_map_numbers import lacks_number
from datamodules.reading.downloads import file_system
from datamodules.reading.idle_flags import name_idle_fraction
from datamodules.reading.joined_words import doubtful, several_in_one
from datamodules.reading.label_text import check_told, is_whole, look_alike
from datamodules.reading.labelled_folders import MANY
from datamodules.reading.named_codes import Named, contradictions
from datamodules.reading.remote_files import (
    MissingFile,
    RemoteFile,
    RemoteFiles,
    cache_folder,
    is_packed,
    is_remote,
)
from datamodules.reading.shared_sequences import Ragged
from datamodules.reading.split_copies import TO_SCORE, check_samples, shards_that_train
from datamodules.reading.tar_parts import SampleForm
from datamodules.reading.tar_patterns import matching, other_tars
from datamodules.reading.webdataset import TarSamples, index_samples
from vit_lightning.data import ImageDataModule
from vit_lightning.data.sampling import IGNORE
from vit_lightning.data.subsets import hold_out
from vit_lightning.errors import InputError
from vit_lightning.terminal import counted

VERSION = "webshards 8"
THREADS = 8
"""Tars that are asked for at once."""


class WebShards(ImageDataModule):
    """WebDataset tars in a folder or from S3, GCS, HTTP and whatever else fsspec knows.

    A sample is the files of a tar that follow on each other with the same name up to its first dot: an image (.jpg,
    .png, .webp ...) and its class, as a whole number or a name in a .cls file, or in a field of a .json file. Of
    several images the one with nothing else in its ending counts: .jpg beside .depth.png. Tars may be packed (.tgz,
    .tar.gz).

    All tars are read once, at the start of the first run, to learn what lies in them; this is kept in the user's cache.
    After that every sample can be read by its number, so that a run resumes with the very next image, whatever the
    number of workers, and each device takes as many steps as any other. Remote and packed tars are kept on
    this machine; their training images are mixed across about 32 tars at a time. Tars in a folder that have changed are
    read anew; for remote tars that have, give another cache.

    Args:
        root: folder or address that the names of tars start from.
        train: training tars, as names with {000..146}, {a,b}, *, ? or [0-9]; several patterns are joined by ::. Over
            HTTP, only * and braces are patterns, and * needs a server that lists its files. null: none, to score or
            predict other data by the net's classes.
        val: validation tars, likewise; without them, part of train is held out.
        test: test tars, likewise; samples without a class serve predict alone.
        val_fraction: share of the training images held out for validation if there are no val tars; 0: none.
        label_field: field of the .json files that holds the class.
        image_part: ending of the image's file, such as input.jpg, where a sample has several; unset: the only one.
        label_part: ending of the file with the class, such as txt or target.cls; unset: cls, else json.
        multi_label: whether an image may have several labels, or none: a list in the .json file, or a label a line.
        class_map: text file with one class name per line, in the order of the labels; unset: all names sorted as text,
            or whole numbers up to the greatest. Or .csv, .tsv or .json from labels to the names of their classes, where
            these are called otherwise.
        cache: folder for indices and for remote tars; unset: vit_lightning in the user's cache folder.
        cache_limit: GiB to keep of the tars; what was used longest ago makes room. Unset: everything.
    """

    def __init__(
        self,
        root: str,
        train: str | None = "train*.tar",
        val: str | None = None,
        test: str | None = None,
        val_fraction: float = 0.1,
        label_field: str = "label",
        image_part: str | None = None,
        label_part: str | None = None,
        multi_label: bool = False,
        class_map: Path | None = None,
        cache: Path | None = None,
        cache_limit: float | None = None,
        **kwargs,
    ) -> None:
        super().__init__(root=None if is_remote(str(root)) else Path(root), **kwargs)
        self.address = str(root if self.root is None else self.root).rstrip("/")
        self.patterns = {"train": train, "val": val, "test": test}
        if train is None and not (val or test):
            raise InputError("--data.train null leaves no tars; give --data.test")
        self.val_fraction = val_fraction
        self.form = SampleForm(label_field, image_part, label_part, multi_label)
        self.class_map = class_map
        self.cache = cache
        self.cache_limit = cache_limit
        self._tars: dict[str, tuple[RemoteFiles, Path]] = {}
        self._damage: dict[str, list[InputError]] = {}
        """Faults of each split's tars, kept until `setup`, since `class_names` is asked for by whoever reports them."""

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @cached_property
    def class_names(self) -> list[str]:
        if self._map.listed is not None:
            return self._map.listed
        file = self._indexed(self._naming)[1]
        names = set(self._names(self._naming))
        if not names:
            split = self._naming
            empty = InputError(f"{self.address}/{self.patterns[split]} hold no samples; give other --data.{split}")
            raise next(iter(self._damage[split]), empty)
        try:
            arrays = array_cache.load(file) if self.form.multi_label else None
            most = Ragged(arrays["labels.values"], arrays["labels.ends"]).longest if arrays else 1
            doubtful_classes.check_numbers(names)
            classes = classes_in_text(names, self.form.multi_label, most=most)
        except WrongLabelsError as error:
            raise self._wrong(self._naming, error.labels, error.why, self._names(self._naming)) from error
        for said in doubtful_classes.said_of(classes, names, self._map.renamed.values()):
            self.notice(f"{self.address}/{self.patterns[self._naming]}: {said}")
        if self.form.multi_label and (said := doubtful(classes, most > 1, "divide them at {} into a list or lines")):
            self.notice(said)
        fix = "divide it at {} into a list, for --data.multi_label true"
        if not self.form.multi_label and (said := several_in_one(classes, fix)):
            self.notice(f"{self.address}/{self.patterns[self._naming]}: {said}")
        return classes

    @cached_property
    def _map(self) -> ClassMap:
        return ClassMap(self.class_map, self._all_labels)

    def _all_labels(self) -> set[str]:
        """The different labels of all tars."""
        files = [self._indexed(split)[1] for split, pattern in self.patterns.items() if pattern is not None]
        return {name for file in files for name in array_cache.MappedStrings(file, "names")}

    def _names(self, split: str) -> list[str]:
        """Return the class that each different label of a split stands for."""
        texts = list(array_cache.MappedStrings(self._indexed(split)[1], "names"))
        try:
            return list(map(self._map.class_of, texts))
        except WrongLabelsError as error:
            raise self._wrong(split, error.labels, error.why, texts) from error

    @property
    def _naming(self) -> str:
        """The split whose labels are the classes; of data that are only scored, the test tars."""
        return next((split for split, pattern in self.patterns.items() if pattern is not None), "train")

    def setup(self, stage: str) -> None:
        if stage == "fit" and self.patterns["train"] is None:
            raise InputError("--data.train null leaves no training images, which a fit needs; name tars")
        self.train_set = self._read("train")
        self.val_set = self._read("val")
        self.test_set = self._read("test", needs_labels=stage == "test")
        self._check_names()
        if self.train_set is None:
            return
        self._check_apart()
        name_idle_fraction(self, self.address)
        tars = [self.train_set.files[tar] for tar in np.unique(self.train_set.tars).tolist()]
        if said := shards_that_train(tars, self.val_set is None and self.val_fraction > 0):
            self.notice(said)
        lacking = [split for split, pattern in self.patterns.items() if pattern is None]
        for said in other_tars(self.address, [tar.url for tar in tars], lacking):
            self.notice(said)
        if self.val_set is None:
            self.train_set, self.val_set = hold_out(self.train_set, self.val_fraction)

    def _read(self, split: str, needs_labels: bool = True) -> TarSamples | None:
        if self.patterns[split] is None:
            return None
        files, file = self._indexed(split)
        for fault in self._damage[split]:
            self.report(fault)
        names, has_list = self._names(split), self._map.listed is not None
        if has_list and any(map(is_whole, names)):
            check_order(self.class_names, f"{self.address}/{self.patterns[split]}")
        if has_list and split == "train":
            self._map.check_numbers(names, f"{self.address}/{self.patterns[split]}")
        numbers = class_numbers(names, self.class_names, or_numbers=has_list)
        if (numbers < 0).any():
            unknown = {name for name, number in zip(names, numbers.tolist(), strict=True) if number < 0}
            label = min(unknown)
            fix = lacks_number(label, self.class_names) or called_otherwise(label)
            why = f", which {self.class_map} lacks{fix}" if has_list else ", which train lacks"
            raise self._wrong(split, unknown, why, names, self.class_names)
        if not has_list:
            training = self._names(self._naming)
            if zero := counted_from_zero(names, training):
                raise self._wrong(split, zero, f", which train lacks{FROM_ZERO}", names)
        arrays = array_cache.load(file)
        if split == "train":
            self._say_merged(file)
        numbers = np.append(numbers, np.int32(IGNORE))  # of a class that is not told
        if self.form.multi_label:
            labels = Ragged(numbers[arrays["labels.values"]], arrays["labels.ends"])
            if split == "train":
                check_told(f"{self.address}/{self.patterns['train']}", names, labels.ends, self.num_classes)
        else:
            labels = numbers[arrays["labels"]]
            self._check_folders(split, file, arrays["labels"])
        self._check_hidden(split, labels, needs_labels)
        return TarSamples(files, file, labels, self.num_classes)

    def _check_folders(self, split: str, file: Path, labels: np.ndarray) -> None:
        """Refuse a class map in another order than the folders in the names of samples say."""
        texts = [*array_cache.MappedStrings(file, "names"), ""]
        rows = zip(array_cache.MappedStrings(file, "keys"), (texts[label] for label in labels.tolist()), strict=True)
        found = renamed_folders.differing(rows, {}, self._map.by_place) if self._map.by_place else None
        if found is None or found.fix != renamed_folders.ORDER:
            return
        said = (
            f"{self.address}/{self.patterns[split]}: sample {found.path[-80:]} has the label {found.label!r:.60}, and "
            f"its folder is called as another class is; so it is in {found.count} of {counted(found.of, 'such sample')}"
        )
        if found.is_mixed and found.count >= MANY * found.of and self.form.label_part is None:
            raise InputError(f"{said}; {found.fix}; if the labels are right, --data.label_part says so")
        self.notice(f"{said}, and the label counts; {found.fix}")

    def _check_names(self) -> None:
        """Refuse numbers in .cls that the .json beside them call otherwise in one tar than in another."""
        files = [self._indexed(split)[1] for split, pattern in self.patterns.items() if pattern is not None]
        named = [Named.loaded(text) for file in files for text in array_cache.MappedStrings(file, "named")]
        for _, what in contradictions(named, self._map.numbered, self.class_map):
            raise InputError(
                f"{what} of .json: the numbers are not those of the same classes; give --data.label_part json to go by "
                "these names, or --data.label_part cls if the numbers in .cls are right"
            )

    def _check_hidden(self, split: str, labels: np.ndarray | Ragged, needs_labels: bool) -> None:
        """Say how many samples have no class, and refuse to test without any."""
        hidden = int(((labels.values if isinstance(labels, Ragged) else labels) == IGNORE).sum())
        where = f"{self.address}/{self.patterns[split]}"
        if needs_labels and hidden and hidden == len(labels):
            raise InputError(f"{where} has no labels, which {split} needs; predict does without them")
        if hidden:
            rank_zero_info(f"{hidden} of the {len(labels)} samples of {where} have no label: they do not count")

    def _check_apart(self) -> None:
        """Refuse a tar, or a copy of one, that trains and is scored."""
        training = {_place(file.url): file.url for file in self._indexed("train")[0]}
        for split in ("val", "test"):
            if self.patterns[split] is None:
                continue
            for file in self._indexed(split)[0]:
                if other := training.get(_place(file.url)):
                    raise InputError(
                        f"{file.url} is a {split} tar and, as {other}, one that trains; leave it out of --data.train "
                        f"({self.patterns['train']}) or of --data.{split} ({self.patterns[split]}); {TO_SCORE}"
                    )
            check_samples(self.train_set, getattr(self, f"{split}_set"), split)

    def _say_merged(self, file: Path) -> None:
        """Say which labels of the training tars a class map makes one class of."""
        labels = array_cache.load(file)["labels.values" if self.form.multi_label else "labels"]
        texts = array_cache.MappedStrings(file, "names")
        counts = np.bincount(labels, minlength=len(texts)).tolist()
        for said in self._map.said(dict(zip(texts, counts, strict=False))):  # a label that is not told comes last
            self.notice(said)

    def _wrong(
        self, split: str, labels: Collection[str], why: str, names: Sequence[str], known: Sequence[str] = ()
    ) -> InputError:
        """Say which is the first sample with one of some labels that cannot be, and which known one it resembles."""
        files, file = self._indexed(split)
        arrays = array_cache.load(file)
        if self.form.multi_label:
            rows = Ragged(arrays["labels.values"], arrays["labels.ends"])
        else:
            rows = Ragged(arrays["labels"], np.arange(len(arrays["labels"]) + 1))
        sample, label = first_of(labels, [*names, ""], rows)
        key = array_cache.MappedStrings(file, "keys")[sample]
        url = files[int(arrays["tars"][sample])].url
        return InputError(f"{url}: sample {key[-80:]} has the label {label!r:.60}{why}{look_alike(label, known)}")

    def _indexed(self, split: str) -> tuple[RemoteFiles, Path]:
        if split not in self._tars:
            self._tars[split] = self._index(split)
        return self._tars[split]

    def _index(self, split: str) -> tuple[RemoteFiles, Path]:
        """Return the tars of a split and the file that says what lies in them, which is made if there is none."""
        urls = matching(self.address, self.patterns[split])
        if not urls:
            listed = "; over HTTP, write the names out: {000..146}" * self.address.startswith("http")
            raise InputError(
                f"{self.address}/{self.patterns[split]}: no such tar; give --data.root and --data.{split}{listed}"
            )
        if not all(is_remote(url) or Path(url).is_file() for url in urls):
            raise self._missing(split, urls)
        folder = cache_folder(self.cache, self.address)
        states = [(url, *_state(url)) for url in urls]
        source = Path(f"{folder.name}-{split}")
        form = replace(self.form, may_lack_labels=split == "test", lists=self._map.lists)
        version = f"{VERSION}\n{form}\n{states}"
        file = array_cache.cache_file(self.cache, source, version)
        damage = self._damage[split] = []
        if not file.exists():
            made = array_cache.cache_file(self.cache, source, f"{version} in part")
            try:
                files = RemoteFiles([RemoteFile(url) for url in urls], folder, self.cache_limit)
                index_samples(files, made, replace(form), damage.append)
            except MissingFile as error:
                raise self._missing(split, urls) from error
            file = made if damage else made.replace(file)
        lengths = array_cache.load(file)["lengths"].tolist()
        files = [RemoteFile(url, None if is_packed(url) else length) for url, length in zip(urls, lengths, strict=True)]
        return RemoteFiles(files, folder, self.cache_limit), file

    def _missing(self, split: str, urls: Sequence[str]) -> InputError:
        """Say how many tars are missing, after asking for each, and what to do about it."""
        with ThreadPoolExecutor(THREADS) as pool:
            missing = [url for url, there in zip(urls, pool.map(_exists, urls), strict=True) if not there]
        first = missing[0] if missing else urls[0]
        remedy = "upload them" if is_remote(first) else "fetch them"
        return InputError(
            f"{first} is missing ({len(missing)} of {len(urls)} {split} tars are); {remedy}, or name in "
            f"--data.{split} only those that are there"
        )


def _place(url: str) -> str | tuple[int, int]:
    """Return what a tar is known by, whatever links lead to it."""
    if is_remote(url):
        return url
    found = os.stat(url)
    return (found.st_dev, found.st_ino) if found.st_ino else os.path.realpath(url)


def _exists(url: str) -> bool:
    if not is_remote(url):
        return Path(url).is_file()
    system, path = file_system(url)
    return system.exists(path)


def _state(url: str) -> tuple[int, ...]:
    return () if is_remote(url) else array_cache.content_state(Path(url))
