"""Labels that a run has trained on and validated by: a checkpoint keeps a digest, and a resumed run is held to it.

Images that were added or removed are no fault. An image that is there still has the label that it had, wherever it
lies, and one that was trained on does not validate.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor

from vit_lightning.data import ImageDataModule
from vit_lightning.data.carried_names import NamedSet, contradiction, named_sets
from vit_lightning.data.image_set import keys_of
from vit_lightning.data.loaders import SPLITS
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError
from vit_lightning.terminal import near
from vit_lightning.training import relabelled
from vit_lightning.training.seen_before import check_unseen
from vit_lightning.training.seen_set import SeenSet

PARTS = {"images", "names", "labels", "all_names", "all_labels", "contents"}
"""What every checkpoint keeps of a set; later ones keep some files and records too."""
USED_BY = {"fit": ("train_set", "val_set"), "validate": ("val_set",), "test": ("test_set",)}
"""Sets whose labels a verb reads."""
ANEW = "put that back, or begin a new run, whose --model.weights may be this checkpoint"


def seen_labels(data: Any) -> dict[str, Any]:
    """Return what a checkpoint keeps of the labels of a fit, as far as they are known without the images.

    Args:
        data: any LightningDataModule.
    """
    if not isinstance(data, ImageDataModule):
        return {}
    sets = {name: SeenSet.of(getattr(data, name)) for name in USED_BY["fit"]}
    names = {
        number: sorted(some) for one in named_sets(data.train_set, "training") for number, some in one.names.items()
    }
    kept = {name: _kept(one) for name, one in sets.items() if one is not None}
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
    said = contradiction(
        type(data).__name__, data.stated_names, [NamedSet("the checkpoint's training set", trained), *sets]
    )
    if said:
        raise InputError(said)
    if verb != "fit":
        return
    now = {name: SeenSet.of(getattr(data, name)) for name in used}
    for name, one in now.items():
        if one is not None and name in then:
            _check_set(then[name], one, SPLITS[name], data.class_names)
            _check_moved(then[name], one, SPLITS[name], data.class_names)
    if "train_set" in then and now["train_set"] is not None and now["val_set"] is not None:
        _check_apart(then, now["train_set"], now["val_set"])


def check_untrained(then: Mapping[str, Any], model: LightningModule) -> None:
    """Refuse to score images that the checkpoint was trained on, of data without training images of their own.

    Other data hold their splits apart by themselves.

    Args:
        then: from `seen_labels`, of the checkpoint.
        model: the model, whose trainer has set up the data.

    Raises:
        InputError: naming such an image.
    """
    trainer = model._trainer
    data = None if trainer is None else trainer.datamodule  # type: ignore[attr-defined]
    if trainer is None or not isinstance(data, ImageDataModule) or data.train_set is not None or not _is_sound(then):
        return
    for name in USED_BY.get(str(trainer.state.fn and trainer.state.fn.value), ()):
        one = SeenSet.of(getattr(data, name))
        found = [] if one is None or "train_set" not in then else relabelled.places_of_trained(then["train_set"], one)
        if found:
            raise InputError(
                f"{keys_of(getattr(data, name))[found[0]]} is among the {SPLITS[name]} images, and the checkpoint was "
                f"trained on it ({len(found)} such are known); leave it out"
            )


def check_seen(then: Mapping[str, Any], model: Any) -> None:
    """Hold the images and labels of a run against all that a checkpoint, or the nets in it, have seen.

    Args:
        then: a checkpoint's facts.
        model: a PretrainedModel, whose trainer has set up the data of the run.

    Raises:
        InputError: see `check_untrained`, `check_labels` and `check_unseen`.
    """
    check_unseen(then.get("seen_before"), model)
    for one in (then.get("seen_labels") or {}, *(then.get("seen_by_members") or [])):
        check_untrained(one, model)
        if model.shifted is None:  # else labels are numbers among other classes, and are matched by name
            check_labels(one, model)


def trained_among(then: Mapping[str, Any], images: Any) -> int:
    """Return how many images of a set, as far as they are kept, a checkpoint was trained on.

    Args:
        then: from `seen_labels`, of the checkpoint; empty: it keeps none.
        images: the set.
    """
    one = SeenSet.of(images) if then and _is_sound(then) and "train_set" in then else None
    if one is None:
        return 0
    trained, here = then["train_set"], one.kept()
    if here["all_labels"] and all(here[what] == trained[what] for what in ("images", "all_names", "all_labels")):
        return len(one)
    return len({*relabelled.places_of_trained(trained, one)})


def check_member(path: str, then: Mapping[str, Any], model: Any) -> None:
    """Hold the data of a run against the split and the labels of a net that answers beside the run's own.

    Args:
        path: the net's checkpoint.
        then: what it keeps of its data; empty: nothing.
        model: see `check_seen`.

    Raises:
        InputError: naming the checkpoint.
    """
    if not then:
        return
    data = model.trainer.datamodule
    split = then.get(type(data).__qualname__)
    try:
        if split is not None and isinstance(data, ImageDataModule):
            data.load_state_dict(split)
        check_seen(then, model)
    except InputError as error:
        raise InputError(f"{near(path)}: {error}") from None


def _kept(one: SeenSet) -> dict[str, Any]:
    return {**one.kept(), "files": relabelled.kept_files(one), "records": relabelled.kept_records(one)}


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
        if len({len(some) for some in lists}) != 1 or not isinstance(kept.get("records", {}), Mapping):
            return False
        files = kept.get("files")
        if files is not None and not (isinstance(files, Tensor) and files.dtype == torch.int64 and files.ndim == 2):
            return False
        if files is not None and len(files) != relabelled.COLUMNS:
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
    unnamed = names is None and then["names"] is None and not now.is_in_any_order
    by_place = same_size and unnamed and len(then["labels"]) == len(now.sample)
    if by_name or by_place:
        places = now.places_of(then["names"].numpy()) if by_name else now.sample
        known = places >= 0
        before, after = then["labels"].numpy()[known], now.labels(places[known])
        if len(changed := np.flatnonzero(before != after)):
            first = changed[places[known][changed].argmin()]
            place, count = int(places[known][first]), f"{len(changed)} of {known.sum()}"
            raise _other_label(now, place, split, (before[first], after[first]), class_names, count)
        if same_size and here["all_names"] == then["all_names"] and here["all_labels"] != then["all_labels"]:
            raise InputError(f"{split} images have other labels than when the checkpoint was written: {ANEW}")
    if not same_size:
        rank_zero_info(f"differs from the checkpoint: {split} images: {then['images']} -> {here['images']}")
    elif here["all_names"] != then["all_names"]:
        rank_zero_info(f"differs from the checkpoint: names or order of {split} images")


def _check_moved(then: Mapping[str, Any], now: SeenSet, split: str, class_names: list[str]) -> None:
    """Refuse an image of a set that has another label, and another name or number."""
    files = then.get("files")
    found = [] if files is None else [relabelled.relabelled_files(files, now)]
    for changes in (*found, relabelled.relabelled_records(then.get("records", {}), now)):
        if changes.places:
            place, count = changes.places[0], f"{len(changes.places)} of {changes.compared}"
            labels = changes.before[0], int(now.labels(np.array([place]))[0])
            raise _other_label(now, place, split, labels, class_names, count)


def _other_label(
    now: SeenSet, place: int, split: str, labels: tuple[int, int], class_names: list[str], count: str
) -> InputError:
    old, new = (_class(label, class_names) for label in labels)
    return InputError(
        f"{split} image {keys_of(now.images)[place]} has {new}, and had {old} when the checkpoint was written "
        f"({count} images that were compared): {ANEW}"
    )


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


def _class(number: int, class_names: list[str]) -> str:
    """Say which class a number stands for; the hash of a vector stands for several."""
    if not 0 <= number < len(class_names):
        return "other labels" if number != IGNORE else "no label"
    name = class_names[number]
    return f"the label {number}" + f" ({name!r:.60})" * (name != str(number))
