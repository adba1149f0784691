"""From facts to findings: pure functions, each of which knows one thing that may be wrong, and its remedy."""

import math
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vit_lightning.commands.doctor.machine import Machine
from vit_lightning.commands.doctor.survey import DEEP, Survey
from vit_lightning.data.pixel_form import NO_WHITE
from vit_lightning.errors import at_most
from vit_lightning.terminal import counted

IMBALANCE = 10
"""Largest over smallest class, in images, from which on it is worth a word."""
TINY = 4
"""How many times the image may be enlarged before it is worth a word."""
HUGE = 64
"""How many times the pixels that the model sees are worth a word: decoding one takes the time of many."""
MENDING = "mend or remove them"
"""What to do about images that cannot be read, unless their datamodule knows better."""
MENDED = (
    "--data.on_error fix shows JPEGs that are damaged inside, and no file that is cut short or of an unknown format"
)
"""Why images cannot be read all the same."""
WINDOW = "give --data.window auto, or [low,high]"
"""What to do about values without a defined white."""
LEAST_BITS, MOST_BITS = 9, 14
"""Bits that the values of a set of 16-bit images have at most, when it is worth a word."""
TOO_FEW = "too few for one batch"
"""What a fit says of training images that fill no batch."""
PREFETCHED = 2
"""Batches that each of a loader's workers keeps ready."""


@dataclass(frozen=True)
class Finding:
    """One thing that is worth knowing: an error ends a run or falsifies its figures, a warning may."""

    severity: Literal["error", "warning", "note"]
    topic: str
    text: str
    fix: str = ""
    items: tuple[str, ...] = ()
    """All files or classes that it is about."""


# Data ----------------------------------------------------------------------------------------------------------------


def unreadable(
    found: Survey, on_error: str, max_broken: float, mending: str = MENDING, refused: bool = False
) -> list[Finding]:
    """Images that cannot be read at all or only in part, judged by what the run will do about them.

    Args:
        found: What was seen of a set.
        on_error: The run's --data.on_error.
        max_broken: The run's --data.max_broken.
        mending: What to do about the images.
        refused: Whether the run would not begin with these data, whatever is skipped.
    """
    findings = []
    broken = found.faults if on_error == "fix" else {**found.faults, **found.damages}
    if broken:
        share = len(broken) / len(found)
        allowed = on_error == "skip" and share <= max_broken
        text = f"{_images(broken, found)} of {len(found):,} cannot be read"
        flags = ["--data.on_error skip"] * (on_error != "skip")
        flags += [f"--data.max_broken {math.ceil(100 * share) / 100:g}"] * (share > max_broken)
        if windowless := [record for record, reason in broken.items() if NO_WHITE in reason]:
            mending = WINDOW + f"; {mending}, of the others" * (len(windowless) < len(broken))
        fix = mending + (f", or give {' '.join(flags)}" if flags and not refused else "")
        fix += f"; {MENDED}" * (on_error == "fix")
        findings.append(Finding("warning" if allowed else "error", "broken", text, fix, _reasons(found, broken)))
    if found.damages and on_error == "fix":
        text = f"{_images(found.damages, found)} damaged inside, and shown in part"
        findings.append(Finding("note", "damaged", text, items=_reasons(found, found.damages)))
    return findings


def unusual(found: Survey, has_window: bool = False) -> list[Finding]:
    """Images of unusual kinds, all of which can be read; a window answers those of 16 bits."""
    return [
        Finding("note", "odd", f"{_images(records, found)}: {what}", items=_names(found, records))
        for what, records in sorted(found.oddities.items())
        if not (has_window and what == DEEP)
    ]


def depth(found: Survey) -> list[Finding]:
    """Images of 16 bits whose values use fewer, and are shown darker than they are."""
    peak = max(found.peaks.values(), default=0)
    bits = peak.bit_length()
    if not LEAST_BITS <= bits <= MOST_BITS:
        return []
    text = (
        f"{_images(found.peaks, found)} with {bits}-bit values (up to {peak:,}) in 16 bits, shown at "
        f"1/{2 ** (16 - bits)} of their brightness"
    )
    fix = f"give --data.window '[0,{2**bits - 1}]', or auto"
    return [Finding("warning", "depth", text, fix, _names(found, found.peaks))]


