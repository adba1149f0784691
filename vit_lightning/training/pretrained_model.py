"""A scored model that begins with weights or a checkpoint, whose classes are held against those of the data."""

from dataclasses import asdict, replace
from typing import Any, Literal

import torch
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn

from vit_lightning.data import ImageDataModule
from vit_lightning.data.carried_names import names_for_head
from vit_lightning.errors import InputError, listing
from vit_lightning.models import Net, NetConfig, resolve
from vit_lightning.models.finite import check_finite
from vit_lightning.terminal import typed
from vit_lightning.training.freezing import freeze
from vit_lightning.training.scored_model import ScoredModel
from vit_lightning.training.seen_before import check_unseen, seen_before
from vit_lightning.training.seen_labels import check_seen, seen_labels
from vit_lightning.weights import OpenedWeights, open_weights
from vit_lightning.weights.class_names import check_equal, check_named, check_order, spelt
from vit_lightning.weights.layouts.facts import names_in


class PretrainedModel(ScoredModel):
    """A scored model that fills its net with weights, and holds their classes, or a checkpoint's, against the data's.

    Its hyper-parameters hold `weights_raw`, `weights_head`, `weights_resampling`, `weights_adapt`, `weights_overlap`,
    and those that `freeze` reads.
    """

    def begin_with(self, weights: str | None) -> None:
        """Take where the net's first weights come from; None: it begins at random."""
        self.weights = weights
        self.class_names = []
        self.head_names: list[str] = []
        """Classes of the head that came from weights."""
        self.data_names: list[str] = []
        """Classes of the data, which are held against them."""
        self.nameless = ""
        """Data whose classes are numbers alone."""
        self.seen_labels: dict[str, Any] | None = None
        """Labels of the data, once a checkpoint keeps them."""
        self.seen_before: dict[str, Any] = {}
        """What is known of the images that the weights were trained on."""

    def build_net(self) -> Net:
        """Fill the new net with weights if there are any, and freeze what the recipe does not train."""
        opened = open_weights(self.weights, self.hparams.weights_raw, self.chosen) if self.weights else None
        if opened is not None and self.chosen.variant is None:
            theirs = opened.config(self.chosen.heads)
            if self.hparams.weights_head == "reset":
                theirs = replace(theirs, representation=0)  # dropped for transfer (paper, section 3.2)
            self.config = resolve(_over(theirs, self.chosen))
            self.hparams["net"] = asdict(self.config)
        net = super().build_net()
        if opened is not None:
            self._take_weights(net, opened)
        freeze(net, self.hparams)
        return net

    def _take_weights(self, net: Net, opened: OpenedWeights) -> None:
        """Fill the net, and take the normalisation that the weights were trained with."""
        options = {"resampling": self.hparams.weights_resampling, "adapt": self.hparams.weights_adapt}
        scores = self.verb in ("validate", "test", "predict")
        # Weights without a head leave training nothing to keep; scores need one.
        head: Literal["keep", "reset"] = self.hparams.weights_head if scores or opened.num_classes else "reset"
        report = opened.fill(net, head, **options)
        check_finite(net.state_dict(), self.weights or "")
        self.seen_before = seen_before(report.of_data)
        self.head_names = report.class_names
        self._match_head()
        if self.class_names and not self.head_names and head == "keep":
            report.notes.append("the file names no classes: those of its head are taken in the order of the data's")
        self.class_names = self.class_names or self.head_names
        if report.window is not None and self.hparams["window"] is None:
            report.notes.append(f"trained with --data.window {typed(report.window)}, and these data have none")
        rank_zero_info(str(report))
        for name, theirs in (("mean", report.mean), ("std", report.std)):
            ours = self.hparams[name]
            if report.assumes_statistics:
                self.statistics_of = "ImageNet's, which are assumed of weights of DINOv2 that state none"
                self.assumed |= {name} if ours is None else set()
            elif ours and theirs and not torch.allclose(torch.tensor(ours), torch.tensor(theirs), atol=1e-3):
                raise InputError(
                    f"data.{name} is {tuple(ours)}, but the weights were trained with {tuple(theirs)}; "
                    f"drop --data.{name} to take theirs"
                )
            self.hparams[name] = ours or theirs

    def setup(self, stage: str) -> None:
        data = self.trainer.datamodule  # type: ignore[attr-defined]  # set by Lightning from outside
        names = list(getattr(data, "class_names", ()))  # those of any LightningDataModule
        self.data_names, self.nameless = names_for_head(data) if isinstance(data, ImageDataModule) else (names, "")
        ours, theirs = [] if self.nameless else self.data_names, self.class_names or self.head_names
        self.find_shifted(stage, ours, theirs, in_any_order=not self.head_names)  # a checkpoint's names are sure
        if self.shifted is not None:
            names = self.data_names = self.class_names or self.head_names
        super().setup(stage)
        self.seen_labels = None
        self._match_head()
        if stage != "fit" and not self.head_names:
            check_equal(names, self.class_names, "model")
        if names and len(names) != self.hparams.num_classes:
            raise InputError(
                f"the data has {len(names)} class_names, the net {self.hparams.num_classes} outputs; name each class "
                "once, in the order of the labels"
            )
        self.class_names = (names if stage == "fit" else spelt(names, self.head_names)) or self.class_names

    def on_fit_start(self) -> None:
        super().on_fit_start()
        if self.seen_before and not self.trainer.ckpt_path:  # else check_seen does
            check_unseen(self.seen_before, self, self.weights)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        checkpoint["class_names"] = self.class_names
        if self.seen_labels is None:
            self.seen_labels = seen_labels(self.trainer.datamodule)  # type: ignore[attr-defined]
        if self.seen_labels:
            checkpoint["seen_labels"] = self.seen_labels
        if self.seen_before:
            checkpoint["seen_before"] = self.seen_before
        checkpoint["weights"] = self.weights

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        trained = list(checkpoint.get("class_names") or [])
        named = names_in(checkpoint)
        numbers = [str(label) for label in range(len(trained))]
        unlike = self.class_names and self.class_names != numbers  # images to predict have no classes
        if named == trained == numbers and unlike and not self._names_are_stated():
            rank_zero_warn(
                f"the checkpoint calls its classes by numbers, and the data {listing(self.data_names)}: they are taken "
                "by number"
            )
        elif named == trained or self.class_names != trained:  # else check_labels compares what the sets carry
            check_equal(self.class_names, named, "checkpoint")
            self.class_names = named or self.class_names  # as the net spells them
        self.class_names = self.class_names or named
        self.seen_before = checkpoint.get("seen_before") or self.seen_before
        check_seen(checkpoint, self)

    def _names_are_stated(self) -> bool:
        """Whether the classes have the datamodule's names, and not those that one of its sets happens to carry."""
        trainer = self._trainer  # the attribute without the underscore raises where there is none
        data = None if trainer is None else trainer.datamodule  # type: ignore[attr-defined]
        return not isinstance(data, ImageDataModule) or bool(data.stated_names)

    def _match_head(self) -> None:
        """Hold the data's classes against those of the head that came from weights."""
        if self.nameless:
            check_named(self.nameless, self.data_names, self.head_names)
        elif said := check_order(self.data_names, self.head_names):
            rank_zero_warn(said)


def _over(config: NetConfig, chosen: NetConfig) -> NetConfig:
    """`config` with the fields that `chosen` sets."""
    return replace(config, **{name: value for name, value in asdict(chosen).items() if value is not None})
