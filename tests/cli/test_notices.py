"""Every notice that is silenced, in the words of Lightning and torch, and near words that are not."""

import logging
import re
import warnings

import pytest
from lightning_utilities.core import rank_zero

from vit_lightning.cli import warnings_filter
from vit_lightning.cli.warnings_filter import LOGGERS, MESSAGES, WARNINGS, silence

QUIET_WARNINGS = (
    "The 'train_dataloader' does not have many workers which may be a bottleneck. Consider increasing the value",
    "Please use the new API settings to control TF32 behavior, such as torch.backends.cudnn.conv.fp32_precision",
    "TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled. Consider setting",
    "`isinstance(treespec, LeafSpec)` is deprecated, use `isinstance(treespec, TreeSpec)`",
    "torch.distributed.nn.functional.all_gather is deprecated",
    "Checkpoint directory /a/b exists and is not empty.",
    "Total length of `list` across ranks is zero. Please make sure this was your intention.",
    "The dirpath has changed from '/a' to '/b', therefore `best_model_score`",
    "The number of training batches (4) is smaller than the logging interval Trainer(log_every_n_steps=50).",
    "Be aware that when using `ckpt_path`, callbacks used to create the checkpoint need to be provided during "
    "`Trainer` instantiation. Please add the following callbacks: ['RandomState', 'Throughput', 'EarlyStopping', "
    "\"ModelCheckpoint{'monitor': None, 'mode': 'max'}\"].",
)
LOUD_WARNINGS = (
    "The 'train_dataloader' does have many workers",
    "x TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled",
    "Checkpoint directory /a/b is not empty",
    "The number of training batches is smaller than the logging interval",
    "The loss is odd",
    " Please add the following callbacks: ['RandomState', 'Own'].",
    " Please add the following callbacks: [\"ModelCheckpoint{'monitor': None, 'mode': 'max'}\", 'Own'].",
)
QUIET_MESSAGES = (
    "You are using a CUDA device ('NVIDIA H200') that has Tensor Cores. To properly utilize them",
    "Seed set to 17",
    "[rank: 3] Seed set to 17",
    "\N{ELECTRIC LIGHT BULB} Tip: For seamless cloud logging and experiment tracking, try installing [litlogger](x)",
    "GPU available: False, used: False",
    "GPU available: True (cuda), used: True",
    "TPU available: False, using: 0 TPU cores",
    "LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0]",
    "Initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/2",
    "-" * 100 + "\ndistributed_backend=gloo\nAll distributed processes registered.",
    "Loading `train_dataloader` to estimate number of stepping batches.",
    "Restoring states from the checkpoint path at x.ckpt",
    "Restored all states from the checkpoint at x.ckpt",
    "Loaded model weights from the checkpoint at x.ckpt",
    "`Trainer.fit` stopped: `max_epochs=3` reached.",
    "`Trainer.fit` stopped: `max_steps=3` reached.",
)
LOUD_MESSAGES = (
    "Seed set to 17 by x",
    "GPU available: True (cuda), used: False",
    "TPU available: True, using: 8 TPU cores",
    "`Trainer.fit` stopped: `max_time` reached.",
    "The checkpoint at x.ckpt has other keys",
    "Signal 15 was received",
)


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    monkeypatch.delenv(warnings_filter.VERBOSE, raising=False)
    logs = [rank_zero.log, *map(logging.getLogger, LOGGERS)]
    form, filters = warnings.formatwarning, [list(log.filters) for log in logs]
    for log in logs:
        log.removeFilter(warnings_filter._teaches)
    with warnings.catch_warnings():
        yield
    warnings.formatwarning = form
    for log, before in zip(logs, filters, strict=True):
        log.filters[:] = before


def shown(texts: tuple[str, ...]) -> list[str]:
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        silence()
        for text in texts:
            warnings.warn(text, stacklevel=1)
    return [str(one.message) for one in met]


def test_each_warning_that_teaches_nothing_is_kept_away_and_no_pattern_is_dead():
    assert len(QUIET_WARNINGS) == len(WARNINGS)
    assert shown(QUIET_WARNINGS) == [] and shown(LOUD_WARNINGS) == list(LOUD_WARNINGS)


def passes(text: str) -> bool:
    return warnings_filter._teaches(logging.LogRecord("x", logging.INFO, "x", 1, text, (), None))


def test_each_message_that_teaches_nothing_is_kept_away_and_no_pattern_is_dead():
    assert not any(map(passes, QUIET_MESSAGES)) and all(map(passes, LOUD_MESSAGES))
    assert all(any(re.match(pattern, text) for text in QUIET_MESSAGES) for pattern in MESSAGES)


def test_messages_are_filtered_where_lightning_says_them():
    silence()
    assert all(warnings_filter._teaches in logging.getLogger(name).filters for name in LOGGERS)
    assert warnings_filter._teaches in rank_zero.log.filters and len(LOGGERS) == 3


@pytest.mark.parametrize(("value", "quiet"), [(None, True), ("0", True), ("1", False), ("true", False)])
def test_a_variable_lets_everything_through(monkeypatch, value, quiet):
    if value is not None:
        monkeypatch.setenv("VIT_LIGHTNING_VERBOSE", value)
    assert (shown(QUIET_WARNINGS) == []) is quiet
    assert (warnings_filter._teaches in rank_zero.log.filters) is quiet


@pytest.mark.parametrize(
    ("category", "line"),
    [
        (UserWarning, "warning: two lines of it\n"),
        (RuntimeWarning, "a.py:7: RuntimeWarning: two lines of it\n"),
        (DeprecationWarning, "a.py:7: DeprecationWarning: two lines of it\n"),
    ],
)
def test_a_warning_is_one_line_and_the_user_s_shows_no_code(category, line):
    silence()
    assert warnings.formatwarning("two\n   lines of\tit", category, "a.py", 7, "code") == line
