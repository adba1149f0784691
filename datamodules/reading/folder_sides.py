"""Folders of masks, previews and the like beside images, which would train as a class of their own or in one."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from datamodules.reading import folder_names, folder_pairs
from datamodules.reading.image_files import files_below, is_image
from vit_lightning.errors import InputError

Stems = Mapping[str, Collection[str]]
"""Names of images without their endings, by folder."""


def check(folder: Path, classes: Sequence[str]) -> None:
    """Refuse a folder called as what belongs to images is, if its images are called as those of other folders are.

    Args:
        folder: what holds the classes.
        classes: their names.

    Raises:
        InputError: naming the folder.
    """
    sides, owned = _sides(classes), folder_names.sides_of_classes(classes)
    if not (sides or owned):
        return
    stems = _stems(folder, classes)
    paired = [side for side in owned if not _is_own(stems, side, owned)]
    alike = [side for side in sides if not (_is_apart(stems, side) or _counts_alone(stems, side))]
    if found := (alike + paired)[:1]:
        raise InputError(
            f"{folder} holds the folder {found[0]}, which is called as what belongs to images is, not as a class; move "
            f"it out of {folder}; if it is a class, list all classes in --data.class_map"
        )


def check_inside(folder: Path, name: str, images: Sequence[str], known: Collection[str] = ()) -> list[str]:
    """Refuse a class whose folder holds a folder of masks, or the like, beside images.

    Args:
        folder: what holds the class.
        name: its name.
        images: paths of its images under the folder.
        known: names of classes that the user gave, of which it is only said.

    Raises:
        InputError: naming what holds the masks.
    """
    places = sorted({os.path.dirname(image) for image in images})
    inside = {place: place.removeprefix(name).strip("/").split("/") for place in places}
    aside = [place for place, parts in inside.items() if any(map(folder_names.is_side, parts))]
    others = [place for place in places if place not in aside]
    if not (aside and others):
        return []
    named = any(folder_names.is_image_word(part) for place in others for part in inside[place])
    plain = [place for place in aside if named or any(map(folder_names.is_plain_side, inside[place]))]
    found = plain or _alike(images, others, aside)
    if not found:
        return []
    what = (
        f"{folder} holds {found[0]} beside other images of the class {name}, which is called as what belongs to images "
        "is, and not as images"
    )
    if name not in known:
        raise InputError(
            f"{what}; move it out; if it holds images of the class, rename it, or list all classes in --data.class_map"
        )
    return [f"{what}, and is read; if it holds no images of the class, move it out"]


def aside(folder: Path, classes: Sequence[str], known: Collection[str] = ()) -> str | None:
    """Say which class is called as what belongs to images is, and is read since its images belong to no others.

    Args:
        folder: what holds the classes.
        classes: their names.
        known: names of classes that the user gave.
    """
    if set(classes) <= set(known):
        return None
    kinds = folder_names.parts_of_a_set(classes)[1:]
    sides, owned = kinds or _sides(classes), folder_names.sides_of_classes(classes)
    if len(sides) == len(classes):
        return None  # classes such as label_0 and label_1, without images that they could belong to
    stems = _stems(folder, classes) if sides or owned else {}
    sides = [*sides, *(side for side in owned if not _are_apart(stems[owned[side]], stems[side]))]
    for side in sides:
        is_apart = side not in owned and _is_apart(stems, side)
        may_be_class = side not in (*kinds, *owned) and not folder_names.is_plain_side(side)
        if may_be_class and (is_apart or _is_class(stems, side)):
            continue
        why = "its images are called otherwise than those beside it" if is_apart else "each folder counts its own"
        return (
            f"{folder / side} is called as what belongs to images is, and is read as a class, since {why}; if it is no "
            f"class, move it out of {folder}; if it is one, list all classes in --data.class_map"
        )
    return None


def _is_class(stems: Stems, side: str) -> bool:
    """Tell whether a folder that counts its own images is a class such as edge.

    Masks of one other folder may be counted as its images are, but not as those of several, nor after their own.
    """
    return folder_names.is_also_a_thing(side) and (
        len(stems) > 2 or {_words(stem) for stem in stems[side]} == {_words(side)}
    )


def lies_apart(folder: Path, side: str, classes: Sequence[str]) -> bool:
    """Tell whether hardly any image in a folder is called as one in the others is."""
    return _is_apart(_stems(folder, classes), side)


def _sides(classes: Sequence[str]) -> list[str]:
    return folder_names.sides_beside(classes) + folder_names.doubtful_sides(classes)


def _stems(folder: Path, classes: Sequence[str]) -> Stems:
    return {name: {Path(file).stem for file in files_below(folder, name) if is_image(file)} for name in classes}


def _is_apart(stems: Stems, side: str) -> bool:
    images = set().union(*(found for name, found in stems.items() if name != side))
    return _are_apart(images, stems[side])


def _are_apart(images: Collection[str], sides: Collection[str]) -> bool:
    return bool(sides) and folder_pairs.are_apart(images, sides)


def _is_own(stems: Stems, side: str, owned: Mapping[str, str]) -> bool:
    """Tell whether a folder is a class although another's name is part of its own, as Edge-Loc is beside Loc.

    Its images are called otherwise; or both count anew, and its name begins with a word that tells classes apart, or it
    has numbers that the other lacks, since masks have an image each; or all classes count alike, of which most have no
    such folder.

    Args:
        stems: the names of images in each folder.
        side: the folder.
        owned: the class for each such folder.
    """
    owner = owned[side]
    if _are_apart(stems[owner], stems[side]):
        return True
    others = [name for name in stems if name not in owned]
    if folder_names.PLAIN_SIDES & {*folder_names.words_of(side)} or not all(
        _is_counted(stems, name) for name in (side, owner)
    ):
        return False
    numbers = {name: _numbers([stem.removeprefix(name) for stem in stems[name]]) for name in (side, *others)}
    if folder_pairs.SHARED * len(numbers[side] - numbers[owner]) >= len(numbers[side]):
        return True
    alike = [numbers[name] for name in others if _is_counted(stems, name)]
    if folder_names.is_described(side) and (len(alike) == 1 or _are_shared(alike)):
        return True
    is_usual = len(alike) == len(others) > 2 * len(owned) and _are_shared(alike)
    return is_usual and folder_names.may_describe(side)


def _is_counted(stems: Stems, name: str) -> bool:
    """Tell whether the images of a folder have nothing but numbers beside its name or a word for images."""
    words = {_words(stem) for stem in stems[name]}
    return all(some in ("", _words(name)) or folder_names.is_image_word(some) for some in words)


def _counts_alone(stems: Stems, side: str) -> bool:
    """Tell whether each folder counts its own images, as helmets_0 and masks_0, so that equal numbers say nothing."""
    forms = {name: {re.sub("[0-9]+", "#", stem.lower()) for stem in found} for name, found in stems.items()}
    others = [name for name in stems if name != side]
    if any(len(found) != 1 for found in forms.values()):
        return False
    if len(others) > 1 and not _are_shared([_numbers(stems[name]) for name in others]):
        return False  # images counted through all classes, whose numbers masks have
    words = {name: _words(*found) for name, found in forms.items()}
    owners = [name for name in others if words[name] and _words(name).startswith(words[name])]
    if words[side] in {words[name] for name in owners} and not _words(side).startswith(words[side]):
        return False  # called as those of one class are, as a_0 is in the class a
    if folder_names.is_plain_side(side):
        return all(some == _words(name) for name, some in words.items())
    return len(others) > 1 or all(some in ("", _words(name)) for name, some in words.items())


def _are_shared(names: Sequence[Collection[str]]) -> bool:
    """Tell whether more than a few names stand in several of some sets."""
    count = sum(map(len, names))
    return folder_pairs.SHARED * (count - len(set().union(*names))) >= count


def _numbers(stems: Collection[str]) -> set[str]:
    return {" ".join(number.lstrip("0") for number in re.findall("[0-9]+", stem)) for stem in stems}


def _words(name: str) -> str:
    """Return the words of a name without numbers and the plural's letter."""
    return " ".join(word.removesuffix("s") for word in re.findall(r"[^\W\d_]+", name.lower()))


def _alike(images: Sequence[str], others: Sequence[str], aside: Sequence[str]) -> list[str]:
    """Return the folders that hold images called as those of others are, unless all are called alike."""
    stems: dict[str, set[str]] = {}
    for image in images:
        stems.setdefault(os.path.dirname(image), set()).add(Path(image).stem)
    if len(others) > 1 and _are_shared([stems[place] for place in others]):
        return []
    known = set().union(*(stems[place] for place in others))
    return [place for place in aside if not _are_apart(known, stems[place])]
