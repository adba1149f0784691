"""What every model shares: a net built from the data's facts, trained by a recipe, compared with its checkpoints."""

import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import asdict
from typing import Any, ClassVar

import torch
from lightning.pytorch import Callback, LightningModule
from lightning.pytorch.utilities import rank_zero_info
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.nn.utils import clip_grads_with_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from vit_lightning.errors import InputError
from vit_lightning.models import Net, NetConfig, assemble, half_on_gpu, resolve
from vit_lightning.models.config import as_pair, check_channels
from vit_lightning.models.finite import check_finite
from vit_lightning.models.recompute import recompute
from vit_lightning.models.vit import ViT
from vit_lightning.runs.differences import differences
from vit_lightning.training import resume
from vit_lightning.training.averaging import Averaging, WeightAverage
from vit_lightning.training.construction import Completed, may_build, plain
from vit_lightning.training.cuda_graph import GraphedTraining, graph_steps
from vit_lightning.training.data_facts import NORMALISATION, PIXELS, take_facts, with_channels
from vit_lightning.training.fp8 import Fp8Training
from vit_lightning.training.metrics import check_scores
from vit_lightning.training.optim import Optim, Schedule, parameter_groups
from vit_lightning.training.scored_classes import ScoredClasses

CENTRE = (0.5,)
"""Mean and standard deviation of a channel that map [0, 1] to the paper's [-1, 1]."""


