"""What a process of a run stands on: versions, machine, command and git commit."""

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

from vit_lightning.runs.slurm import slurm_job

DATAMODULES = "vit_lightning.datamodules"
"""Group of entry points by which packages offer datamodules."""


def environment(device: str, device_name: str = "") -> dict[str, Any]:
    """Versions, also of packages with plug-ins, machine, command and git commit of this process, for env.json.

    Args:
        device: Where the net is, such as cuda:0.
        device_name: What its maker calls it.
    """
    here = Path(__file__).parent  # its clone's commit, wherever the run was started; else that of the folder it runs in
    code = here if _git("ls-files", "--error-unmatch", Path(__file__).name, folder=here) else Path()
    ours = ("vit-lightning", "torch", "torchvision", "lightning", "torchmetrics", "einops", "jsonargparse")
    packages = (*ours, *sorted({one.dist.name for one in entry_points(group=DATAMODULES) if one.dist} - {*ours}))
    return {
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in packages},
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "device": device,
        "device_name": device_name,
        "command": sys.argv,
        "folder": str(Path.cwd()),
        "slurm_job": slurm_job(),
        "git_commit": _git("rev-parse", "HEAD", folder=code),
        "git_dirty": bool(_git("status", "--porcelain", folder=code)),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(*arguments: str, folder: Path) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
