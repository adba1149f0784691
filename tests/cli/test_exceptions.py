"""Exceptions that the user can mend are one sentence; all others keep their traceback."""

import errno
import os
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vit_lightning import __main__ as door
from vit_lightning.cli import exceptions
from vit_lightning.cli.exceptions import explain, memory_error, worker_error
from vit_lightning.data import workers
from vit_lightning.errors import InputError

FAULTS = {
    "operators": 'raise RuntimeError("operator torchvision::nms does not exist")',
    "below": "import torchvision.broken",
    "CUDA": 'raise RuntimeError("PyTorch and torchvision were compiled with different CUDA major versions.")',
}


@pytest.mark.parametrize("fault", FAULTS)
def test_builds_that_do_not_fit_are_named(monkeypatch, capsys, tmp_path, fault):
    """What torchvision itself does without its operators: it fails while it is imported."""
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision/__init__.py").write_text(FAULTS[fault] + "\n")
    (tmp_path / "torchvision/broken.py").write_text("from torch import no_such_name\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(door, "run", lambda words: __import__("torchvision"))
    monkeypatch.setattr(sys, "argv", ["vit_lightning", "fit"])
    assert door.main() == 1
    (said,) = capsys.readouterr().err.splitlines()
    torch, vision = version("torch"), version("torchvision")
    assert said.startswith(f"error: torchvision {vision} does not fit torch {torch} (")
    assert f"pip install --force-reinstall torch=={torch} torchvision" in said


def test_other_exceptions_are_no_matter_of_torchvision(monkeypatch, tmp_path):
    def fails() -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(door, "run", lambda words: fails())
    monkeypatch.setattr(sys, "argv", ["vit_lightning", "fit"])
    with pytest.raises(RuntimeError, match="shapes differ"):
        door.main()


def test_what_the_system_refuses_anywhere_is_one_sentence(app, monkeypatch):
    def refused(words: list[str]) -> None:
        raise PermissionError(13, "Permission denied", "runs/metrics.csv")

    monkeypatch.setattr(door, "run", refused)
    done = app("fit")
    assert done.code == 1 and done.err.startswith("error: runs/metrics.csv: Permission denied; ")


@pytest.mark.parametrize("words", [("--model.net.depth", 10**11), ("--model.net.variant", f"R50x{10**11}")])
def test_memory_that_does_not_suffice_is_one_sentence(app, words):
    done = app("fit", "--trainer.accelerator", "cpu", *words)
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("error: the memory does not suffice")
    assert "choose a smaller net" in done.err.splitlines()[-1]


def test_what_a_gpu_wanted_is_named():
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of")
    assert memory_error(error).startswith("the memory does not suffice for 20.00 MiB; give a smaller net")
    assert memory_error(RuntimeError("shapes differ")) is None and memory_error(ValueError()) is None


def test_a_missing_file_that_we_ask_for_is_a_fault_of_ours(app, monkeypatch):
    def lost(words: list[str]) -> None:
        raise FileNotFoundError(2, "No such file or directory", "x")

    monkeypatch.setattr(door, "run", lost)
    with pytest.raises(FileNotFoundError):
        app("fit")


def caused(error: Exception, cause: Exception | None) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            ["DataLoader worker (pid 7) is killed by signal: Killed. "],
            "process 7, which loaded data, ended with exit code -9 (SIGKILL): the system most likely had no memory",
        ),
        (
            [
                "DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that its workers ...",
                "DataLoader worker (pid(s) 7, 9) exited unexpectedly",
            ],
            "process 7, 9, which loaded data, ended with exit code -7 (SIGBUS): /dev/shm, through which batches pass",
        ),
        (
            ["DataLoader worker (pid 7) exited unexpectedly with exit code 3. Details are lost."],
            "process 7, which loaded data, ended with exit code 3: --data.num_workers 0 shows where",
        ),
        (
            ["DataLoader worker (pid 7) exited unexpectedly with exit code 74. Details are lost."],
            "process 7, which loaded data, ended with exit code 74: it could not pass on a batch; enlarge /dev/shm",
        ),
        (
            ["DataLoader worker (pid(s) 7) exited unexpectedly"],
            "process 7, which loaded data, ended: --data.num_workers 0 shows where",
        ),
        (
            [
                "Caught RuntimeError in DataLoader worker process 0.\nOriginal Traceback ...\n"
                "RuntimeError: unable to resize file </torch_9_8_0>: File too large (27)\n"
            ],
            "a batch could not be passed on between processes (File too large); enlarge /dev/shm",
        ),
        (
            ["unable to allocate shared memory(shm) for file </torch_9_8_0>: No space left on device (28)"],
            "a batch could not be passed on between processes (No space left on device); enlarge /dev/shm",
        ),
    ],
    ids=["killed", "shared memory", "exit", "unsent", "no code", "file size", "full"],
)
def test_a_dead_worker_is_one_sentence(said, sentence):
    error: Exception | None = None
    for text in said:
        error = caused(RuntimeError(text), error)
    assert explain(error).startswith(sentence)
    assert explain(RuntimeError("shapes differ")) is None


