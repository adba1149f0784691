"""What every model shares: a net built from the data's facts, trained by a recipe, compared with its checkpoints."""

from dataclasses import asdict, fields
from typing import Any, ClassVar

import torch
from lightning.pytorch import Callback, LightningModule
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.utils import clip_grads_with_norm_

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build, half_on_gpu, resolve
from vit_lightning.models.config import check_channels
from vit_lightning.models.recompute import recompute
from vit_lightning.runs.differences import differences
from vit_lightning.seeds import run_seed
from vit_lightning.training.averaging import RAW, UPDATES, Averaging, WeightAverage, replicates
from vit_lightning.training.cuda_graph import GraphedLoss, average_gradients, graph_steps
from vit_lightning.training.optim import Optim, Schedule, parameter_groups

CENTRE = (0.5,)
"""Mean and standard deviation of a channel that map [0, 1] to the paper's [-1, 1]."""
GROUPING = ("optim.name", "optim.layer_decay", "optim.decay_on", "freeze_trunk")
"""Settings that decide which state an optimiser holds."""
FREE = ("net.dropout", "net.stochastic_depth", "net.patch_dropout", "net.head_bias")
"""Fields of the net that may change between a checkpoint and the run that goes on from it."""

FIXES = {"image_size": "give --data.image_size {image_size}", "num_classes": "give data of {num_classes} classes"}
"""What mends a difference that comes from the data, not from a flag of the model."""


