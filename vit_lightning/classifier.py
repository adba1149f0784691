"""Classifier: a net, its loss, its metrics and its recipe as a LightningModule."""

from dataclasses import asdict
from typing import Any, ClassVar, Literal

import torch
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor

from vit_lightning.data.subsets import ClassCounts
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, TimmNet
from vit_lightning.models.lora import Lora, check_precise
from vit_lightning.models.timm_net import at_random
from vit_lightning.training import imbalance, losses
from vit_lightning.training.averaging import Averaging
from vit_lightning.training.freezing import check_tuning, hold_still
from vit_lightning.training.imbalance import ImbalanceLoss, StepTotals
from vit_lightning.training.optim import Optim, Schedule
from vit_lightning.training.pretrained_model import PretrainedModel
from vit_lightning.training.scoring import check_choice


class Classifier(PretrainedModel):
    """Train and evaluate an image classifier.

    Number of classes, image size, channels, window, mean and std come from the data; setting them here is an error on
    the command line.

    Args:
        net: Architecture: a variant such as B/16, any single field of which may be overridden; without a variant, that
            of the weights.
        optim: Optimiser and its numbers.
        schedule: Learning rate over the run, in optimiser steps.
        averaging: Average of the weights over the steps, validated and exported in place of the trained ones.
        loss: Cross-entropy by softmax, or by sigmoid and summed over classes for images of several labels. The paper
            pre-trains with sigmoid and --model.net.head_bias -10.
        label_smoothing: Share of the target spread over all classes (0: off). With sigmoid it is the distance of the
            targets from 1 and 0. Labels are smoothed once, before MixUp and CutMix. Targets from the data are not.
        class_weights: Weights of the classes in the training loss, in the order that the plan prints. The loss is
            divided by the weights of the batch. balanced: images / (classes * images of the class). With sigmoid, they
            weigh the images that show a class (pos_weight); balanced: the others / those.
        focal_gamma: Exponent by which the focal loss counts what the net is sure of less (0: off; Lin et al., 2017).
        logit_adjustment: Factor of the classes' log shares of the training images, which training adds to the logits
            (0: off; 1 suits equal test classes; Menon et al., 2021).
        weights: Weights to start from, in any layout that convert reads, at a local path, https address or
            hf://owner/repo[/file]. To go on with a run of ours, use --ckpt_path instead.
        weights_raw: Of weights with their average, or a teacher with its student, take what was trained.
        weights_head: Head to start from. keep: that of the weights, whose classes must be the data's, by name where the
            weights say their names; reset: a new one at zero, as the paper fine-tunes, and as weights without one do.
        weights_resampling: How positions get to another grid: bilinear is the paper's, bicubic suits DINOv2.
        weights_adapt: Also fit the weights' first layer to another patch size or number of channels.
        weights_overlap: Validation and test images that the weights are known to be trained on. refuse: an error; warn:
            say how many there are.
        freeze_trunk: Train the head alone (linear probe). The net before it is in evaluation mode.
        bias_only: Train biases and the head alone (BitFit). Zaken et al., arXiv 2106.10199.
        lora: Low-rank updates of the blocks' kernels, which are trained beside the head in place of the net.
        recompute: Recompute the activations of every block in the backward pass (activation checkpointing). It saves
            memory and costs a forward pass.
        compile: Compile the net with torch.compile, in place. The keys of checkpoints do not change.
        cuda_graph: Replay the training step as CUDA graphs. They launch a small net's step several times faster. One
            holds loss and gradients, another the step of adam, adamw or muon. On one GPU, or on several with DDP. auto:
            where nothing hinders it; true: or else an error.
        fp8: Train with products in fp8 (delayed scaling). It pays from a width of 1,024 on. Its loss over a whole run
            has not been held against bf16's. The first and last block, attention, scores and export do without. Needs
            compute capability 8.9 or later.
        scores: Scores beside loss, top-1 and top-5, and tables, such as [macro_f1,confusion]; unset means all, and in a
            fit those that cost nothing. Of one label: mean_class_accuracy, macro_f1, ece (expected calibration error),
            and, if named, mean_auroc. Of several: map_macro, map_micro, macro_f1, ece (mean over labels), micro_f1,
            exact_match, mean_auroc. map_macro, map_micro and mean_auroc keep five bytes per image and class in memory,
            and are left out above 2^27 of these. Tables of validate and test: classes; of one label also confusion,
            whose picture needs matplotlib, and mistakes, at most 1,000.
        threshold: Probability above which an image has a label, for F1 and exact match of images of several labels.
        flip: Score and predict by the mean probabilities of each image and its mirror image (test-time flip).
        num_classes: Classes of the head, from the data.
        image_size: Pixels per side, or (y, x), from the data.
        channels: Channels of the images, from the data; None: those of the net.
        window: Values of the images that became 0 and 1, from the data; None: those of 8 bits.
        mean: Channel means of images in [0, 1]; None: 0.5.
        std: Channel standard deviations of images in [0, 1]; None: 0.5.
    """

    fixed: ClassVar[tuple[str, ...]] = ("num_classes", "image_size", "lora.rank", "lora.alpha")
    monitor = ("val/top1", "max")
    """Metric and direction by which the best checkpoint is chosen, of images of one label."""

    def __init__(
        self,
        net: NetConfig = NetConfig(),
        optim: Optim = Optim(),
        schedule: Schedule = Schedule(),
        averaging: Averaging = Averaging(),
        loss: Literal["softmax", "sigmoid"] = "softmax",
        label_smoothing: float = 0.0,
        class_weights: Literal["balanced"] | list[float] | None = None,
        focal_gamma: float = 0.0,
        logit_adjustment: float = 0.0,
        weights: str | None = None,
        weights_raw: bool = False,
        weights_head: Literal["keep", "reset"] = "keep",
        weights_resampling: Literal["bilinear", "bicubic"] = "bilinear",
        weights_adapt: bool = False,
        weights_overlap: Literal["refuse", "warn"] = "refuse",
        freeze_trunk: bool = False,
        bias_only: bool = False,
        lora: Lora = Lora(),
        recompute: bool = False,
        compile: bool = False,
        cuda_graph: bool | Literal["auto"] = "auto",
        fp8: bool = False,
        scores: list[str] | None = None,
        threshold: float = 0.5,
        flip: bool = False,
        num_classes: int | None = None,
        image_size: int | tuple[int, int] | None = None,
        channels: int | None = None,
        window: tuple[float, float] | None = None,
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
    ) -> None:
        most = 1 if loss == "softmax" else 0.5  # where the classes that an image has not would count as much as its own
        if not 0 <= label_smoothing < most:
            raise InputError(f"--model.label_smoothing is {label_smoothing}; with {loss} it must lie in [0, {most})")
        if not 0 <= threshold < 1:
            raise InputError(f"--model.threshold is {threshold}; it must lie in [0, 1)")
        check_choice(scores or ())
        imbalance.check_remedies(loss, class_weights, focal_gamma, logit_adjustment)
        if type(self).batch_loss is Classifier.batch_loss and type(self).loss is not Classifier.loss:
            imbalance.refuse_own_loss(type(self).__name__, class_weights, focal_gamma, logit_adjustment)
        super().__init__(
            net,
            optim,
            schedule,
            averaging,
            loss=loss,
            label_smoothing=label_smoothing,
            class_weights=class_weights,
            focal_gamma=focal_gamma,
            logit_adjustment=logit_adjustment,
            weights=None,  # a checkpoint never opens the file that its run began with
            weights_raw=weights_raw,
            weights_head=weights_head,
            weights_resampling=weights_resampling,
            weights_adapt=weights_adapt,
            weights_overlap=weights_overlap,
            freeze_trunk=freeze_trunk,
            bias_only=bias_only,
            lora=asdict(lora) if isinstance(lora, Lora) else asdict(Lora(**lora)),
            recompute=recompute,
            compile=compile,
            cuda_graph=cuda_graph,
            fp8=fp8,
            scores=scores,
            threshold=threshold,
            flip=flip,
            num_classes=num_classes,
            image_size=image_size,
            channels=channels,
            window=window,
            mean=mean,
            std=std,
        )
        check_tuning(self.hparams)
        self.begin_with(weights)
        self.has_seen_labels = False
        self.wants_features = False
        self.imbalance_loss: ImbalanceLoss | None = None
        self.class_counts: ClassCounts | None = None
        self.step_totals = StepTotals()
        self.make_scores(threshold)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (b, classes) of images (b, c, y, x), uint8 or float in [0, 1]; normalising happens here."""
        return self.net(self.normalise(images))

    @property
    def reads_features_alone(self) -> bool:
        return type(self).forward is Classifier.forward and not isinstance(self.net, TimmNet)

    @property
    def objective(self) -> str:
        """What training minimises, in words."""
        remedies = imbalance.described(self.hparams, self.imbalance_loss, self.class_names)
        return f"{self.hparams.loss} cross-entropy, label smoothing {self.hparams.label_smoothing:g}{remedies}"

    def on_fit_start(self) -> None:
        super().on_fit_start()
        check_precise(self.net)
        self.step_totals = StepTotals()
        if self.imbalance_loss is not None:
            self.imbalance_loss = self.imbalance_loss.to(self.device)

    def on_train_start(self) -> None:
        """Hold still what is frozen, and warn of a net that begins at random although its variant names weights."""
        super().on_train_start()
        hold_still(self.net, self.hparams)  # no hook follows where a run resumes inside an epoch
        said = at_random(self.config.variant, "Classifier(weights={!r}) begins with them")
        if said and not self.weights and not self.trainer.ckpt_path:
            rank_zero_warn(said)

    def on_train_batch_start(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        """Warn once where softmax does not suit the labels; MixUp and CutMix leave shares of classes that sum to 1."""
        if self.has_seen_labels:
            return
        self.has_seen_labels = True
        if self.hparams.loss != "softmax" or batch[1].ndim != 2:
            return
        sums = batch[1].float().sum(1)
        if self.trainer.is_global_zero and not torch.allclose(sums, torch.ones_like(sums), atol=0.01):
            several = "images have several classes or none, and softmax expects one; give --model.loss sigmoid"
            print(f"warning  {several}", flush=True)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        if self.imbalance_loss is None or not self.imbalance_loss.has_totals:
            loss = self.training_loss(*batch)
            self.log_training_loss(loss, len(batch[0]))
            return self.share_of_step(loss, batch_idx)
        total = self.trainer.strategy.reduce(self.imbalance_loss.total(batch[1]), reduce_op="mean")
        loss = self.training_loss(*batch, total)
        self.log_training_loss(loss, len(batch[0]))
        is_first = batch_idx % self.trainer.accumulate_grad_batches == 0
        return self.share_of_step(loss, batch_idx) * self.step_totals.share(total, is_first)

    def on_after_backward(self) -> None:
        """Make the weighted mean of an optimiser step from the shares of its batches."""
        super().on_after_backward()
        if len(self.step_totals.totals) < 2:
            return
        batch, window = self.trainer.fit_loop.batch_idx + 1, self.trainer.accumulate_grad_batches
        if batch % window == 0 or self.trainer.is_last_batch:
            factor = self.step_totals.factor()
            for parameter in self.parameters():
                if parameter.grad is not None:
                    parameter.grad.mul_(factor)

    def batch_loss(self, images: Tensor, labels: Tensor, total: Tensor | None = None) -> Tensor:
        """Mean loss of images (b, c, y, x) with labels (b), or targets (b, classes).

        With class weights, `total` is what the batch's sum is divided by; None: the weights of its labels.
        """
        smoothing = self.hparams.label_smoothing
        if self.imbalance_loss is not None:
            return self.imbalance_loss(self(images), labels, smoothing, total)
        return self.loss(self(images), labels, smoothing=smoothing)

    def smooth(self, targets: Tensor) -> Tensor:
        """Smoothed targets of one-hot ones (b, classes), for what mixes labels before the loss sees them."""
        return losses.smoothed(self.hparams.loss, targets, self.hparams.label_smoothing)

    def loss(self, logits: Tensor, labels: Tensor, smoothing: float = 0.0, reduction: str = "mean") -> Tensor:
        """Loss over the batch; labels are class indices (b), smoothed here, or finished targets (b, classes)."""
        return losses.cross_entropy(self.hparams.loss, logits, labels, smoothing, reduction)

    def on_train_epoch_start(self) -> None:
        hold_still(self.net, self.hparams)

    def setup(self, stage: str) -> None:
        super().setup(stage)
        self.has_seen_labels = False
        if stage == "fit":
            data = self.trainer.datamodule  # type: ignore[attr-defined]  # set by Lightning from outside
            self.imbalance_loss, self.class_counts = imbalance.remedy(self.hparams, data)
        self.ready_scores(stage)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        if self.class_counts is not None:
            checkpoint["class_counts"] = self.class_counts.per_class.tolist()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        imbalance.report_counts(checkpoint.get("class_counts"), self.class_counts)
