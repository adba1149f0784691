"""Shards of images that the verb `prepare` has written, read from a folder, S3, GCS or HTTP."""

import hashlib
import io
import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from lightning.pytorch.utilities import rank_zero_info

from datamodules.reading.chunk_labels import check_labels, read_labels
from datamodules.reading.chunk_records import ChunkRecords
from datamodules.reading.class_map import check_order, doubtful_label
from datamodules.reading.class_map_file import ClassMap, read_class_map
from datamodules.reading.damaged_files import reading, reason
from datamodules.reading.idle_flags import name_idle_fraction
from datamodules.reading.remote_files import RemoteFile, RemoteFiles, cache_folder, content, is_remote, sha256
from datamodules.reading.shared_sequences import Ragged
from datamodules.reading.split_copies import check_shards, shards_that_train
from datamodules.reading.splits import split_folders
from vit_lightning.data import ImageDataModule, chunks
from vit_lightning.data.subsets import hold_out
from vit_lightning.errors import InputError, listing

SPLITS = ("train", "val", "test")
COPY = "copy it again, or run prepare again"


class Shards(ImageDataModule):
    """Images in shards, as the verb `prepare` writes them from any other data, in the chunk format of LitData.

    Under root, a folder or an address (s3://, gs://, https:// and whatever else fsspec knows), lie

        manifest.json
        train/{index.json, chunk-0-0.bin, chunk-0-1.bin, ...}   and likewise val/, test/

    Remote shards are fetched ahead of their use, compared with their checksums, and kept on this machine for the
    next epoch. Every record can be read by its number, so that a run resumes with the very next image, whatever the
    number of workers. Training images from a folder come in any order; remote ones are mixed across about 32
    shards at a time, which wants shards in a random order: `prepare --mix true`. An endpoint and keys come from the
    environment (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID ...). S3 needs `pip install 'vit-lightning[s3]'`, GCS `[gcs]`.

    Sets that LitData's own `optimize` wrote can be read too, if a record is one encoded image (bytes, jpeg, or
    litdata's Image) and a class in a tuple, they are not compressed, and not the Arrow rows that it makes of a dict;
    name their classes in a class_map. MosaicML Streaming's shards (MDS) are refused.

    Args:
        root: folder or address.
        val_fraction: share of the training images held out for validation if there are no val shards; 0: none.
        class_map: text file with one class per line, for a set without a manifest.json.
        cache: folder for remote shards; unset: vit_lightning in the user's cache folder.
        cache_limit: GiB to keep there; what was used longest ago makes room. Unset: everything.
        verify: compare all shards in a folder with their checksums before anything else; the verb doctor always does.
    """

    def __init__(
        self,
        root: str,
        val_fraction: float = 0.1,
        class_map: Path | None = None,
        cache: Path | None = None,
        cache_limit: float | None = None,
        verify: bool = False,
        **kwargs,
    ) -> None:
        super().__init__(root=None if is_remote(str(root)) else Path(root), **kwargs)
        self.address = str(root if self.root is None else self.root).rstrip("/")
        self.val_fraction = val_fraction
        self.class_map = class_map
        self.cache = cache
        self.cache_limit = cache_limit
        self.verify = verify

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @cached_property
    def class_names(self) -> list[str]:
        if self.class_map is not None:
            names = read_class_map(self.class_map)
            if self._manifest.get("classes", names) != names:
                raise InputError(
                    f"--data.class_map {self.class_map} and {self.address}/manifest.json differ in classes; drop it"
                )
            if "classes" not in self._manifest:
                check_order(names, self.address)
            return names
        if "classes" not in self._manifest:
            self._check_whole()
            self._check_layout()
            raise InputError(
                f"{self.address} holds no manifest.json with classes: expected what `prepare --out` has written; give "
                "--data.root, or --data.class_map for a set that LitData wrote"
            )
        classes = self._manifest["classes"]
        if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
            raise InputError(f"{self.address}/manifest.json is damaged: its classes are no list of names; {COPY}")
        if said := doubtful_label(classes):
            self.notice(f"{self.address}: {said}")
        return classes

    @property
    def mending(self) -> str:
        """What to do about records that cannot be read; prepare has written none such."""
        if "classes" not in self._manifest:
            return "remove them, or write the set anew"
        return "remove the damaged shards, which the verb doctor names, and run prepare again"

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        return _read_json(f"{self.address}/manifest.json") or {}

    @cached_property
    def _folders(self) -> dict[str, str]:
        """The folder of each split in a set that LitData wrote, such as valid; a remote place has the plain names."""
        if self._manifest or is_remote(self.address):
            return {}
        return {split: folder.name for split, folder in split_folders(Path(self.address))[0].items()}

    def prepare_data(self) -> None:
        wanted = self.verify or self.faults is not None
        sets = filter(None, map(self._read, SPLITS)) if wanted else ()
        files = [file for found in sets if not found.files.remote for file in found.files]
        whole = [file for file in files if file.sha256 and _state(file) is None]  # setup names the others
        damaged = [file.url for file in whole if sha256(Path(file.url)) != file.sha256]
        if damaged:
            them, are = ("them", "are") if len(damaged) > 1 else ("it", "is")
            self.report(
                InputError(f"{listing(damaged, longest=1000)} {are} damaged; remove {them} and run prepare again")
            )

    def setup(self, stage: str) -> None:
        """Read the sets before their shards are checked: the verb doctor then looks at what there is of them."""
        found = [self._read(split) for split in SPLITS]
        self.train_set, self.val_set, self.test_set = found
        if self.train_set is None and self.val_set is None and self.test_set is None:
            self._check_whole()
            self._check_layout()
            raise InputError(f"{self.address} holds no train, val or test with an index.json; give --data.root")
        name_idle_fraction(self, self.address)
        if self.val_set is None and self.train_set is not None:
            self.train_set, self.val_set = hold_out(self.train_set, self.val_fraction)
        made = self._manifest.get("splits", {}).get("train", {})
        if is_remote(self.address) and made and not made["mixed"]:
            rank_zero_info(
                "the training shards are in the order of their source, and a batch mixes some 32 remote ones; "
                "prepare them with --mix true, or copy them to a folder"
            )
        _check(file for one in found if one is not None for file in one.files)
        is_drawn = found[1] is None and self.val_fraction > 0
        if found[0] is not None and (said := shards_that_train(found[0].files.files, is_drawn)):
            self.notice(said)
        check_shards({split: one.files.files for split, one in zip(SPLITS, found, strict=True) if one is not None})

    def _check_whole(self) -> None:
        """Tell a set that prepare has not finished from a folder that holds none."""
        for split in SPLITS:
            folder = f"{self.address}/{split}"
            begun = content(f"{folder}/{chunks.JOURNAL}") is not None
            shards = any(Path(folder).glob("chunk-*.bin"))
            if begun or (shards and not Path(folder, chunks.INDEX).exists()):
                raise InputError(f"{self.address}: prepare was stopped before its end: run it again")

    def _read(self, split: str) -> ChunkRecords | None:
        made = self._manifest.get("splits", {}).get(split, {})
        folder = f"{self.address}/{made.get('folder', self._folders.get(split, split))}"
        data, labels = (content(f"{folder}/{name}") for name in (chunks.INDEX, chunks.LABELS))
        index = _parsed(f"{folder}/{chunks.INDEX}", data)
        if index is None:
            _check_written(f"{folder}/{chunks.INDEX}", data, made.get("index_sha256"))
            return None
        with reading(f"{folder}/{chunks.INDEX}"):
            found = self._open(folder, index, labels, split)
        _check_written(f"{folder}/{chunks.INDEX}", data, made.get("index_sha256"))
        _check_written(f"{folder}/{chunks.LABELS}", labels, made.get("labels_sha256"))
        return found

    def _open(self, folder: str, index: dict[str, Any], stored: bytes | None, split: str) -> ChunkRecords:
        _refuse_other_layouts(folder, index)
        try:
            layout = chunks.Layout.of(index["config"])
        except ValueError as error:
            raise InputError(f"{folder}/{chunks.INDEX} cannot be read as images with classes: {error}") from error
        ours = [entry for entry in index["chunks"] if "sha256" in entry]
        files = [
            RemoteFile(f"{folder}/{entry['filename']}", entry["chunk_bytes"] if ours else None, entry.get("sha256"))
            for entry in index["chunks"]
        ]
        sizes = [int(entry["chunk_size"]) for entry in index["chunks"]]
        if min(sizes, default=0) < 0:
            raise ValueError(f"a chunk_size of {min(sizes)}")
        kept = _read_labels(f"{folder}/{chunks.LABELS}", stored, sum(sizes))
        labels = None if kept is None else Ragged(kept, np.arange(len(kept) + 1))
        if labels is None and not ours and not is_remote(folder):
            labels = read_labels([Path(file.url) for file in files], layout)
        if labels is not None and not layout.several and len(labels) == sum(sizes):
            kept = labels.values
        remote = RemoteFiles(files, cache_folder(self.cache, self.address), self.cache_limit)
        records = ChunkRecords(remote, sizes, layout, self.num_classes, kept)
        if labels is not None and split == "train" and "classes" not in self._manifest:
            training = set(map(str, np.unique(labels.values).tolist()))
            ClassMap(self.class_map, lambda: training).check_numbers(training, folder)
        if labels is not None and len(labels) == len(records):
            check_labels(labels, layout.several, self.num_classes, folder, records.name, split == "test")
        return records

    def _check_layout(self) -> None:
        """Say what the folder itself holds in place of train, val and test."""
        index = _read_json(f"{self.address}/{chunks.INDEX}")
        if index is not None:
            _refuse_other_layouts(self.address, index)
            raise InputError(
                f"{self.address} itself holds an index.json; move its files into a folder train there, or give "
                "--data.root the folder above"
            )
        for split in SPLITS:
            _refuse_other_layouts(f"{self.address}/{split}", _read_json(f"{self.address}/{split}/{chunks.INDEX}") or {})


