"""Labels that a run has trained on and validated by: a checkpoint keeps a digest, and a resumed run is held to it.

Images that were added or removed are no fault. An image that is there still has the label that it had, and one that was
trained on does not validate.
"""

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from hashlib import blake2b
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor

from vit_lightning.data import ImageDataModule
from vit_lightning.data.carried_names import NamedSet, contradiction, named_sets
from vit_lightning.data.image_set import blocks_of, keys_of, labels_of, record_of
from vit_lightning.data.images import read
from vit_lightning.data.loaders import SPLITS
from vit_lightning.data.sampling import IGNORE
from vit_lightning.data.subsets import Subset
from vit_lightning.errors import InputError
from vit_lightning.seeds import seeded

SAMPLE = 4096
"""Images of a set whose labels are kept one by one; of larger sets the others are in a digest."""
MOST_NAMED = 2**19
"""Images of a set up to which all names are looked at, which takes a second or two; beyond, their order stands."""
OPENED = 8
"""Images of a set whose files are looked at, so that folders that were exchanged are seen where names are the same."""
PARTS = {"images", "names", "labels", "all_names", "all_labels", "contents"}
"""What a checkpoint keeps of a set."""
USED_BY = {"fit": ("train_set", "val_set"), "validate": ("val_set",), "test": ("test_set",)}
"""Sets whose labels a verb reads."""
ANEW = "put that back, or begin a new run, whose --model.weights may be this checkpoint"


