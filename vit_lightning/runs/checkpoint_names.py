"""Names of a run's checkpoints, and whether one was written to its end. Nothing here loads torch."""

import hashlib
import zipfile
from pathlib import Path

LAST = "last.ckpt"
"""The newest state."""
PREVIOUS = "previous.ckpt"
WORDS = ("last", "best", "previous")
"""What --ckpt_path may name in place of a path."""
"""The state before it."""
NEW = "new.ckpt"
"""A state that is whole, and becomes `LAST` once that has become `PREVIOUS`."""
FACTS = "meta.pt"
"""File of a sharded checkpoint with all that is not sharded, which Lightning writes last."""
RAW = "current_model_state"
"""Key under which the trained weights stand beside the averaged ones, as Lightning's own callback has it: of a
checkpoint, or of `state_dict` in a sharded one, whose other keys hold no shards."""


def is_sharded(path: Path) -> bool:
    """Whether a path is a sharded checkpoint that was written to its end."""
    return (path / ".metadata").is_file() and (path / FACTS).is_file()


def is_complete(path: Path) -> bool:
    """Whether a checkpoint, a file or the folder of a sharded one, is there and whole."""
    return is_sharded(path) or is_whole(path)


def fingerprint(path: Path) -> str | None:
    """What tells a checkpoint from every other state of its run, without reading its tensors; None: it is not there.

    Of a file these are the names, lengths and sums of its parts, which torch stores; of a sharded one, its facts.
    """
    try:
        if is_sharded(path):
            return hashlib.sha256((path / FACTS).read_bytes()).hexdigest()
        if not path.is_file():
            return None
        with zipfile.ZipFile(path) as file:
            parts = [(part.filename.partition("/")[2], part.file_size, part.CRC) for part in file.infolist()]
    except Exception:  # as below
        return None
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def is_whole(path: Path) -> bool:
    """Whether a checkpoint's file is there and holds what was written, by the sums that torch stores with it."""
    if not path.is_file():  # a FIFO would be waited for
        return False
    try:
        with zipfile.ZipFile(path) as file:
            return file.testzip() is None
    except Exception:  # damaged bytes may name any compression, each of which has errors of its own
        return False
