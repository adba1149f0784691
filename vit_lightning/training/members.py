"""How a model answers when it is scored: by its net, by further nets of an ensemble, and for mirror images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.evaluation.ensembles import mean_logits
from vit_lightning.models.finite import check_finite
from vit_lightning.weights import Report, load_net
from vit_lightning.weights.deploy import Normalised


class Members:
    """The further nets, in evaluation mode.

    Args:
        paths: Checkpoints, or weights in any layout that say their classes.
        size: Size of the images, (y, x), to which positions are fitted.
    """

    def __init__(self, paths: Sequence[str | Path], size: tuple[int, int]) -> None:
        self.paths = list(map(str, paths))
        self.nets: list[Normalised] = []
        self.reports: list[Report] = []
        for path in self.paths:
            net, report = load_net(path, image_size=size)
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
        """What each net is called that has a score of its own beside that of all, by the name of that score."""

    def prepare(self, fits: bool) -> None:
        """Say which nets have scores of their own; in a fit none."""
        flip, several = self.model.hparams.flip, self.members
        called = [] if fits else ["the first net", *several.paths] if several else ["without flip"] * flip
        self.names = {f"member{number}": name for number, name in enumerate(called, 1)}

    def begin(self) -> None:
        """Bring further nets to the model's device, once its checkpoint is read."""
        if self.members:
            first = self.model.trainer.ckpt_path or self.model.weights or "the first net"
            self.names["member1"] = str(first)
            self.members.check(self.model.class_names, self.model.hparams)
            self.members.to(self.model.device)

    def __call__(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return logits `(b, k)` of all nets and views together, and, if these are several, of each net alone."""
        alone = self._alone(images)
        views = alone + (self._alone(images.flip(-1)) if self.model.hparams.flip else [])
        if len(views) == 1:
            return views[0], []
        return mean_logits(views, self.model.hparams.loss == "sigmoid"), alone

    def beside_best_member(self, split: str) -> list[str]:
        """Say how many points the mean of several answers is above the best of the nets alone."""
        scores = self.model.scores[split]
        alone = {name: float(scores[name].compute()) for name in self.names if scores[name].update_called}
        if not alone:
            return []
        best = max(alone, key=lambda name: alone[name])
        gain = 100 * (float(scores["top1"].compute()) - alone[best])
        return [f"the mean answer is {gain:+.2f} points of top-1 from its best member, {self.names[best]}"]

    def _alone(self, images: Tensor) -> list[Tensor]:
        found = [self.model(images), *(self.members(images) if self.members else [])]
        shifted = self.model.shifted
        return found if shifted is None else [shifted.logits(each) for each in found]
