"""What a resumed run takes from its checkpoint, what it may change, and what is printed of the rest."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from vit_lightning.errors import InputError, listing
from vit_lightning.models import NetConfig, resolve
from vit_lightning.models.config import ResolvedConfig, grid_of
from vit_lightning.models.lora import Lora
from vit_lightning.runs.checkpoint_names import RAW
from vit_lightning.seeds import run_seed
from vit_lightning.terminal import counted
from vit_lightning.training.averaging import UPDATES, WeightAverage
from vit_lightning.training.data_facts import NORMALISATION
from vit_lightning.training.optim import Schedule

MAY_CHANGE_ON_RESUME = ("net.dropout", "net.stochastic_depth", "net.patch_dropout", "net.head_bias")
"""Fields of the net that a resumed run may change."""
OPTIMIZER_STATE_DEPENDS_ON = ("optim.name", "optim.layer_decay", "optim.decay_on", "freeze_trunk", "bias_only")
"""Settings that decide which state an optimiser holds."""
ONLY_TRAINING = ("optim", "schedule", "averaging", "label_smoothing", "recompute", "compile")
ONLY_TRAINING += ("freeze_trunk", "bias_only", "class_weights", "focal_gamma", "logit_adjustment")
ONLY_TRAINING += ("cuda_graph", "fp8", "weights", "weights_raw", "weights_head", "weights_resampling", "weights_adapt")
ONLY_TRAINING += ("weights_overlap",)
ONLY_TRAINING += ("scores",)  # which scores there are does not change them
"""Settings that bear on training alone, of which a scored checkpoint says nothing."""
NEWER = {"bias_only": False, "lora": asdict(Lora())}
"""Settings that earlier versions did not write, as they were then."""
LEAVE = "leave {} to the checkpoint, in flags and -c files"
REMEDIES = {"image_size": "give --data.image_size {image_size}", "num_classes": "give data of {num_classes} classes"}
"""What mends a difference that comes from the data, not from a flag of the model."""


def class_path(model: object) -> str:
    """Return the dotted name by which a checkpoint names its model."""
    return f"{type(model).__module__}.{type(model).__qualname__}"


def check_class(checkpoint: Mapping[str, Any], own: str, takes_weights: bool) -> None:
    """Refuse the checkpoint of another model.

    Args:
        checkpoint: the whole of it.
        own: dotted name of the model's class.
        takes_weights: whether the model can begin with a net from elsewhere.

    Raises:
        InputError: the checkpoint's class is another one.
    """
    saved = checkpoint.get("model", own)
    if saved != own:
        raise InputError(
            f"the checkpoint holds a {saved.rpartition('.')[2]}, not a {own.rpartition('.')[2]}; "
            + ("to begin with its net, give it to --model.weights" if takes_weights else "drop --model")
        )


def saved_settings(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's hyper-parameters; those that are newer have the values that they had before.

    A mean or std that it does not know, as one that was converted from weights which state none, is left out.
    """
    settings = dict(checkpoint["hyper_parameters"])
    for name in NORMALISATION:
        if settings.get(name, 0) is None:
            del settings[name]
    known = {field.name for field in fields(NetConfig)}
    config = NetConfig(**{name: value for name, value in settings["net"].items() if name in known})
    return NEWER | settings | {"net": settings["net"] | asdict(resolve(config))}


def check_net(differences: Mapping[str, str], saved: Mapping[str, Any], fixed: Collection[str], trains: bool) -> None:
    """Refuse another net, which cannot hold the checkpoint's weights.

    Args:
        differences: of the settings, by dotted name.
        saved: the checkpoint's settings.
        fixed: settings beside the net's on which the weights' shapes depend.
        trains: whether the run would train.

    Raises:
        InputError: a setting differs that decides what the net is.
    """
    found = [key for key in differences if key in fixed or (key.startswith("net.") and key not in MAY_CHANGE_ON_RESUME)]
    if found:
        facts = {name: saved[name] for name in ("image_size", "num_classes")}
        remedies = [REMEDIES[key].format(**facts) for key in found if key in REMEDIES]
        if others := [f"model.{key}" for key in found if key not in REMEDIES]:
            remedies.append(LEAVE.format(listing(others)))
        raise InputError(
            f"the checkpoint holds another net: {'; '.join(differences[key] for key in found)} (checkpoint -> now);"
            f" {' and '.join(remedies)}" + ", or start a new run without --ckpt_path" * trains
        )


def check_image_size(config: ResolvedConfig, now: Mapping[str, Any], then: Mapping[str, Any]) -> None:
    """Refuse images that a checkpoint's net cannot be built for, as those of a file that was written for another one.

    Args:
        config: the net that would be built.
        now: settings of the run.
        then: settings of the checkpoint.

    Raises:
        InputError: naming both sizes.
    """
    sizes = [(size, size) if isinstance(size, int) else size for size in (now["image_size"], then.get("image_size"))]
    if None in sizes or tuple(sizes[0]) == tuple(sizes[1]):
        return
    try:
        grid_of(config, tuple(sizes[0]))
    except InputError as error:
        (y, x), (rows, columns) = sizes
        raise InputError(
            f"the checkpoint's net takes images of {rows}x{columns} pixels, and the data gives {y}x{x}; give "
            f"--data.image_size {then['image_size']}, or the checkpoint of the net that these settings are for"
        ) from error