class SeenSet:
    """A set of which all labels are at hand without its images.

    Args:
        images: the set.
        label_at: gives the label of a record.
    """

    def __init__(self, images: Any, label_at: Callable[[int], Any]) -> None:
        self.images = images
        self.label_at = label_at

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def names(self) -> np.ndarray | None:
        """A hash of each image's name `(n,)`; None: the images have none of their own, or too many to look at."""
        keys = keys_of(self.images)
        if len(self) > MOST_NAMED or _lie_in_records(keys) or isinstance(keys[0], int | np.integer):
            return None
        return np.fromiter((_hash(_portable(str(keys[index]))) for index in range(len(self))), np.int64, len(self))

    @cached_property
    def sample(self) -> np.ndarray:
        """Numbers of the images that are kept one by one; any of unique names, the same ones in every order."""
        if self.names is None:
            return np.unique(np.linspace(0, len(self) - 1, SAMPLE).astype(np.int64))
        _, first, times = np.unique(self.names, return_index=True, return_counts=True)
        return first[times == 1][:SAMPLE]

    def labels(self, places: np.ndarray) -> np.ndarray:
        """Return labels as numbers; a vector's is a hash."""
        return np.array([_number(self.label_at(int(place))) for place in places], np.int64)

    def places_of(self, names: np.ndarray) -> np.ndarray:
        """Return where images of these hashes are, -1 for those that are not here or here twice."""
        assert self.names is not None
        there, first, times = np.unique(self.names, return_index=True, return_counts=True)
        found = np.searchsorted(there, names).clip(max=len(there) - 1)
        return np.where((there[found] == names) & (times[found] == 1), first[found], -1)

    @cached_property
    def contents(self) -> dict[int, int]:
        """A hash of the file of some images, by the hash of their name; of images that are files or encoded alone."""
        if self.names is None or blocks_of(self.images) is not None:  # what has blocks is slow to read, as from afar
            return {}
        found = {}
        with seeded(0):  # a foreign set may draw
            for place in self.sample[:OPENED].tolist():
                if (content := _content(self.images, place)) is not None:
                    found[int(self.names[place])] = content
        return found

    def content_of(self, name: int) -> int | None:
        """Return the hash of the file of an image, by the hash of its name; None: it is not here."""
        place = int(self.places_of(np.array([name]))[0])
        return None if place < 0 else _content(self.images, place)

    def kept(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, in plain types and tensors."""
        names, listed = self.names, labels_of(self.images)
        return {
            "images": len(self),
            "names": None if names is None else torch.from_numpy(names[self.sample]),
            "labels": torch.from_numpy(self.labels(self.sample)),
            "all_names": "" if names is None else _digest(names),
            "all_labels": "" if listed is None or listed.ndim != 1 else _digest(listed.astype(np.int64)),
            "contents": self.contents,
        }


def seen_labels(data: Any) -> dict[str, Any]:
    """Return what a checkpoint keeps of the labels of a fit, as far as they are known without the images.

    Args:
        data: any LightningDataModule.
    """
    if not isinstance(data, ImageDataModule):
        return {}
    sets = {name: _seen(getattr(data, name)) for name in USED_BY["fit"]}
    names = {
        number: sorted(some) for one in named_sets(data.train_set, "training") for number, some in one.names.items()
    }
    kept = {name: one.kept() for name, one in sets.items() if one is not None}
    return {"class_names": names, **kept} if names else kept


def check_labels(then: Mapping[str, Any], model: LightningModule) -> None:
    """Hold the labels of a run against those that its checkpoint was trained with.

    Args:
        then: from `seen_labels`, of the checkpoint; empty: it is older.
        model: the model, whose trainer has set up the data of the run; a model without a trainer has none.

    Raises:
        InputError: a label means another class, an image has another label, or a trained one validates.
    """
    if not _is_sound(then):
        raise InputError("the checkpoint is damaged: its seen_labels are not those of a set; give another checkpoint")
    trainer = model._trainer  # the attribute without the underscore raises where there is none
    if trainer is None:
        return
    data, verb = trainer.datamodule, trainer.state.fn  # type: ignore[attr-defined]
    used = USED_BY.get(str(verb and verb.value), ())
    if not then or not used or not isinstance(data, ImageDataModule):
        return
    trained = {number: frozenset(names) for number, names in then.get("class_names", {}).items()}
    sets = [one for name in used for one in named_sets(getattr(data, name), SPLITS[name])]
    said = contradiction(type(data).__name__, [], [NamedSet("the checkpoint's training set", trained), *sets])
    if said:
        raise InputError(said)
    if verb != "fit":
        return
    now = {name: _seen(getattr(data, name)) for name in used}
    for name, one in now.items():
        if one is not None and name in then:
            _check_set(then[name], one, SPLITS[name], data.class_names)
    if "train_set" in then and now["train_set"] is not None and now["val_set"] is not None:
        _check_apart(then, now["train_set"], now["val_set"])


def _is_sound(then: Any) -> bool:
    """Tell whether this is what `seen_labels` returns."""
    if not isinstance(then, Mapping):
        return False
    names, sets = then.get("class_names", {}), [then[name] for name in USED_BY["fit"] if name in then]
    if not isinstance(names, Mapping) or not all(isinstance(some, list) for some in names.values()):
        return False
    for kept in sets:
        if not isinstance(kept, Mapping) or not kept.keys() >= PARTS:
            return False
        if not isinstance(kept["images"], int) or not isinstance(kept["contents"], Mapping):
            return False
        lists = [kept["labels"], *([] if kept["names"] is None else [kept["names"]])]
        if not all(isinstance(some, Tensor) and some.ndim == 1 and some.dtype == torch.int64 for some in lists):
            return False
        if len({len(some) for some in lists}) != 1:
            return False
    return True


def _check_set(then: Mapping[str, Any], now: SeenSet, split: str, class_names: list[str]) -> None:
    """Refuse an image of a set that has another label; print that there are other images."""
    names = now.names
    here = now.kept()
    same_size = here["images"] == then["images"]
    if all(here[what] == then[what] for what in ("images", "all_names", "all_labels")) and here["all_labels"]:
        return
    by_name = names is not None and then["names"] is not None
    by_place = same_size and names is None and then["names"] is None and len(then["labels"]) == len(now.sample)
    if by_name or by_place:
        places = now.places_of(then["names"].numpy()) if by_name else now.sample
        known = places >= 0
        before, after = then["labels"].numpy()[known], now.labels(places[known])
        if len(changed := np.flatnonzero(before != after)):
            first = changed[places[known][changed].argmin()]
            place = int(places[known][first])
            old, new = (_class(labels[first], class_names) for labels in (before, after))
            raise InputError(
                f"{split} image {keys_of(now.images)[place]} has {new}, and had {old} when the checkpoint was written "
                f"({len(changed)} of {known.sum()} images that were compared): {ANEW}"
            )
        if same_size and here["all_names"] == then["all_names"] and here["all_labels"] != then["all_labels"]:
            raise InputError(f"{split} images have other labels than when the checkpoint was written: {ANEW}")
    if not same_size:
        rank_zero_info(f"differs from the checkpoint: {split} images: {then['images']} -> {here['images']}")
    elif here["all_names"] != then["all_names"]:
        rank_zero_info(f"differs from the checkpoint: names or order of {split} images")


def _check_apart(then: Mapping[str, Any], train: SeenSet, val: SeenSet) -> None:
    """Refuse images that were trained on and now validate; names are those inside each split's own folder."""
    trained, validated = (_names_in(then, name) for name in USED_BY["fit"])
    if _are_exchanged(then, train, val):
        raise InputError(f"validation images are those that were trained on before the checkpoint was written: {ANEW}")
    if trained is None or train.names is None or val.names is None:
        return
    if validated is not None:
        if then["val_set"]["images"] > len(validated):  # it has the least of all hashes
            trained = trained[trained <= validated.max(initial=np.iinfo(np.int64).min)]
        trained = trained[~np.isin(trained, validated)]
    moved = trained[np.isin(trained, val.names) & ~np.isin(trained, train.names)]
    if len(moved):
        place = int(np.flatnonzero(np.isin(val.names, moved))[0])
        raise InputError(
            f"{keys_of(val.images)[place]} is a validation image, and was trained on before the checkpoint was written "
            f"({len(moved)} such): {ANEW}"
        )


def _are_exchanged(then: Mapping[str, Any], train: SeenSet, val: SeenSet) -> bool:
    """Tell whether two sets have changed places, where names do not tell it."""
    before = [(then[name]["images"], then[name]["all_labels"]) for name in USED_BY["fit"] if name in then]
    now = [(kept["images"], kept["all_labels"]) for kept in (train.kept(), val.kept())]
    if train.names is None and before == now[::-1] and before[0] != before[-1]:
        return True
    if train.names is None or val.names is None:
        return False
    files = then["train_set"]["contents"].items()
    return any(content == val.content_of(name) != train.content_of(name) for name, content in files)


def _names_in(then: Mapping[str, Any], name: str) -> np.ndarray | None:
    names = then[name]["names"] if name in then else None
    return None if names is None else names.numpy()


def _seen(images: Any) -> SeenSet | None:
    label_at = None if images is None or not len(images) else _label_reader(images)
    return None if label_at is None else SeenSet(images, label_at)


def _label_reader(images: Any) -> Callable[[int], Any] | None:
    """Return what gives a record's label without reading its image; None: nothing does."""
    listed = labels_of(images)
    if listed is not None:
        return listed.__getitem__
    if isinstance(images, Subset):
        inner = _label_reader(images.source)
        return None if inner is None else lambda place: inner(int(images.indices[place]))
    return getattr(images, "label_at", None)


def _content(images: Any, place: int) -> int | None:
    """Return a hash of the file of an image, None of any other image."""
    try:
        image = record_of(images, place)[0]
        data = read(image, name="") if isinstance(image, str | Path) else image
    except Exception:  # whoever loads the image says why it cannot be read
        return None
    return int.from_bytes(blake2b(data, digest_size=8).digest(), signed=True) if isinstance(data, bytes) else None


def _lie_in_records(keys: Any) -> bool:
    """Tell whether names can be had from the records alone."""
    return _lie_in_records(keys.source) if isinstance(keys, Subset) else getattr(keys, "lie_in_records", False)


def _portable(name: str) -> str:
    """Return a name that stays when the data move; of a whole path, the file and its folder."""
    return "/".join(PurePath(name).parts[-2:]) if os.path.isabs(name) else name


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), signed=True)


def _digest(numbers: np.ndarray) -> str:
    return blake2b(np.ascontiguousarray(numbers), digest_size=16).hexdigest()


def _number(label: Any) -> int:
    values = np.asarray(label)
    return int(values) if values.ndim == 0 else _hash(",".join(f"{value:.6g}" for value in values.tolist()))


def _class(number: int, class_names: list[str]) -> str:
    """Say which class a number stands for; the hash of a vector stands for several."""
    if not 0 <= number < len(class_names):
        return "other labels" if number != IGNORE else "no label"
    name = class_names[number]
    return f"the label {number}" + f" ({name!r:.60})" * (name != str(number))
