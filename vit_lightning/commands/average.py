"""The verb `average`: several checkpoints of one net as one, a soup, scored beside each of them."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from torch import Tensor

from vit_lightning.classifier import Classifier
from vit_lightning.commands.convert import ENDINGS
from vit_lightning.errors import InputError, listing
from vit_lightning.evaluation.scores import MONITOR_OF_SEVERAL, score_of
from vit_lightning.files import check_place
from vit_lightning.models import Net
from vit_lightning.models.lora import drop_lora
from vit_lightning.runs import folders
from vit_lightning.terminal import near, report
from vit_lightning.training.seen_before import merged
from vit_lightning.weights import Report, load_net
from vit_lightning.weights.save import check_ending, save

RELATED = 0.3
"""Cosine between the kernels of two nets below which they have no common start: 0 without one, near 1 with one."""
FIXES = {
    "weights": "average nets that were fine-tuned from one checkpoint",
    "heads": "begin each fit with the same head, by --model.weights CHECKPOINT --model.weights_head keep",
}
"""What to do about nets of which this was trained apart."""
DRAWN_BY = ("val_fraction", "test_fraction", "split_seed")


def average(
    trainer: Trainer,
    model: LightningModule,
    datamodule: LightningDataModule,
    *,
    out: Path,
    ckpt_path: str | None = None,
    members: list[str] = [],  # noqa: B006 - jsonargparse shows it, and nothing changes it
    greedy: bool = False,
) -> None:
    """Average the weights of checkpoints that were trained from the same start, and score the mean beside each.

    python -m vit_lightning average runs/tuned/0 runs/tuned/1 runs/tuned/2 --out soup.ckpt

    The scores are those of the validation images.

    Args:
        trainer: Says where and how precisely to compute.
        model: The model of the first checkpoint.
        datamodule: The images.
        out: Checkpoint to write.
        ckpt_path: The first checkpoint.
        members: Further checkpoints or run folders; they may also stand as words behind the first.
        greedy: Take the best first, and each other only if it does not lower the score of the mean; false: take all
            (Wortsman et al., 2022).

    Raises:
        InputError: there is one checkpoint alone, they are of different nets, or the file exists.
    """
    if not isinstance(model, Classifier) or not members:
        raise InputError("average needs checkpoints of two or more Classifiers; name them, one after the other")
    check_ending(out, "checkpoint", ENDINGS)
    check_place(out, "--out")
    if out.exists():
        raise InputError(f"--out {out} exists already; choose another name, or remove it first")
    paths = [Path(ckpt_path or model.weights or ""), *(Path(folders.checkpoint_behind(word)) for word in members)]
    places = [path.resolve() for path in paths]
    if twice := [path for number, path in enumerate(paths) if places[number] in places[:number]]:
        raise InputError(f"{near(twice[0])} is given twice; name each checkpoint once")
    net, facts = load_net(paths[0])
    apart = {path: _apart(net, _checked(path, (paths[0], net, facts))) for path in paths[1:]}
    for said in _warnings(apart, paths[0]):
        report(f"warning  {said}")
    scores = Scores(trainer, model, datamodule, ckpt_path)
    alone = {path: scores.of([path]) for path in paths}
    for path, value in alone.items():
        report(f"member   {near(path)}: {scores.said(value)}")
    best = max(paths, key=lambda path: scores.sign * alone[path])
    taken, value = _greedy(alone, scores) if greedy else (paths, scores.of(paths))
    gain = scores.sign * (value - alone[best])
    kind = f"greedy, {len(taken)} of {len(paths)} nets" if greedy else f"uniform, {len(paths)} nets"
    report(f"soup     {kind}: {scores.said(value)}, {100 * gain:+.2f} points from its best member, {near(best)}")
    if trainer.is_global_zero:
        net.load_state_dict(mean_state(taken))
        facts.of_data = of_data(taken)
        save(net, facts, out, "checkpoint")
        report(f"wrote    {near(out)}")
        if run := folders.folder_of(paths[0]):
            words = ["python", "-m", "vit_lightning", "test", str(near(run)), "--ckpt_path", str(near(out))]
            report(f"next     {shlex.join(words)}")


class Scores:
    """Validation scores of means of checkpoints, by the metric that chooses the best one.

    Args:
        trainer: What validates.
        model: The model.
        datamodule: The images.
        ckpt_path: The checkpoint of which the model is built.
    """

    def __init__(
        self, trainer: Trainer, model: Classifier, datamodule: LightningDataModule, ckpt_path: str | None
    ) -> None:
        self.trainer, self.model, self.datamodule = trainer, model, datamodule
        self.ckpt_path = ckpt_path
        self._choose(*model.monitor)

    def of(self, paths: Sequence[Path]) -> float:
        """Return the score of the mean of some checkpoints."""
        if self.model.net is None:  # Lightning builds it, and refuses what does not suit the data
            self.trainer.validate(self.model, datamodule=self.datamodule, ckpt_path=self.ckpt_path, verbose=False)
        drop_lora(self.model.net)
        self.model.net.load_state_dict(mean_state(paths))
        self.trainer.validate(self.model, datamodule=self.datamodule, verbose=False)
        logged = self.trainer.callback_metrics
        if self.model.split_scores["val"].several and self.metric == "val/top1":
            of_several = MONITOR_OF_SEVERAL if MONITOR_OF_SEVERAL[0] in logged else ("val/loss", "min")
            self._choose(*of_several)
        return float(logged[self.metric])

    def _choose(self, metric: str, mode: str) -> None:
        self.metric, self.sign = metric, 1 if mode == "max" else -1

    def said(self, value: float) -> str:
        """Return a score as a person reads it."""
        score = score_of(self.metric)
        return f"{score.name_for(False)} {score.said(value)}" if score else f"{self.metric} {value:.4g}"


def mean_state(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the tensors of some nets; of numbers that are counts, the first's.

    Low-rank updates are merged into their kernels first: the mean of products is not the product of means.
    """
    sums: dict[str, Tensor] = {}
    for path in paths:
        for name, tensor in load_net(path)[0].state_dict().items():
            if not tensor.is_floating_point():
                sums.setdefault(name, tensor)
            else:
                sums[name] = sums[name] + tensor if name in sums else tensor.double()
    return {name: (each / len(paths)).float() if each.is_floating_point() else each for name, each in sums.items()}


