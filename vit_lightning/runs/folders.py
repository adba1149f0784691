"""Run folders: made, found again, and removed when their run was refused.

    runs/<experiment>/<n>/
      config.yaml       every setting of the run; a resume adds config.resume-1.yaml    runs/record.py
      env.json          versions, machine, command, git commit; env.resume-1.json       runs/environment.py
      plan.txt          what was said before the first step; a resume adds its own      callbacks/plan.py
      metrics.csv       a row per logged step                                           runs/loggers.py
      tensorboard/      the same for TensorBoard                                        runs/loggers.py
      checkpoints/
        last.ckpt       the newest state                                                runs/checkpoints.py
        previous.ckpt   the state before it                                             runs/checkpoints.py
        new.ckpt        only where a run was killed between two renames                 runs/checkpoints.py
        best.ckpt       the best by the model's monitor                                 Lightning's ModelCheckpoint
      test.json         scores of the last test; validate.json, of the last validation  callbacks/score_file.py
      report.html       all of this in one page                                         commands/report
      inspection/       figures of what its net looks at, and their arrays              commands/inspect
      test.mean.json    scores of this net and others together                          callbacks/score_file.py
      test.*.csv        scores by class, confusion and mistakes                         callbacks/class_tables.py
      probe.json        scores of probes of its features; with probe.csv and features/  commands/probe
      nonfinite.json    what was not finite in the step that ended the run              callbacks/finite_guard.py
      .lock             held by the process that trains here                            runs/lock.py

A checkpoint is a file, or a folder where it is sharded. Files without config.yaml are of a run that was refused.
Nothing here loads torch, so that `sweep` can look at run folders.
"""

import json
import os
import shlex
import shutil
import sys
import warnings
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import count, takewhile
from pathlib import Path

from vit_lightning.errors import InputError, listing
from vit_lightning.files import meant, special_kind
from vit_lightning.runs.checkpoint_names import LAST, NEW, PREVIOUS, is_complete, is_sharded
from vit_lightning.runs.slurm import slurm_job, was_requeued
from vit_lightning.terminal import near

CHECKPOINTS = "checkpoints"
ENVIRONMENT = "env.json"
PLAN = "plan.txt"
NONFINITE = "nonfinite.json"
SPLIT_TABLE = "split.csv"
SPLITS = "splits.json"
REMOVED = "the run folder {folder} was removed or moved while the run went on; start it again"
RUN_ENV = "VIT_LIGHTNING_RUN"
ALIKE = 0.6
"""Likeness, from 0 to 1, from which a path that is not there may be meant as a run's."""
RANKS = (("RANK",), ("SLURM_PROCID",), ("LOCAL_RANK", "NODE_RANK"))
"""Variables that say which process of a run this is; the first that is set counts, with that beside it."""


def claim(root: Path, experiment: str) -> Path:
    """Create and return the next free run folder of an experiment; two runs that start together get two folders.

    Ranks above zero create nothing: those that rank zero launched find its folder in their environment; those started
    from outside (torchrun, srun) never write to a folder, and Lightning sends them rank zero's for what they must read.
    """
    if rank() > 0:
        return Path(os.environ.get(RUN_ENV, root / experiment))
    for number in count(max(_numbers(root / experiment), default=-1) + 1):
        folder = root.resolve() / experiment / str(number)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            reason = f"cannot write run folder {folder}: {error.strerror}; set --trainer.default_root_dir"
            raise InputError(reason) from error
        os.environ[RUN_ENV] = str(folder)
        return folder
    raise AssertionError("count() does not end")


