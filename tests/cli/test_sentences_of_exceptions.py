"""Further exceptions in one sentence: each kind where it is raised, and its neighbours, which keep their traceback."""

import errno
import os
import sys
from functools import partial
from types import ModuleType

import pytest

from vit_lightning.cli import exceptions
from vit_lightning.cli.exceptions import DAMAGE, explain, system_error

RESTORING = "lightning.pytorch.trainer.connectors.checkpoint_connector"


def raised_in(error: Exception, *modules: str) -> Exception:
    """An exception that went through functions of these modules, the last of which raised it."""

    last = ModuleType(modules[-1])
    exec("def fail(error):\n    raise error", vars(last))
    call = partial(last.fail, error)
    for name in reversed(modules[:-1]):
        module = ModuleType(name)
        exec("def through(call):\n    call()", vars(module))
        call = partial(module.through, call)
    try:
        call()
    except Exception as met:
        return met
    raise AssertionError


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("owner", ["lightning.pytorch.loops", "torch.optim", "vit_lightning.training.optim"])
def test_a_state_that_does_not_fit_is_one_sentence(kind, owner):
    error = raised_in(kind("x" * 300), RESTORING, owner)
    said = explain(error)
    assert said.startswith("the checkpoint holds a state that does not fit this run, or is damaged (")
    assert said.endswith("); give another checkpoint") and type(error).__name__ in said and "x" * 201 not in said


def test_what_is_raised_elsewhere_or_by_the_user_s_code_keeps_its_traceback():
    for modules in ((RESTORING, "my.callback"), ("lightning.pytorch", "torch.optim"), (RESTORING, "torchmetrics.x")):
        assert explain(raised_in(KeyError("x"), *modules)) is None
    assert explain(raised_in(ZeroDivisionError("x"), RESTORING, "torch.optim")) is None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EFBIG, "File too large", "x.csv"), "x.csv: it would exceed the size that a file may have here"),
        (OSError(errno.EFBIG, "File too large"), "a file: it would exceed the size"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "y" * 300), f"{'y' * 80}...: File name too long; give a"),
        (OSError(errno.ENAMETOOLONG, "File name too long", b"y" * 300), f"{'y' * 80}...: File name too long; give a"),
        (OSError(errno.ENAMETOOLONG, "File name too long"), "a file...: File name too long; give a shorter one"),
    ],
)
def test_sizes_and_names_that_are_too_long(error, said):
    assert explain(error).startswith(said)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_an_output_that_takes_no_more_is_named(monkeypatch, number):
    def full(descriptor: int, text: bytes) -> int:
        assert (descriptor, text) == (1, b"\n")
        raise OSError(number, "full")

    monkeypatch.setattr(os, "write", full)
    assert system_error(OSError(number, "full")).startswith("the standard output: full; free space where it goes")
    assert system_error(OSError(number, "full", "x")).startswith("x: full; free space there")


class MisconfigurationException(Exception):  # noqa: N818
    """Is known by its name."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ValueError(
                "`val_check_interval` (9) must be less than or equal to the number of the training batches (4). "
                "If you want to disable validation set `limit_val_batches` to 0.0 instead."
            ),
            "--trainer.val_check_interval 9: an epoch has 4 training batches; give 4 or less, or --trainer.check_val_",
        ),
        (
            ValueError("`max_epochs` must be a non-negative integer or -1. You passed in -2."),
            "--trainer.max_epochs -2: expected a whole number from 0",
        ),
        (AttributeError("no lr_find here"), "LearningRateFinder cannot set the learning rate of a recipe with a sched"),
        (MisconfigurationException("odd"), "odd (a matter of --trainer)"),
        (ValueError("odd"), None),
        (TypeError("`max_steps` must be an integer. You passed in -5."), None),
        (AttributeError("odd"), None),
        (ImportError("odd"), None),
    ],
)
def test_lightning_s_flags_are_said_as_ours_and_other_errors_are_left(error, said):
    found = explain(error)
    assert (found is None) == (said is None) and (found or "").startswith(said or "")


UNION = (
    "Does not validate against any of the Union subtypes\nSubtypes: [list, Callback]\nErrors:\n"
    "  - Expected a list\n  - Problem with given class_path='{}'\n    it needs more\nGiven value type: Namespace\n"
    "Given value: Namespace(class_path='{}')"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            UNION.format("my.Inner", "my.Outer"),
            "my.Outer cannot be made: Problem with given class_path='my.Inner' it needs more",
        ),
        (
            "Does not validate against any of the Union subtypes\nErrors:\n - Expected a list\nGiven value type: x\n"
            "class_path='my.Own'",
            "my.Own cannot be made: its constructor fails",
        ),
        ("Does not validate against any of the Union subtypes\nErrors:\n  - it needs more", None),
        ("class_path='my.Own' is odd", None),
    ],
)
def test_a_class_of_the_user_s_that_cannot_be_made_is_named(text, said):
    assert explain(ValueError(text)) == said


def test_a_sentence_is_one_line():
    from vit_lightning.errors import InputError

    assert explain(InputError("one\n  two\tthree ")) == "one two three"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "unable to open shared memory object </torch_1_2> in read-write mode: Too many open files (24)",
            "Too many open",
        ),
        ("unable to write to file </torch_1_2>: No space left on device (28)", "No space left on device"),
        ("unable to stretch file </torch_1_2> to the right size: No space left on device (28)", "No space left on dev"),
        ("unable to mmap 64 bytes from file </torch_1_2>: Cannot allocate memory (12)", "Cannot allocate memory"),
        ("unable to resize file </torch_1_2_0>: File too large (27)", "File too large"),
    ],
)
def test_every_word_of_torch_s_for_a_batch_that_cannot_be_shared(said, reason):
    outer = KeyError("x")
    outer.__context__ = RuntimeError(said)
    assert explain(outer).startswith(f"a batch could not be passed on between processes ({reason}")
    assert explain(ValueError(said)) is explain(RuntimeError(said.replace("</torch_", "<"))) is None


def test_a_removed_folder_is_that_of_this_run_alone(monkeypatch):
    gone = FileNotFoundError(2, "No such file or directory", "/runs/x/0/metrics.csv")
    for folder, known in (("/runs/x/0", True), ("/runs/x/1", False), (None, False)):
        monkeypatch.delenv(exceptions.RUN_ENV, raising=False)
        if folder:
            monkeypatch.setenv(exceptions.RUN_ENV, folder)
        assert (explain(gone) is not None) == known
    monkeypatch.setenv(exceptions.RUN_ENV, "/runs/x/0")
    assert explain(FileNotFoundError(2, "No such file or directory")) is None
    assert explain(OSError(errno.EIO, "bad", "/runs/x/0/metrics.csv")) is None
    assert explain(RuntimeError("Parent directory /runs/y/0/checkpoints does not exist.")) is None


def test_a_module_that_torchvision_lacks_is_no_matter_of_its_build(monkeypatch):
    told: dict[str | None, bool] = {}
    for name in ("numpy", "torchvision._C", None):
        module = ModuleType("torchvision")
        monkeypatch.setitem(sys.modules, "torchvision", module)
        try:
            exec(compile(f"raise ModuleNotFoundError('odd', name={name!r})", "x", "exec"), vars(module))
        except ModuleNotFoundError as error:
            told[name] = (explain(error) or "").startswith("torchvision ")
    assert told == {"numpy": False, "torchvision._C": True, None: False}