def of_data(paths: Sequence[Path]) -> dict[str, Any]:
    """Return what some checkpoints know of their data, so that none of the images that one trained on is scored."""
    known: dict[str, Any] = {}
    seen: list[Any] = []
    before: list[Any] = []
    for path in paths:
        own = load_net(path)[1].of_data
        labels = [own.pop("seen_labels", None), *own.pop("seen_by_members", [])]
        before.append(own.pop("seen_before", None))
        seen += [one for one in labels if one and not any(_are_equal(one, other) for other in seen)]
        known = own | known
    kept = {"seen_labels": seen[:1] and seen[0], "seen_by_members": seen[1:], "seen_before": merged(before)}
    return known | {name: one for name, one in kept.items() if one}


def _are_equal(one: Any, other: Any) -> bool:
    """Whether nested mappings hold equal tensors and values."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_are_equal(one[name], other[name]) for name in one)
    return type(one) is type(other) and not isinstance(one, Tensor) and bool(one == other)


def _greedy(alone: dict[Path, float], scores: Scores) -> tuple[list[Path], float]:
    """Return the checkpoints of a greedy soup, and its score."""
    first, *others = sorted(alone, key=lambda path: scores.sign * alone[path], reverse=True)
    taken, value = [first], alone[first]
    for path in others:
        with_it = scores.of([*taken, path])
        if scores.sign * with_it >= scores.sign * value:
            taken, value = [*taken, path], with_it
    return taken, value


def _apart(net: Net, other: Net) -> str:
    """Say what two nets have too little of in common for their mean to mean anything; empty: nothing."""
    first, second = net.state_dict(), other.state_dict()
    parts = (("weights", False), ("heads", True))
    return next((what for what, is_head in parts if _cosine(first, second, is_head) < RELATED), "")


def _warnings(apart: Mapping[Path, str], first: Path) -> Iterator[str]:
    """Yield a sentence about the nets whose weights, and one about those whose heads, are not akin to the first's.

    Args:
        apart: what of each net is not, from `_apart`.
        first: the first net.
    """
    for what, fix in FIXES.items():
        if paths := [str(near(path)) for path, part in apart.items() if part == what]:
            yield (
                f"the {what} of {listing(paths)} were trained apart from those of {near(first)}, so that their mean "
                f"may answer by chance: {fix}"
            )


def _cosine(one: dict[str, Tensor], other: dict[str, Tensor], is_head: bool) -> float:
    """Return the cosine of the kernels of two nets, their heads' or all others; 1 where one has none but zeros."""
    names = [name for name, each in one.items() if each.ndim > 1 and name.startswith("head.") == is_head]
    names = [name for name in names if name.endswith("weight")]
    dot, *squares = (
        sum(float((a[name].double() * b[name].double()).sum()) for name in names)
        for a, b in ((one, other), (one, one), (other, other))
    )
    return dot / (squares[0] * squares[1]) ** 0.5 if all(squares) else 1.0


