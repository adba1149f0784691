"""Which images the scores of a run are of, and of which state of its net, as far as its files say."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vit_lightning.commands.report.damage import place_of
from vit_lightning.commands.report.run import Run, as_dict
from vit_lightning.runs import folders
from vit_lightning.runs.checkpoint_names import fingerprint

Source = tuple[tuple[str, str], ...]
"""What images are known by, under names that a person reads."""
OWN = "split"
"""What the set of the split itself is called in a file of scores."""
DRAWN_FROM = ("train", "split_column", "split_file", "val_fraction", "test_fraction", "split_seed", "group_column")
"""Fields of --data that say which images validate where no table of these is given."""
SHORT = 12
"""Signs of a hash that are shown."""


def of_scores(facts: Mapping[str, Any], called: str = "") -> Source:
    """Return what the images of a file of scores are known by; of an older file that does not say, that it does not.

    Args:
        facts: What the file holds.
        called: Which further set; empty: the split itself.
    """
    told, tested = as_dict(facts.get("source")), as_dict(as_dict(facts.get("sets")).get(called or OWN))
    count = as_dict(facts.get("further_images")).get(called) if called else facts.get("images")
    digest = tested.get("sha256")
    found = {"data": str(facts.get("data") or "").rpartition(".")[2], "number of images": count}
    if "sets" not in facts:
        found["record of the images"] = "none"
    if isinstance(digest, str):
        found["names and labels of the images"] = digest[:SHORT]
    if not tested.get("published"):
        also = f"also.{called}"
        decides = (also,) if also in told else ("root", "files", "task", "test", "val")
        found |= {name: told.get(name) for name in (decides if digest else (*decides, *DRAWN_FROM, "class_map"))}
    return tuple((name, str(value)) for name, value in found.items() if value not in (None, ""))


def of_validation(run: Run) -> Source:
    """Return what the images are known by that a fit has validated on.

    These are a hash of published ones, the rows of the run's own table of its split, or what the fit has recorded of
    them; of a run without any of these, the settings that decide which images there are.
    """
    told: dict[str, Any] = {"data": run.class_of("data")}
    data, val = run.part("data"), as_dict(run.splits.get("val"))
    limit = run.part("trainer").get("limit_val_batches")
    if limit is not None and not (isinstance(limit, float) and limit == 1):  # 1 is a batch, 1.0 all of them
        told |= {"limit_val_batches": limit, "batch_size": data.get("batch_size")}
    known = val.get("sha256")
    if known and val.get("published", True):
        told |= {"names of the images": str(known)[:SHORT]}
        return tuple((name, str(value)) for name, value in told.items())
    root, start = data.get("root"), run.environment.get("folder")
    if isinstance(root, str) and isinstance(start, str) and "://" not in root:
        root = str(Path(start, Path(root).expanduser()))
    decides: tuple[str, ...] = ("val", "files", "task", "class_map")
    if run.validated:
        told |= {
            "number of images": run.validated.images,
            "names and classes of the images": run.validated.sha256[:SHORT],
        }
    elif known:
        told |= {"number of images": val.get("images"), "names and labels of the images": str(known)[:SHORT]}
    else:
        decides = (*decides, *(() if data.get("val") else DRAWN_FROM))
    found = told | {"root": root} | {name: data.get(name) for name in decides}
    return tuple((name, str(value)) for name, value in found.items() if value not in (None, ""))


def differences(sources: Sequence[Source], names: Sequence[str]) -> list[str]:
    """Say in what the images of several runs differ, and in which runs.

    Args:
        sources: One of each run.
        names: What the runs are called.
    """
    told = [dict(source) for source in sources]
    said = []
    for field in dict.fromkeys(field for one in told for field in one):
        runs: dict[str, list[str]] = {}
        for one, name in zip(told, names, strict=True):
            runs.setdefault(one.get(field, "not stated"), []).append(name)
        if len(runs) > 1:
            said.append(f"{field} is " + ", ".join(f"{value} in {' and '.join(of)}" for value, of in runs.items()))
    return said


def other_checkpoint(run: Run, facts: Mapping[str, Any]) -> str:
    """Say which checkpoint a file of scores is of, if that is none that the run has now; empty: it is, or nobody knows.

    The run may have been moved or copied since.
    """
    if isinstance(members := facts.get("members"), list):
        states = [(as_dict(member), Path(str(as_dict(member).get("checkpoint")))) for member in members]
        known = ((path, state["fingerprint"]) for state, path in states if state.get("fingerprint"))
        changed = (path for path, then in known if fingerprint(path) not in (None, then))
        return next((f"another {path.name}" for path in changed if path.parent.name == folders.CHECKPOINTS), "")
    path, then = Path(str(facts.get("checkpoint") or "")), facts.get("fingerprint")
    now = fingerprint(run.folder / folders.CHECKPOINTS / path.name)
    if path.parent.name != folders.CHECKPOINTS or (then and then == now):
        return ""
    if now and path.parent.parent != run.folder and fingerprint(path) not in (None, now):
        return str(place_of(path, 4))
    return f"another {path.name}" if then and now else ""
