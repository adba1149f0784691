"""A set on its way into shards: read and resized by many processes, written by one, and gone on with after a stop."""

import base64
import hashlib
import io
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from einops import rearrange
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.v2 import functional as F

from vit_lightning.data import chunks, images, labels
from vit_lightning.data.image_set import ImageSet, keys_of, label_of, labels_of, record_of
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.data.records import OnError
from vit_lightning.data.sampling import IGNORE
from vit_lightning.data.workers import shield_worker
from vit_lightning.errors import InputError
from vit_lightning.processes import end_children, is_program

LISTED = ("filename", "chunk_size", "chunk_bytes", "sha256")
"""What the index says of a shard."""
HEADER = {"images", "digest"}
"""What the first line of a journal says at least."""
ENTRY = {*LISTED, "skipped", "sides", "labels", "shard"}
"""What each further line of it says of a shard."""
TOTALS = {"images": "chunk_size", "skipped": "skipped", "bytes": "chunk_bytes"}
"""What the manifest adds up over the shards."""
ENCODED_CHANNELS = (1, 3, 4)
"""Channels that JPEG or PNG hold."""
BATCH = 32
"""Images that a worker does before it hands them over."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Form:
    """How images are stored.

    Args:
        short_side: larger images are resized to that many pixels, antialiased, and become JPEG; None: none is.
        quality: JPEG's; None: every image becomes an uncompressed PPM.
        shard_images: records per shard.
    """

    short_side: int | None
    quality: int | None
    shard_images: int

    def encode(
        self, image: Any, name: str, repair: bool = False, pixel_form: PixelForm = PixelForm()
    ) -> tuple[bytes, tuple[int, int]]:
        """Return an image as it is stored, and its sides (y, x). Decoded ones that are not resized become PNG.

        Args:
            image: what a set holds.
            name: what to call it in an error.
            repair: keep the visible part of a damaged JPEG; else it raises BrokenImage.
            pixel_form: channels and values that the run asks for. Those of four channels become PNG.

        Raises:
            InputError: neither JPEG nor PNG holds such pixels.
        """
        data = None if isinstance(image, images.DECODED) else image
        data = images.read(data, name=name) if isinstance(data, str | Path) else data
        try:
            pixels = images.load(data or image, name=name, form=pixel_form)
        except BrokenImage:
            if not repair:
                raise
            pixels, data = images.load(data or image, name=name, strict=False, form=pixel_form), None
        resized = self.short_side is not None and min(pixels.shape[1:]) > self.short_side
        if (resized or self.quality is None or data is None) and not _can_be_encoded(pixels):
            raise InputError(
                f"{name} has {len(pixels)} channels of {str(pixels.dtype).removeprefix('torch.')}, which JPEG and PNG "
                "do not hold; give --short_side null and a --quality, which keep the bytes of files"
            )
        if resized:
            pixels = F.resize(pixels, [self.short_side], antialias=True)
        if len(pixels) == 4 and (resized or self.quality is None):
            data = _png(pixels)
        elif self.quality is None:
            data = images.pixmap(pixels if len(pixels) == 3 else images.load(_png(pixels), name=name))
        elif resized:
            data = _jpeg(pixels, self.quality)
        return data or _png(pixels), tuple(pixels.shape[1:])


class Packed(NamedTuple):
    """One record, ready to be written."""

    item: bytes
    label: int | None
    """None: there may be several."""
    sides: tuple[int, int]


class Encoding(Dataset):
    """Records of a set as they are stored, or what is wrong with them.

    Args:
        source: the set.
        num_classes: labels must be below.
        form: how images are stored.
        on_error: see Records.
        may_hide: whether labels may be hidden, as those of test images.
        pixel_form: channels and values that the run asks for.
    """

    def __init__(
        self,
        source: ImageSet,
        num_classes: int,
        form: Form,
        on_error: OnError,
        may_hide: bool = False,
        pixel_form: PixelForm = PixelForm(),
    ) -> None:
        self.source = source
        self.keys = keys_of(source)
        self.num_classes = num_classes
        self.form = form
        self.on_error = on_error
        self.pixel_form = pixel_form
        self.may_hide = may_hide

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, number: int) -> Packed | InputError:
        try:
            name = str(self.keys[number])
            image, label = record_of(self.source, number)
            classes = self._classes(label, name)
            data, sides = self.form.encode(image, name, self.on_error == "fix", self.pixel_form)
        except InputError as error:  # raised in a worker it would reach the user with the worker's traceback
            return error
        return Packed(chunks.item(data, classes, name), None if isinstance(classes, np.ndarray) else classes, sides)

    def _classes(self, label: Any, name: str) -> int | np.ndarray:
        """Return the class or the classes that a label stands for, IGNORE where they are hidden."""
        found = labels.checked(label, lambda: name, self.num_classes, self.may_hide)
        if not found.is_floating_point():
            return int(found)
        if self.may_hide and (found == IGNORE).all():
            return np.array([IGNORE], np.int32)
        if not ((found == 0) | (found == 1)).all():
            raise InputError(f"{name} has a label of {tuple(found.shape)} that is not a 0 or 1 for each class")
        return np.flatnonzero(found.numpy()).astype(np.int32)


class Packing:
    """A set to be written to a folder.

    Args:
        encoding: the set.
        folder: where its shards go.
        workers: processes that read and resize.
        max_broken: share of the images that may be left out with on_error skip.
    """

    def __init__(self, encoding: Encoding, folder: Path, workers: int, max_broken: float) -> None:
        self.encoding = encoding
        self.folder = folder
        self.workers = workers
        self.max_broken = max_broken
        size, step = len(encoding), encoding.form.shard_images
        self.spans = [range(start, min(start + step, size)) for start in range(0, size, step)]
        folder.mkdir(parents=True, exist_ok=True)
        self.done = self._read_journal()

    @property
    def images_done(self) -> int:
        """Images whose shard is finished."""
        return sum(len(self.spans[number]) for number in self.done)

    def run(self, advance: Callable[[int], Any]) -> dict[str, Any]:
        """Write what is missing.

        Args:
            advance: called with the number of images that were read since the last call.

        Returns:
            Facts about the whole set.
        """
        missing = [number for number in range(len(self.spans)) if number not in self.done]
        batches = _Batches([self.spans[number] for number in missing])
        loader = DataLoader(
            self.encoding,
            batch_sampler=batches,
            num_workers=min(self.workers, len(batches)),
            collate_fn=list,
            worker_init_fn=shield_worker,
        )
        stream = iter(loader)
        try:
            for number in missing:
                records = []
                for batch in islice(stream, -(-len(self.spans[number]) // BATCH)):
                    records += [record for record in batch if self._is_good(record)]
                    advance(len(batch))
                self._write(number, records, len(self.spans[number]))
        except BaseException:
            if is_program():
                end_children()  # one that died may hold what the others wait for
            raise
        finally:
            del stream  # ends the workers now; an error that is on its way would hold on to them
        return self._finish()

    def _is_good(self, record: Packed | InputError) -> bool:
        if isinstance(record, BrokenImage):
            if self.encoding.on_error != "skip":
                raise InputError(f"{record}; --data.on_error skip goes on without it")
            log.warning("left out %s", record)
        elif isinstance(record, InputError):
            raise record
        return isinstance(record, Packed)

    def _write(self, number: int, records: Sequence[Packed], wanted: int) -> None:
        file = self.folder / f"chunk-0-{number}.bin"
        classes = [record.label for record in records]
        several = classes[:1] == [None]
        if any((label is None) != several for label in classes):
            raise InputError(f"{file}: some images have one class and some a vector of them; a set must have one kind")
        entry = {
            "filename": file.name,
            "chunk_size": len(records),
            "sha256": chunks.write(file, [record.item for record in records]),
            "chunk_bytes": file.stat().st_size,
            "skipped": wanted - len(records),
            "sides": np.sum([record.sides for record in records], axis=0, dtype=int).tolist() if records else [0, 0],
            "labels": None if several else base64.b85encode(np.array(classes, dtype="<i4").tobytes()).decode(),
        }
        self._add(entry | {"shard": number})
        self.done[number] = entry
        skipped, size = sum(entry["skipped"] for entry in self.done.values()), len(self.encoding)
        if skipped / size > self.max_broken:
            raise InputError(
                f"{skipped} of {size} images cannot be read, a larger share than --data.max_broken {self.max_broken}; "
                "mend or remove those that the log names"
            )

    def _finish(self) -> dict[str, Any]:
        entries = [self.done[number] for number in range(len(self.spans))]
        several = any(entry["labels"] is None for entry in entries)
        listed = [{name: entry[name] for name in LISTED} for entry in entries if entry["chunk_size"]]
        digests = {}
        if not several:
            classes = np.concatenate([np.frombuffer(base64.b85decode(entry["labels"]), "<i4") for entry in entries])
            content = io.BytesIO()
            np.save(content, classes)
            digests["labels_sha256"] = chunks.put(self.folder / chunks.LABELS, [content.getvalue()])
        digests["index_sha256"] = chunks.put(self.folder / chunks.INDEX, [chunks.index(listed, several).encode()])
        totals = {name: sum(entry[of] for entry in entries) for name, of in TOTALS.items()}
        sides = np.sum([entry["sides"] for entry in entries], axis=0) // max(1, totals["images"])
        return {"folder": self.folder.name, **totals, "mean_size": sides.tolist(), **digests}

    def _read_journal(self) -> dict[int, dict[str, Any]]:
        """Return the shards that are finished and still there.

        Raises:
            InputError: if they are of another set, or have another form.
        """
        now = {"images": len(self.encoding), "digest": self._digest(), **asdict(self.encoding.form)}
        now |= {"channels": self.encoding.pixel_form.channels or 3}
        file = self.folder / chunks.JOURNAL
        text = file.read_text(errors="surrogateescape") if file.exists() else ""
        whole = text[: text.rfind("\n") + 1]  # a stop may have cut off the last line
        if whole != text:
            chunks.put(file, [whole.encode(errors="surrogateescape")])
        lines = [_entry(line, file, number) for number, line in enumerate(whole.splitlines(), start=1)]
        if not lines:
            self._add(now)
            return {}
        for name, then in ({"channels": 3} | lines[0]).items():
            if then != now.get(name):
                what = "of images with other names or labels" if name == "digest" else f"with {name} {json.dumps(then)}"
                raise InputError(
                    f"{self.folder} holds shards {what}{f', not {json.dumps(now[name])}' * (name != 'digest')}; "
                    "remove it or give another --out"
                )
        found = {entry.pop("shard"): entry for entry in lines[1:]}
        return {number: entry for number, entry in found.items() if self._is_whole(number, entry)}

    def _is_whole(self, number: int, entry: dict[str, Any]) -> bool:
        file = self.folder / entry["filename"]
        return number in range(len(self.spans)) and file.is_file() and file.stat().st_size == entry["chunk_bytes"]

    def _add(self, line: dict[str, Any]) -> None:
        with (self.folder / chunks.JOURNAL).open("a") as opened:
            opened.write(json.dumps(line) + "\n")

    def _written(self, number: int) -> str:
        """Return a label, which may be a vector, as text."""
        try:
            label = np.asarray(label_of(self.encoding.source, number))
        except InputError:  # raised once more where the image is packed
            return "none\n"
        places = np.flatnonzero(label)
        return f"{label.shape}{places.tolist()}{label.flat[places].tolist()}\n"

    def _digest(self) -> str:
        """Return a checksum of the names and the labels, in their order."""
        digest = hashlib.sha256()
        for key in self.encoding.keys:
            digest.update(f"{key}\n".encode(errors="surrogateescape"))
        classes = labels_of(self.encoding.source)
        if classes is not None:
            digest.update(np.asarray(classes, dtype=np.int64).tobytes())
            return digest.hexdigest()
        for number in range(len(self.encoding)):
            digest.update(self._written(number).encode())
        return digest.hexdigest()


def _entry(line: str, file: Path, number: int) -> dict[str, Any]:
    """Read one line of the journal: first what is packed, then a line per shard."""
    try:
        found = json.loads(line)
        complete = found.keys() >= (HEADER if number == 1 else ENTRY)
    except (ValueError, RecursionError, AttributeError):
        complete = False
    if not complete:
        remedy = f"remove {file.parent}" if number == 1 else "remove that line: its shard is then made anew"
        raise InputError(f"line {number} of {file} is damaged; {remedy}, and run prepare again")
    return found


class _Batches:
    """Numbers of records, a batch at a time, no batch being of two spans."""

    def __init__(self, spans: Sequence[range]) -> None:
        self.spans = spans

    def __len__(self) -> int:
        return sum(-(-len(span) // BATCH) for span in self.spans)

    def __iter__(self) -> Iterator[range]:
        for span in self.spans:
            for start in range(0, len(span), BATCH):
                yield span[start : start + BATCH]


def _can_be_encoded(pixels: Tensor) -> bool:
    return pixels.dtype == torch.uint8 and len(pixels) in ENCODED_CHANNELS


def _jpeg(pixels: Tensor, quality: int) -> bytes:
    from simplejpeg import encode_jpeg

    gray = len(pixels) == 1
    array = np.ascontiguousarray(rearrange(pixels, "c y x -> y x c").numpy())
    return encode_jpeg(array, quality, "GRAY" if gray else "RGB", "Gray" if gray else "420")


def _png(pixels: Tensor) -> bytes:
    content = io.BytesIO()
    pattern = "1 y x -> y x" if len(pixels) == 1 else "c y x -> y x c"
    Image.fromarray(rearrange(pixels, pattern).numpy()).save(content, "PNG")
    return content.getvalue()