class RecipeModel(LightningModule):
    """A net that a recipe trains.

    A subclass names its settings in its own constructor, which are its flags, and hands them on; it writes the steps.

    Args:
        net: Architecture, as a config or its dict.
        optim: Optimiser, as a recipe or its dict.
        schedule: Learning rate over the run, as a recipe or its dict.
        averaging: Average of the weights, as a recipe or its dict.
        settings: The subclass's other arguments in plain types, which are kept as hyper-parameters; recompute,
            compile, cuda_graph, num_classes, image_size, mean and std are among them.
    """

    fixed: ClassVar[tuple[str, ...]] = ("num_classes", "image_size")
    """Hyper-parameters that a checkpoint's tensors depend on, beside the net's fields."""

    def __init__(
        self,
        net: NetConfig | dict,
        optim: Optim | dict,
        schedule: Schedule | dict,
        averaging: Averaging | dict,
        **settings: Any,
    ) -> None:
        super().__init__()
        self.config = resolve(net if isinstance(net, NetConfig) else NetConfig(**net))
        self.optim = optim if isinstance(optim, Optim) else Optim(**optim)
        self.schedule = schedule if isinstance(schedule, Schedule) else Schedule(**schedule)
        self.averaging = averaging if isinstance(averaging, Averaging) else Averaging(**averaging)
        recipe = {name: asdict(getattr(self, name)) for name in ("optim", "schedule", "averaging")}
        self.save_hyperparameters({"net": asdict(self.config)} | recipe | settings, logger=False)
        self.average: WeightAverage | None = None
        self.graphed_loss: GraphedLoss | None = None
        self.gradient_norms: Tensor | None = None
        self.net: nn.Module | None = None
        self.planned_steps: int | None = None

    # The net ---------------------------------------------------------------------------------------------------------

    def configure_model(self) -> None:
        """Build the net once the facts of the data are known; Lightning calls this on the right device."""
        if self.net is not None:
            return
        # cuDNN's backward pass of attention gives NaN for 64 equal tokens (torch 2.11, cuDNN 9.19 on an H100).
        torch.backends.cuda.enable_cudnn_sdp(False)
        missing = [name for name in ("num_classes", "image_size") if self.hparams[name] is None]
        if missing:
            raise InputError(f"{' and '.join(missing)} unknown: give --data, or --ckpt_path to take them from there")
        self.net = self.build_net()
        for name in ("mean", "std"):
            values = self.hparams[name] or CENTRE * self.config.channels
            if len(values) != self.config.channels:
                raise InputError(
                    f"{name} has {len(values)} values for a net of {self.config.channels} channels; "
                    f"give --data.{name} one value per channel"
                )
            self.hparams[name] = tuple(values)
            self.register_buffer(name, torch.tensor(values)[:, None, None], persistent=False)
        if self.hparams.recompute:
            recompute(self.net)
        if self.hparams.compile:
            self.compile_net()
        if self.device_mesh is not None:
            self.shard(self.device_mesh["data_parallel"])

    def build_net(self) -> nn.Module:
        """Return the new net; a subclass may fill it, freeze parts of it, or add what stands beside it."""
        return build(self.config, self.hparams.image_size, self.hparams.num_classes)

    def compile_net(self) -> None:
        """Compile in place what the steps call."""
        self.net.compile()

    def shard(self, mesh: DeviceMesh) -> None:
        """Shard every block, then what is left, over the processes of a ModelParallelStrategy (FSDP2)."""
        for block in getattr(self.net, "blocks", []):
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

    def batch_loss(self, *batch: Tensor) -> Tensor:
        """Return the mean loss of a training batch."""
        raise NotImplementedError

    def training_loss(self, *batch: Tensor) -> Tensor:
        """Return `batch_loss`, from a CUDA graph where one is asked for."""
        if not self.hparams.cuda_graph:
            return self.batch_loss(*batch)
        accumulates = self.trainer.accumulate_grad_batches > 1
        if self.graphed_loss is None:
            averages = self.trainer.world_size > 1 and not accumulates
            self.graphed_loss = GraphedLoss(self, self.batch_loss, averages)
        return self.graphed_loss(*batch, accumulates=accumulates)

    def log_training_loss(self, loss: Tensor, images: int) -> None:
        """Log the loss, averaged over devices, where loggers will read it; logging takes 0.3 ms of every step else.

        Not for the progress line, whose every value Lightning reads from the device after each step from then on;
        Throughput shows it there.
        """
        every = self.trainer.log_every_n_steps
        if every and (self.trainer.global_step + 1) % every == 0:
            self.log("train/loss", loss, batch_size=images, sync_dist=True)

    def on_fit_start(self) -> None:
        """Say what a CUDA graph lacks, and average its gradients over devices here instead of in DDP."""
        if self.graphed_loss is not None:  # the parameters of an earlier fit may have lain elsewhere
            self.graphed_loss.release()
            self.graphed_loss = None
        if not self.hparams.cuda_graph:
            return
        strategy = self.trainer.strategy
        hindrances = {
            "a GPU": self.device.type != "cuda",
            "one device, or a replica on each (--trainer.strategy ddp)": not replicates(strategy),
            "no recomputation": self.hparams.recompute,
            "a net that is not compiled": self.hparams.compile,
        }
        if missing := [need for need, lacks in hindrances.items() if lacks]:
            raise InputError(f"--model.cuda_graph true needs {' and '.join(missing)}; drop it")
        if isinstance(strategy, DDPStrategy):
            strategy.model.require_backward_grad_sync = False

    def on_after_backward(self) -> None:
        """Average the gradients once a step where neither DDP nor the graph does."""
        if not self.hparams.cuda_graph or self.trainer.world_size == 1 or self.graphed_loss.averaged:
            return
        batch = self.trainer.fit_loop.batch_idx + 1
        if batch % self.trainer.accumulate_grad_batches == 0 or self.trainer.is_last_batch:
            average_gradients(self.parameters())

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
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

    # Recipe ----------------------------------------------------------------------------------------------------------

    def trainable(self) -> nn.Module:
        """Module whose parameters the recipe trains; layer decay asks its `depth_of`."""
        return self.net

    def configure_optimizers(self) -> dict[str, Any]:
        total = self.trainer.estimated_stepping_batches
        if not self.trainer.fast_dev_run:  # a try of one step has no room for any warm-up
            self.schedule.check(total)
        optimizer = self.optim.build(self.trainable())
        if self.hparams.cuda_graph and self.optim.name != "sgd" and self.trainer.precision != "16-mixed":
            graph_steps(optimizer)  # sgd's host reads its rate; fp16's scaler skips steps, which a graph cannot
        scheduler = torch.optim.lr_scheduler.LambdaLR(
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
        self._check_horizon()
        optimizer, scheduler = self.optimizers(use_pl_optimizer=False), self.lr_schedulers()
        for group, fresh in zip(optimizer.param_groups, parameter_groups(self.trainable(), self.optim), strict=True):
            group.update({name: value for name, value in fresh.items() if name != "params"})
        scheduler.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        for group, base, factor in zip(optimizer.param_groups, scheduler.base_lrs, scheduler.lr_lambdas, strict=True):
            group["lr"] = base * factor(scheduler.last_epoch)

    def _check_net(self, differences: dict[str, str], trained: dict[str, Any]) -> None:
        """Another net cannot take over the checkpoint's weights."""
        fixed = [key for key in differences if key in self.fixed or (key.startswith("net.") and key not in FREE)]
        if fixed:
            facts = {name: trained[name] for name in ("image_size", "num_classes")}
            fixes = {FIXES.get(key, "drop the flag").format(**facts): None for key in fixed}
            raise InputError(
                f"the checkpoint holds another net: {'; '.join(differences[key] for key in fixed)} (checkpoint -> now);"
                f" {' and '.join(fixes)}" + ", or start a new run without --ckpt_path" * self._fits
            )

    @property
    def _fits(self) -> bool:
        return self._trainer is not None and self.trainer.state.fn == "fit"

    def _check_optimiser(self, differences: dict[str, str]) -> None:
        """Another optimiser, or other parameter groups, cannot take over a restored state."""
        fixed = [text for key, text in differences.items() if key in GROUPING]
        if fixed:
            raise InputError(
                f"a resumed run keeps its optimiser: {'; '.join(fixed)} (checkpoint -> now); "
                "drop the flag, or begin anew with --model.weights"
            )

    def _order(self) -> dict[str, Any]:
        """What decides which images the batches of an epoch hold."""
        batch_size = getattr(self.trainer.datamodule, "batch_size", None)
        return {"images per batch": batch_size and batch_size * self.trainer.world_size, "seed": run_seed()}

    def _check_order(self, checkpoint: dict[str, Any]) -> None:
        """Inside an epoch another order would show images twice and leave others out."""
        progress = checkpoint.get("loops", {}).get("fit_loop", {}).get("epoch_loop.batch_progress")
        inside = progress and progress["current"]["ready"] > 0 and not progress["is_last_batch"]
        for name, now in self._order().items():
            then = checkpoint.get("order", {}).get(name, now)
            if then != now and inside:
                raise InputError(
                    f"the checkpoint lies inside an epoch, which goes on with the same {name}: {then} -> {now} "
                    "(checkpoint -> now); keep it, or begin anew with --model.weights"
                )
            if then != now:
                rank_zero_info(f"differs from the checkpoint: {name}: {then} -> {now}")

    def _check_horizon(self) -> None:
        """A schedule that follows the run's length would jump if the length changed unnoticed."""
        total, planned = self.trainer.estimated_stepping_batches, self.planned_steps or 0
        if not planned or total == planned or not self.schedule.follows_horizon():
            return
        step = self.trainer.global_step
        before, after = (self.schedule.lr(step, self.optim.lr, steps) for steps in (planned, total))
        change = f"the run was planned for {planned} optimiser steps and now has {total}"
        jump = f"lr at step {step}: {before:.3g} -> {after:.3g}"
        if not self.schedule.allow_horizon_change:
            raise InputError(
                f"{change} ({jump}); keep its epochs and images per step "
                "(--data.batch_size x devices x accumulation), or set --model.schedule.allow_horizon_change true"
            )
        rank_zero_info(f"{change}: {jump}")

    # Checkpoints -----------------------------------------------------------------------------------------------------

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Name the class, so that a checkpoint alone rebuilds its model."""
        checkpoint["model"] = self._class_path
        checkpoint["planned_steps"] = self.trainer.estimated_stepping_batches
        checkpoint["order"] = self._order()
        if self.average is not None:
            self.average.store(checkpoint)

    @property
    def _class_path(self) -> str:
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse another model or architecture; print every other difference from the checkpoint's recipe."""
        trained, own = checkpoint.get("model", self._class_path), self._class_path
        if trained != own:
            raise InputError(
                f"--ckpt_path holds a {trained.rpartition('.')[2]}, not a {own.rpartition('.')[2]}; "
                + ("to begin with its net, give it to --model.weights" if "weights" in self.hparams else "drop --model")
            )
        self.configure_model()
        self.planned_steps = checkpoint.get("planned_steps")
        saved = checkpoint["hyper_parameters"] | {"net": _complete(checkpoint["hyper_parameters"]["net"])}
        self._take_beginning(saved["net"]["attention_init"])
        found = differences(saved, dict(self.hparams))
        self._check_net(found, saved)
        if self._fits:
            self._check_optimiser(found)
            self._check_order(checkpoint)
            self._take_averages(checkpoint)
        for text in found.values():
            rank_zero_info(f"differs from the checkpoint: model.{text}")

    def _take_beginning(self, began: str) -> None:
        """Keep on record how attention began, which no flag changes later."""
        asked, self.hparams["net"]["attention_init"] = self.hparams["net"]["attention_init"], began
        if self._fits and asked != began:
            rank_zero_info(f"--model.net.attention_init {asked} has no effect: the run began with {began}")

    def _take_averages(self, checkpoint: dict[str, Any]) -> None:
        """Train on with the trained weights, and average on from the averaged ones; without these, from here."""
        if RAW not in checkpoint:
            return
        if self.average is None:
            raise InputError(
                "the checkpoint holds averaged weights beside the trained ones: a resumed run goes on averaging; "
                "drop --model.averaging.decay 0, or begin anew with --model.weights"
            )
        self.average.restore(checkpoint["state_dict"], checkpoint[UPDATES])
        checkpoint["state_dict"] = checkpoint[RAW]


def _complete(net: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint's net with the fields that came after it, at what they were before there was a choice."""
    known = {field.name for field in fields(NetConfig)}
    return net | asdict(resolve(NetConfig(**{name: value for name, value in net.items() if name in known})))
