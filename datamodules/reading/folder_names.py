"""What folders are called that are parts of a set of images, and not classes: splits, folds, masks and the like.

A name is taken apart into words: `trainA` is train and A, `images_test-2` is images, test and 2. A name such as train
station has a split's word too, so that names count together: they are parts of a set where all of them, but for what
lies beside images, have such a word and equal words beside it.
"""

import re
from collections.abc import Collection, Sequence
from itertools import pairwise

from datamodules.reading.splits import SHORT, SPLIT_OF

SPLIT_WORDS = SPLIT_OF | SHORT
PART_WORDS = frozenset(
    {"fold", "split", "set", "subset", "partition", "dataset", "batch", "chunk", "shard", "part", "session"}
)
IMAGE_WORDS = frozenset(
    {"images", "image", "imgs", "img", "pictures", "photos", "jpegimages", "rgb", "inputs", "input"}
)
UNLABELLED = frozenset(
    {"unlabelled", "unlabeled", "unannotated", "unsupervised", "unsup", "nolabel", "nolabels", "nolabeled"}
)
"""What images without a class are called."""
PLAIN_SIDES = UNLABELLED | frozenset(
    {"masks", "labels", "annotations", "annots", "segmentations", "trimaps", "heatmaps", "groundtruth"}
    | {"bbox", "bboxes", "thumbnails", "thumbnail"}
)
"""What lies beside images, and is called as hardly any class is."""
SIDE_WORDS = PLAIN_SIDES | frozenset(
    {"mask", "label", "annotation", "anno", "annos", "segmentation", "seg", "segm", "edges", "edge", "depth", "depths"}
    | {
        "gt",
        "maps",
        "targets",
        "target",
        "boxes",
        "nir",
        "infrared",
        "thermal",
        "thumb",
        "thumbs",
        "preview",
        "previews",
    }
    | {"overlay", "overlays", "saliency", "pred", "preds", "prediction", "predictions"}
)
DESCRIBING = frozenset({"edge", "depth", "gt", "target", "label", "thermal", "infrared", "thumb"})
"""Such words that tell classes apart as well, as in Edge-Loc, depth camera and Ford GT."""
THINGS = frozenset({"edge", "mask", "thumb", "target", "label", "boxes", "maps", "thermal", "infrared"})
"""Such words that classes are called as well."""
KINDS = frozenset({"class", "object", "instance", "instances", "semantic"})
"""Words beside those of sides that say what these show, as in SegmentationClass."""
FORM_WORDS = IMAGE_WORDS | {
    "original",
    "originals",
    "resized",
    "augmented",
    "cropped",
    "jpg",
    "jpeg",
    "png",
    "webp",
    "bmp",
    "tif",
    "tiff",
}
"""What folders are called that hold the same images in several sizes or formats."""
TREATED = FORM_WORDS | {"raw", "processed", "preprocessed", "enhanced", "filtered"}
"""What folders of the same images are called beside a word for images, as Raw Images is."""
BYSTANDERS = frozenset({"extra", "others", "rest"})
"""What lies beside splits, and may be anything."""
LACKING = frozenset({"no", "not", "non", "without"})
LABELLED = frozenset({"label", "labels", "labeled", "labelled", "annotation", "annotations", "annotated", "supervised"})
"""Words that say with one of LACKING that images have no class."""
TO_BE = frozenset({"to", "be"})
STORES = frozenset({"pool", "more", "sample", "samples", "unused", "raw", "new", "todo"})
"""Words beside those that say that images have no class, as in unlabelled_pool."""
AFFIXES = IMAGE_WORDS | SIDE_WORDS | PART_WORDS | BYSTANDERS | {"sets", "data", "folder", "dir"}
"""Words that say nothing more about a part of a set."""
LETTERS = re.compile(r"[a-zA-Z]+|[^\W\d_a-zA-Z]+|\d+")
HUMP = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
SINGLE = re.compile("[a-z]")
NUMBERED = re.compile("([a-z]?)([0-9]+)(?:[-_.][0-9]+)*([a-z]{0,3})")
"""Names that are a number, with one letter before it or a unit after it."""
YEAR = re.compile("(19|20)[0-9]{2}")
FUSED = ("training", "train", "testing", "test", "validation", "valid", "val", "fold", "split")
"""Words of splits that others are written together with, as in trainset and xtest."""


