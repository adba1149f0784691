"""Images of a class that are called as what belongs to others is: masks, depth maps, previews and copies.

`1_mask.png` is called so beside `1.jpg`, as `depth_1.png` is beside `rgb_1.png`, and `1.png` beside `1.jpg`.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from PIL import Image

from datamodules.reading import folder_names, folder_pairs
from vit_lightning.errors import InputError

OF_FILES = frozenset(
    {"superpixel", "superpixels", "gradcam", "heatmap", "trimap", "fg", "foreground", "contour", "contours"}
    | {"outline", "outlines", "disparity", "binary", "ir"}
)
"""What belongs to images is called so beside these, and hardly a folder of it."""
AT_END = frozenset({"small", "cam", "lesion", "roi", "bg", "background"})
"""Words that say so at the end of a name alone: small_dog_1 may be a small dog, and cam_1 a camera."""
COUNTED = frozenset({"cam"})
"""Such words that say something else with a number: cam2 is a second camera."""
WITH_MORE = frozenset({"attribute"})
"""Words that say so whatever follows, as in attribute_globules."""
SHOWN = folder_names.IMAGE_WORDS | {"color", "colour", "photo", "crop", "cropped", "original", "orig"}
"""Words that images have beside what belongs to them, as in rgb_1 beside depth_1."""
IMAGED = frozenset(
    text for side in folder_names.SIDE_WORDS | OF_FILES for word in SHOWN for text in (f"{side}{word}", f"{word}{side}")
)
"""Words of both written as one, as depthcrop and labelimg."""
FORMATS = {".jpeg": ".jpg", ".jpe": ".jpg", ".jfif": ".jpg", ".tiff": ".tif", ".apng": ".png", ".dib": ".bmp"}
"""Endings of one format, by another of it."""
LOOKED_AT = 8
"""Pairs of images called alike whose sizes are compared."""
IF_IMAGES = "if both are images of the class, list all classes in --data.class_map"


def check(folder: Path, name: str, images: Sequence[str], known: Collection[str] = ()) -> list[str]:
    """Refuse a class with images called as what belongs to others is; say it where these are few.

    Args:
        folder: what holds the class.
        name: its name.
        images: paths of its images under the folder.
        known: names of classes that the user gave, of which it is only said.

    Raises:
        InputError: naming one of these images, and the one that it belongs to.
    """
    return [*_said_of_marks(folder, name, images, name in known), *_said_of_twins(folder, name, images, name in known)]


def _said_of_marks(folder: Path, name: str, images: Sequence[str], is_known: bool) -> list[str]:
    found = _marked(images)
    if not found:
        return []
    side, image = found[0]
    what = f"{folder} holds {side}, called as what belongs to {image} is ({len(found)} such in the class {name})"
    is_common = folder_pairs.SHARED * len(found) >= len(images)
    if is_common and not (is_known or _is_called_so(name, side, image)):
        raise InputError(f"{what}; move these out of the folder; {IF_IMAGES}")
    return [f"{what}, and reads it as an image of the class; if it is none, move it out"]


def _said_of_twins(folder: Path, name: str, images: Sequence[str], is_known: bool) -> list[str]:
    twins = _twins(images)
    if not twins:
        return []
    one, other = twins[0]
    what = f"{folder} holds {one} and {other}, called alike ({len(twins)} such in the class {name})"
    differ = [pair for pair in twins if _format(pair[0]) != _format(pair[1])]
    is_common = 2 * len(differ) >= len(images) - len(differ)
    if is_common and not is_known and _are_of_one_size(folder, differ):
        raise InputError(
            f"{what}, of which one may be a mask or copy of the other; move one of each two out of the folder; "
            f"{IF_IMAGES}"
        )
    return [f"{what}, and reads both; if one is a mask or copy of the other, move it out"]


def _is_called_so(name: str, side: str, image: str) -> bool:
    """Tell whether the name of an image has a word of its class, as mask_1 and 1_mask in the class with_mask.

    Words for images in the other's name, as in img_1, say that 1_mask is none of the class.
    """
    words, called = folder_names.words_of(Path(side).stem), folder_names.words_of(name)
    plain = tuple(folder_names.words_of(Path(image).stem))
    ends = words[:1] if _shown(plain) != plain else (words[0], words[-1])
    return any(_is_side(word) and word in called for word in ends)


def _marked(images: Sequence[str]) -> list[tuple[str, str]]:
    """Return the images whose names are those of others and a side's word, each with the other."""
    text = "\n".join(map(os.path.basename, images)).lower()
    if not any(word in text for word in (*folder_names.SIDE_WORDS, *OF_FILES, *AT_END, *WITH_MORE, "truth")):
        return []  # names are taken apart only where need be
    words = {image: tuple(folder_names.words_of(Path(image).stem)) for image in images}
    plain = {_shown(some): image for image, some in words.items()} | {some: image for image, some in words.items()}
    found = (
        (image, next((plain[rest] for rest in _unmarked(some) if rest in plain), None)) for image, some in words.items()
    )
    return [(image, other) for image, other in found if other]


def _unmarked(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield what is left of a name's words without a side's at its end or beginning, and without those of images."""
    for place in range(1, len(words)):
        before, after = words[:place], words[place:]
        if _is_side(*after) or _is_end(*after):
            yield from filter(None, (before, _shown(before)))
        if _is_side(*before):
            yield from filter(None, (after, _shown(after)))


def _shown(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a name's words without those of images at its end and beginning."""
    first, last = 0, len(words)
    while first < last and words[first] in SHOWN:
        first += 1
    while first < last and words[last - 1] in SHOWN:
        last -= 1
    return words[first:last]


@lru_cache(maxsize=4096)
def _is_side(*words: str) -> bool:
    plain = [word for word in words if word.isalpha()]
    return bool(plain) and (folder_names.is_side(" ".join(plain)) or {*plain} <= OF_FILES | IMAGED)


@lru_cache(maxsize=4096)
def _is_end(*words: str) -> bool:
    plain = [word for word in words if word.isalpha()]
    if not plain or plain[0] != words[0] or (plain[0] in COUNTED and len(plain) < len(words)):
        return False
    return {*plain} <= AT_END or plain[0] in WITH_MORE


def _twins(images: Sequence[str]) -> list[tuple[str, str]]:
    """Return the images that differ in their endings alone, in twos."""
    first: dict[str, str] = {}
    found = []
    for image in images:
        other = first.setdefault(os.path.splitext(image)[0], image)
        if other != image:
            found.append((other, image))
    return found


def _format(image: str) -> str:
    ending = os.path.splitext(image)[1].lower()
    return FORMATS.get(ending, ending)


def _are_of_one_size(folder: Path, pairs: Sequence[tuple[str, str]]) -> bool:
    """Tell whether most of a few pairs of images have one size, as an image and its mask do."""
    some = pairs[:: max(1, len(pairs) // LOOKED_AT)][:LOOKED_AT]
    sizes = [tuple(_size(folder / image) for image in pair) for pair in some]
    return 2 * sum(one == other is not None for one, other in sizes) > len(sizes)


def _size(image: Path) -> tuple[int, int] | None:
    try:
        with Image.open(image) as opened:
            return opened.size
    except (OSError, ValueError, Image.DecompressionBombError):  # it may not be read, and is looked at later
        return None
