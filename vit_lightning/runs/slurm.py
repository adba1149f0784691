"""The SLURM job that a run belongs to."""

import os
import subprocess
from collections.abc import Iterable

from vit_lightning.errors import InputError


def slurm_job() -> str | None:
    """Name of the SLURM job that this process belongs to, which stays the same when the job is queued again."""
    if "SLURM_ARRAY_JOB_ID" in os.environ:
        return f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    return os.environ.get("SLURM_JOB_ID")


def was_requeued() -> bool:
    """Whether SLURM has run this job before."""
    return int(os.environ.get("SLURM_RESTART_COUNT") or 0) > 0


def requeue(command: Iterable[str] = ("scontrol", "requeue")) -> None:
    """Put this SLURM job back into the queue.

    Raises:
        InputError: SLURM refuses.
    """
    job = slurm_job() or ""
    try:
        done = subprocess.run([*command, job], capture_output=True, text=True, check=False, timeout=60)
        reason = "" if done.returncode == 0 else done.stderr.strip() or f"exit {done.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    if reason:
        raise InputError(f"the state is saved, but SLURM does not requeue job {job} ({reason}); submit it again")
