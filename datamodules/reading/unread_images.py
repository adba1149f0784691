"""Pictures in the folders of classes that are not read: of formats that are not, or without an ending."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from datamodules.reading.folder_names import IMAGE_WORDS, words_of
from datamodules.reading.image_files import files_below, is_image
from vit_lightning.data.images import is_hidden
from vit_lightning.errors import InputError
from vit_lightning.files import open_regular
from vit_lightning.terminal import counted

ENDINGS = frozenset(
    {".heic", ".heif", ".hif", ".jxl", ".dcm", ".dicom", ".psd", ".exr", ".dng", ".cr2", ".cr3", ".nef", ".arw"}
    | {".orf", ".rw2", ".raf", ".raw", ".srw", ".pef", ".rwl", ".3fr", ".xcf", ".svg"}
    | {".nii", ".nii.gz", ".mha", ".mhd", ".nrrd", ".svs", ".ndpi", ".mrxs"}
)
"""Endings, in any case, of pictures that are not read."""
STORES = frozenset({"raw", "raws", "dicom", "dicoms", "photoshop", "unconverted", *(one.strip(".") for one in ENDINGS)})
"""Words of folders that keep pictures as they came, beside those of classes that hold what was made of them."""
DRAWN = frozenset({".svg", ".psd", ".xcf"})
"""Those of drawings, as of a logo, which few sets consist of."""
FEW_DRAWN = 3
"""Drawings that a folder of something else holds, as docs does; more may be a class."""
CONVERT = "convert them to .jpg or .png"
"""What to do about them."""
LOOKED_AT = 4
"""Files without an ending that are opened, or one more."""
DICOM = 128, b"DICM"
"""Where the word stands that DICOM's files have."""


def check(folder: Path, name: str, files: Sequence[str], is_class: bool = True) -> list[str]:
    """Refuse a class of which all images are such; say it where some are, and are not there in a format that is read.

    Args:
        folder: what holds the class.
        name: its name.
        files: paths of all its files under the folder.
        is_class: whether it is surely one, and not a folder beside those of classes, which may hold a few drawings.

    Raises:
        InputError: naming the folder, the ending and one of the files.
    """
    others = [file for file in files if not is_image(file) and not is_hidden(os.path.basename(file))]
    plain = [file for file in others if not _ending(file)]
    found = [file for file in others if refused(file)]
    found += plain if any(_is_picture(folder / file) for file in plain[:: max(1, len(plain) // LOOKED_AT)]) else []
    converted = {os.path.splitext(file)[0] for file in files if is_image(file)}
    found = [file for file in found if file.removesuffix(_suffix(file)) not in converted]
    if not found:
        return []
    ending, count = Counter(map(_ending, found)).most_common(1)[0]
    example = os.path.normpath(next(file for file in found if _ending(file) == ending))
    what = f"{counted(count, 'file')} {f'of {ending}' if ending else 'without an ending'}, such as {example}"
    fix = CONVERT if ending else "give them the ending of their format, as .jpg"
    if any(map(is_image, files)):
        return [f"{folder / name} holds {what}, which {'is' if count == 1 else 'are'} left out; {fix}"]
    if not is_class and len(found) <= FEW_DRAWN and all(_ending(file) in DRAWN for file in found):
        return [f"{folder / name} holds no images that are read, but {what}, and is left out; {fix} if it is a class"]
    aside = "" if is_class else f"; if it is no class, move it out of {folder}, or list all classes in --data.class_map"
    raise InputError(f"{folder / name} holds no images that are read, but {what}; {fix}{aside}")


def is_store(folder: Path, name: str) -> bool:
    """Tell whether a folder is called as one that keeps pictures as they came, and holds none that is read."""
    words = [word for word in words_of(name) if not word.isdigit()]
    if not words or not {*words} <= STORES | IMAGE_WORDS or IMAGE_WORDS.issuperset(words):
        return False
    files = list(files_below(folder, name))
    return any(map(refused, files)) and not any(map(is_image, files))


def refused(file: str) -> str:
    """Say why a file is not read whose ending is that of a picture; nothing of any other."""
    ending = _ending(file)
    is_one = ending in ENDINGS and not is_hidden(os.path.basename(file))
    return f"files of {ending} are not read; {CONVERT}" if is_one else ""


def _ending(file: str) -> str:
    """Return a file's ending in small letters, none if it is a number."""
    ending = _suffix(file).lower()
    return "" if ending[1:].isdigit() else ending


def _suffix(file: str) -> str:
    """Return a file's ending, also one of two parts as .nii.gz."""
    stem, ending = os.path.splitext(file)
    return os.path.splitext(stem)[1] + ending if ending.lower() == ".gz" else ending


def _is_picture(path: Path) -> bool:
    """Tell by its content whether a file is an image, or one of DICOM."""
    try:
        with open_regular(path) as file:
            if file.read(DICOM[0] + len(DICOM[1])).endswith(DICOM[1]):
                return True
            file.seek(0)
            with Image.open(file):
                return True
    except (OSError, ValueError, Image.DecompressionBombError):  # it is none, or may not be read
        return False
