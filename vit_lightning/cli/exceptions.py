"""Exceptions that the user can mend, in one sentence; all others keep their traceback."""

import errno
import os
import re
import signal
import sys
from multiprocessing.connection import wait
from traceback import walk_tb
from typing import Any

from vit_lightning.errors import InputError
from vit_lightning.files import TOO_LARGE
from vit_lightning.processes import UNSENT
from vit_lightning.runs.folders import REMOVED, RUN_ENV

TRAINER_ERRORS = (
    (
        re.compile(r"`val_check_interval` \((\d+)\) must be .* the training batches \((\d+)\)"),
        r"--trainer.val_check_interval \1: an epoch has \2 training batches; give \2 or less, or "
        "--trainer.check_val_every_n_epoch null to count batches over epochs",
    ),
    (
        re.compile(r"No supported gpu backend found"),
        "--trainer.accelerator gpu: torch finds no GPU; give --trainer.accelerator cpu after a file that asks for one",
    ),
    (
        re.compile(r"current_epoch=\d+, but you have set Trainer\(max_epochs=(\d+)\)"),
        r"--trainer.max_epochs \1: the checkpoint is from a later epoch; give more than its run has had",
    ),
    (
        re.compile(r"`(max_\w+)` must be .* You passed in (-?\w+)"),
        r"--trainer.\1 \2: expected a whole number from 0, or -1 for no limit",
    ),
)
"""What Lightning says of its flags, and how it is said here."""
RESTORING = "lightning.pytorch.trainer.connectors.checkpoint_connector"
"""Module of Lightning's that restores a run."""
RESTORED_BY = ("lightning", "torch", "vit_lightning")
"""Packages whose code stumbles over a damaged state; that of a callback of the user's keeps its traceback."""
DAMAGE = (LookupError, TypeError, ValueError, AttributeError, RuntimeError)
"""What reading a state that is built otherwise raises."""
SYSTEM_ERRORS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
"""Errors of the system that the user alone can mend."""


SHARE_MORE = (
    "enlarge /dev/shm (docker run --shm-size 8g), raise the limit of file sizes (ulimit -f unlimited) or of open files "
    "(ulimit -n), or give --data.num_workers 0"
)
WORKER_CAUSES = {
    "SIGKILL": "the system most likely had no memory left for it; give fewer --data.num_workers, a smaller "
    "--data.batch_size, or more memory",
    "SIGBUS": "/dev/shm, through which batches pass, is most likely full; enlarge it (docker run --shm-size 8g) or "
    "give fewer --data.num_workers",
    str(UNSENT): f"it could not pass on a batch; {SHARE_MORE}",
}
"""Why a loader's worker ends by a signal, or with a status of ours."""
UNSHARED = re.compile(r"unable to [^<>\n]*</torch_[^>]*>[^:\n]*: ([^\n(]*\w)")
"""What torch says where a batch finds no place in shared memory."""
ENDS = 2.0
"""Seconds that a worker whose connection broke has to end."""
WORKER_FAILED = "--data.num_workers 0 shows where"


def explain(error: BaseException) -> str | None:
    """One sentence about an exception that the user can mend; None for any other."""
    known = (
        *(worker_error, input_error, missing_package, trainer_error, torchvision_error, constructor_error),
        *(removed_run, system_error, memory_error, unrestored_run),
    )
    fault = next((said for translate in known if (said := translate(error)) is not None), None)
    return None if fault is None else " ".join(fault.split())


