"""A classifier's scores on the validation and test sets, as a LightningModule."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor, nn

from vit_lightning.contracts import ImageData
from vit_lightning.evaluation.scores import of_set, scores_with
from vit_lightning.training.members import Alone, Answering
from vit_lightning.training.metrics import WeightedMean, split_metrics
from vit_lightning.training.recipe import RecipeModel
from vit_lightning.training.scored_classes import ScoredClasses, parts_of
from vit_lightning.training.scoring import SplitScores, monitored_names, possible_names

MEANS = ("loss", "top1", "top5")
"""Scores that are means over a set's images."""


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
        self.further_scores = nn.ModuleDict({split: nn.ModuleDict() for split in self.scores})
        """The same of the data's further sets, by split and name of the set."""
        self.member_scores = nn.ModuleDict({split: nn.ModuleDict() for split in self.scores})
        """All scores of each answer that is scored by itself, by split and name."""
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
        means = [of_set(name, score) for name in self.further_sets for score in MEANS]
        for split, scores in self.scores.items():
            scores.update({name: WeightedMean() for name in means if name not in scores})
            further, threshold = self.further_scores[split], self.split_scores[split].threshold
            further.update({name: SplitScores(threshold) for name in self.further_sets if name not in further})
        self._ready_members()
        keeps = fits and not self.trainer.fast_dev_run  # type: ignore[attr-defined]  # set by Lightning
        monitored = monitored_names(getattr(self.trainer, "callbacks", ())) if keeps else ()
        costly = not fits and self.hparams.loss == "sigmoid"  # a ranking of classes that compete is not wanted unasked
        for split in self.scores:
            beside = [member["beside"] for member in self.member_scores[split].values()]
            for split_scores in (self.split_scores[split], *self.further_scores[split].values(), *beside):
                split_scores.want(self.hparams.scores, monitored, costly)

    def _ready_members(self) -> None:
        """Make the metrics of each answer that is scored by itself."""
        for split, members in self.member_scores.items():
            members.clear()
            for name in self.answering.names:
                means = split_metrics(scores_with("targets", "labels"))[split]
                members[name] = nn.ModuleDict({"means": means, "beside": SplitScores(self.hparams.threshold)})

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

        The data's further sets have the numbers from 1 on. They have the same scores, under their names; where their
        labels are of another kind than the split's, as ReaL's are, the top-1 accuracy alone.
        """
        logits, alone = self.answering(images)
        if (part := self.scored_classes.get((split, number))) is not None:
            logits, alone = part.logits(logits), [part.logits(each) for each in alone]
            labels = part.labels(labels)
        valid = (labels if labels.ndim == 1 else labels[:, 0]) >= 0
        labels = labels.clamp(min=0)
        means, called = self.scores[split], self.further_sets[number - 1] if number else None
        if called is None:
            updated = self._score(means, self.split_scores[split], logits, labels, valid)
            for member, each in zip(self.member_scores[split].values(), alone, strict=False):
                self._score(member["means"], member["beside"], each, labels, valid)
        elif self.split_scores[split].several == (labels.ndim == 2):
            updated = self._score(means, self.further_scores[split][called], logits, labels, valid, called)
        else:
            means[called].update(_ranked(logits, labels)[1][:, 0].float(), valid.float())
            updated = [called]
        for name in updated:
            self.log(
                f"{split}/{name}", means[name], name == "top1", on_step=False, on_epoch=True, add_dataloader_idx=False
            )

    def _score(
        self, means: Any, beside: Any, logits: Tensor, labels: Tensor, valid: Tensor, called: str | None = None
    ) -> list[str]:
        """Update the scores of one answer to a batch; return the names of those that are means over images."""
        ranked, hits = _ranked(logits, labels)
        values = {
            "loss": self.loss(logits, labels, reduction="none"),
            "top1": hits[:, 0].float(),
            "top5": hits.any(-1).float(),
        }
        if called is not None:
            values = {of_set(called, name): value for name, value in values.items()}
        for name, value in values.items():
            means[name].update(value, valid.float())
        beside.update(logits, labels, valid, ranked[:, 0], self.hparams.loss == "sigmoid")
        return list(values)

    def on_validation_epoch_start(self) -> None:
        self._begin_scores("val")

    def on_test_epoch_start(self) -> None:
        self._begin_scores("test")

    def _begin_scores(self, split: str) -> None:
        self.answering.begin()
        for scores in (self.split_scores[split], *self.further_scores[split].values()):
            scores.begin()
        for member in self.member_scores[split].values():
            member["beside"].begin()
            for mean in member["means"].values():
                mean.reset()

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
        if not self._log_summed(scores, split):
            return
        part = self.scored_classes.get((split, 0)) or self.shifted
        self.answering.alone[split] = self._alone(split)
        beside = self.answering.beside_best_alone(split)
        scores.notes = [*beside, *([str(part)] if part else []), *scores.explain(called)]
        for number, (name, further) in enumerate(self.further_scores[split].items(), 1):
            if self._log_summed(further, of_set(split, name)):
                scored_on = self.scored_classes.get((split, number))
                found = [*([str(scored_on)] if scored_on else []), *further.explain(name)]
                scores.notes += [f"{name}: {said}" for said in found]
        for said in scores.notes if scores.required and self.trainer.state.fn == "fit" else ():
            if said not in self._said:
                self._said.add(said)
                rank_zero_info(said)

    def _log_summed(self, scores: SplitScores, prefix: str) -> bool:
        """Log those of one set; return whether it had images."""
        if (summed := scores.sum_up()) is None:
            return False
        overall = next((name for name in ("micro_f1", "macro_f1") if name in summed.values), "")
        for name, value in summed.values.items():
            shown = prefix in self.scores and (name in scores.monitored or (name == overall and bool(scores.several)))
            logged = torch.tensor(value, dtype=torch.float32, device=self.device)
            # All processes have the value; Lightning warns of one that it does not reduce, and a mean would round.
            self.log(f"{prefix}/{name}", logged, shown, sync_dist=True, reduce_fx="max")
        return True

    def _alone(self, split: str) -> dict[str, Alone]:
        """Sum up the scores of each answer by itself."""
        found = {}
        for name, member in self.member_scores[split].items():
            values = {score: float(mean.compute()) for score, mean in member["means"].items()}
            summed = member["beside"].sum_up()
            found[name] = Alone(self.answering.names[name], values | (summed.values if summed else {}))
        return found

    @property
    def score_names(self) -> list[str]:
        """Names of the scores that are logged of each split, or can be: which ones, the first labels tell."""
        own, several = list(self.scores["val"]), self.split_scores["val"].several
        summed = possible_names() if several is None else self.split_scores["val"].names(several)
        return own + summed + [f"{name}/{score}" for name in self.further_sets for score in summed]


def _ranked(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the best classes of each image `(b, 5)`, and whether each is among its labels."""
    ranked = logits.topk(min(5, logits.shape[-1]), dim=-1).indices
    return ranked, ranked == labels[:, None] if labels.ndim == 1 else labels.gather(1, ranked) > 0.5