@pytest.mark.parametrize(
    ("error", "codes", "sentence"),
    [
        (
            RuntimeError("DataLoader worker (pid(s) 1) exited unexpectedly"),
            [0, -9],
            "process 1, which loaded data, ended with exit code -9 (SIGKILL): the system",
        ),
        (
            ConnectionResetError(104, "reset"),
            [0, -7, 3],
            "process 1, 2, which loaded data, ended with exit code -7",
        ),
        (EOFError(), [74], "process 0, which loaded data, ended with exit code 74: it could not pass on a batch"),
        (ConnectionResetError(104, "reset"), [0, None], None),
        (ValueError("odd"), [0, 0], None),
    ],
)
def test_a_worker_s_exit_code_is_known_where_torch_does_not_tell_it(monkeypatch, error, codes, sentence):
    def awaits(self):
        raise error

    asked: list[tuple] = []
    monkeypatch.setattr(exceptions, "wait", lambda *words: asked.append(words))
    monkeypatch.setattr(workers, "WAITS", awaits.__code__)
    held = [SimpleNamespace(pid=pid, exitcode=code, sentinel=pid) for pid, code in enumerate(codes)]
    with pytest.raises(type(error)) as raised:
        awaits(SimpleNamespace(_workers=held))
    said = worker_error(raised.value)
    assert said is None if sentence is None else said.startswith(sentence)
    assert bool(asked) is isinstance(error, ConnectionError | EOFError)


def test_an_error_of_a_set_in_a_worker_is_no_death_of_the_worker():
    assert explain(RuntimeError("Caught RuntimeError in DataLoader worker process 0.\nRuntimeError: odd")) is None


def test_a_run_folder_that_was_removed_is_one_sentence(tmp_path, monkeypatch):
    folder = tmp_path / "runs/default/0"
    monkeypatch.setenv("VIT_LIGHTNING_RUN", str(folder))
    errors = [
        FileNotFoundError(2, "No such file or directory", str(folder / "metrics.csv")),
        RuntimeError(f"Parent directory {folder}/checkpoints does not exist."),
    ]
    logged = ValueError("you tried to log 51.49 which is currently not supported. Try a dict or a scalar/tensor.")
    events = FileNotFoundError(2, "No such file or directory", bytes(folder / "tensorboard/events"))
    errors.append(caused(logged, events))
    for error in errors:
        assert explain(error) == f"the run folder {folder} was removed or moved while the run went on; start it again"
    assert explain(FileNotFoundError(2, "No such file or directory", "x")) is None


def test_a_tpu_without_its_package_is_one_sentence(app):
    done = app("fit", "--data", "Synthetic", "--model.net.variant", "mu/8", "--trainer.accelerator", "tpu")
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("error: --trainer.accelerator tpu needs torch_xla, which is not inst")
    assert not list(Path().rglob("*"))


class MisconfigurationException(Exception):  # noqa: N818
    """Is known by its name."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            MisconfigurationException("No supported gpu backend found!"),
            "--trainer.accelerator gpu: torch finds no GPU;",
        ),
        (
            MisconfigurationException("checkpoint current_epoch=5, but you have set Trainer(max_epochs=3)."),
            "--trainer.max_epochs 3: the checkpoint is from a later epoch;",
        ),
        (
            MisconfigurationException("`max_steps` must be a non-negative integer or -1. You passed in -5."),
            "--trainer.max_steps -5: expected a whole number from 0, or -1 for no limit",
        ),
        (MisconfigurationException("something\n else"), "something else (a matter of --trainer)"),
        (ImportError("no torch_xla here"), "--trainer.accelerator tpu needs torch_xla"),
    ],
)
def test_what_lightning_says_of_its_flags_is_said_in_ours(error, said):
    assert explain(error).startswith(said)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT])
def test_each_refusal_of_the_system_is_one_sentence(number):
    error = OSError(number, os.strerror(number), "x")
    assert explain(error) == f"x: {os.strerror(number)}; free space there, allow it, or name another place"
    assert explain(OSError(number, os.strerror(number))).startswith("a file: ")


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EEXIST, errno.EINVAL])
def test_other_errors_of_the_system_are_faults_of_ours(number):
    assert explain(OSError(number, os.strerror(number), "x")) is None


def test_an_input_error_is_found_behind_what_was_raised_from_it():
    inner = InputError("the right sentence")
    assert explain(caused(ValueError("outer"), inner)) == "the right sentence"
    met = KeyError("while it was handled")
    met.__context__ = inner
    assert explain(met) == "the right sentence"


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            "Requirement 'x>=2' not met. Problem with given class_path 'lightning.pytorch.loggers.WandbLogger'",
            "WandbLogger needs a package that is not installed; run: pip install 'x>=2'",
        ),
        (
            "`CometLogger` : Requirement 'y' not met.",
            "CometLogger needs a package that is not installed; run: pip inst",
        ),
        ("Requirement 'y' not met.", "what you chose needs a package that is not installed; run: pip install 'y'"),
    ],
)
def test_a_package_that_is_missing_is_named(said, sentence):
    assert explain(caused(RuntimeError("outer"), ModuleNotFoundError(said))).startswith(sentence)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0", " for 20.00 MiB"),
        ("CUDA out of memory. Tried to allocate 1.5 GiB", " for 1.5 GiB"),
        ("CUDA out of memory.", ""),
    ],
)
def test_memory_that_was_wanted_is_named(text, wanted):
    assert memory_error(torch.OutOfMemoryError(text)).startswith(f"the memory does not suffice{wanted}; give a smaller")
