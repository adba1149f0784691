"""What every model shares: a net trained by a recipe, and compared with its checkpoints."""

import math
from collections.abc import Sized
from dataclasses import asdict
from typing import Any

import torch
from lightning.pytorch import Callback
from lightning.pytorch.utilities import rank_zero_info
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from vit_lightning.models import NetConfig
from vit_lightning.models.finite import check_finite
from vit_lightning.runs.differences import differences
from vit_lightning.training import resume
from vit_lightning.training.averaging import Averaging, WeightAverage
from vit_lightning.training.cuda_graph import GraphedTraining
from vit_lightning.training.data_facts import PIXELS
from vit_lightning.training.fp8 import Fp8Training
from vit_lightning.training.graphed_step import graph_steps
from vit_lightning.training.metrics import check_scores
from vit_lightning.training.net_model import NetModel
from vit_lightning.training.optim import Optim, Schedule, parameter_groups


class RecipeModel(NetModel):
    """A net that a recipe trains.

    A subclass names its settings in its own constructor, which are its flags, and hands them on; it writes the steps.
    Arguments that it does not hand on are kept as hyper-parameters too.

    Args:
        net: Architecture, as a config or its dict.
        optim: Optimiser, as a recipe or its dict.
        schedule: Learning rate over the run, as a recipe or its dict.
        averaging: Average of the weights, as a recipe or its dict.
        settings: The subclass's other arguments in plain types, which are kept as hyper-parameters; recompute,
            compile, cuda_graph, num_classes, image_size, mean and std are among them. fp8, channels and window may be.
    """

    scores: Any
    """Metrics by split and name, which the subclass makes with `split_metrics`."""

    def __init__(
        self,
        net: NetConfig | dict | str,
        optim: Optim | dict,
        schedule: Schedule | dict,
        averaging: Averaging | dict,
        **settings: Any,
    ) -> None:
        settings = dict.fromkeys(PIXELS) | settings
        super().__init__(net, settings["channels"])
        self.optim = optim if isinstance(optim, Optim) else Optim(**optim)
        self.schedule = schedule if isinstance(schedule, Schedule) else Schedule(**schedule)
        self.averaging = averaging if isinstance(averaging, Averaging) else Averaging(**averaging)
        recipe = {name: asdict(getattr(self, name)) for name in ("optim", "schedule", "averaging")}
        self.save_hyperparameters({"net": asdict(self.config)} | recipe | settings, logger=False)
        self.average: WeightAverage | None = None
        graphed = settings["cuda_graph"]
        self.graphs = GraphedTraining(self, self.batch_loss, graphed) if graphed else None
        self.fp8 = Fp8Training(self) if settings.get("fp8") else None
        self.gradient_norms: Tensor | None = None
        self.planned_steps: int | None = None
        self.further_sets: list[str] = []
        self._said: set[str] = set()

    @property
    def objective(self) -> str:
        """What training minimises, in words."""
        return f"that of {type(self).__name__}"

    @property
    def is_graphed(self) -> bool:
        """Whether the fit at hand takes its steps from CUDA graphs."""
        return self.graphs is not None and not self.graphs.hindrance

    @property
    def engine(self) -> str:
        """How the device is told what to compute, in words."""
        products = "" if self.fp8 is None else f", products of {self.fp8.blocks} in fp8"
        if self.graphs is None or self.is_graphed:
            return ("CUDA graphs" if self.is_graphed else "kernel by kernel") + products
        return f"kernel by kernel (CUDA graphs need {self.graphs.hindrance}){products}"

    @property
    def score_names(self) -> list[str]:
        """Names of the scores that are logged of each split."""
        return list(self.scores["val"])

    def smooth(self, targets: Tensor) -> Tensor:
        """Return smoothed targets of one-hot ones `(b, classes)`; here as they are."""
        return targets

    def batch_loss(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return the mean loss of a training batch."""
        raise NotImplementedError

    def training_loss(self, *batch: Tensor) -> Tensor:
        """Return `batch_loss`, from a CUDA graph where one is asked for."""
        return self.batch_loss(*batch) if self.graphs is None else self.graphs.loss(*batch)

    def share_of_step(self, loss: Tensor, batch_idx: int) -> Tensor:
        """Return a batch's loss as an optimiser step's mean over its batches needs it.

        Lightning divides by --trainer.accumulate_grad_batches also where an epoch ends with fewer batches.
        """
        window, batches = self.trainer.accumulate_grad_batches, self.trainer.num_training_batches
        if window == 1 or batches == math.inf or batch_idx < (left := int(batches) // window * window):
            return loss
        return loss * (window / (int(batches) - left))

    def log_training_loss(self, loss: Tensor, images: int) -> None:
        """Log the loss, averaged over devices, in the steps that loggers read: in every step it would cost 0.3 ms.

        Throughput shows it in the progress line. Lightning would read it from the device after every step for that.
        """
        every = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        if every and (self.trainer.global_step + 1) % every == 0:
            self.log("train/loss", loss, batch_size=images, sync_dist=True)

    def on_fit_start(self) -> None:
        """Begin with new CUDA graphs."""
        if self.graphs is not None:
            self.graphs.begin()

    def on_after_backward(self) -> None:
        """Average the gradients over devices where CUDA graphs keep DDP from it."""
        if self.graphs is not None:
            self.graphs.average_gradients()

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip, by the norms that FiniteGuard has just taken where they are at hand."""
        norms, self.gradient_norms = self.gradient_norms, None
        if norms is None or not gradient_clip_val or gradient_clip_algorithm == "value":
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)
            return
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        clip_grads_with_norm_(parameters, gradient_clip_val, torch.linalg.vector_norm(norms))

    def on_validation_epoch_end(self) -> None:
        self._check_scores("val", "validation", self.trainer.val_dataloaders, self.trainer.num_val_batches)

    def on_test_epoch_end(self) -> None:
        self._check_scores("test", "test", self.trainer.test_dataloaders, self.trainer.num_test_batches)

    def _check_scores(self, split: str, name: str, loaders: Any, batches: list[int | float]) -> None:
        """Refuse scores that are no number, and say once how many images have a label where not all have one."""
        groups: dict[str, dict[str, Any]] = {"": {}, **{called: {} for called in self.further_sets}}
        for score, metric in self.scores[split].items():
            called = score.partition("/")[0]
            groups[called if called in self.further_sets else ""][score] = metric
        loaders = loaders if isinstance(loaders, list) else [loaders]
        for (called, scores), loader, count in zip(groups.items(), loaders, batches, strict=False):
            images = _images(loader, count, self.trainer.world_size)
            named = {f"{split}/{score}": metric for score, metric in scores.items()}
            said = check_scores(named, called or name, images, whole=not self.trainer.sanity_checking)
            if said and said not in self._said:
                self._said.add(said)
                rank_zero_info(said)

    def trainable(self) -> nn.Module:
        """Module whose parameters the recipe trains; layer decay asks its `depth_of`."""
        return self.net

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        total = self.trainer.estimated_stepping_batches
        if not self.trainer.fast_dev_run:  # type: ignore[attr-defined]  # one step has no room for any warm-up
            self.schedule.check(total)
        if self.fp8 is not None:
            self.fp8.begin()
        optimizer = self.optim.build(self.trainable())
        if self.graphs is not None:
            self.graphs.choose(recompute=self.hparams.recompute, compile=self.hparams.compile)
        if self.is_graphed and self.optim.name != "sgd" and self.trainer.precision != "16-mixed":
            graph_steps(optimizer)  # sgd's host reads its rate; fp16's scaler skips steps, which a graph cannot
        scheduler = LambdaLR(
            optimizer, lambda step: self.schedule.lr(step, self.optim.lr, total) / (self.optim.lr or 1.0)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step", "name": "lr"}}

    def configure_callbacks(self) -> list[Callback]:
        """Average the weights if the recipe asks for it."""
        self.average = WeightAverage(self.averaging) if self.averaging.decay else None
        return [self.average] if self.average else []

    def on_train_start(self) -> None:
        """Write the recipe over what a restored optimiser brought back: flags beat checkpoints."""
        if self.trainer.global_step == 0:
            return
        step, total = self.trainer.global_step, self.trainer.estimated_stepping_batches
        resume.check_horizon(self.schedule, self.optim.lr, step, self.planned_steps, total)
        optimizer, scheduler = self.optimizers(use_pl_optimizer=False), self.lr_schedulers()
        assert isinstance(optimizer, Optimizer) and isinstance(scheduler, LambdaLR)
        resume.write_settings(parameter_groups(self.trainable(), self.optim), optimizer, scheduler)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Name the class, so that a checkpoint alone rebuilds its model, and what a resumed run must keep."""
        checkpoint["model"] = resume.class_path(self)
        checkpoint["precision"] = str(self.trainer.precision)
        checkpoint["planned_steps"] = self.trainer.estimated_stepping_batches
        checkpoint["order"] = resume.data_order(self.trainer)
        if self.average is not None:
            self.average.store(checkpoint)
        if self.fp8 is not None:
            self.fp8.store(checkpoint)

    @property
    def verb(self) -> str | None:
        """What the trainer does with the model, such as fit; None without a trainer."""
        return None if self._trainer is None else self.trainer.state.fn

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse another model or architecture; print every other difference from the checkpoint's recipe."""
        resume.check_class(checkpoint, resume.class_path(self), takes_weights="weights" in self.hparams)
        check_finite(checkpoint.get("state_dict", {}), "the checkpoint")
        self.configure_model()
        self.planned_steps = checkpoint.get("planned_steps")
        trains = self.verb == "fit"
        saved = resume.saved_settings(checkpoint)
        for name in self.assumed & saved.keys():
            self.state_fact(name, saved[name])
        self._keep_attention_init(saved["net"]["attention_init"], trains)
        found = differences(saved, dict(self.hparams))
        resume.check_net(found, saved, self.fixed, trains)
        if trains:
            resume.check_optimizer(found)
            resume.check_order(checkpoint, resume.data_order(self.trainer))
            resume.restore_average(checkpoint, self.average, self)
            if self.fp8 is not None:
                self.fp8.restore(checkpoint)
        for text in (text for key, text in found.items() if trains or resume.bears_on_scores(key)):
            rank_zero_info(f"differs from the checkpoint: model.{text}")

    def _keep_attention_init(self, saved: str, trains: bool) -> None:
        """Keep on record how attention began, which no flag changes later."""
        given, self.hparams["net"]["attention_init"] = self.hparams["net"]["attention_init"], saved
        if trains and given != saved:
            rank_zero_info(f"--model.net.attention_init {given} has no effect: the run began with {saved}")


def _images(loader: Any, batches: int | float, devices: int) -> int | None:
    """Return how many images of a loader were looked at and could be read; None where its set does not say."""
    dataset, batch_size = getattr(loader, "dataset", None), getattr(loader, "batch_size", None)
    if not isinstance(dataset, Sized) or not batch_size:
        return None
    skipped = getattr(dataset, "skipped", None)
    return int(min(len(dataset), batches * batch_size * devices)) - (skipped.count if skipped is not None else 0)
