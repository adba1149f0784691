"""How a model answers when it is scored: by its net, by further nets of an ensemble, and for mirror images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.evaluation.ensembles import mean_logits
from vit_lightning.models.finite import check_finite
from vit_lightning.terminal import near
from vit_lightning.training.seen_labels import check_member
from vit_lightning.weights import Report, open_weights
from vit_lightning.weights.deploy import Normalised


class Members:
    """The further nets, in evaluation mode.

    Args:
        paths: Checkpoints, or weights in any layout that say their classes.
        size: Size of the images, (y, x), to which positions are fitted.
        first: The net that they answer beside.
        trained_size: Size of the images that it was trained on; None: that of the images.

    Raises:
        InputError: a net was trained on images of another size.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        size: tuple[int, int],
        first: str | Path = "the first net",
        trained_size: tuple[int, int] | None = None,
    ) -> None:
        self.paths = list(map(str, paths))
        self.nets: list[Normalised] = []
        self.reports: list[Report] = []
        for path in self.paths:
            opened = open_weights(path)
            _check_size(path, opened.image_size, first, trained_size or size)
            net, report = opened.build(image_size=size)
            check_finite(net.state_dict(), path)
            self.nets.append(Normalised(net, report).eval())
            self.reports.append(report)

    def check(self, names: Sequence[str], facts: Any) -> None:
        """Refuse nets of other answers than the first one's.

        Args:
            names: Names of its classes.
            facts: Its hyper-parameters.

        Raises:
            InputError: naming the net, and what differs.
        """
        for path, member, report in zip(self.paths, self.nets, self.reports, strict=True):
            net = member.net
            for what, theirs, ours in (
                ("classes", net.num_classes, facts["num_classes"]),
                ("channels", net.config.channels, len(facts["mean"])),
                ("window", report.window, facts["window"] and tuple(facts["window"])),
                ("loss", report.loss or facts["loss"], facts["loss"]),
                ("class names", report.class_names or list(names), list(names)),
            ):
                if theirs != ours:
                    raise InputError(
                        f"{path} has other {what} than the first net, {theirs!s:.60} where that has {ours!s:.60}; give "
                        "nets that were trained on the same data"
                    )

    def to(self, device: torch.device) -> None:
        """Move the nets to a device."""
        for net in self.nets:
            net.to(device)

    def __len__(self) -> int:
        return len(self.nets)

    def __call__(self, images: Tensor) -> list[Tensor]:
        """Return the logits of each net for images `(b, c, y, x)`, uint8 or float in [0, 1]."""
        images = images.float() / 255 if images.dtype == torch.uint8 else images
        return [net(images) for net in self.nets]


def _check_size(path: str, size: tuple[int, int], first: str | Path, trained_size: tuple[int, int]) -> None:
    """Refuse a net that would be scored on images of another size than those of its training."""
    if tuple(size) != tuple(trained_size):
        (y, x), (rows, columns) = size, trained_size
        raise InputError(
            f"{near(path)} was trained on images of {y}x{x} pixels, and {near(first)} on {rows}x{columns}, so that "
            "they cannot answer together; give nets of one image size, or score each by itself"
        )


class Alone(NamedTuple):
    """One of several nets, or of several views, by itself."""

    source: str
    """Its checkpoint or weights, or how it answers."""
    scores: dict[str, float]
    """By name, as in `evaluation.scores`."""


class Answering:
    """The answers of a model to images that are scored or predicted.

    Args:
        model: a Classifier.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.members: Members | None = None
        """Further nets of an ensemble."""
        self.names: dict[str, str] = {}
        """What each net is called that has scores of its own beside those of all, by the name of its top-1 score."""
        self.alone: dict[str, dict[str, Alone]] = {}
        """The scores of each net by itself, by split and by the name of its top-1 score."""

    def prepare(self, fits: bool) -> None:
        """Say which nets have scores of their own; in a fit none."""
        flip, several = self.model.hparams.flip, self.members
        called = [] if fits else ["the first net", *several.paths] if several else ["without flip"] * flip
        self.names = {f"member{number}": name for number, name in enumerate(called, 1)}
        self.alone = {}

    def begin(self) -> None:
        """Bring further nets to the model's device, once its checkpoint is read."""
        if self.members:
            first = self.model.trainer.ckpt_path or self.model.weights or "the first net"
            self.names["member1"] = str(first)
            self.members.check(self.model.class_names, self.model.hparams)
            for path, report in zip(self.members.paths, self.members.reports, strict=True):
                check_member(path, report.of_data, self.model)
            self.members.to(self.model.device)

    def __call__(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return logits `(b, k)` of all nets and views together, and, if these are several, of each net alone.

        Each of several nets answers alone as all do together, for both views if they do; one net without the mirror.
        """
        views = self._alone(images)
        mirrored = self._alone(images.flip(-1)) if self.model.hparams.flip else []
        if len(views) == 1 and not mirrored:
            return views[0], []
        sigmoid = self.model.hparams.loss == "sigmoid"
        together = mean_logits([*views, *mirrored], sigmoid)
        if self.members and mirrored:
            return together, [mean_logits(list(both), sigmoid) for both in zip(views, mirrored, strict=True)]
        return together, views

    @property
    def sources(self) -> list[str]:
        """Where the nets come from; empty where one net answers."""
        return list(self.names.values()) if self.members else []

    def beside_best_alone(self, split: str) -> list[str]:
        """Say how the mean of several answers compares with the best of them alone."""
        alone = self.alone.get(split)
        if not alone:
            return []
        best = max(alone.values(), key=lambda one: one.scores["top1"])
        gain = 100 * (float(self.model.scores[split]["top1"].compute()) - best.scores["top1"])
        points = f"{abs(gain):.2f} points of top-1 {'better' if gain > 0 else 'worse'} than"
        compared = "as good in top-1 as" if f"{gain:.2f}" in ("0.00", "-0.00") else points
        together = f"the {len(self.members) + 1} nets together are" if self.members else "both views together are"
        return [f"{together} {compared} the best alone, {near(best.source)}"]

    def _alone(self, images: Tensor) -> list[Tensor]:
        found = [self.model(images), *(self.members(images) if self.members else [])]
        shifted = self.model.shifted
        return found if shifted is None else [shifted.logits(each) for each in found]
