"""One pass over a set: what every image is, without keeping any."""

import hashlib
import io
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from einops import rearrange
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from vit_lightning.commands.doctor.likeness import Print, Prints, fingerprint
from vit_lightning.data import images, labels
from vit_lightning.data.image_set import keys_of, listed_otherwise, record_of
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.data.sampling import IGNORE
from vit_lightning.data.window_fit import Windowed, lie
from vit_lightning.data.workers import shield_worker
from vit_lightning.errors import InputError

CHUNK = 32
"""Images that a worker examines before it reports."""
DEEP = "16 bits"
"""What images of more than 8 bits are called."""


class RecordFacts(NamedTuple):
    """What examining one record showed."""

    fault: str = ""
    """Why its image cannot be read."""
    damage: str = ""
    """Why it can be read in part only."""
    classes: tuple[int, ...] = ()
    sides: tuple[int, int] = (0, 0)
    digest: int = 0
    """Hash of the pixels."""
    oddities: tuple[str, ...] = ()
    mislabelled: str = ""
    """What is wrong with its label, beside numbers of classes that do not exist."""
    peak: int = 0
    """Greatest value of more than 8 bits, where no window maps them."""
    scaled: str = ""
    """Why its values are hardly the raw counts that the window maps."""
    print: Print | None = None
    """What tells pictures that look the same."""
    windowed: Windowed | None = None


@dataclass
class Survey:
    """What a set holds; arrays have an entry per record.

    Args:
        split: training, validation or test.
        keys: a name per record.
        classes: hash of the classes that a record shows, for comparisons.
        counts: number of records per class; one that shows several counts in each.
        outside: class numbers that do not exist, by record.
        mislabelled: what else is wrong with labels, by record.
        sides: height and width.
        digests: hash of the pixels.
        faults: why records cannot be read.
        damages: why records can be read in part only.
        oddities: records by what is odd about them.
        peaks: greatest values of records of more than 8 bits, where no window maps them.
        scaled: why the values of records are hardly the raw counts that the window maps.
        window: what maps values of more than 8 bits.
        windowed: how the values of records of more than 8 bits lie to it.
        class_sets: the classes that a hash in `classes` stands for.
        prints: what tells pictures that look the same; None: they are not compared.
    """

    split: str
    keys: Sequence[Any]
    classes: np.ndarray
    counts: np.ndarray
    sides: np.ndarray
    digests: np.ndarray
    outside: dict[int, int] = field(default_factory=dict)
    mislabelled: dict[int, str] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)
    damages: dict[int, str] = field(default_factory=dict)
    oddities: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    peaks: dict[int, int] = field(default_factory=dict)
    scaled: dict[int, str] = field(default_factory=dict)
    window: tuple[float, float] | None = None
    windowed: dict[int, Windowed] = field(default_factory=dict)
    class_sets: dict[int, tuple[int, ...]] = field(default_factory=dict)
    prints: Prints | None = None

    def __len__(self) -> int:
        return len(self.digests)

    @property
    def readable(self) -> np.ndarray:
        """Whether each record can be read."""
        readable = np.ones(len(self), dtype=bool)
        readable[list(self.faults)] = False
        return readable


def survey(
    source: Any,
    split: str,
    num_classes: int,
    num_workers: int = 0,
    advance: Callable[[int], object] = lambda done: None,
    form: PixelForm = PixelForm(),
    needs_class: bool = False,
) -> Survey:
    """Look at every record of a set.

    Args:
        source: the set, as a datamodule holds it.
        split: what it is for.
        num_classes: class numbers must be below; 0: the images are unlabelled.
        num_workers: processes that examine.
        advance: called with the number of records that were examined since the last call.
        form: channels and values of the images that the run asks for.
        needs_class: whether a vector of labels must name a class.
    """
    size = len(source)
    keys = keys_of(source)
    hashes, digests, sides = np.zeros(size, np.int64), np.zeros(size, np.uint64), np.zeros((size, 2), np.int32)
    found = Survey(split, keys, hashes, np.zeros(num_classes, np.int64), sides, digests, prints=Prints(size))
    found.window = form.window
    records = _ExaminedRecords(source, keys, num_classes, split != "training", form, needs_class)
    for start, batch in _examined(records, num_workers):
        for index, facts in enumerate(batch, start):
            _note(found, index, facts)
        advance(len(batch))
    return found


