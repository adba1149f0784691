"""A cell on disk: what of it was done, what comes next, and running it."""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from vit_lightning.commands.sweep.plan import Cell
from vit_lightning.errors import InputError
from vit_lightning.files import check_regular, unwritable, write_atomically
from vit_lightning.private_api import lock_descriptor
from vit_lightning.runs.folders import checkpoint_of
from vit_lightning.yaml_files import AsWritten, read_mapping

PYTHON_MODULE = (sys.executable, "-m", "vit_lightning")
CONFIGS = ("-c", "--config")
DECIDING = (*CONFIGS, "--data", "--model")
"""Flags whose values decide which others there are."""
PAUSE = 5.0
"""Seconds between two lines of progress."""
RECORD = "cell.json"
LOG = "log.txt"
STOPPED = "stopped by a signal"
"""What a fit that a signal has ended says; its exit status may be 0."""

State = Literal["finished", "failed", "stopped", "elsewhere", "waiting"]


@dataclass
class Record:
    """What of a cell was done: the command lines that began, and how many of them ended."""

    lines: list[list[str]] = field(default_factory=list)
    done: int = 0
    seconds: float = 0.0
    began: float = 0.0
    """When the line under way began, in seconds since the epoch; 0 where none is."""
    date: str = ""
    files: dict[str, str] = field(default_factory=dict)
    """Digests of what the -c files hold."""
    ended: State = "stopped"
    """How the last line ended; one that is under way, or was killed, is stopped."""
    error: str = ""
    """The sentence of a try that failed."""

    def write(self, folder: Path) -> None:
        """Leave it in the cell's folder."""
        write_atomically(folder / RECORD, json.dumps(asdict(self), indent=1) + "\n")


@dataclass
class Outcome:
    """How a cell ended; the reason is one sentence."""

    cell: Cell
    state: State
    seconds: float = 0.0
    reason: str = ""