def worker_error(error: BaseException | None) -> str | None:
    """A loader's worker that ended without a word of its own, or could not pass on what it had loaded."""
    said, dead = "", []
    while error is not None:
        text = str(error)
        if isinstance(error, RuntimeError) and (reason := UNSHARED.search(text)):
            return f"a batch could not be passed on between processes ({reason[1]}); {SHARE_MORE}"
        is_death = isinstance(error, RuntimeError) and "DataLoader worker" in text and not text.startswith("Caught ")
        said += f" {text}" if is_death else ""
        dead += _dead_workers(error)
        error = error.__cause__ or error.__context__
    if not (said or dead):
        return None
    pids = found[1] if (found := re.search(r"pid(?:\(s\))? ([\d, ]*\d)", said)) else None
    if pids is None and dead:
        pids = ", ".join(dict.fromkeys(str(worker.pid) for worker in dead))
    code = _exit_code(said) or next((worker.exitcode for worker in dead), None)
    name = signal.Signals(-code).name if code and code < 0 else str(code or "")
    how = f" with exit code {code}" if code else ""
    how += f" ({name})" if code and code < 0 else ""
    which = f"process {pids}" if pids else "a process"
    return f"{which}, which loaded data, ended{how}: {WORKER_CAUSES.get(name, WORKER_FAILED)}"


def _exit_code(said: str) -> int | None:
    """The exit code in torch's words about a worker's death, minus the signal where that killed it."""
    if killed := re.search(r"is killed by signal: ([^.]+)", said):
        words = killed[1].strip()
        return next((-signum for signum in signal.valid_signals() if signal.strsignal(signum) == words), None)
    return int(found[1]) if (found := re.search(r"exit code (-?\d+)", said)) else None


def _dead_workers(error: BaseException) -> list[Any]:
    """Workers that ended badly while a batch of theirs was awaited; torch does not always tell their exit code."""
    loading = sys.modules.get("vit_lightning.data.workers")  # without it there is no loader, nor time for torch
    frames = [frame for frame, _ in walk_tb(error.__traceback__) if loading and frame.f_code is loading.WAITS]
    workers = [worker for frame in frames for worker in frame.f_locals["self"]._workers]
    if workers and isinstance(error, ConnectionError | EOFError):  # a batch that broke off: its worker may still end
        wait([worker.sentinel for worker in workers], ENDS)
    return [worker for worker in workers if worker.exitcode]


def input_error(error: BaseException | None) -> str | None:
    """The InputError that an exception is or was raised from: jsonargparse wraps those of constructors in its own."""
    while error is not None and not isinstance(error, InputError):
        error = error.__cause__ or error.__context__
    return None if error is None else str(error)


def missing_package(error: BaseException | None, chosen: str = "what you chose") -> str | None:
    """A callback, logger or profiler of Lightning's that needs a package which is not installed."""
    while error is not None:
        if wanted := re.search(r"Requirement '([^']+)' not met", said := str(error)):
            named = re.search(r"given class_path '[\w.]*?(\w+)'|`(\w+)`", said)
            name = next(filter(None, named.groups())) if named else chosen
            return f"{name} needs a package that is not installed; run: pip install '{wanted[1]}'"
        error = error.__cause__ or error.__context__
    return None


def constructor_error(error: BaseException) -> str | None:
    """A class given with a flag, such as a callback of the user's, whose constructor fails; in jsonargparse's words."""
    said = str(error)
    named = re.findall(r"class_path='([^']+)'", said)
    if not said.startswith("Does not validate against any of the Union subtypes") or not named:
        return None
    listed = said.partition("Errors:")[2].partition("Given value type:")[0]
    reasons = [line.strip(" -") for line in listed.splitlines() if not line.strip(" -").startswith("Expected a")]
    return f"{named[-1]} cannot be made: {' '.join(filter(None, reasons)) or 'its constructor fails'}"


def trainer_error(error: BaseException) -> str | None:
    """Lightning's own complaint about its flags."""
    if isinstance(error, ImportError) and "torch_xla" in str(error):
        return (
            "--trainer.accelerator tpu needs torch_xla, which is not installed: "
            "pip install torch~=2.9.0 torch_xla[tpu]~=2.9.0"
        )
    if isinstance(error, AttributeError) and "lr_find" in str(error):
        return (
            "LearningRateFinder cannot set the learning rate of a recipe with a schedule; run the verb sweep over "
            "--model.optim.lr, as experiments/sweeps/digits_lr.yaml does"
        )
    is_lightnings = type(error).__name__ == "MisconfigurationException"  # by name, since importing Lightning is slow
    if not is_lightnings and type(error) is not ValueError:
        return None
    said = " ".join(str(error).split())
    found = next((match.expand(words) for known, words in TRAINER_ERRORS if (match := known.search(said))), None)
    if not found and not is_lightnings:
        return None
    return found or f"{said} (a matter of --trainer)"