def scaled(found: Survey) -> list[Finding]:
    """Images of floats within [0, 1], which a window for raw counts makes black."""
    if not found.scaled:
        return []
    severity: Literal["error", "warning"] = "error" if 2 * len(found.scaled) > len(found) else "warning"
    text = f"{_images(found.scaled, found)} with floats from 0 to 1, which the window makes black: it maps raw counts"
    fix = "give raw counts in the set, or a --data.window for these values, such as [0,1]"
    return [Finding(severity, "depth", text, fix, _names(found, sorted(found.scaled)))]


def wrong_labels(found: Survey) -> list[Finding]:
    """Class numbers that do not exist, and labels that are none."""
    findings = []
    if items := tuple(f"{found.keys[record]}: {label}" for record, label in sorted(found.outside.items())):
        text = f"{_images(items, found)} with a label outside the classes 0 to {len(found.counts) - 1}"
        findings.append(Finding("error", "labels", text, "correct them, or the number of classes", items))
    if found.mislabelled:
        text = f"{_images(found.mislabelled, found)} without a label that a run takes"
        findings.append(Finding("error", "labels", text, "correct them", _reasons(found, found.mislabelled)))
    return findings


def sizes(found: Survey, size: tuple[int, int]) -> list[Finding]:
    """Images that are far smaller or larger than what the model sees (y, x)."""
    sides = found.sides.astype(np.int64)
    tiny = np.flatnonzero(found.readable & (sides * TINY < size).any(axis=1))
    huge = np.flatnonzero(sides.prod(axis=1) > HUGE * size[0] * size[1])
    findings = []
    if len(tiny):
        text = f"{_images(tiny, found)} enlarged more than {TINY}-fold to {size[0]} x {size[1]}"
        findings.append(Finding("warning", "tiny", text, "remove them if they show nothing", _names(found, tiny)))
    if len(huge):
        text = f"{_images(huge, found)} with more than {HUGE} times the pixels that the model sees"
        findings.append(Finding("note", "huge", text, "loading is faster from smaller copies", _names(found, huge)))
    return findings


def absent_classes(found: Sequence[Survey], names: Sequence[str]) -> list[Finding]:
    """Classes that one split shows and another does not."""
    counts = {one.split: one.counts for one in found}
    train = counts.pop("training", None)
    if train is None or not len(train):
        return []
    findings = []
    if not train.all():
        items = tuple(names[label] for label in np.flatnonzero(train == 0))
        text = f"{len(items):,} of {len(train):,} classes without training images"
        findings.append(Finding("warning", "classes", text, "add images, or drop the classes", items))
    for split, others in counts.items():
        extra, missing = (
            tuple(names[label] for label in np.flatnonzero(places))
            for places in ((others > 0) & (train == 0), (others == 0) & (train > 0))
        )
        if extra:
            text = f"{len(extra):,} of {len(train):,} classes with {split} images but without training images"
            findings.append(Finding("error", "classes", text, "add training images, or remove those", extra))
        if missing:
            text = f"{len(missing):,} of {len(train):,} classes with training images but without {split} images"
            findings.append(Finding("note", "classes", text, f"{split} figures say nothing about them", missing))
    return findings


