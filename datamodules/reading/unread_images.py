"""Pictures in the folders of classes that are not read: of formats that are not, or without an ending."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from datamodules.reading.image_files import is_image
from vit_lightning.data.images import is_hidden
from vit_lightning.errors import InputError
from vit_lightning.files import open_regular
from vit_lightning.terminal import counted

ENDINGS = frozenset(
    {".heic", ".heif", ".hif", ".jxl", ".dcm", ".dicom", ".psd", ".exr", ".dng", ".cr2", ".cr3", ".nef", ".arw"}
    | {".orf", ".rw2", ".raf"}
)
"""Endings, in any case, of pictures that are not read."""
CONVERT = "convert them to .jpg or .png"
"""What to do about them."""
LOOKED_AT = 4
"""Files without an ending that are opened, or one more."""
DICOM = 128, b"DICM"
"""Where the word stands that DICOM's files have."""


def check(folder: Path, name: str, files: Sequence[str], is_class: bool = True) -> list[str]:
    """Refuse a class of which all images are such; say it where some are.

    Args:
        folder: what holds the class.
        name: its name.
        files: paths of all its files under the folder.
        is_class: whether it is surely one, and not a folder beside those of classes.

    Raises:
        InputError: naming the folder, the ending and one of the files.
    """
    others = [file for file in files if not is_image(file) and not is_hidden(os.path.basename(file))]
    plain = [file for file in others if not _ending(file)]
    found = [file for file in others if refused(file)]
    found += plain if any(_is_picture(folder / file) for file in plain[:: max(1, len(plain) // LOOKED_AT)]) else []
    if not found:
        return []
    ending, count = Counter(map(_ending, found)).most_common(1)[0]
    example = os.path.normpath(next(file for file in found if _ending(file) == ending))
    what = f"{counted(count, 'file')} {f'of {ending}' if ending else 'without an ending'}, such as {example}"
    fix = CONVERT if ending else "give them the ending of their format, as .jpg"
    if any(map(is_image, files)):
        return [f"{folder / name} holds {what}, which {'is' if count == 1 else 'are'} left out; {fix}"]
    aside = "" if is_class else f", or move the folder out of {folder} if it is no class"
    raise InputError(f"{folder / name} holds no images that are read, but {what}; {fix}{aside}")


def refused(file: str) -> str:
    """Say why a file is not read whose ending is that of a picture; nothing of any other."""
    ending = _ending(file)
    is_one = ending in ENDINGS and not is_hidden(os.path.basename(file))
    return f"files of {ending} are not read; {CONVERT}" if is_one else ""


def _ending(file: str) -> str:
    """Return a file's ending in small letters, none if it is a number."""
    ending = os.path.splitext(file)[1].lower()
    return "" if ending[1:].isdigit() else ending


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
