"""Notices: those of Lightning and torch that teach nothing here are silenced, all others are one line each."""

import logging
import os
import re
import warnings

from lightning_utilities.core import rank_zero

from vit_lightning.errors import one_line, seen

WARNINGS = (
    r"The '\w+' does not have many workers",  # images in memory need none; perf/data_wait says what loading costs
    r"Please use the new API settings to control TF32",  # Lightning's own call
    r"TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled",
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",  # Lightning's own code does that
    r"torch\.distributed\.nn\.functional\.all_gather is deprecated",  # Lightning's own call
    r"Checkpoint directory .* exists and is not empty",  # so it is whenever a run goes on
    r"Total length of `list` across ranks is zero",  # the datamodule says that it has no validation set
    r"The dirpath has changed from ",  # LastCheckpoint has put right what this would lose
    r"The number of training batches \(\d+\) is smaller than the logging interval",  # RunPlan logs once per epoch
    # Only fit has them, and the ModelCheckpoint of a run without a validation set.
    r".* Please add the following callbacks: "
    r"\[(('(RandomState|Throughput|EarlyStopping)'|\"ModelCheckpoint\{'monitor': None[^}]*\}\")(, )?)+\]",
)
MESSAGES = (
    r"You are using a CUDA device .* that has Tensor Cores",  # --trainer.precision decides
    r"(\[rank: \d+\] )?Seed set to \d+$",  # config.yaml has it
    r".*try installing \[litlogger\]",
    r"GPU available: (False, used: False|True \(\w+\), used: True)",  # the plan names the device
    r"TPU available: False, using: 0 TPU cores",
    r"LOCAL_RANK: \d+ - CUDA_VISIBLE_DEVICES: ",
    r"Initializing distributed: GLOBAL_RANK: ",  # the plan counts the devices
    r"-+\ndistributed_backend=",
    r"Loading `train_dataloader` to estimate number of stepping batches",
    r"Restoring states from the checkpoint path at ",  # the plan says at which step a run goes on
    r"(Restored all states|Loaded model weights) from the checkpoint at ",
    r"`Trainer\.fit` stopped: `max_(epochs|steps)=\d+` reached",  # the end of the run says how far it came
)
LOGGERS = (
    "lightning.fabric.utilities.distributed",
    "lightning.fabric.utilities.seed",
    "lightning.pytorch.accelerators.cuda",
)
"""Where Lightning says these beside its `rank_zero`."""
VERBOSE = "VIT_LIGHTNING_VERBOSE"
"""Environment variable that lets everything through."""


def silence() -> None:
    """Keep those notices away from the user, and nothing else; show what the others say, not the code that says it."""
    warnings.formatwarning = _one_line
    rank_zero.log.addFilter(_shows)
    if os.environ.get(VERBOSE, "0") != "0":
        return
    for text in WARNINGS:
        warnings.filterwarnings("ignore", text)
    for log in (rank_zero.log, *map(logging.getLogger, LOGGERS)):
        log.addFilter(_teaches)


def _one_line(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: str | None) -> str:
    where = "warning" if issubclass(category, UserWarning) else f"{filename}:{lineno}: {category.__name__}"
    return f"{where}: {one_line(' '.join(str(message).split()))}\n"


def _shows(record: logging.LogRecord) -> bool:
    """Let a message through with all escaped that would not be seen in it: the names of own images stand there."""
    record.msg, record.args = seen(record.getMessage()), ()
    return True


def _teaches(record: logging.LogRecord) -> bool:
    return not any(re.match(text, record.getMessage()) for text in MESSAGES)