def imbalance(
    train: Survey, names: Sequence[str], answers: Sequence[str] = (), by_sigmoid: bool = False
) -> list[Finding]:
    """Training classes of very different sizes, or of images of several labels, classes that few images show.

    Args:
        train: What was seen of the training set.
        names: Of the classes.
        answers: Flags of the run that answer it.
        by_sigmoid: Whether an image may show no class.
    """
    shown = np.flatnonzero(train.counts)
    if not len(shown):
        return []
    if any(len(some) > 1 or (by_sigmoid and not some) for some in train.class_sets.values()):
        return _rare(train, names, answers)
    least, most = shown[train.counts[shown].argmin()], shown[train.counts[shown].argmax()]
    if train.counts[most] < IMBALANCE * train.counts[least]:
        return []
    text = (
        f"the largest class, {names[most]}, has {train.counts[most]:,} training images, the smallest, {names[least]}, "
        f"{train.counts[least]:,}"
    )
    doubt = "do not trust top1 alone: the large classes rule it"
    if answers:
        return [Finding("note", "imbalance", f"{text}, which {' and '.join(answers)} answers", doubt)]
    flags = "--data.sampler balanced, --model.class_weights balanced or --model.logit_adjustment 1"
    return [Finding("note", "imbalance", text, f"give one of {flags}; {doubt}")]


def _rare(train: Survey, names: Sequence[str], answers: Sequence[str]) -> list[Finding]:
    """Classes that few of the images of several labels show."""
    images = int(train.readable.sum())
    rare = [label for label in np.argsort(train.counts, kind="stable") if 0 < train.counts[label] * IMBALANCE <= images]
    if not rare:
        return []
    items = tuple(f"{names[label]} ({train.counts[label]:,} of {images:,})" for label in rare)
    shown = int(np.count_nonzero(train.counts))
    text = f"{len(rare):,} of {shown:,} classes {'is' if len(rare) == 1 else 'are'} on 1 of {IMBALANCE} training images"
    text += " or fewer"
    doubt = "judge the net by mean_auroc or map_macro: exact_match and precision at 1 say little of them"
    if answers:
        return [Finding("note", "imbalance", f"{text}, which {' and '.join(answers)} answers", doubt, items)]
    return [Finding("note", "imbalance", text, f"give --model.class_weights balanced; {doubt}", items)]


def one_class(train: Survey, names: Sequence[str]) -> list[Finding]:
    """Training images that are all of one class."""
    shown = np.flatnonzero(train.counts)
    if len(shown) != 1 or train.counts[shown[0]] != train.readable.sum():
        return []
    text = f"all {train.readable.sum():,} training images are of one class, {names[shown[0]]}"
    fix = "add images of the other classes: a net that knows no other answers nothing else"
    return [Finding("warning", "classes", text, fix)]


def trained_on(splits: Iterable[str]) -> list[Finding]:
    """Splits that are scored on the very set that is trained on."""
    fix = "give each split images of its own"
    return [
        Finding("warning", "splits", f"the {split} set is the training set: its scores say nothing of new images", fix)
        for split in splits
    ]


def hidden(folders: Iterable[str]) -> list[Finding]:
    """Folders below the root that are passed over."""
    items = tuple(sorted(folders))
    text = f"{len(items):,} hidden folder{'s' * (len(items) != 1)} ignored"
    return [Finding("note", "hidden", text, "remove them, or rename those that hold data", items)] if items else []


# Machine -------------------------------------------------------------------------------------------------------------


def batch(images: int, batch_size: int, machine: Machine) -> list[Finding]:
    """The effective batch, and whether the training images fill one."""
    if not images:  # which is said where the set is looked at
        return []
    step = batch_size * machine.devices * machine.nodes
    text = (
        f"effective batch {step * machine.accumulation:,}: {batch_size} per device x "
        f"{counted(machine.devices, 'device')} x {counted(machine.nodes, 'node')} x {machine.accumulation} accumulated"
        f"; {counted(images // step, 'batch', grouped=True)} per epoch"
    )
    if images < step:
        few = counted(images, "training image", grouped=True)
        text = f"{few} {'is' if images == 1 else 'are'} {TOO_FEW} of {step:,}"
        return [Finding("error", "batch", text, f"give --data.batch_size {at_most(images * batch_size // step)}")]
    return [Finding("note", "batch", text)]