def parts_of_a_set(names: Sequence[str]) -> Sequence[str]:
    """Return two of some folders' names that are called as parts of a set are, none if they are no such names."""
    words = {name: words_of(name) for name in names}
    parts = [name for name in names if _has_part(words[name])]
    asides = [name for name in names if name not in parts and is_side(name)]
    others = [name for name in names if name not in parts and (is_side(name) or _is_of(name, BYSTANDERS))]
    if len(parts) > 1 and len(parts) + len(others) == len(names) and len({_stem(words[name]) for name in parts}) == 1:
        return parts[:2]
    if len(names) > 1 and all(IMAGE_WORDS & {*words[name]} for name in names) and any(map(split_alone, names)):
        return names[:2]
    images = [name for name in names if is_image_word(name)]
    asides += [name for name in names if name not in (*asides, *images) and PLAIN_SIDES & {*words[name]}]
    if images and asides and len(images) + len(asides) == len(names):
        return [images[0], asides[0]]
    are_images = any(not IMAGE_WORDS.isdisjoint(words[name]) for name in names)
    if len(names) > 1 and all(_is_of(name, TREATED if are_images else FORM_WORDS) for name in names):
        return names[:2]
    return _pair(words)


def sides_beside(names: Sequence[str]) -> list[str]:
    """Return the names of what lies beside images, among those of classes."""
    return list(filter(is_plain_side, names)) if len(names) > 1 else []


def doubtful_sides(names: Sequence[str]) -> list[str]:
    """Return the names of what may lie beside images or be a class, as mask may; not of mask beside no_mask."""
    words = {name: {*words_of(name)} for name in names}
    lacking = [some - LACKING for some in words.values() if some & LACKING]
    found = [name for name in names if is_side(name) and not is_plain_side(name)]
    return [name for name in found if words[name] - {"with"} not in lacking] if len(names) > 1 else []


def sides_of_classes(names: Sequence[str]) -> dict[str, str]:
    """Return the class that each name adds a side's word to, as cat_masks does to cat."""
    words = {name: tuple(words_of(name)) for name in names}
    plain = {some: name for name, some in words.items()}
    found = {name: tuple(word for word in some if word not in SIDE_WORDS) for name, some in words.items()}
    return {name: plain[rest] for name, rest in found.items() if rest in plain and rest != words[name]}


def may_describe(name: str) -> bool:
    """Tell whether the words of sides in the name of a class may tell it from others."""
    return SIDE_WORDS & {*words_of(name)} <= DESCRIBING


def is_also_a_thing(name: str) -> bool:
    """Tell whether the name of what may lie beside images is that of a class as well, as mask and thumb are."""
    return _is_of(name, THINGS)


def is_described(name: str) -> bool:
    """Tell whether a name begins with such a word and ends with another, as Edge-Loc; masks are rather Loc-Edge."""
    words = [word for word in words_of(name) if not word.isdigit()]
    return len(words) > 1 and words[0] in DESCRIBING and SIDE_WORDS.isdisjoint(words[1:])


def unlabelled_beside(names: Sequence[str]) -> str | None:
    """Return the name of a folder of images without a class, among those of classes.

    A folder no_label beside a folder label is a class.
    """
    are_shown = any(set(words_of(name)) - {"with"} in ({"label"}, {"labels"}) for name in names)
    found = [name for name in names if _is_unlabelled(name) and not (are_shown and _lacks_label(words_of(name)))]
    return found[0] if found and len(names) > 1 else None


def may_be_kinds(names: Sequence[str]) -> bool:
    """Tell whether folders called as parts of a set may as well be kinds of images, as rgb and thermal are."""
    return any("rgb" in words_of(name) for name in names) and not any(map(is_plain_side, names))


def split_alone(name: str) -> str | None:
    """Return the split that a name stands for without saying anything else, None if it does not."""
    words = words_of(name)
    return None if _stem(words) else next((SPLIT_WORDS[word] for word in words if word in SPLIT_WORDS), None)


def is_side(name: str) -> bool:
    """Tell whether a name is that of what may lie beside images."""
    return is_plain_side(name) or (_is_of(name, SIDE_WORDS | KINDS) and not _is_of(name, KINDS))


def is_plain_side(name: str) -> bool:
    """Tell whether a name is that of what lies beside images, and hardly of a class."""
    return _is_of(name, PLAIN_SIDES) or words_of(name) == ["ground", "truth"]


