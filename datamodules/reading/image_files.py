"""Image files: which files count as images, and those of a folder with their labels."""

import difflib
import filecmp
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PureWindowsPath

import numpy as np

from datamodules.reading.shared_sequences import Strings
from vit_lightning.data.images import BrokenImage, is_hidden

ENDINGS = (
    *(".jpg", ".jpeg", ".jfif", ".jpe", ".png", ".apng", ".bmp", ".dib", ".gif", ".webp", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".tga", ".jp2", ".avif"),
)
"""Endings, in any case, of the files that are taken for images; what they hold decides how they are decoded."""

MOST_COMPARED = 2000
"""Names of files in a folder that a missing one is compared with."""


class ImageFiles:
    """Image files with labels, opened one by one.

    Args:
        root: folder that the names start from.
        names: paths of the files under root.
        labels: one class per file.
        scored_classes: classes on which the images are scored; None: all.
    """

    def __init__(
        self, root: Path, names: Iterable[str], labels: Sequence[int], scored_classes: np.ndarray | None = None
    ) -> None:
        self.root = root
        self.keys = Strings(names)
        self.labels = np.asarray(labels, dtype=np.int64)
        self.scored_classes = scored_classes

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Path, int]:
        return self.root / self.keys[index], int(self.labels[index])


def is_image(path: str) -> bool:
    """Tell by its name whether a file is taken for an image."""
    return path.lower().endswith(ENDINGS) and not is_hidden(os.path.basename(path))


def files_below(root: Path, name: str) -> Iterator[str]:
    """Yield the paths under root of all files in its folder `name`, sorted, without those in hidden folders.

    Links to folders are followed, but for those that lead back to a folder around them.
    """
    return (path for path, _ in numbered_files_below(root, name))


def numbered_files_below(root: Path, name: str) -> Iterator[tuple[str, int]]:
    """Yield what `files_below` does, with the number of each file in its file system, 0 for links to what is no file.

    Numbers of files are read with their names, and need no further look at plain files.
    """
    waiting = [name or os.curdir]
    while waiting:
        here = waiting.pop()
        folders, files = [], []
        try:
            with os.scandir(root / here) as entries:
                for entry in entries:
                    if not entry.is_dir():
                        files.append((os.path.join(here, entry.name), _number(entry)))
                    elif not is_hidden(entry.name) and not _leads_back(os.fspath(root / here), entry.name):
                        folders.append(os.path.normpath(os.path.join(here, entry.name)))
        except OSError:  # it is not there, or may not be read
            continue
        yield from sorted(files)
        waiting += sorted(folders, reverse=True)


def _number(entry: os.DirEntry[str]) -> int:
    try:
        return entry.inode() if not entry.is_symlink() else entry.stat().st_ino if entry.is_file() else 0
    except OSError:
        return 0


def find_image(path: str, folders: Sequence[Path], name: str) -> Path:
    """Return where the file of an image lies.

    Args:
        path: its path as a table gives it, with either kind of slash.
        folders: where the path may start.
        name: what to call the image in an error.

    Raises:
        BrokenImage: naming the nearest file that is there, or two different files that the path may mean.
    """
    for form in dict.fromkeys((path, path.replace("\\", "/"))):
        found = [folder / form for folder in dict.fromkeys(folders) if (folder / form).is_file()]
        for other in found[1:]:
            if not filecmp.cmp(found[0], other, shallow=False):
                raise BrokenImage(name, f"{path} may be {found[0]} or {other}, which differ; remove one")
        if found:
            return found[0]
    places = " or ".join(map(str, dict.fromkeys(folders)))
    raise BrokenImage(name, f"No such file as {path} in {places}{_near(path, folders)}")


def without_prefix(path: str, prefix: str) -> str:
    """Return a path without its beginning, whichever slashes either has."""
    return path[len(prefix) :] if path.replace("\\", "/").startswith(prefix.replace("\\", "/")) else path


def prefix_advice(path: str, folders: Sequence[Path]) -> str:
    """Say which beginning of a path to leave out, so that it leads to a file; else what of one of Windows is amiss.

    Args:
        path: its path as a table gives it, with either kind of slash.
        folders: where the path may start.
    """
    parts = path.replace("\\", "/").split("/")
    rests = ("/".join(parts[left_out:]) for left_out in range(1, len(parts)))
    if rest := next((rest for rest in rests if any((folder / rest).is_file() for folder in folders)), None):
        return f"; --data.image_prefix '{path[: len(path) - len(rest)]}' leads to {rest}"
    place = PureWindowsPath(path)
    if not place.drive:
        return ""
    return f"; {path} begins at a drive of Windows: give its folder there, as --data.image_prefix '{place.parent}\\'"


def _near(path: str, folders: Sequence[Path]) -> str:
    """Name the file that is most like a missing one, in the deepest of its folders that is there."""
    wanted = Path(path.replace("\\", "/"))
    for parent in wanted.parents:
        for folder in folders:
            files = os.listdir(folder / parent) if (folder / parent).is_dir() else []
            pictures = sorted(filter(is_image, files))[:MOST_COMPARED]
            close = difflib.get_close_matches(wanted.name, pictures, n=1, cutoff=0.0)
            if close:
                return f"; the nearest that is there is {folder / parent / close[0]}"
    return "; no image is there"


def _leads_back(path: str, folder: str) -> bool:
    """Tell whether a folder is a link to one of those around it."""
    place = os.path.join(path, folder)
    if not os.path.islink(place):
        return False
    target = os.path.realpath(place)
    return os.path.commonpath([target, os.path.realpath(path)]) == target
