"""Triton's kernels where there is no GPU: its interpreter must be chosen before they are imported."""

import os
import subprocess
import sys

import pytest
import torch


def interpret(code: str) -> str:
    """Run code in a process whose kernels are interpreted, and return what it prints; skip where a GPU runs them."""
    if torch.cuda.is_available():
        pytest.skip("the GPU runs the kernels themselves")
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, env=environment, timeout=1800, stdout=subprocess.PIPE, text=True
    )
    return done.stdout
