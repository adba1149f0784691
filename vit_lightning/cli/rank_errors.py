"""Errors of several processes: each prints its own, with its rank; one that lost another process says only that."""

import os
import re
import sys
import time

LAUNCHERS = (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"), ("LOCAL_RANK", "WORLD_SIZE"))
"""Variables that hold a process's rank and the number of processes: torchrun's, SLURM's, Lightning's own launcher's."""
GRACE = 3.0
"""Seconds that further processes leave the first one for its own error."""
LOST_PEER = re.compile(
    r"connection (was )?(closed|reset|refused|aborted)|broken pipe|remote process exited",
    re.IGNORECASE,
)
"""What gloo and NCCL say when another process is gone; torch's store has exceptions of its own for it."""


def prefix() -> str:
    """`[rank 3] ` in one of several processes, nothing in a single one."""
    rank, count = _rank_and_count()
    return f"[rank {rank}] " if count > 1 else ""


def lost_peer(error: BaseException) -> str | None:
    """One sentence if an exception only says that another process has ended; None for any other exception."""
    if _rank_and_count()[1] == 1 or not isinstance(error, RuntimeError):
        return None
    raised = type(error).__module__ == "torch.distributed" or LOST_PEER.search(str(error))
    return "another process of this run has ended; its own error says why" if raised else None


def wait_for_first_process() -> None:
    """Leave the first of several processes time for its own error: a launcher kills it once another one has ended."""
    if _rank_and_count()[0] > 0:
        time.sleep(GRACE)


def _rank_and_count() -> tuple[int, int]:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)  # torch is slow to import
    if distributed and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    for rank, count in LAUNCHERS:
        if rank in os.environ and count in os.environ:
            return int(os.environ[rank]), int(os.environ[count])
    return 0, 1