def torchvision_error(error: BaseException | None) -> str | None:
    """What importing torchvision raises where it is of another build than torch."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("torch"):
            return None
        for frame, _ in walk_tb(error.__traceback__):
            if frame.f_globals.get("__name__") == "torchvision" and frame.f_code.co_name == "<module>":
                from importlib import metadata  # slow, and needed here only

                torch, vision = (metadata.version(name) for name in ("torch", "torchvision"))
                return (
                    f"torchvision {vision} does not fit torch {torch} ({error}); install the one that does: "
                    f"pip install --force-reinstall torch=={torch} torchvision, from the index of that torch"
                )
        error = error.__cause__ or error.__context__
    return None


def unrestored_run(error: BaseException) -> str | None:
    """A checkpoint from which Lightning cannot go on, for a reason that no check of ours has found."""
    frames = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    if RESTORING not in frames or frames[-1].partition(".")[0] not in RESTORED_BY or not isinstance(error, DAMAGE):
        return None
    return (
        f"the checkpoint holds a state that does not fit this run, or is damaged ({type(error).__name__}: "
        f"{error!s:.200}); give another checkpoint"
    )


def removed_run(error: BaseException | None) -> str | None:
    """A run folder that was removed or moved while its run went on.

    torch has words of its own for that, and loggers raise others from the system's.
    """
    folder = os.environ.get(RUN_ENV)
    while error is not None and folder:
        ours = isinstance(error, FileNotFoundError) and _text(error.filename).startswith(folder)
        if ours or (isinstance(error, RuntimeError) and f"Parent directory {folder}" in str(error)):
            return REMOVED.format(folder=folder)
        error = error.__cause__ or error.__context__
    return None


def _text(name: Any) -> str:
    """The name of a file in an error, which may be bytes, as TensorBoard's are, or lack."""
    return os.fsdecode(name) if isinstance(name, str | bytes | os.PathLike) else ""


def system_error(error: BaseException) -> str | None:
    """What the system refuses with a file."""
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return f"{error.filename or 'a file'}: {TOO_LARGE}"
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return f"{_text(error.filename)[:80] or 'a file'}...: {error.strerror}; give a shorter one"
    if isinstance(error, OSError) and error.errno in SYSTEM_ERRORS:
        if error.filename is None and not _takes_output():
            return f"the standard output: {error.strerror}; free space where it goes, or send it elsewhere: > log.txt"
        return f"{error.filename or 'a file'}: {error.strerror}; free space there, allow it, or name another place"
    return None


def _takes_output() -> bool:
    """Whether one more line can be printed; a flush would say nothing of what has failed before."""
    try:
        os.write(1, b"\n")
    except OSError:
        return False
    return True


def memory_error(error: BaseException) -> str | None:
    """Memory that does not suffice."""
    if not isinstance(error, RuntimeError | MemoryError):
        return None
    from vit_lightning.compute.gpu_memory import is_exhausted

    if not is_exhausted(error):
        return None
    wanted = re.search(r"(?:tried to allocate|sizes=) ?(\[[^]]*\]|[\d.]+ \w+)", str(error), re.IGNORECASE)
    return (
        f"the memory does not suffice{f' for {wanted[1]}' if wanted else ''}; give a smaller net, --data.image_size or "
        "--data.batch_size (--trainer.accumulate_grad_batches makes up for it), or --model.recompute true; "
        "benchmark --batches auto finds the largest batch"
    )
