"""Names of a run's checkpoints, and whether one was written to its end. Nothing here loads torch."""

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


def is_whole(path: Path) -> bool:
    """Whether a checkpoint's file is there and holds what was written, by the sums that torch stores with it."""
    if not path.is_file():  # a FIFO would be waited for
        return False
    try:
        with zipfile.ZipFile(path) as file:
            return file.testzip() is None
    except Exception:  # damaged bytes may name any compression, each of which has errors of its own
        return False