def _checked(path: Path, first: tuple[Path, Net, Report]) -> Net:
    """Return a net whose weights mean the same as those of the first one.

    Raises:
        InputError: naming what differs, and both.
    """
    other, theirs = load_net(path)
    place, net, facts = first
    for what, this, that in (
        ("nets", _stated(other), _stated(net)),
        ("image sizes", other.image_size, net.image_size),
        ("numbers of classes", other.num_classes, net.num_classes),
        ("tensors", _shapes(other), _shapes(net)),
        ("class names", _numbered(theirs.class_names), _numbered(facts.class_names)),
        ("normalisations", theirs.normalisation(net.config.channels), facts.normalisation(net.config.channels)),
        ("windows", theirs.window, facts.window),
        ("losses", theirs.loss, facts.loss),
    ):
        if this != that:
            raise InputError(
                f"{near(path)} and {near(place)} cannot be averaged, since their {what} differ "
                f"({_difference(this, that)}); give checkpoints of one net, trained on the same data"
            )
    _check_split(path, _splits(theirs, facts), place, _splits(facts, theirs))
    if not all(torch.isfinite(tensor).all() for tensor in other.state_dict().values()):
        raise InputError(f"{path} holds weights that are not finite; give another checkpoint")
    return other


def _check_split(path: Path, this: dict[str, Any], place: Path, that: dict[str, Any]) -> None:
    """Refuse checkpoints of which one may have been trained on images that validate the other.

    Raises:
        InputError: naming both, how many images each was trained on, and what gives the next fit the same split.
    """
    for name, split in this.items():
        if split != that[name]:
            run = folders.folder_of(place)
            table = run / folders.SPLIT_TABLE if run else None
            kept = near(table) if table is not None and table.is_file() else "SPLIT.csv"
            raise InputError(
                f"{near(path)} and {near(place)} cannot be averaged, since their splits of the data differ: trained on "
                f"{split.get('train')} and on {that[name].get('train')} images, each of its own split; fit the former "
                f"again with --data.split_file {kept}"
            )


def _splits(report: Report, other: Report) -> dict[str, Any]:
    """Return how the data of a checkpoint were split, as far as another one knows its own split of such data.

    By which shares and seed a split was drawn, a run that went on from its table does not know.
    """
    common = [name for name in report.of_data if name in other.of_data and not name.startswith("seen_")]
    splits = {name: report.of_data[name]["split"] for name in common}
    return {name: {key: split[key] for key in split if key not in DRAWN_BY} for name, split in splits.items()}


def _stated(net: Net) -> dict[str, object]:
    """Return what a net's config says, its name last, which says less than what differs."""
    fields = asdict(net.config)
    return {name: fields[name] for name in sorted(fields, key="variant".__eq__)}


def _shapes(net: Net) -> dict[str, list[int]]:
    return {name: list(tensor.shape) for name, tensor in net.state_dict().items()}


def _numbered(names: Sequence[str]) -> dict[int, str]:
    return dict(enumerate(names))


def _difference(this: object, that: object) -> str:
    """Return two values that differ, of mappings the first ones that do."""
    if not isinstance(this, dict) or not isinstance(that, dict):
        return f"{this} and {that}"
    if not (this and that):
        return " and ".join(listing(map(str, each.values())) if each else "none" for each in (this, that))
    name = next(name for name in {**this, **that} if this.get(name) != that.get(name))
    return f"{name} is {this.get(name)!r:.60} and {that.get(name)!r:.60}"
