"""The verb `average`: several checkpoints of one net as one, a soup, scored beside each of them."""

from collections.abc import Sequence
from pathlib import Path

import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from torch import Tensor

from vit_lightning.classifier import Classifier
from vit_lightning.commands.convert import ENDINGS
from vit_lightning.errors import InputError
from vit_lightning.evaluation.scores import score_of
from vit_lightning.files import check_place
from vit_lightning.models import Net
from vit_lightning.models.lora import drop_lora
from vit_lightning.runs import folders
from vit_lightning.terminal import near, report
from vit_lightning.weights import Report, load_net
from vit_lightning.weights.save import check_ending, save

RELATED = 0.3
"""Cosine between the kernels of two nets below which they have no common start: 0 without one, near 1 with one."""


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
    net, facts = load_net(paths[0])
    for path in paths[1:]:
        _check(path, net, facts)
    if said := _apart(paths):
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
        save(net, facts, out, "checkpoint")
        report(f"wrote    {near(out)}")


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
        self.metric, mode = model.monitor
        self.sign = 1 if mode == "max" else -1

    def of(self, paths: Sequence[Path]) -> float:
        """Return the score of the mean of some checkpoints."""
        if self.model.net is None:  # Lightning builds it, and refuses what does not suit the data
            self.trainer.validate(self.model, datamodule=self.datamodule, ckpt_path=self.ckpt_path, verbose=False)
        drop_lora(self.model.net)
        self.model.net.load_state_dict(mean_state(paths))
        self.trainer.validate(self.model, datamodule=self.datamodule, verbose=False)
        return float(self.trainer.callback_metrics[self.metric])

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


def _greedy(alone: dict[Path, float], scores: Scores) -> tuple[list[Path], float]:
    """Return the checkpoints of a greedy soup, and its score."""
    first, *others = sorted(alone, key=lambda path: scores.sign * alone[path], reverse=True)
    taken, value = [first], alone[first]
    for path in others:
        with_it = scores.of([*taken, path])
        if scores.sign * with_it >= scores.sign * value:
            taken, value = [*taken, path], with_it
    return taken, value


def _apart(paths: Sequence[Path]) -> str:
    """Say which net has too little in common with the first one for their mean to mean anything; empty: none."""
    first, *others = ((path, load_net(path)[0].state_dict()) for path in paths)
    for path, state in others:
        for what, is_head in (("weights", False), ("heads", True)):
            likeness = _cosine(first[1], state, is_head)
            if likeness < RELATED:
                return (
                    f"the {what} of {near(path)} and {near(first[0])} have next to nothing in common (cosine "
                    f"{likeness:.2f}), as those of nets trained apart from the beginning: their mean may score like "
                    "chance; average nets that were fine-tuned from one checkpoint"
                )
    return ""


def _cosine(one: dict[str, Tensor], other: dict[str, Tensor], is_head: bool) -> float:
    """Return the cosine of the kernels of two nets, their heads' or all others; 1 where one has none but zeros."""
    names = [name for name, each in one.items() if each.ndim > 1 and name.startswith("head.") == is_head]
    names = [name for name in names if name.endswith("weight")]
    dot, *squares = (
        sum(float((a[name].double() * b[name].double()).sum()) for name in names)
        for a, b in ((one, other), (one, one), (other, other))
    )
    return dot / (squares[0] * squares[1]) ** 0.5 if all(squares) else 1.0


def _check(path: Path, net: Net, facts: Report) -> None:
    """Refuse a net whose weights mean something else than the first one's."""
    other, theirs = load_net(path)
    shapes = {name: tensor.shape for name, tensor in net.state_dict().items()}
    for what, this, that in (
        ("config", other.config, net.config),
        ("image size", other.image_size, net.image_size),
        ("tensors", {name: tensor.shape for name, tensor in other.state_dict().items()}, shapes),
        ("class names", theirs.class_names, facts.class_names),
        ("normalisation", theirs.normalisation(net.config.channels), facts.normalisation(net.config.channels)),
        ("window", theirs.window, facts.window),
        ("loss", theirs.loss, facts.loss),
    ):
        if this != that:
            raise InputError(
                f"{path} has another {what} than the first net; give checkpoints of one net, trained on the same data"
            )
    if not all(torch.isfinite(tensor).all() for tensor in other.state_dict().values()):
        raise InputError(f"{path} holds weights that are not finite; give another checkpoint")