def make(folder: Path) -> None:
    """Make a folder for what a verb leaves, and those around it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror}; name another place") from error


def standing(root: Path) -> Path:
    """Return the folder of all runs, or the innermost one around it that is there."""
    return next(folder for folder in (root.resolve(), *root.resolve().parents) if folder.is_dir())


def discard(folder: Path, stood: Path) -> None:
    """Remove a claimed folder whose run was refused or ended before its first batch, and those made around it.

    Args:
        folder: What `claim` has made.
        stood: What `standing` was before.
    """
    if rank() > 0 or configs(folder):
        return
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # other runs lie there
        for around in takewhile(lambda parent: parent != stood, folder.parents):
            around.rmdir()


def rank() -> int:
    """Number of this process over all hosts; of one whose launcher names its host alone, 0 on the first host only."""
    names = next((names for names in RANKS if names[0] in os.environ), RANKS[-1])
    return sum(int(os.environ.get(name) or 0) for name in names)


def configs(folder: Path) -> list[Path]:
    """The configs of a run in the order in which its parts were run; none before its first batch."""
    return sorted(folder.glob("config*.yaml"), key=lambda path: (len(path.name), path.name))


def to_go_on(folder: Path) -> str:
    """Say what goes on with a run: a whole command if its folder holds the config that the command reads."""
    command = shlex.join(["python", "-m", "vit_lightning", "fit", str(near(folder))])
    return f"{command if configs(folder) else '--ckpt_path last'} goes on"


def folder_of(checkpoint: Path) -> Path | None:
    """Run folder that a checkpoint lies in, or None for a checkpoint from elsewhere."""
    folder = checkpoint.resolve().parent
    return folder.parent if folder.name == CHECKPOINTS else None


def newest_checkpoint(root: Path, experiment: str, name: str, verb: str = "test") -> Path:
    """Checkpoint `name` (last or best) of the newest run of an experiment, for a verb.

    Raises:
        InputError: it has none; one of an earlier run, which may be another, is named but never taken unasked.
    """
    without: list[Path] = []
    for number in sorted(_numbers(root / experiment), reverse=True):
        folder = root / experiment / str(number)
        if path := _whole(folder, name):
            if without:
                raise InputError(
                    f"--ckpt_path {name}: the newest run, {without[0]}, has no whole {name}.ckpt"
                    f"{_damaged(without[0])}{_other(without[0], name)}; start anew without --ckpt_path, or give "
                    f"--ckpt_path {path} to take the run before it"
                )
            return _taken(path, name)
        without.append(folder)
    if without:
        raise InputError(
            f"--ckpt_path {name}: {without[0]} has no whole {name}.ckpt"
            f"{_damaged(without[0])}{_other(without[0], name) or ', so there is nothing to go on from'}; "
            "start anew without --ckpt_path"
        )
    others = newest_runs(root, name)
    named = f"; name the run, as in `{verb} {others[0]}` (the newest: {listing(others, most=3)})" if others else ""
    raise InputError(
        f"--ckpt_path {name}: no run below {root / experiment} has a {name}.ckpt"
        + (named or "; give the same -c files and folder as the run, or the checkpoint's path")
    )


def checkpoint_of(folder: Path, name: str) -> Path | None:
    """Checkpoint `name` (last, best or previous) of a run, if it has a whole one.

    A last.ckpt that is missing or damaged gives way to new.ckpt, which a killed run had not yet given its name, or to
    previous.ckpt, with a warning.
    """
    path = _whole(folder, name)
    return _taken(path, name) if path else None


def _whole(folder: Path, name: str) -> Path | None:
    """Whole checkpoint that `checkpoint_of` would take, without a word."""
    names = (LAST, NEW, PREVIOUS) if name == "last" else (f"{name}.ckpt",)
    return next((path for path in (folder / CHECKPOINTS / one for one in names) if is_complete(path)), None)


def _taken(path: Path, name: str) -> Path:
    """Return a checkpoint, and warn where it stands in for a last.ckpt."""
    if name == "last" and path.name != LAST:
        last = path.with_name(LAST)
        warnings.warn(f"{last} is {'damaged' if last.exists() else 'missing'}: {path} is taken", stacklevel=3)
    return path


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run."""
    return folder.is_dir() and ((folder / CHECKPOINTS).is_dir() or bool(configs(folder)))


def not_a_run(path: Path, instead: str = "") -> str:
    """Say what a path is that is no run folder, and which run folder to give, or `instead`."""
    if not path.exists():
        said = "no such file or folder"
    elif not path.is_dir():
        said = "neither a folder nor a regular file"
    elif runs := runs_below(path):
        what = "the folder of an experiment" if runs[-1].parent == path else "a folder of experiments"
        return f"{what}, whose newest run is {runs[-1]}; give a run folder, such as that one{instead}"
    else:
        said = "a folder without config.yaml and checkpoints"
    said = f"{said}; {run_meant(path)}"
    near_it = meant(path)
    return said if said.endswith("?") else f"{said}{instead}{near_it if near_it.endswith('?') else ''}"


def run_meant(path: Path) -> str:
    """Return which run to give where a path names none: one that is called so, else the newest beside it, if any.

    A path that is not there may lack the folder of all runs, as `digits/0` does.
    """
    beside = [folder for folder in path.absolute().parents if folder.is_dir()][:1]
    runs = next((found for folder in (*beside, Path("runs").absolute()) if (found := runs_below(folder))), [])
    if not runs:
        return "give a run folder"
    likeness = {run: SequenceMatcher(None, str(near(path.absolute())), str(near(run))).ratio() for run in runs}
    alike = max(reversed(runs), key=likeness.__getitem__)
    is_of_another_number = runs[-1].parent == path.absolute().parent
    if likeness[alike] >= ALIKE and not path.exists() and not is_of_another_number:
        return f"did you mean {near(alike)}?"
    return f"give a run folder, such as {near(runs[-1])}, the newest there"


