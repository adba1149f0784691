"""A set as the loader's workers hold it: draws in, tensors out, broken images raised or skipped and counted."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from vit_lightning.augment.per_image import Size, Transform
from vit_lightning.data import image_set, images, labels
from vit_lightning.data.image_set import ImageSet
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.data.sampling import BROKEN, IGNORE, Draw
from vit_lightning.errors import InputError
from vit_lightning.seeds import run_seed, seeded

OnError = Literal["raise", "skip", "fix"]
LOOKED_AT = 4
"""Other records that are tried before an error advises to skip a broken one."""
log = logging.getLogger(__name__)


class Skipped:
    """The records of a set that could not be read; all processes that load for one device share them.

    Args:
        size: number of records in the set.
        most: share of them that may be broken.
        split: what the set is for, in messages.
    """

    def __init__(self, size: int, most: float, split: str) -> None:
        self.flags = torch.zeros(size, dtype=torch.bool).share_memory_()
        self.reported = 0  # to the user
        self.most = most
        self.split = split

    @property
    def count(self) -> int:
        """Number of broken records met so far."""
        return int(self.flags.sum())

    def add(self, index: int, error: BrokenImage) -> None:
        """Log a broken record the first time that any process meets it.

        Raises:
            InputError: if it is one too many.
        """
        if self.flags[index]:
            return
        self.flags[index] = True
        log.warning("skipped %s", error)
        self.check()

    def check(self) -> None:
        """Raise InputError if too many records are broken."""
        count, size = self.count, len(self.flags)
        if count / size > self.most:
            raise InputError(
                f"{count} of {size} {self.split} images cannot be read, a larger share than --data.max_broken "
                f"{self.most}; mend or remove those that the log names"
            )


class Records(Dataset[tuple[Tensor, Tensor]]):
    """A set together with its transform.

    Args:
        source: the set.
        transform: from the decoded image to the one that the model sees.
        size: what the transform must end at (y, x).
        num_classes: labels must be below; None: there are no labels.
        split: training, validation or test.
        on_error: what a broken image does. raise: BrokenImage; skip: in training the next readable record of the set
            takes its place, in evaluation a black image whose label is BROKEN; fix: raise, unless it is a JPEG that
            can be shown in part.
        max_broken: share of the records that may be skipped.
        form: channels and values of the images; None: those of the set have theirs already.
        trains: whether the records are trained on; unset: if the split is training, whose images may be evaluated too.
    """

    def __init__(
        self,
        source: ImageSet,
        transform: Transform,
        size: Size,
        num_classes: int | None,
        split: str,
        on_error: OnError = "raise",
        max_broken: float = 0.01,
        form: PixelForm | None = PixelForm(),
        trains: bool | None = None,
    ) -> None:
        self.trains = split == "training" if trains is None else trains
        self.source = source
        self.form = form
        self.transform = transform
        self.size = size
        self.num_classes = num_classes
        self.split = split
        self.strict = on_error != "fix"
        self.skipped = Skipped(len(source), max_broken, split) if on_error == "skip" else None
        self.classes: np.ndarray | None = None
        """Class of each record, where one that cannot be read gives way to another of its class."""
        self.several: bool | None = None  # whether labels are vectors, once one was seen
        self.needs_class = False
        """Whether a vector of labels must name a class."""
        self.seed = run_seed()
        channels, dtype = (form.channels, form.dtype) if form else (None, torch.uint8)
        self.blank = torch.zeros((channels or 3, *size), dtype=dtype), torch.tensor(BROKEN)

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, draw: Draw | int) -> tuple[Tensor, Tensor]:
        """Return one image uint8 or float `(c, y, x)` and its label, int64 `()` or float `(classes)`."""
        if not isinstance(draw, Draw):  # Lightning's overfit_batches brings its own sampler
            draw = Draw(draw, position=draw)
        for index in self.candidates(draw.index) if self.trains else (draw.index,):
            if record := self._load(draw._replace(index=index)):
                return record
        return self.blank

    def draw_equally(self, classes: np.ndarray) -> None:
        """Let a record that cannot be read give way to the next of its class `(n,)`, as long as there is one."""
        self.classes = classes

    def candidates(self, index: int) -> Iterator[int]:
        """Yield a record, and those that may take its place, the next ones first."""
        yield index
        if self.classes is not None:
            same = np.flatnonzero(self.classes == self.classes[index])
            yield from np.roll(same, -1 - int(np.searchsorted(same, index))).tolist()
        yield from ((index + step) % len(self) for step in range(1, len(self)))

    @property
    def keys(self) -> Sequence[Any]:
        """A name per record: the set's own, else its number."""
        return image_set.keys_of(self.source)

    @property
    def blocks(self) -> np.ndarray | None:
        """The set's own blocks, see ImageSet."""
        return image_set.blocks_of(self.source)

    def announce(self, numbers: np.ndarray) -> None:
        """Tell the set which records come soon."""
        image_set.announce(self.source, numbers)

    def reason(self, index: int) -> str:
        """Say why a record cannot be read, by trying once more."""
        try:
            self.load(image_set.record_of(self.source, index)[0], self.name(index))
        except BrokenImage as error:
            return error.reason or error.name
        return ""

    def check(self) -> None:
        """Find wrong labels and shapes before the first step, as far as that is cheap.

        Raises:
            InputError: naming the record, the value and what was expected.
        """
        self.check_labels()
        first = next(filter(None, (self._load(Draw(index, position=index)) for index in range(len(self)))), None)
        if first and not self.trains:
            self.blank = torch.zeros_like(first[0]), torch.full_like(first[1], BROKEN)
        elif not first and self.trains:
            raise InputError(f"none of the {len(self)} training images can be read")

    def check_labels(self) -> None:
        """Find the first wrong label, where the set knows all of them at once."""
        known = image_set.labels_of(self.source)
        if known is not None and known.ndim == 1:
            wrong = ~((known >= 0) & (known < (self.num_classes or 0))) | (known % 1 != 0)
            if self.split != "training" or self.num_classes is None:
                wrong &= known != IGNORE
            wrong[list(getattr(self.source, "faults", ()))] = False  # in memory, of a record that could not be read
            if wrong.any():
                self.label(known[wrong.argmax()], int(wrong.argmax()))

    def _load(self, draw: Draw) -> tuple[Tensor, Tensor] | None:
        """Return a record, or None if it is broken and that is allowed."""
        try:
            image, label = image_set.record_of(self.source, draw.index)
            opened = self._open(image, draw.index)
        except BrokenImage as error:
            if self.skipped is None:
                advice = "; --data.on_error skip goes on without it" * self._others_can_be_read(draw.index)
                raise BrokenImage(error.name, f"{error.reason}{advice}") from error
            if not draw.padding:
                self.skipped.add(draw.index, error)
            return None
        varied = self._vary(opened, draw)
        label = self.label(label, draw.index)
        return varied, torch.full_like(label, IGNORE) if draw.padding else label

    def _others_can_be_read(self, index: int) -> bool:
        """Tell whether most of some other records can be read, without which skipping one would not help."""
        some = np.unique(np.linspace(0, len(self) - 1, LOOKED_AT + 1).astype(int))
        others = [other for other in some.tolist() if other != index]
        return sum(map(self._can_be_read, others)) > len(others) / 2

    def _can_be_read(self, index: int) -> bool:
        try:
            self.load(image_set.record_of(self.source, index)[0], "")
        except InputError:
            return False
        return True

    def load(self, image: Any, name: str) -> Tensor:
        """Return an image of the set as uint8, or float in [0, 1], `(c, y, x)`."""
        return image if self.form is None else images.load(image, name=name, strict=self.strict, form=self.form)

    def _open(self, image: Any, index: int) -> Any:
        """Return the pixels of an image, or raise BrokenImage."""
        with suppress(InputError):
            return self.load(image, "")
        return self.load(image, self.name(index))  # only now does it matter; some sets read it where the image lies

    def _vary(self, pixels: Any, draw: Draw) -> Any:
        """Apply the transform with the random numbers of the draw."""
        with seeded(self.seed, draw.epoch, draw.position):
            pixels = self.transform(pixels)
        if tuple(pixels.shape[-2:]) != self.size:
            raise InputError(
                f"{self.name(draw.index)}: the transform made an image of {tuple(pixels.shape)}, "
                f"but image_size asks for {self.size}"
            )
        return pixels

    def name(self, index: int) -> str:
        """Return what a record is called in messages."""
        return f"{self.split} image {self.keys[index]}"

    def label(self, label: Any, index: int) -> Tensor:
        """Return a label as int64 `()` or float `(classes)`, or raise InputError if it is no such thing."""

        def name() -> str:
            return self.name(index)

        found = labels.checked(label, name, self.num_classes, may_hide=self.split != "training")
        self.several = labels.of_one_kind(found, self.several, name)
        listed = image_set.listed_otherwise(self.source, index, label)
        if listed is not None:
            raise InputError(f"{name()} has the label {labels.shown(label)}, and {labels.listed(listed)}")
        if self.needs_class and found.ndim and not found.any():
            raise InputError(f"{name()} {labels.WITHOUT_CLASS}")
        return found
