"""Parquet files of the splits in a folder, and the folders of Arrow files that stand for them."""

from collections.abc import Callable
from pathlib import Path

from datamodules.reading import arrow_folders
from datamodules.reading.splits import split_files
from vit_lightning.errors import InputError


def split_parquet(root: Path, notice: Callable[[str], None]) -> dict[str, list[Path]]:
    """Return the files of each split: in a folder, in its folder data, or in the one folder of it that has them.

    Args:
        root: the folder.
        notice: called with what is left out.

    Raises:
        InputError: naming two places of one split, or folders of several sets.
    """
    found: dict[str, list[Path]] = {}
    for folder in (root, root / "data"):
        files, others = split_files(folder, ".parquet")
        if both := sorted(files.keys() & found.keys()):
            raise InputError(
                f"{found[both[0]][0]} and {files[both[0]][0]} are both {both[0]} data; keep one, or give "
                f"--data.root {folder}"
            )
        if files and found:
            notice(f"{root} and {folder} both hold splits, which are read as one set")
        found = files | found
        if files and others:
            notice(f"{folder} has {others[0]}, which is no split and is left out ({len(others)} such)")
    if found:
        return found
    folders = [folder for folder in sorted(root.glob("*/")) if "train" in split_files(folder, ".parquet")[0]]
    if len(folders) > 1:
        names = ", ".join(folder.name for folder in folders)
        raise InputError(f"{root} holds several data sets ({names}); give --data.root {folders[0]}")
    if folders:
        return split_files(folders[0], ".parquet")[0]
    saved, others = arrow_folders.split_folders(root)
    if saved and others:
        notice(f"{root} has {others[0]}, which is no split and is left out ({len(others)} such)")
    return saved
