"""A classifier's scores on the validation and test sets, as a LightningModule."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor, nn

from vit_lightning.contracts import ImageData
from vit_lightning.evaluation.scores import scores_with
from vit_lightning.training.members import Answering
from vit_lightning.training.metrics import WeightedMean, split_metrics
from vit_lightning.training.recipe import RecipeModel
from vit_lightning.training.scored_classes import ScoredClasses, parts_of
from vit_lightning.training.scoring import SplitScores, monitored_names, possible_names


class ScoredModel(RecipeModel):
    """A model whose logits are scored; its hyper-parameters hold `loss`, `scores` and `flip`."""

    split_scores: Any
    """SplitScores by split: what is no mean over its images."""
    class_names: list[str]
    """Names of the net's classes; empty: nobody says them."""
    wants_features: bool
    """Whether predictions have the features behind them."""

    def make_scores(self, threshold: float) -> None:
        """Make the metrics; a label is predicted above a probability of `threshold`, for images of several."""
        self.scores = split_metrics(scores_with("targets", "labels"))
        self.split_scores = nn.ModuleDict({split: SplitScores(threshold) for split in self.scores})
        self.scored_classes: dict[tuple[str, int], ScoredClasses] = {}
        self.answering = Answering(self)

    def find_shifted(self, stage: str, ours: Sequence[str], theirs: Sequence[str], in_any_order: bool) -> None:
        """Find out whether the data have some of the net's classes, by their names; training needs all, in order."""
        self.scored_classes = {}
        self.shifted = ScoredClasses.of_data(ours, theirs, in_any_order) if stage != "fit" else None
        if self.shifted is not None and stage == "predict":
            rank_zero_info(f"predictions are among the classes of the data: {self.shifted}")

    def scored_names(self, split: str) -> list[str]:
        """Names of the classes on which a split is scored; empty: nobody says them."""
        part = self.scored_classes.get((split, 0)) or self.shifted
        return part.names if part else self.class_names

    def ready_scores(self, stage: str) -> None:
        """Make room for the data's further sets, and choose the scores that the stage computes."""
        data, fits = self.trainer.datamodule, stage == "fit"  # type: ignore[attr-defined]  # set by Lightning
        self.further_sets = list(data.further_sets) if isinstance(data, ImageData) else []
        known = self.scored_names("test")
        self.scored_classes = parts_of(data, self.further_sets, known, len(known) or self.hparams.num_classes)
        self.answering.prepare(fits)
        for scores in self.scores.values():
            names_of_sets = (*self.further_sets, *self.answering.names)
            scores.update({name: WeightedMean() for name in names_of_sets if name not in scores})
        monitored = monitored_names(getattr(self.trainer, "callbacks", ())) if fits else ()
        for split_scores in self.split_scores.values():  # a ranking of classes that compete is not wanted unasked
            split_scores.want(self.hparams.scores, monitored, costly=not fits and self.hparams.loss == "sigmoid")

    @abstractmethod
    def loss(self, logits: Tensor, labels: Tensor, smoothing: float = 0.0, reduction: str = "mean") -> Tensor:
        """Return the loss of logits (b, classes) over the batch."""

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int, dataloader_idx: int = 0) -> None:
        self._evaluate("val", *batch, dataloader_idx)

    def test_step(self, batch: tuple[Tensor, Tensor], batch_idx: int, dataloader_idx: int = 0) -> None:
        self._evaluate("test", *batch, dataloader_idx)

    @property
    @abstractmethod
    def reads_features_alone(self) -> bool:
        """Whether the logits are what the net's head makes of its features."""

    def predict_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor | tuple[Tensor, Tensor]:
        """Class probabilities (b, classes); NaN where a logit is not finite, which sigmoid would hide.

        Behind them, if wanted, the features (b, d) that the head reads.
        """
        if not self.wants_features:
            return self._shares(self.answering(batch[0])[0])
        features = self.net.features(self.normalise(batch[0]))
        if not self.hparams.num_classes:
            return features[:, :0], features
        if self.answering.names or not self.reads_features_alone:
            return self._shares(self.answering(batch[0])[0]), features
        logits = self.net.head(features)
        return self._shares(logits if self.shifted is None else self.shifted.logits(logits)), features

    def _shares(self, logits: Tensor) -> Tensor:
        shares = logits.softmax(-1) if self.hparams.loss == "softmax" else logits.sigmoid()
        return shares.masked_fill(~logits.isfinite(), torch.nan)

    def _evaluate(self, split: str, images: Tensor, labels: Tensor, number: int = 0) -> None:
        """Update the exact, unsmoothed scores; a record whose label is negative is padding and counts nothing.

        Of the data's further sets, whose numbers begin at 1, the score is the top-1 accuracy.
        """
        logits, alone = self.answering(images)
        if (part := self.scored_classes.get((split, number))) is not None:
            logits, alone = part.logits(logits), [part.logits(each) for each in alone]
            labels = part.labels(labels)
        scores = self.scores[split]
        valid = (labels if labels.ndim == 1 else labels[:, 0]) >= 0
        labels = labels.clamp(min=0)
        weight = valid.float()
        ranked = logits.topk(min(5, logits.shape[-1]), dim=-1).indices
        hits = ranked == labels[:, None] if labels.ndim == 1 else labels.gather(1, ranked) > 0.5
        if number:
            values = {self.further_sets[number - 1]: hits[:, 0].float()}
        else:
            losses = self.loss(logits, labels, reduction="none")
            values = {"loss": losses, "top1": hits[:, 0].float(), "top5": hits.any(-1).float()}
            self.split_scores[split].update(logits, labels, valid, ranked[:, 0], self.hparams.loss == "sigmoid")
            for name, each in zip(self.answering.names, alone, strict=False):
                best = each.argmax(-1)
                values[name] = (best == labels if labels.ndim == 1 else _picked(labels, best) > 0.5).float()
        for name, value in values.items():
            scores[name].update(value, weight)
            shown, metric = name == "top1", scores[name]
            self.log(f"{split}/{name}", metric, shown, on_step=False, on_epoch=True, add_dataloader_idx=False)

    def on_validation_epoch_start(self) -> None:
        self.answering.begin()
        self.split_scores["val"].begin()

    def on_test_epoch_start(self) -> None:
        self.answering.begin()
        self.split_scores["test"].begin()

    def on_predict_start(self) -> None:
        self.answering.begin()

    def on_validation_epoch_end(self) -> None:
        super().on_validation_epoch_end()
        if not self.trainer.sanity_checking:
            self._log_split_scores("val", "validation")

    def on_test_epoch_end(self) -> None:
        super().on_test_epoch_end()
        self._log_split_scores("test", "test")

    def _log_split_scores(self, split: str, called: str) -> None:
        """Log the scores that are no means over images, and note what they leave out; a fit says it if asked for."""
        scores: SplitScores = self.split_scores[split]
        if (summed := scores.sum_up()) is None:
            return
        for name, value in summed.values.items():
            shown = name in scores.monitored or (name == "macro_f1" and bool(scores.several))
            logged = torch.tensor(value, dtype=torch.float32, device=self.device)
            # All processes have the value; Lightning warns of one that it does not reduce, and a mean would round.
            self.log(f"{split}/{name}", logged, shown, sync_dist=True, reduce_fx="max")
        part = self.scored_classes.get((split, 0)) or self.shifted
        beside = self.answering.beside_best_member(split)
        scores.notes = [*beside, *([str(part)] if part else []), *scores.explain(called)]
        for said in scores.notes if scores.required and self.trainer.state.fn == "fit" else ():
            if said not in self._said:
                self._said.add(said)
                rank_zero_info(said)

    @property
    def score_names(self) -> list[str]:
        """Names of the scores that are logged of each split, or can be: which ones, the first labels tell."""
        own, several = list(self.scores["val"]), self.split_scores["val"].several
        return own + (possible_names() if several is None else self.split_scores["val"].names(several))


def _picked(labels: Tensor, classes: Tensor) -> Tensor:
    return labels.gather(1, classes[:, None])[:, 0]