def is_image_word(name: str) -> bool:
    """Tell whether a name says that there are images and nothing else."""
    return _is_of(name, IMAGE_WORDS)


def is_initial_of(name: str, inner: Collection[str]) -> bool:
    """Tell whether a name is the letter that words begin with, as a is of abbey; not of A_1."""
    words = [words_of(each)[:1] for each in inner]
    return len(name) == 1 and all(word and len(word[0]) > 1 and word[0][0] == name.lower() for word in words)


def may_be_class(name: str) -> bool:
    """Tell whether a folder inside another may be a class: it is called neither by a number nor as images are."""
    return not name.replace("-", "").replace("_", "").isdigit() and not is_image_or_side(name)


def is_image_or_side(name: str) -> bool:
    """Tell whether a name says that there are images, or what may lie beside images, and nothing else."""
    return _is_of(name, IMAGE_WORDS | SIDE_WORDS)


def _is_unlabelled(name: str) -> bool:
    """Tell whether a name says that images have no class, and nothing else of them."""
    words = words_of(name)
    lacks = bool(UNLABELLED & {*words}) or _lacks_label(words)
    return lacks and not _stem([word for word in words if word not in LACKING | LABELLED | STORES | TO_BE])


def _lacks_label(words: Sequence[str]) -> bool:
    """Tell whether words have one such as no before one such as label, or are to label or to be labelled."""
    is_to_do = list(words[:1]) == ["to"] and not {*words} - TO_BE - LABELLED
    return is_to_do or any(one in LACKING and other in LABELLED for one, other in pairwise(words))


def are_numbered(same: Collection[str], either: Collection[str]) -> bool:
    """Tell whether folders that two classes share are called by numbers, and hardly as classes are.

    As 2019 and 2020, 40x and 100x, or p1 and p2 are. Classes are numbered from 0; those with a letter, as f15 and f16
    are, from anywhere.

    Args:
        same: names in both.
        either: names in one of them or both.
    """
    plain = [name for name in same if not is_image_word(name)]
    found = [NUMBERED.fullmatch(name.lower()) for name in plain]
    forms = {(match[1], match[3]) for match in found if match}
    all_numbers = {int(match[2]) for name in either if (match := NUMBERED.fullmatch(name.lower()))}
    if not all(found) or len(forms) != 1 or (len(plain) > 1 and 0 in all_numbers):
        return False
    return not next(iter(forms))[0] or 1 in all_numbers


def _is_of(name: str, known: frozenset[str]) -> bool:
    words = [word for word in words_of(name) if not word.isdigit()]
    return bool(words) and set(words) <= known


def words_of(name: str) -> list[str]:
    """Return the words of a name, in small letters."""
    found: list[str] = []
    for letters in LETTERS.findall(name):
        whole = _divided(letters.lower())
        is_known = len(whole) > 1 or whole[0] in SPLIT_WORDS or whole[0] in AFFIXES
        found += whole if is_known else map(str.lower, HUMP.findall(letters) or [letters])
    return found


def _divided(word: str) -> list[str]:
    """Return the two words that are written as one, as trainset is, or the word."""
    for split in () if word in SPLIT_WORDS else FUSED:
        for before, rest in ((True, word.removeprefix(split)), (False, word.removesuffix(split))):
            if rest != word and (len(rest) == 1 or rest in AFFIXES):
                return [split, rest] if before else [rest, split]
    return [word]


def _has_part(words: Sequence[str]) -> bool:
    return any(word in SPLIT_WORDS or word in PART_WORDS for word in words)


def _stem(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words that say something beside part, number and letter."""
    return tuple(
        word
        for word in words
        if word not in SPLIT_WORDS and word not in AFFIXES and not word.isdigit() and not SINGLE.fullmatch(word)
    )


def _pair(words: dict[str, list[str]]) -> Sequence[str]:
    """Return two names that differ in their splits' words alone, as asl_train and asl_test do, whatever lies beside."""
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for name, parts in words.items():
        plain = [part for part in parts if not part.isdigit()]
        for word in {plain[0], plain[-1]} & SPLIT_WORDS.keys() if plain else ():
            rest = tuple(part for part in parts if part != word and (not part.isdigit() or YEAR.fullmatch(part)))
            if rest:
                found.setdefault(rest, {}).setdefault(SPLIT_WORDS[word], name)
    return next((list(splits.values())[:2] for splits in found.values() if len(splits) > 1), [])
