"""Who of several processes tells the user of a fault: one of those that meet it, and none that only lost another."""

import os
import sys
import time
from typing import Any

LOOKS, PAUSE = 30, 0.1
"""How often, and after how many seconds each, a process looks whether the first has met the same fault."""
TOLD = "a fault was told"


def tells(fault: str) -> bool:
    """Whether this process is to print a fault: the first always, another one if the first does not meet it too.

    Before the processes know each other, those of one host are likely to meet the same: its first one tells.
    """
    if (distributed := _joined()) is None:
        launched = os.environ.get("LOCAL_RANK", "0") if "TORCHELASTIC_RUN_ID" in os.environ else "0"
        return os.environ.get("SLURM_LOCALID", launched) == "0"
    store = distributed.distributed_c10d._get_default_store()
    if distributed.get_rank() == 0:
        store.set(fault, "")
        return True
    try:
        for _ in range(LOOKS):
            if store.check([fault]):
                return False
            time.sleep(PAUSE)
        store.set(TOLD, "")  # the first goes on without it, until it misses this process
    except distributed.DistError:  # the first is gone, after its own words
        return False
    return True


def told() -> bool:
    """Whether another process has ended with a fault that it told, so that to miss it is no news."""
    distributed = _joined()
    try:
        return distributed is not None and distributed.distributed_c10d._get_default_store().check([TOLD])
    except distributed.DistError:
        return False


def _joined() -> Any:
    """Return torch.distributed if the processes have met, without importing it."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    return distributed if distributed and distributed.is_available() and distributed.is_initialized() else None