def bears_on_scores(key: str) -> bool:
    """Return whether a setting, by its dotted name, changes what a trained net's scores are."""
    return key.partition(".")[0] not in ONLY_TRAINING and key not in MAY_CHANGE_ON_RESUME


def check_optimizer(differences: Mapping[str, str]) -> None:
    """Refuse another optimiser, or other parameter groups, which cannot take over a restored state."""
    found = [text for key, text in differences.items() if key in OPTIMIZER_STATE_DEPENDS_ON]
    if found:
        raise InputError(
            f"a resumed run keeps its optimiser: {'; '.join(found)} (checkpoint -> now); "
            f"{LEAVE.format(listing(f'model.{key}' for key in differences if key in OPTIMIZER_STATE_DEPENDS_ON))}, or "
            "begin anew with --model.weights"
        )


def data_order(trainer: Trainer) -> dict[str, Any]:
    """Return what decides which images the batches of an epoch hold."""
    data = trainer.datamodule  # type: ignore[attr-defined]  # set by Lightning from outside
    batch_size = getattr(data, "batch_size", None)  # that of any LightningDataModule
    order = {"images per batch": batch_size and batch_size * trainer.world_size, "seed": run_seed()}
    return order | ({"sampler": data.sampler} if hasattr(data, "sampler") else {})


def check_order(checkpoint: Mapping[str, Any], order: Mapping[str, Any]) -> None:
    """Refuse another order of the images inside an epoch, which would repeat some and skip others; print it elsewhere.

    Args:
        checkpoint: the whole of it.
        order: from `data_order`.

    Raises:
        InputError: the checkpoint lies inside an epoch, and the order differs.
    """
    progress = checkpoint.get("loops", {}).get("fit_loop", {}).get("epoch_loop.batch_progress")
    inside = progress and progress["current"]["ready"] > 0 and not progress["is_last_batch"]
    for name, now in order.items():
        then = checkpoint.get("order", {}).get(name, "shuffled" if name == "sampler" else now)
        if then != now and inside:
            raise InputError(
                f"the checkpoint lies inside an epoch, which goes on with the same {name}: {then} -> {now} "
                "(checkpoint -> now); keep it, or begin anew with --model.weights"
            )
        if then != now:
            rank_zero_info(f"differs from the checkpoint: {name}: {then} -> {now}")


def check_horizon(schedule: Schedule, peak: float, step: int, planned: int | None, total: float) -> None:
    """Refuse another length of the run unless it is asked for, since the learning rate would jump; print it then.

    Args:
        schedule: the learning rate over the run.
        peak: its peak.
        step: optimiser step at which the run goes on.
        planned: optimiser steps of the run that wrote the checkpoint; None where it does not say.
        total: optimiser steps of this run.

    Raises:
        InputError: the schedule follows the run's length, which changed, and `allow_horizon_change` is false, or the
            new schedule is over before the run goes on.
    """
    if not planned or total == planned or not schedule.follows_horizon():
        return
    if total <= step:
        raise InputError(
            f"the checkpoint has {counted(step, 'optimiser step')}, and the whole run would now have {total:,} (planned"
            f" for {planned:,}), so that its learning rate is over; raise --trainer.max_epochs or --trainer.max_steps "
            f"until the run has more than {step:,} steps, or keep its images per step (--data.batch_size x devices x "
            "accumulation)"
        )
    before, after = (schedule.lr(step, peak, steps) for steps in (planned, total))
    change = f"the run was planned for {planned} optimiser steps and now has {total}"
    jump = f"lr at step {step}: {before:.3g} -> {after:.3g}"
    if not schedule.allow_horizon_change:
        raise InputError(
            f"{change} ({jump}); keep its epochs and images per step "
            "(--data.batch_size x devices x accumulation), or set --model.schedule.allow_horizon_change true"
        )
    rank_zero_info(f"{change}: {jump}")


def restore_average(checkpoint: dict[str, Any], average: WeightAverage | None, model: LightningModule) -> None:
    """Give a checkpoint's averaged weights to the average, and leave the trained ones to the model.

    A ModelParallelStrategy has loaded the weights by now, the averaged ones, and holds them back.

    Raises:
        InputError: the checkpoint has averaged weights, and the run averages none.
    """
    if UPDATES not in checkpoint:
        return
    if average is None:
        raise InputError(
            "the checkpoint holds averaged weights beside the trained ones: a resumed run goes on averaging; "
            "drop --model.averaging.decay 0, or begin anew with --model.weights"
        )
    if "state_dict" not in checkpoint:
        path = Path(model.trainer.strategy.broadcast(model.trainer.ckpt_path))
        average.restore_shards(path, model, checkpoint[UPDATES])
        return
    average.restore(checkpoint["state_dict"], checkpoint[UPDATES])
    checkpoint["state_dict"] = checkpoint[RAW]


def write_settings(groups: list[dict[str, Any]], optimizer: Optimizer, scheduler: LambdaLR) -> None:
    """Write the recipe's parameter groups over those that a restored optimiser brought back."""
    for group, fresh in zip(optimizer.param_groups, groups, strict=True):
        group.update({name: value for name, value in fresh.items() if name != "params"})
    scheduler.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
    for group, base, factor in zip(optimizer.param_groups, scheduler.base_lrs, scheduler.lr_lambdas, strict=True):
        group["lr"] = base * factor(scheduler.last_epoch)