def _refuse_other_layouts(folder: str, index: dict[str, Any]) -> None:
    """Name the sets that have an index.json of another kind."""
    if "shards" in index and "chunks" not in index:
        raise InputError(
            f"{folder} holds MosaicML Streaming's shards (MDS), which are not read; write its images to folders, "
            "tars or a table, for ImageFolder, WebShards or Parquet"
        )


def _check_written(url: str, data: bytes | None, digest: str | None) -> None:
    """Refuse a list of shards or labels that is not the one with which the manifest was written."""
    if digest is not None and (data is None or hashlib.sha256(data).hexdigest() != digest):
        state = "is missing" if data is None else "is not the one that prepare has written"
        raise InputError(f"{url} {state}, by the checksum in manifest.json; {COPY}")


def _read_labels(url: str, data: bytes | None, count: int) -> np.ndarray | None:
    """Return the labels beside the shards, None if there are none; nothing in them is unpickled."""
    if data is None:
        return None
    try:
        labels = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{url} is damaged ({reason(error)}); {COPY}") from error
    if not isinstance(labels, np.ndarray) or labels.shape != (count,) or labels.dtype.kind != "i":
        found = f"{labels.dtype} {labels.shape}" if isinstance(labels, np.ndarray) else "an archive"
        raise InputError(f"{url} holds {found}, expected {count} whole numbers; {COPY}")
    return labels


def _read_json(url: str) -> dict[str, Any] | None:
    return _parsed(url, content(url))


def _parsed(url: str, data: bytes | None) -> dict[str, Any] | None:
    try:
        found = None if data is None else json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{url} is damaged: {error}") from error
    if found is not None and not isinstance(found, dict):
        raise InputError(f"{url} is damaged: it is no object; {COPY}")
    return found


def _check(files: Iterable[RemoteFile]) -> None:
    """Find shards in a folder that are missing or incomplete, before the first step."""
    for file in files:
        if is_remote(file.url):
            return
        if state := _state(file):
            removed = "remove it and " if state == "incomplete" else ""
            raise InputError(f"{file.url} is {state}; copy it again, or {removed}run prepare again")


def _state(file: RemoteFile) -> str | None:
    """What a shard in a folder is that does not have its size."""
    local = Path(file.url)
    if not local.is_file():
        return "missing"
    return "incomplete" if file.size not in (None, local.stat().st_size) else None