def shared_memory(machine: Machine, workers: int, batch_bytes: int, loaders: int) -> list[Finding]:
    """Whether the batches that all workers keep ready fit into shared memory."""
    need = machine.devices * loaders * workers * PREFETCHED * batch_bytes
    free = machine.shared_memory
    if free is None or need <= free / 2:
        return []
    text = (
        f"{machine.devices * loaders * workers} workers keep {need / 2**30:.2f} GiB of batches ready, "
        f"and /dev/shm has {free / 2**30:.2f} GiB free"
    )
    gib = -(-2 * need // 2**30)
    fix = f"run the container with --shm-size {gib}g or --ipc=host, or lower --data.num_workers or --data.batch_size"
    return [Finding("error" if need > free else "warning", "shared memory", text, fix)]


def processors(machine: Machine, workers: int) -> list[Finding]:
    """More workers than cores."""
    if workers * machine.devices <= machine.cores:
        return []
    text = f"{counted(workers, 'worker')} for each of {counted(machine.devices, 'device')} share {machine.cores} cores"
    fix = f"give --data.num_workers {machine.cores // machine.devices}, or ask for more cores"
    return [Finding("warning", "workers", text, fix)]


def devices(machine: Machine) -> list[Finding]:
    """What calculates, and whether the precision suits it."""
    bf16 = machine.precision.startswith("bf16")
    if machine.accelerator != "cuda":
        text = f"runs on {machine.accelerator} with {machine.cores} cores, precision {machine.precision}"
        if machine.gpus:
            return [
                Finding("warning", "device", f"{text}; {machine.gpus[0]} is idle", "give --trainer.accelerator gpu")
            ]
        return [Finding("note", "device", text)]
    text = f"runs on {machine.devices} x {machine.gpus[0]}, precision {machine.precision}"
    if bf16 and not machine.bf16:
        return [Finding("error", "device", f"{text}, which it lacks", "give --trainer.precision 16-mixed")]
    fix = "--trainer.precision bf16-mixed is faster" if machine.bf16 and machine.precision.startswith("32") else ""
    return [Finding("note", "device", text, fix)]


def slurm(machine: Machine, workers: int) -> list[Finding]:
    """Whether SLURM has allotted what the trainer is told to use."""
    allotted = {name: int(value) for name, value in machine.slurm.items() if value.isdecimal()}
    if not machine.slurm:
        return []
    if machine.slurm.get("SLURM_JOB_NAME") in ("bash", "interactive"):
        return [Finding("note", "slurm", "an interactive job: one process is started per device, not by srun")]
    lines = (
        f"#SBATCH --nodes={machine.nodes} --ntasks-per-node={machine.devices} "
        f"--cpus-per-task={workers + 1}" + f" --gpus-per-node={machine.devices}" * (machine.accelerator == "cuda")
    )
    findings = []
    tasks, wanted = allotted.get("SLURM_NTASKS", 1), machine.devices * machine.nodes
    if tasks != wanted:
        text = (
            f"SLURM starts {counted(tasks, 'task')}, the trainer uses {counted(machine.nodes, 'node')} x "
            f"{counted(machine.devices, 'device')}"
        )
        findings.append(Finding("error", "slurm", text, lines))
    if allotted.get("SLURM_CPUS_PER_TASK", 1) < workers:
        text = f"SLURM gives a task {allotted.get('SLURM_CPUS_PER_TASK', 1)} cores, and {workers} workers share them"
        findings.append(Finding("warning", "slurm", text, lines))
    return findings or [Finding("note", "slurm", f"{counted(tasks, 'task')}, as the trainer expects")]


def _images(some: Sized, found: Survey) -> str:
    return f"{len(some):,} {found.split} image{'s' * (len(some) != 1)}"


def _names(found: Survey, records: Iterable[int]) -> tuple[str, ...]:
    return tuple(str(found.keys[int(record)]) for record in records)


def _reasons(found: Survey, faults: Mapping[int, str]) -> tuple[str, ...]:
    return tuple(f"{found.keys[record]}: {reason}" for record, reason in sorted(faults.items()))