def _examined(records: "_ExaminedRecords", num_workers: int) -> Iterator[tuple[int, list[RecordFacts]]]:
    workers = min(num_workers, len(records) // CHUNK)
    loader = DataLoader(records, batch_size=CHUNK, num_workers=workers, collate_fn=list, worker_init_fn=shield_worker)
    start = 0
    for batch in loader:
        yield start, batch
        start += len(batch)


def _note(found: Survey, index: int, facts: RecordFacts) -> None:
    if facts.fault:
        found.faults[index] = facts.fault
        return
    if facts.damage:
        found.damages[index] = facts.damage
    found.sides[index] = facts.sides
    found.digests[index] = facts.digest
    found.classes[index] = hash(facts.classes)
    if facts.peak:
        found.peaks[index] = facts.peak
    if facts.scaled:
        found.scaled[index] = facts.scaled
    if facts.windowed:
        found.windowed[index] = facts.windowed
    found.class_sets[hash(facts.classes)] = facts.classes
    if facts.print is not None and found.prints is not None:
        found.prints[index] = facts.print
    for label in facts.classes:
        if 0 <= label < len(found.counts):
            found.counts[label] += 1
        else:
            found.outside[index] = label
    if facts.mislabelled:
        found.mislabelled[index] = facts.mislabelled
    for oddity in facts.oddities:
        found.oddities[oddity].append(index)


class _ExaminedRecords(Dataset[RecordFacts]):
    def __init__(
        self,
        source: Any,
        keys: Sequence[Any],
        num_classes: int,
        may_hide: bool,
        form: PixelForm = PixelForm(),
        needs_class: bool = False,
    ) -> None:
        self.source = source
        self.keys = keys
        self.num_classes = num_classes
        self.may_hide = may_hide
        self.form = form
        self.needs_class = needs_class

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> RecordFacts:
        key = str(self.keys[index])
        return examine(self.source, index, key, self.num_classes, self.may_hide, self.form, self.needs_class)


def examine(
    source: Any,
    index: int,
    key: str,
    num_classes: int = 0,
    may_hide: bool = True,
    form: PixelForm = PixelForm(),
    needs_class: bool = False,
) -> RecordFacts:
    """Read one record and say what it is.

    Args:
        source: the set.
        index: the record's number.
        key: its name.
        num_classes: class numbers must be below; 0: labels are not looked at.
        may_hide: whether its label may be hidden.
        form: channels and values of the images that the run asks for.
        needs_class: whether a vector of labels must name a class.
    """
    damage = ""
    try:
        image, label = record_of(source, index)
        file = ""  # shards keep the names of what they were made of, whose endings say nothing
        if isinstance(image, str | Path):
            file, image = key, images.read(image, name=key)
        try:
            pixels = images.load(image, name=key, form=form)
        except BrokenImage as error:
            damage = error.reason
            pixels = images.load(image, name=key, strict=False, form=form)
    except BrokenImage as error:
        return RecordFacts(error.reason or error.name)
    except InputError as error:
        return RecordFacts(str(error).removeprefix(f"{key}: "))
    digest = hashlib.blake2b(repr(pixels.shape).encode(), digest_size=8)
    digest.update(rearrange(pixels, "c y x -> y x c").contiguous().numpy())
    odd = oddities(image, file) if isinstance(image, bytes) else ()
    classes, mislabelled = _classes(label, num_classes, may_hide) if num_classes else (classes_of(label), "")
    if num_classes and not mislabelled:
        mislabelled = _wrong_in_its_set(source, index, label, needs_class)
    peak = _peak(image, key) if form.window is None else 0
    hashed, sides = int.from_bytes(digest.digest()), tuple(pixels.shape[1:])
    scaled, windowed = _in_window(image, key, form)
    same = fingerprint(pixels)
    return RecordFacts("", damage, classes, sides, hashed, odd, mislabelled, peak, scaled, same, windowed)


def _peak(image: Any, key: str) -> int:
    """Return the greatest value of an encoded image of more than 8 bits, 0 of any other."""
    values = images.deep_values(image, name=key) if isinstance(image, bytes | Image.Image) else None
    return 0 if values is None or values.dtype.kind == "f" else int(values.max())


def _in_window(image: Any, key: str, form: PixelForm) -> tuple[str, Windowed | None]:
    """Say why the values of an image are hardly the raw counts that a window maps, if so, else how they lie to it."""
    values = None if form.window is None else images.deep_values(image, name=key)
    if values is None or form.window is None or not values.size:
        return "", None
    if form.is_scaled(values):
        return form.scaled(values), None
    return "", lie(values, form.window)


def _classes(label: Any, num_classes: int, may_hide: bool) -> tuple[tuple[int, ...], str]:
    """Return the classes that a label names, and what is wrong with it beside numbers that do not exist."""
    try:
        return classes_of(labels.checked(label, str, num_classes, may_hide)), ""
    except InputError as error:
        is_number = isinstance(label, int | np.integer) and label != IGNORE
        return (classes_of(label), "") if is_number else ((), str(error).strip())


def _wrong_in_its_set(source: Any, index: int, label: Any, needs_class: bool) -> str:
    """Say why a label that is one cannot be this record's in this run."""
    if (listed := listed_otherwise(source, index, label)) is not None:
        return f"has the label {labels.shown(label)}, and {labels.listed(listed)}"
    values = np.asarray(label)
    return labels.WITHOUT_CLASS if needs_class and values.ndim and not values.any() else ""


def classes_of(label: Any) -> tuple[int, ...]:
    """Return the classes that a label names: one number, or the places of a vector that are set."""
    if isinstance(label, int | np.integer):  # a tensor does not hold every number
        return () if label == IGNORE else (int(label),)
    label: Tensor = torch.as_tensor(label)
    if label.ndim:
        return tuple(torch.nonzero(label > 0.5).flatten().tolist())
    return () if label == IGNORE else (int(label),)


def oddities(data: bytes, file: str) -> tuple[str, ...]:
    """Say what is unusual about an encoded image that can be read; loading it takes care of each."""
    try:
        image = Image.open(io.BytesIO(data))
    except Image.UnidentifiedImageError:
        return ("bands beyond Pillow's",)
    by_name = Image.registered_extensions().get(Path(file).suffix.lower(), image.format)
    kinds = {
        f"{image.format} under another ending": image.format not in (by_name, "MPO"),
        "CMYK": image.mode == "CMYK",
        DEEP: image.mode.startswith("I"),
        "transparent": image.has_transparency_data,
        "several frames": getattr(image, "n_frames", 1) > 1,
        "turned by EXIF": images.orientation(image) != 1,
    }
    return tuple(oddity for oddity, here in kinds.items() if here)
