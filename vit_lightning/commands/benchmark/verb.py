"""The verb `benchmark`: training, inference, fit and data in images per second, beside a peer where one is named."""

import math
from inspect import signature
from pathlib import Path
from typing import Any, Literal

from lightning.pytorch import LightningDataModule, LightningModule, Trainer

from vit_lightning.commands.benchmark import sizes as input_sizes
from vit_lightning.commands.benchmark.contender import check_buildable
from vit_lightning.commands.benchmark.measurements import Measurements, place_of
from vit_lightning.commands.benchmark.rounds import BenchmarkRow
from vit_lightning.compute.gpu_memory import is_exhausted
from vit_lightning.contracts import RecipeTrained
from vit_lightning.data.datamodule import LARGEST_SIDE
from vit_lightning.errors import InputError
from vit_lightning.files import check_place

MEASURES = ("train", "inference", "fit", "data")
CAPS = {"cuda": 16384, "cpu": 64}
"""Largest batch to try where --cap does not say."""


def benchmark(
    trainer: Trainer,
    model: LightningModule,
    datamodule: LightningDataModule,
    *,
    measure: str = "[train,inference,fit,data]",
    compare: str | None = None,
    compare_compiled: bool | None = None,
    compare_loaders: bool = False,
    batches: Literal["given", "auto"] = "given",
    cap: int | None = None,
    sizes: str | None = None,
    variants: str | None = None,
    rounds: int = 5,
    seconds: float = 1.0,
    json: Path | None = None,
    figure: Path | None = None,
) -> None:
    """Measure the speed and memory of training, inference and data on one device, with the flags that a fit has.

    Images for train, inference and fit are on the device already. Ctrl-C and SIGTERM show what was measured until then.

    Args:
        trainer: Says where and how precisely to compute.
        model: The model whose net, recipe and compilation are measured.
        datamodule: Its data.
        measure: What to measure. train: the bare step of forward, backward and optimiser; inference: the forward pass;
            fit: a real fit in turn with its own bare steps, and what it adds to one; data: the training loader.
        compare: Another net with the same recipe, or several in brackets, measured in turn with the model's, such as
            Ti/16, timm/vit_base_patch16_224, torchvision/vit_b_16 or transformers/vit-base-patch16-224. It is what its
            name says, with --model.net's channels, dropout and stochastic depth and no other flag. Of transformers also
            dinov2-small and the like, or a folder with a config.json. Nothing is downloaded.
        compare_compiled: Whether such a net is compiled; unset: as --model.compile says for all. On a GPU it is
            measured in both of torch.compile's usual modes, default and reduce-overhead.
        compare_loaders: Also measure timm's and torchvision's loaders on the same files, in turn with the data's own.
        batches: Batch to measure. given: --data.batch_size; auto: the largest that fits, found for each measure.
        cap: Largest batch that is tried; unset: 16384 on a GPU, 64 elsewhere.
        sizes: Sides in pixels, such as [64,128]: measure inference at each of them in place of everything else, in its
            fastest batch, and find the largest that fits. The paper's Figure 12 is [64,128,224,384,512]. Where patches
            do not divide a side, its last pixels are left out.
        variants: Nets for --sizes, such as [B/16,R50x1], or figure12 for the eight of that figure; unset: the model's.
            Other nets than the model's come as their names say, without --model.net's flags.
        rounds: Turns of each contender.
        seconds: How long a turn lasts, about.
        json: File for all figures; where the measuring did not come to its end, "ended" is false in it.
        figure: File for a drawing of what --sizes measures (png, pdf or svg).
    """
    if not isinstance(model, RecipeTrained):
        raise InputError(
            f"benchmark measures models that know their net, as Classifier does; {type(model).__name__} does not"
        )
    if trainer.world_size > 1:
        raise InputError(
            f"benchmark measures one device, not {trainer.world_size}; give --trainer.devices 1, "
            "or read perf/images_per_s of a fit on all of them"
        )
    if rounds < 1 or not 0 < seconds < math.inf:
        raise InputError(f"--rounds {rounds}, --seconds {seconds}: expected a round or more of some time, such as 0.5")
    if cap is not None and cap < 1:
        raise InputError(f"--cap {cap}: expected a batch of 1 image or more")
    chosen = _chosen("measure", measure, MEASURES)
    flags = {"compare": compare, "compare_compiled": compare_compiled, "compare_loaders": compare_loaders}
    flags |= {"measure": measure, "batches": batches, "cap": cap, "rounds": rounds}
    _refuse_unused(flags | {"sizes": sizes, "variants": variants, "figure": figure}, chosen)
    if json is not None:
        check_place(json, "--json")
    if figure is not None:
        input_sizes.check_figure(figure)
    if model.weights:
        model.configure_model()  # the weights may bring the net
    cap = cap or CAPS.get(trainer.strategy.root_device.type, CAPS["cpu"])
    measurements = Measurements(trainer, model, datamodule, cap, rounds, seconds)
    if sizes is not None:
        models = input_sizes.models(
            measurements.model, _names(variants, model.config.variant), _numbers("sizes", sizes)
        )
    else:
        names = [] if compare is None else _names(compare, "")
        models = [measurements.model, *(measurements.peer(name, compare_compiled) for name in names)]
    for candidate in models if set(chosen) != {"data"} else []:
        check_buildable(candidate)
    if "data" in chosen and sizes is None:
        measurements.set_up(compare_loaders)
    try:
        with measurements.reported(json):
            if sizes is not None:
                measurements.sizes(models, json, figure)
                return
            for what in (name for name in MEASURES if name in chosen):
                measurements.measure(what, models[1:], compare_loaders, batches == "auto")
    except (RuntimeError, MemoryError) as error:
        if not is_exhausted(error):
            raise
        if not measurements.rows:
            raise InputError(
                f"--sizes {sizes}: not even one image fits in the memory of {place_of(trainer)}"
            ) from error
        raise InputError(_too_large(measurements.rows[-1], trainer)) from error


