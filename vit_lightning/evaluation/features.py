"""Features of whole sets of images: collected batch by batch, and kept in files that know their net and their set."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from vit_lightning.data.image_set import ImageSet, keys_of, labels_of
from vit_lightning.errors import InputError
from vit_lightning.files import remove, written

FORMAT = "1"
"""Of the files; those of another format are computed anew."""


SEVERAL = (
    "the images have several labels each, and a probe scores images of one class; give data with a class per image"
)


class DamagedFile(Exception):  # noqa: N818
    """A file of features that cannot be taken, and whose features must be computed anew."""


@dataclass(frozen=True)
class FeatureSet:
    """Features of a set's images, in the set's order.

    Args:
        features: float32 `(n, d)`.
        labels: int64 `(n,)`; negative where an image could not be read, or has no label.
    """

    features: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def numbers(self) -> Tensor:
        """Numbers, in the set, of the images that count."""
        return (self.labels >= 0).nonzero()[:, 0]

    def labelled(self) -> "FeatureSet":
        """Return the images that count."""
        numbers = self.numbers
        return self if len(numbers) == len(self) else FeatureSet(self.features[numbers], self.labels[numbers])


class Collector:
    """Takes the features of a set as they come, in its order; the padding behind the last image is cut off.

    What comes is moved to the host when the next batch is there, so that a device need not wait for it.

    Args:
        images: number of images in the set.
        keeps: whether features are kept; else they are only counted, as by all processes but one.
    """

    def __init__(self, images: int, keeps: bool = True) -> None:
        self.images, self.done, self.keeps = images, 0, keeps
        self._waiting: tuple[Tensor, Tensor] | None = None
        self._features: Tensor | None = None
        self._labels = torch.empty(images, dtype=torch.int64)

    @property
    def came(self) -> int:
        """Images that came, those that wait included."""
        return min(self.images, self.done + (len(self._waiting[1]) if self._waiting else 0))

    def add(self, features: Tensor, labels: Tensor) -> None:
        """Take features `(b, d)` and labels `(b,)` of the next images.

        Raises:
            InputError: images have several labels.
        """
        if labels.ndim != 1:
            raise InputError(SEVERAL)
        self._take()
        self._waiting = features, labels

    def result(self) -> FeatureSet:
        """Return what came."""
        self._take()
        assert self._features is not None and self.done == self.images, "not all images came"
        return FeatureSet(self._features, self._labels)

    def _take(self) -> None:
        if self._waiting is None:
            return
        (features, labels), self._waiting = self._waiting, None
        rows = slice(self.done, min(self.done + len(labels), self.images))
        self.done = rows.stop
        if not self.keeps:
            return
        if self._features is None:
            self._features = torch.empty((self.images, features.shape[1]))
        count = rows.stop - rows.start
        self._features[rows] = features[:count].float().cpu()
        self._labels[rows] = labels[:count].cpu()


def check_finite(found: FeatureSet, split: str, images: ImageSet) -> None:
    """Refuse features that are NaN or infinite, which no probe can use.

    Raises:
        InputError: naming the first image.
    """
    numbers = found.numbers
    bad = numbers[~found.features[numbers].isfinite().all(1)]
    if len(bad):
        raise InputError(
            f"the features of {len(bad):,} of {len(found):,} {split} images are not finite, first of "
            f"{keys_of(images)[int(bad[0])]}; the weights are damaged or overflow in this --trainer.precision, which "
            "32-true would show"
        )


def net_digest(net: nn.Module, facts: Mapping[str, Any]) -> str:
    """Return what stands for a net's features: all its tensors but the head's, its config, and how images are seen.

    Args:
        net: the net.
        facts: what else its features depend on, in plain values.
    """
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode())
    head = set(getattr(net, "head_names", ())) | {name for name in net.state_dict() if name.startswith("head.")}
    for name, tensor in sorted(net.state_dict().items()):
        if name not in head:
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(_bytes(tensor))
    return digest.hexdigest()


def set_digest(images: ImageSet, looked_at: Tensor, facts: Mapping[str, Any]) -> str:
    """Return what stands for a set: the name and label of every image, and some images themselves.

    Args:
        images: the set.
        looked_at: some of its images as the net sees them, which shows that files have changed under their names.
        facts: what else tells it from others, in plain values.
    """
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode())
    digest.update(_bytes(looked_at))
    labels, keys = labels_of(images), keys_of(images)
    digest.update(b"" if labels is None else labels.tobytes())
    for number in range(len(images)):
        digest.update(f"{keys[number]}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


class FeatureCache:
    """Files of features in a folder, named after their net and their set.

    Args:
        folder: the folder, made when the first file is written.
        net: digest of the net.
    """

    def __init__(self, folder: Path, net: str) -> None:
        self.folder, self.net = folder, net

    def path(self, split: str, images: str) -> Path:
        """Return the file of a set."""
        return self.folder / f"{split}-{self.net[:12]}-{images[:12]}.safetensors"

    def read(self, split: str, images: str) -> FeatureSet | None:
        """Return the features of a set, or None if there is no file of it.

        Args:
            split: what the set is for.
            images: digest of the set.

        Raises:
            InputError: the file holds features of another net or set than its name says.
            DamagedFile: it is damaged.
        """
        path = self.path(split, images)
        if not path.is_file():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                facts = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
            if facts.get("format") != FORMAT or facts.get("content") != _content(tensors):
                raise DamagedFile(f"{path} does not hold what was written")
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            raise DamagedFile(f"{path} cannot be read") from error
        if (facts["net"], facts["set"]) != (self.net, images):
            other = "net" if facts["net"] != self.net else "set of images"
            raise InputError(f"{path} holds the features of another {other}; remove it, or give another --cache")
        return FeatureSet(tensors["features"], tensors["labels"])

    def write(self, split: str, images: str, found: FeatureSet) -> Path:
        """Keep the features of a set, whole or not at all, in place of what is there."""
        path = self.path(split, images)
        tensors = {"features": found.features.contiguous(), "labels": found.labels}
        facts = {"format": FORMAT, "net": self.net, "set": images, "content": _content(tensors)}
        remove(path)
        with written(path) as place:
            save_file(tensors, place, facts)
        return path


def _content(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in ("features", "labels"):
        digest.update(_bytes(tensors[name]))
    return digest.hexdigest()


def _bytes(tensor: Tensor) -> memoryview:
    """Return the bytes of a tensor, in the order of its entries."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data
