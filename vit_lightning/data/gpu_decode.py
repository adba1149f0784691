"""Training images decoded by the device that trains: workers read bytes and draw crops, nvJPEG and one kernel follow.

What a decoder might show otherwise than libjpeg does (see jpeg_headers.py), the worker decodes and cuts itself.
"""

import io
import logging
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning.fabric.utilities import move_data_to_device
from lightning.pytorch.utilities import rank_zero_info
from lightning_utilities.core.apply_func import apply_to_collection
from PIL import Image
from torch import Tensor

from vit_lightning.augment import Augment
from vit_lightning.augment.per_batch import later_steps
from vit_lightning.augment.per_image import Cut, RandomCut, Size
from vit_lightning.data import images
from vit_lightning.data.image_set import ImageSet
from vit_lightning.data.jpeg_headers import plain_sides
from vit_lightning.data.records import Records
from vit_lightning.data.sampling import Draw, columns
from vit_lightning.errors import InputError
from vit_lightning.seeds import StatelessRandom, seeded

log = logging.getLogger(__name__)


class Jpeg(NamedTuple):
    """An image that the device will decode: the file, its height and width, and what is taken of it."""

    data: bytes
    sides: Size
    cut: Cut | None = None


class EncodedBatch:
    """The images of a batch before they are decoded, in few tensors, which is what a worker's queue wants.

    Args:
        records: each a Jpeg, or uint8 pixels `(3, y, x)` that are already cut.
        draws: their draws.
        numbers: what the steps after the crop have drawn.
    """

    def __init__(self, records: Sequence[Jpeg | Tensor], draws: Sequence[Draw], numbers: tuple[Any, ...]) -> None:
        jpegs = [(place, record) for place, record in enumerate(records) if isinstance(record, Jpeg)]
        others = [place for place, record in enumerate(records) if isinstance(record, Tensor)]
        self.draws = draws
        self.numbers = numbers
        data = bytearray().join(jpeg.data for _, jpeg in jpegs)
        self.bytes = torch.frombuffer(data or bytearray(1), dtype=torch.uint8)
        self.lengths = [len(jpeg.data) for _, jpeg in jpegs]
        self.sides = [jpeg.sides for _, jpeg in jpegs]
        self.cuts = torch.tensor([jpeg.cut for _, jpeg in jpegs], dtype=torch.int64)
        self.places = torch.tensor([place for place, _ in jpegs], dtype=torch.int64)
        self.pixels = torch.stack([record for record in records if isinstance(record, Tensor)]) if others else None
        self.other_places = torch.tensor(others, dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.draws)

    def pin_memory(self) -> "EncodedBatch":
        """Put what the device wants where it can fetch it by itself; DataLoader calls this."""
        for name in ("bytes", "pixels", "other_places", "numbers"):
            setattr(self, name, apply_to_collection(getattr(self, name), Tensor, Tensor.pin_memory))
        return self


class EncodedRecords(Records):
    """Training records whose JPEGs stay encoded, a batch at a time. Their cuts are those that `Records` would make.

    Args:
        source: the set.
        cut: the crop and the mirroring.
        settings: what else Records takes.
        augment: the recipe.
    """

    transform: RandomCut

    def __init__(self, source: ImageSet, cut: RandomCut, *settings: Any, augment: Augment) -> None:
        super().__init__(source, cut, *settings)
        self.steps = later_steps(augment, self.size)
        self.on_host = Records(source, cut, *settings)
        self.on_host.skipped = self.skipped

    def __getitems__(self, draws: Sequence[Draw | int]) -> tuple[EncodedBatch, Tensor]:
        """Return a batch and its labels `(b,)` or `(b, classes)`."""
        return self._batch(self, draws)

    def draw_equally(self, classes: np.ndarray) -> None:
        super().draw_equally(classes)
        self.on_host.draw_equally(classes)

    def decoded_on_host(self, draws: Sequence[Draw]) -> tuple[EncodedBatch, Tensor]:
        """Return the same batch with everything decoded on the host, and damaged images treated as the user wants."""
        return self._batch(self.on_host, draws)

    def _batch(self, records: Records, draws: Sequence[Draw | int]) -> tuple[EncodedBatch, Tensor]:
        drawn = [draw if isinstance(draw, Draw) else Draw(draw, position=draw) for draw in draws]
        found, labels = zip(*(records[draw] for draw in drawn), strict=True)
        places = columns(drawn)
        random = StatelessRandom(self.seed, places.epochs, places.positions)
        return EncodedBatch(found, drawn, tuple(step.draw(random) for step in self.steps)), torch.stack(labels)

    def _open(self, image: Any, index: int) -> Jpeg | Tensor:
        if not isinstance(image, images.DECODED):
            data = image if isinstance(image, bytes) else images.read(image, name=self.name(index))
            if sides := plain_sides(data):
                return Jpeg(data, sides)
            image = data
        return super()._open(image, index)

    def _vary(self, opened: Jpeg | Tensor, draw: Draw) -> Jpeg | Tensor:
        if isinstance(opened, Tensor):
            return super()._vary(opened, draw)
        with seeded(self.seed, draw.epoch, draw.position):
            return opened._replace(cut=self.transform.draw(*opened.sides))