class RecipeModel(LightningModule, metaclass=Completed):
    """A net that a recipe trains.

    A subclass names its settings in its own constructor, which are its flags, and hands them on; it writes the steps.
    Arguments that it does not hand on are kept as hyper-parameters too. The net is there after construction where
    num_classes and image_size are given, else once a Trainer knows the data.

    Args:
        net: Architecture, as a config or its dict.
        optim: Optimiser, as a recipe or its dict.
        schedule: Learning rate over the run, as a recipe or its dict.
        averaging: Average of the weights, as a recipe or its dict.
        settings: The subclass's other arguments in plain types, which are kept as hyper-parameters; recompute,
            compile, cuda_graph, num_classes, image_size, mean and std are among them. fp8, channels and window may be.
    """

    fixed: ClassVar[tuple[str, ...]] = ("num_classes", "image_size")
    """Hyper-parameters that a checkpoint's tensors depend on, beside the net's fields."""
    unsaved: ClassVar[tuple[str, ...]] = ()
    """Constructor arguments of a subclass that its checkpoints do without."""
    hparams: Any
    """The constructor's arguments in plain types, as items and attributes."""
    mean: Tensor
    std: Tensor
    scores: Any
    """Metrics by split and name, which the subclass makes with `split_metrics`."""
    shifted: ScoredClasses | None = None
    """What scores data that have some of the net's classes alone."""
    weights: str | None = None
    """Where the net's first weights come from, if from elsewhere."""

    def __init__(
        self,
        net: NetConfig | dict,
        optim: Optim | dict,
        schedule: Schedule | dict,
        averaging: Averaging | dict,
        **settings: Any,
    ) -> None:
        super().__init__()
        settings = dict.fromkeys(PIXELS) | settings
        self.chosen = with_channels(net if isinstance(net, NetConfig) else NetConfig(**net), settings["channels"])
        """The net as it was asked for, with what that leaves open."""
        self.config = resolve(self.chosen)
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
        self.net: Net = None  # type: ignore[assignment]  # until the facts of the data are known
        self.assumed: set[str] = set()
        """Which of window, mean and std nobody has stated yet."""
        self.normalised_by = "the default"
        """Where mean and std come from, if not from the data's own flags."""
        self.planned_steps: int | None = None
        self.further_sets: list[str] = []
        self._said: set[str] = set()

    # The net ---------------------------------------------------------------------------------------------------------

    def complete(self, arguments: Mapping[str, Any]) -> None:
        """Keep a subclass's own constructor arguments, and build the net if the facts of the data are known."""
        for name, value in arguments.items():
            if name not in self.hparams and name not in self.unsaved:
                self.hparams[name] = plain(name, value, type(self).__name__)
        if may_build() and None not in (self.hparams.num_classes, self.hparams.image_size):
            self._make_net()

    def setup(self, stage: str) -> None:
        """Take what the data knows and nobody has stated."""
        take_facts(self, self.trainer.datamodule)  # type: ignore[attr-defined]  # set by Lightning from outside

    def configure_model(self) -> None:
        """Build the net once the facts of the data are known; Lightning calls this on the right device."""
        if self.net is None:
            missing = [name for name in ("num_classes", "image_size") if self.hparams[name] is None]
            if missing:
                raise InputError(
                    f"{' and '.join(missing)} unknown: give --data, or --ckpt_path to take them from there"
                )
            self._make_net()
        if self.device_mesh is not None and not isinstance(self.net, FSDPModule):
            self.shard(self.device_mesh["data_parallel"])

    def _make_net(self) -> None:
        # cuDNN's backward pass of attention gives NaN for 64 equal tokens (torch 2.11, cuDNN 9.19 on an H100).
        torch.backends.cuda.enable_cudnn_sdp(False)
        given = self.hparams["mean"] or self.hparams["std"]
        self.net = self.build_net()
        taken = self.hparams["mean"] or self.hparams["std"]
        silent = ", since the weights state none" if getattr(self, "weights", None) else ""
        self.normalised_by = "the checkpoint" if given else "the weights" if taken else f"the default{silent}"
        for name in NORMALISATION:
            if not self.hparams[name]:
                self.assumed.add(name)
            self._normalise_by(name, self.hparams[name] or CENTRE * self.config.channels)
        if self.hparams.recompute:
            recompute(self.net)
        if self.hparams.compile:
            self.compile_net()

    def _normalise_by(self, name: str, values: Sequence[float]) -> None:
        """Set mean or std."""
        if len(values) != self.config.channels:
            raise InputError(
                f"{name} has {len(values)} values for a net of {self.config.channels} channels; "
                f"give --data.{name} one value per channel"
            )
        self.hparams[name] = tuple(values)
        self.register_buffer(name, torch.tensor(values)[:, None, None], persistent=False)

    def state_fact(self, name: str, value: Any) -> None:
        """Take a fact of the data that nobody had stated."""
        self.assumed.discard(name)
        self.hparams[name] = value
        if name == "channels":
            self._take_channels(value)
        if name in NORMALISATION and self.net is not None:
            self._normalise_by(name, value)

    def _take_channels(self, channels: int) -> None:
        """Let the net have the channels of the data, which a net that stands cannot change."""
        if self.net is not None and self.config.channels != channels:
            raise InputError(
                f"--data.channels is {channels}, but the model's net was built for {self.config.channels}; make the "
                f"model with channels={channels}"
            )
        if self.net is None:
            self.chosen = with_channels(self.chosen, channels)
            self.config = resolve(self.chosen)
            self.hparams["net"] = asdict(self.config)

    @property
    def pixel_facts(self) -> tuple[int | None, tuple[float, float] | None]:
        """Channels and window of the images, as far as they were stated; those of the data, or of the checkpoint."""
        window = self.hparams["window"]
        return self.hparams["channels"], window and tuple(window)

    def build_net(self) -> Net:
        """Return the new net; a subclass may fill it, freeze parts of it, or add what stands beside it."""
        return assemble(self.config, as_pair(self.hparams.image_size), self.hparams.num_classes)

    def compile_net(self) -> None:
        """Compile in place what the steps call."""
        self.net.compile()

    def shard(self, mesh: DeviceMesh) -> None:
        """Shard every block, then what is left, over the processes of a ModelParallelStrategy (FSDP2)."""
        for block in self.net.blocks if isinstance(self.net, ViT) else ():
            fully_shard(block, mesh=mesh, mp_policy=self.sharded_precision)
        fully_shard(self.net, mesh=mesh, mp_policy=self.sharded_precision)

    @property
    def sharded_precision(self) -> MixedPrecisionPolicy:
        """In bf16-mixed, weights travel and compute in bf16; they are kept, and their gradients summed, in fp32."""
        if self.trainer.precision != "bf16-mixed":
            return MixedPrecisionPolicy()
        return MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)

    def normalise(self, images: Tensor) -> Tensor:
        """Map uint8, or float in [0, 1], to zero mean and unit deviation as the weights expect."""
        check_channels(images.shape[1], len(self.mean))
        if (dtype := half_on_gpu(images)) is not None:
            from vit_lightning.models.fast.rowwise_kernels import normalise

            return normalise(images, self.mean, self.std, dtype)
        if images.dtype == torch.uint8:
            images = images.to(self.mean.dtype) / 255
        return (images - self.mean) / self.std

    # Steps -----------------------------------------------------------------------------------------------------------

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

    def on_validation_end(self) -> None:
        """Shard the net's outermost weights again: FSDP2 leaves a whole copy of them until the next backward pass."""
        for module in self.modules():
            if isinstance(module, FSDPModule):
                module.reshard()

    def on_test_epoch_end(self) -> None:
        self._check_scores("test", "test", self.trainer.test_dataloaders, self.trainer.num_test_batches)

    def _check_scores(self, split: str, name: str, loaders: Any, batches: list[int | float]) -> None:
        """Refuse scores that are no number, and say once how many images have a label where not all have one."""
        further = [score for score in self.scores[split] if score in self.further_sets]
        own = {score: metric for score, metric in self.scores[split].items() if score not in further}
        groups = [(name, own), *((score, {score: self.scores[split][score]}) for score in further)]
        loaders = loaders if isinstance(loaders, list) else [loaders]
        for (called, scores), loader, count in zip(groups, loaders, batches, strict=False):
            images = _images(loader, count, self.trainer.world_size)
            named = {f"{split}/{score}": metric for score, metric in scores.items()}
            said = check_scores(named, called, images, whole=not self.trainer.sanity_checking)
            if said and said not in self._said:
                self._said.add(said)
                rank_zero_info(said)

    # Recipe ----------------------------------------------------------------------------------------------------------

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

    # Checkpoints -----------------------------------------------------------------------------------------------------

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

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse another model or architecture; print every other difference from the checkpoint's recipe."""
        resume.check_class(checkpoint, resume.class_path(self), takes_weights="weights" in self.hparams)
        check_finite(checkpoint.get("state_dict", {}), "--ckpt_path")
        self.configure_model()
        self.planned_steps = checkpoint.get("planned_steps")
        trains = self._trainer is not None and self.trainer.state.fn == "fit"
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
