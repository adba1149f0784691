"""Notices: those of Lightning and torch that teach nothing here are silenced, all others are one line each."""

import logging
import re
import warnings

from lightning_utilities.core import rank_zero

WARNINGS = (
    r"The '\w+' does not have many workers",  # images in memory need none; perf/data_wait says what loading costs
    r"Please use the new API settings to control TF32",  # Lightning's own call
    r"TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled",
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",  # Lightning's own code does that
    r"Checkpoint directory .* exists and is not empty",  # so it is whenever a run goes on
    r"Total length of `list` across ranks is zero",  # the datamodule says that it has no validation set
    r"The dirpath has changed from ",  # LastCheckpoint has put right what this would lose
    r".* Please add the following callbacks: \[('(RandomState|Throughput|EarlyStopping)'(, )?)+\]",  # only fit has them
)
MESSAGES = (
    r"You are using a CUDA device .* that has Tensor Cores",  # --trainer.precision decides
    r"(\[rank: \d+\] )?Seed set to 0$",  # the default; config.yaml has it
    r".*try installing \[litlogger\]",
    r"GPU available: (False, used: False|True \(\w+\), used: True)",  # the plan names the device
    r"TPU available: False, using: 0 TPU cores",
)


def silence() -> None:
    """Keep those notices away from the user, and nothing else; show what the others say, not the code that says it."""
    warnings.formatwarning = _one_line
    for text in WARNINGS:
        warnings.filterwarnings("ignore", text)
    for log in (rank_zero.log, logging.getLogger("lightning.fabric.utilities.seed")):
        log.addFilter(_teaches)


def _one_line(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: str | None) -> str:
    where = "warning" if issubclass(category, UserWarning) else f"{filename}:{lineno}: {category.__name__}"
    return f"{where}: {' '.join(str(message).split())}\n"


def _teaches(record: logging.LogRecord) -> bool:
    return not any(re.match(text, record.getMessage()) for text in MESSAGES)