def runs_below(folder: Path) -> list[Path]:
    """Runs of an experiment, the newest last; of a folder of experiments, those of all."""
    if not folder.is_dir():
        return []
    if runs := [entry for entry in folder.iterdir() if is_run(entry)]:
        return sorted(runs, key=lambda run: (len(run.name), run.name))
    runs = [entry for entry in folder.glob("*/*") if entry.name.isdigit() and is_run(entry)]
    return sorted(runs, key=lambda run: (run.stat().st_mtime, run.name))


def trained_checkpoint(folder: Path, name: str | None = None) -> Path:
    """Checkpoint `name` (last or best) of a run; unset: the best one, or, with a warning, the last one without it.

    Raises:
        InputError: it has none, or the best one is damaged.
    """
    if path := checkpoint_of(folder, name or "best"):
        return path
    best = folder / CHECKPOINTS / "best.ckpt"
    if (kind := special_kind(best)) or (best.is_dir() and not is_sharded(best)):
        raise InputError(f"{best} is a {kind or 'folder'}, not a checkpoint; remove it, or give last.ckpt beside it")
    if name is None and best.exists() and (whole := _whole(folder, "last")):
        raise InputError(
            f"{best} is damaged: it does not hold what was written; give {whole.name} beside it in its place"
        )
    if name is None and (path := checkpoint_of(folder, "last")):
        warnings.warn(f"{folder} has no best.ckpt, which only validation makes: {path} is taken", stacklevel=2)
        return path
    left = _other(folder, name or "best")
    lower = " and a lower --model.optim.lr, since it diverged" * (folder / NONFINITE).exists()
    anew = f"; begin anew with fit -c {folder / 'config.yaml'}{lower}" if configs(folder) and not left else ""
    missing = f"{name or 'best.ckpt or last'}.ckpt{_damaged(folder) or ' yet'}"
    raise InputError(f"the run {folder} has no whole {missing}{left or anew}")


def _damaged(folder: Path) -> str:
    """Say which checkpoints of a run are damaged, or nothing."""
    paths = [folder / CHECKPOINTS / name for name in (LAST, NEW, PREVIOUS, "best.ckpt")]
    names = [path.name for path in paths if path.exists() and not is_complete(path)]
    return f": {' and '.join(names)} {'is' if len(names) == 1 else 'are'} damaged" if names else ""


def _other(folder: Path, name: str) -> str:
    """Name the whole checkpoint of a run that stands in for `name` (last or best), or nothing."""
    other = "best" if name == "last" else "last"
    found = _whole(folder, other)
    return f"; give --ckpt_path {other} to take {found}" if found else ""


def checkpoint_behind(source: str) -> str:
    """Return what stands for a net: of a run folder its best checkpoint, of any other source the source itself.

    Raises:
        InputError: the run has no checkpoint, or the folder is that of an experiment or of several.
    """
    path = Path(source).expanduser()
    if "://" in source:
        return source
    if is_run(path):
        return str(trained_checkpoint(path))
    if runs_below(path) and not any(entry.is_file() for entry in path.iterdir()):  # else these may be weights
        raise InputError(f"{source}: {not_a_run(path)}")
    return source


def interrupted(root: Path, experiment: str) -> Path | None:
    """Newest state of the run that this command began, if SLURM has requeued its job since and there is one."""
    if not was_requeued():
        return None
    for number in sorted(_numbers(root / experiment), reverse=True):
        folder = root / experiment / str(number)
        facts = json.loads((folder / ENVIRONMENT).read_text()) if (folder / ENVIRONMENT).is_file() else {}
        if facts.get("slurm_job") == slurm_job() and facts["command"][1:] == sys.argv[1:]:
            return checkpoint_of(folder, "last")
    return None


def newest_runs(root: Path, name: str) -> list[Path]:
    """Runs of any experiment that have a checkpoint `name`, the newest first."""
    found = [path for path in root.glob(f"*/*/{CHECKPOINTS}/{name}.ckpt") if path.parents[1].name.isdigit()]
    return [path.parents[1] for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)]


def _numbers(folder: Path) -> list[int]:
    return [int(entry.name) for entry in folder.glob("*") if entry.name.isdigit()] if folder.is_dir() else []