def _refuse_unused(flags: dict[str, Any], chosen: list[str]) -> None:
    """Refuse a flag that would change nothing beside the others."""
    defaults = signature(benchmark).parameters
    typed = {name: value for name, value in flags.items() if value != defaults[name].default}
    if "sizes" in typed:
        idle = next((name for name in typed if name not in ("sizes", "variants", "figure", "cap")), None)
        if idle:
            raise InputError(
                f"--{idle} {typed[idle]} does nothing beside --sizes, which measures inference alone in its own way; "
                "drop one of them"
            )
        return
    sides = "--sizes with the sides of the images, such as [64,224]"
    needs = {
        "variants": (False, sides),
        "figure": (False, sides),
        "compare": ({"train", "inference"} & set(chosen), "train or inference in --measure"),
        "compare_compiled": ("compare" in typed, "--compare with the name of another net"),
        "compare_loaders": ("data" in chosen, "data in --measure"),
        "batches": (set(chosen) - {"data"}, "train, inference or fit in --measure"),
        "cap": ("batches" in typed, "--batches auto or --sizes"),
    }
    for name, (met, need) in needs.items():
        if name in typed and not met:
            raise InputError(f"--{name} {typed[name]} does nothing without {need}; give that too, or drop it")


def _numbers(flag: str, text: str) -> list[int]:
    try:
        numbers = [int(word) for word in text.strip("[]").split(",")]
    except ValueError:
        numbers = [0]
    if not 1 <= min(numbers) <= max(numbers) <= LARGEST_SIDE:
        raise InputError(f"--{flag} {text}: expected numbers from 1 to {LARGEST_SIDE} in brackets, such as [64,224]")
    return list(dict.fromkeys(numbers))


def _names(text: str | None, own: str) -> list[str]:
    if text == "figure12":
        return list(input_sizes.FIGURE_12)
    return list(dict.fromkeys(name.strip() for name in text.strip("[]").split(","))) if text is not None else [own]


def _chosen(flag: str, text: str, choices: tuple[str, ...]) -> list[str]:
    words = [word.strip() for word in text.strip("[]").split(",")]
    if unknown := [word for word in words if word not in choices]:
        raise InputError(f"--{flag} {unknown[0]}: choose from {', '.join(choices)}")
    return words


def _too_large(row: BenchmarkRow, trainer: Trainer) -> str:
    return (
        f"{row.measure} with a batch of {row.batch} does not fit in the memory of {place_of(trainer)}; "
        "give a smaller --data.batch_size, or --batches auto"
    )