class Decoder:
    """Decodes batches of `EncodedRecords` on the device that their labels are on; without an NVIDIA GPU, on the host.

    nvJPEG writes into the memory that torch gives it without waiting for kernels that still read what was there before
    (pytorch/vision pull request 9606). So all of this runs on a stream of its own, whose memory no other stream is
    given, and which has come to its end before the next batch is decoded. The training step goes on meanwhile.

    Args:
        records: where the batches come from.
    """

    def __init__(self, records: EncodedRecords) -> None:
        self.records = records
        self._stream: torch.cuda.Stream | None = None

    def __call__(self, encoded: EncodedBatch, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return uint8 images `(b, 3, y, x)` and labels."""
        device = labels.device
        if device.type != "cuda":
            batch, other_labels = self._decoded(encoded, device)
        else:
            self._stream = self._stream or torch.cuda.Stream(device)
            self._stream.synchronize()
            with torch.cuda.stream(self._stream):
                batch, other_labels = self._decoded(encoded, device)
            current = torch.cuda.current_stream(device)
            current.wait_stream(self._stream)
            batch.record_stream(current)
        return batch, labels if other_labels is None else other_labels.to(device)

    def _decoded(self, encoded: EncodedBatch, device: torch.device) -> tuple[Tensor, Tensor | None]:
        """Return images, and their labels if those changed."""
        labels = None
        try:
            found = _decode(encoded, device)
        except RuntimeError as error:
            if device.type == "cuda":
                torch.cuda.synchronize(device)  # nvJPEG may still write into what it was given
            log.warning("the host decodes a batch that the device cannot: %s", " ".join(str(error).split()))
            encoded, labels = self.records.decoded_on_host(encoded.draws)
            found = []
        batch = self._cut(encoded, found, device)
        numbers = move_data_to_device(encoded.numbers, device)
        for step, its_numbers in zip(self.records.steps, numbers, strict=True):
            batch = step(batch, its_numbers)
        return batch, labels

    def _cut(self, encoded: EncodedBatch, found: list[Tensor], device: torch.device) -> Tensor:
        cut = self.records.transform
        where = device if device.type == "cuda" else torch.device("cpu")
        channels = 3 if encoded.pixels is None else encoded.pixels.shape[1]
        batch = torch.empty((len(encoded), channels, *cut.size), dtype=torch.uint8, device=where)
        if encoded.pixels is not None:
            places, pixels = (each.to(where, non_blocking=True) for each in (encoded.other_places, encoded.pixels))
            batch.index_copy_(0, places, pixels)
        if found and where.type == "cuda" and find_spec("triton"):  # else ten launches for each image
            from vit_lightning.data import gpu_crop

            gpu_crop.cut(found, encoded.cuts, encoded.places, batch, cut.antialias)
        else:
            for image, place, its_cut in zip(found, encoded.places.tolist(), encoded.cuts.tolist(), strict=True):
                batch[place] = cut.apply(image, Cut(*its_cut))
        return batch.to(device)


def conflict(augment: Augment, augment_on_device: bool | None, in_memory: bool | None) -> str | None:
    """Say which setting of a datamodule decoding on the device cannot go with, or return None."""
    if augment.trivial_augment:
        return "augment.trivial_augment varies each image alone, in the loader"
    if augment_on_device is False:
        return "--data.augment_on_device false wants images varied in the loader"
    return "--data.in_memory true decodes the whole set beforehand" if in_memory else None


def check(device: torch.device) -> None:
    """Tell the user if a device cannot decode, or not faster than the loader's workers.

    Raises:
        InputError: if torchvision was built without nvJPEG.
    """
    if device.type != "cuda":
        rank_zero_info(
            f"--data.decode_on_device true without an NVIDIA GPU ({device.type}): the main process decodes what the "
            "loader's workers would have decoded beside the training; leave it out"
        )
        return
    file = io.BytesIO()
    Image.new("RGB", (64, 64)).save(file, "JPEG")
    try:
        with torch.cuda.stream(torch.cuda.Stream(device)):  # see Decoder
            _decode_jpegs([torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)], device)
    except (RuntimeError, ImportError) as error:
        raise InputError(
            f"--data.decode_on_device true: torchvision cannot decode on this GPU ({' '.join(str(error).split())}); "
            "install its wheel for CUDA, or leave the flag away"
        ) from error


def _decode(encoded: EncodedBatch, device: torch.device) -> list[Tensor]:
    """Decode the JPEGs of a batch to uint8 `(3, y, x)` each."""
    if not encoded.lengths:
        return []
    found = _decode_jpegs(list(encoded.bytes.split(encoded.lengths)), device)
    for image, sides in zip(found, encoded.sides, strict=True):
        if image.shape != (3, *sides):
            raise RuntimeError(f"decoding gave {tuple(image.shape)}, the file says {sides}")
    return found


def _decode_jpegs(files: list[Tensor], device: torch.device) -> list[Tensor]:
    from torchvision.io import ImageReadMode, decode_jpeg  # here, since torchvision means to give it to TorchCodec

    return decode_jpeg(files, ImageReadMode.RGB, device if device.type == "cuda" else "cpu")