def read_record(folder: Path) -> Record:
    """What a cell's folder says of it; nothing was done where there is none."""
    check_regular(folder / RECORD)
    try:
        record = Record(**json.loads((folder / RECORD).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Record()
    except (ValueError, TypeError) as error:
        raise InputError(f"{folder / RECORD} is not readable; remove {folder} to run the cell anew") from error
    if record.began and (folder / LOG).is_file():  # its sweep was killed; its last line says how far it came
        record.seconds += max((folder / LOG).stat().st_mtime - record.began, 0.0)
    return record


def is_finished(cell: Cell, record: Record) -> bool:
    """Whether all lines of a cell ended well."""
    return record.done == len(cell.lines)


def check_unchanged(cell: Cell, runs: Path) -> Record:
    """Return the record of a cell in the folder of all runs.

    Raises:
        InputError: the cell ran with other words, or files with other content, than it would now.
    """
    folder = runs / cell.place
    record = read_record(folder)
    if not record.done and not _can_go_on(folder):
        return Record(seconds=record.seconds)  # it failed before it had anything to lose
    fix = f"remove {folder} to run it anew, or give the plan another name"
    for old, new in zip_longest(record.lines, cell.lines[: len(record.lines)], fillvalue=[]):
        if old != new:
            was, now = _differing(old, new), _differing(new, old)
            raise InputError(f"{folder} ran with {was}, now the plan has {now}; {fix}")
    now = _digests(cell)
    if changed := next((path for path, digest in record.files.items() if now.get(path) != digest), None):
        raise InputError(f"{folder} ran with another {changed} than there is now; {fix}")
    return record


def command(cell: Cell, number: int, runs: Path) -> list[str]:
    """Words of one of a cell's processes: its fit is the first, what scores it follows."""
    folder = runs / cell.place
    words = [*cell.lines[number], "--trainer.default_root_dir", str(folder)]
    if number:
        words += ["--trainer.logger", "CSVLogger", "--trainer.logger.save_dir", str(folder)]
        words += ["--trainer.logger.name", f"then{number}"]
    elif _can_go_on(folder):
        words += ["--ckpt_path", "last"]
    return [*PYTHON_MODULE, *words]


def check_words(cells: list[Cell], report: Callable[[str], None]) -> None:
    """Let the verbs parse what they will be given; nothing is built.

    Of the fits every flag is parsed with every value that it gets, of what follows them every combination of flags
    and classes.

    Args:
        cells: The cells.
        report: Takes a line every few seconds that says how far this is.

    Raises:
        InputError: a verb does not take the words of a cell.
    """
    chosen: list[tuple[Cell, list[str]]] = []
    seen: set[tuple[str, ...]] = set()
    for cell in cells:
        for line in cell.lines:
            parts = {_names(line), *(pairwise(line) if line[0] == "fit" else ())}
            if not parts <= seen:
                seen |= parts
                chosen.append((cell, [*PYTHON_MODULE, *_without_checkpoint(line), "--print_config"]))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = pool.map(lambda words: subprocess.run(words, capture_output=True, text=True), (w for _, w in chosen))
        last = time.monotonic()
        for number, ((cell, _), answer) in enumerate(zip(chosen, answers, strict=True), 1):
            if answer.returncode:
                pool.shutdown(wait=False, cancel_futures=True)
                raise InputError(f"{cell.place}: {last_words(answer.stderr, answer.returncode)}")
            if time.monotonic() - last > PAUSE:
                report(f"checked {number} of {len(chosen)} command lines")
                last = time.monotonic()


def _names(line: list[str]) -> tuple[str, ...]:
    """The verb and the flags of a command line, those that decide with their values."""
    kept = [word for before, word in pairwise(["", *line]) if word.startswith("-") or before in DECIDING]
    return tuple(word if word.partition("=")[0] in DECIDING else word.partition("=")[0] for word in [line[0], *kept])


def _without_checkpoint(line: list[str]) -> list[str]:
    """A command line without the checkpoint, which is not there before the run."""
    pairs = list(pairwise(["", *line]))
    return [word for before, word in pairs if "--ckpt_path" not in (before, word.partition("=")[0])]


def run(cell: Cell, runs: Path, call: Callable[[list[str], Path, int], int | None]) -> Outcome:
    """Do what is left of a cell.

    Args:
        cell: The cell.
        runs: Folder of all runs.
        call: Runs a process with its output in a file and the descriptor of the cell's lock, and returns its exit
            status, or None where it was not started.
    """
    folder = runs / cell.place
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock:
            descriptor = lock_descriptor(lock)
            return _run(cell, runs, lambda words, log: call(words, log, descriptor))
    except Timeout:
        return Outcome(cell, "elsewhere", reason="another sweep began it, and it has not ended")
    except (InputError, OSError) as error:
        return Outcome(cell, "failed", reason=str(unwritable(folder, error) or error))


def _run(cell: Cell, runs: Path, call: Callable[[list[str], Path], int | None]) -> Outcome:
    folder, record = runs / cell.place, check_unchanged(cell, runs)
    log = folder / LOG
    for number in range(record.done, len(cell.lines)):
        record.lines, record.files, record.began = cell.lines[: number + 1], _digests(cell), time.time()
        record.ended, record.error = "stopped", ""
        record.write(folder)
        words = command(cell, number, runs)
        if number or "--ckpt_path" not in words:
            _remove_earlier_try(folder, number)
        log_size, began = log.stat().st_size if log.is_file() else 0, time.monotonic()
        code = call(words, log)
        output = log.read_bytes()[log_size:].decode(errors="replace") if log.is_file() else ""
        stopped = code is None or STOPPED in output
        unscored = code == 0 and number and not _has_scored(cell, number, folder)
        record.done += code == 0 and not stopped and not unscored
        record.seconds, record.began = record.seconds + time.monotonic() - began, 0.0
        record.date = time.strftime("%Y-%m-%d")
        if (code or unscored) and not stopped:
            why = last_words(output, code) if code else f"{cell.lines[number][0]} left no metrics.csv"
            record.ended, record.error = "failed", f"{why}; see {log}"
        elif not stopped:
            record.ended = "finished"
        record.write(folder)
        if stopped or record.error:
            return Outcome(cell, record.ended, record.seconds, record.error)
    return Outcome(cell, "finished", record.seconds)


def _has_scored(cell: Cell, number: int, folder: Path) -> bool:
    """Whether what follows a fit has left what it is for."""
    return cell.lines[number][0] == "predict" or any(folder.glob(f"then{number}/*/metrics.csv"))


def last_words(output: str, code: int) -> str:
    """The sentence with which a process failed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if code < 0:
        return f"ended by signal {-code}"
    return (errors or lines or [f"exit status {code}"])[-1]


def _can_go_on(folder: Path) -> bool:
    """Whether the cell's run has left a state."""
    return any(checkpoint_of(path, "last") for path in _runs(folder))


def _remove_earlier_try(folder: Path, number: int) -> None:
    """Remove what an earlier try left, so that the folder of the next fit has the number 0, on which others rely."""
    for path in [folder / f"then{number}"] if number else _runs(folder):
        shutil.rmtree(path, ignore_errors=True)


def _runs(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*/[0-9]*") if path.is_dir()]


def _digests(cell: Cell) -> dict[str, str]:
    """What the YAML files on a cell's command line hold, notes and layout aside: -c x, --config=x, --trainer x."""
    pairs = [(word.partition("="), after) for word, after in pairwise([*cell.lines[0], ""])]
    given = [(flag, value or after) for (flag, _, value), after in pairs if flag.startswith("-")]
    parts = [name for flag, name in given if "." not in flag and name.endswith((".yaml", ".yml"))]
    files = [Path(name) for name in dict.fromkeys([*(name for flag, name in given if flag in CONFIGS), *parts])]
    return {str(path): _digest(path) for path in files if path.is_file()}


def _digest(path: Path) -> str:
    content = json.dumps(read_mapping(path, "-c", AsWritten), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _differing(words: list[str], others: list[str]) -> str:
    """What stands in words between how they begin and how they end like others; a value comes with its flag."""
    alike = next((place for place, (a, b) in enumerate(zip(words, others, strict=False)) if a != b), len(others))
    first = max(alike - (not words[alike : alike + 1] or not words[alike].startswith("-")), 0)
    ends = list(zip(reversed(words[alike:]), reversed(others[alike:]), strict=False))
    tail = next((place for place, (a, b) in enumerate(ends) if a != b), len(ends))
    return shlex.join(words[first : len(words) - tail]) or "nothing"
