"""The paper's Figure 12: how inference speed and the largest batch follow from the size of the images."""

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from io import BytesIO
from math import prod
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn

from vit_lightning.commands.benchmark.contender import Contender, peak_flops, rebuild
from vit_lightning.commands.benchmark.rounds import BenchmarkRow, BenchmarkTask, alternate
from vit_lightning.compute.clock import clock_of
from vit_lightning.compute.gpu_memory import fits, free_memory, largest
from vit_lightning.errors import InputError
from vit_lightning.files import check_place, write_atomically
from vit_lightning.models import NetConfig, resolve
from vit_lightning.models.config import is_resnet, is_timm

FIGURE_12 = ("R50x1", "R50x2", "B/32", "L/32", "B/16", "L/16", "H/14", "R152x4")
"""The nets of the figure; its sizes are 64, 128, 224, 384 and 512."""
INDEXABLE = 2**31 - 1
"""Values of a batch of images that convolutions are given: with more R50x1 did not end within minutes on an H200,
probably since cuDNN's fast kernels for bf16 count no further (pytorch/pytorch issue 128936)."""
FORMATS = (".png", ".pdf", ".svg")
"""What a figure's name may end in."""


def models(model: LightningModule, variants: list[str], sizes: list[int]) -> list[LightningModule]:
    """Return a model of every net at every size in the recipe of `model`.

    Args:
        model: Its recipe, compilation included, serves every net.
        variants: Nets.
        sizes: Sides of the images in pixels; one that patches do not divide is cropped, as the official code does.
    """
    made = []
    for variant in variants:
        own = variant == model.config.variant
        config = model.config if own else NetConfig(variant=variant, channels=model.config.channels)
        plain = resolve(config)
        if not (is_resnet(plain) or is_timm(plain)):
            config = replace(config, crop_to_patch=True)
        made += [rebuild(model, config, image_size=size) for size in sizes]
    return made


def sweep(
    trainer: Trainer,
    models: list[LightningModule],
    cap: int,
    seconds: float,
    rows: list[BenchmarkRow],
    report: Callable[[str], None],
) -> None:
    """Measure inference of every model in the batch that is fastest, and find the largest that fits.

    Args:
        trainer: Says where and how precisely to compute.
        models: What `models` has made; each is dropped once it is measured.
        cap: Largest batch to try.
        seconds: How long a batch size is timed, about.
        rows: Take the figures, one by one.
        report: Takes a line that says how far it is.
    """
    while models:
        contender = Contender(trainer, models.pop(0), training=False)
        row = _best_batch(trainer, contender, cap, seconds, report)
        rows.append(row)
        speed = "no batch fits" if row.images_per_s is None else f"{row.images_per_s:,.1f} images/s"
        report(f"inference: {row.net} at {row.image_size[0]}: {speed}, largest batch {row.largest_batch}")
        del contender
        free_memory()


def _best_batch(
    trainer: Trainer, contender: Contender, cap: int, seconds: float, report: Callable[[str], None]
) -> BenchmarkRow:
    """Time powers of two until a batch fills a turn, find the largest that fits, return the fastest one's figures."""
    clock, rows = clock_of(contender.device), []

    def timed(batch: int) -> bool:
        row = BenchmarkRow("inference", contender.name, contender.image_size, batch)
        row.flops, row.peak = contender.flops("inference"), peak_flops(trainer)
        task = BenchmarkTask(row, lambda: contender.task("inference", batch))
        if fitted := fits(lambda: alternate([task], clock, 1, seconds)):
            rows.append(row)
        return fitted

    cap, why = _limit(contender, cap)
    batch = 1
    while batch <= cap and timed(batch) and batch < rows[-1].images_per_s * seconds:
        batch *= 2
    known = rows[-1].batch if rows else 0
    top = largest(lambda batch: fits(lambda: contender.task("inference", batch)(1)), cap, known, _expected(rows))
    none_fits = BenchmarkRow("inference", contender.name, contender.image_size, 0)
    best = max(rows, key=lambda row: row.images_per_s, default=none_fits)
    best.largest_batch = top
    best.note = why if top == cap else ""
    return best


def _limit(contender: Contender, cap: int) -> tuple[int, str]:
    """Return the largest batch to try and what sets it: the cap, or what convolutions can count."""
    convolves = any(isinstance(module, nn.Conv2d) for module in contender.model.net.modules())
    indexable = INDEXABLE // (contender.model.config.channels * prod(contender.image_size))
    return (indexable, "(indices)") if convolves and indexable < cap else (cap, "(cap)")


def _expected(rows: list[BenchmarkRow]) -> int | None:
    """Return the largest batch to expect from what the last two took of a GPU's memory; None where it is not known."""
    if len(rows) < 2 or rows[-1].memory_gib is None:
        return None
    (less, more), (fewer, batch) = zip(*((row.memory_gib, row.batch) for row in rows[-2:]), strict=True)
    each = (more - less) / (batch - fewer)
    free_gib = torch.cuda.mem_get_info()[0] / 2**30
    return batch + int((free_gib - more) / each) if each > 0 else None


def check_figure(path: Path) -> None:
    """Refuse a figure that could not be drawn, before anything is measured for it."""
    if path.suffix not in FORMATS:
        raise InputError(f"--figure {path}: expected a name that ends in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if find_spec("matplotlib") is None:
        raise InputError('--figure needs matplotlib: pip install "vit-lightning[figures]"')
    check_place(path, "--figure")


def draw(rows: list[BenchmarkRow], path: Path) -> None:
    """Draw speed and largest batch over the size of the images, a line per net."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    figure = Figure(figsize=(11, 4), layout="constrained")
    axes = figure.subplots(1, 2)
    sizes = sorted({row.image_size[0] for row in rows})
    for one, value, label in (
        (axes[0], "images_per_s", "inference, images/s per device"),
        (axes[1], "largest_batch", "largest batch per device"),
    ):
        for net in dict.fromkeys(row.net for row in rows):
            points = [(row.image_size[0], getattr(row, value)) for row in rows if row.net == net and row.rounds]
            one.plot(*zip(*points, strict=True), marker="o", label=net) if points else None
        one.set(xscale="log", yscale="log", xlabel="image size, pixels", ylabel=label, xticks=sizes)
        one.xaxis.set_major_formatter(ScalarFormatter())
        one.xaxis.set_minor_formatter(NullFormatter())
        one.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    drawing = BytesIO()
    with rc_context({"svg.fonttype": "none"}):
        figure.savefig(drawing, format=path.suffix[1:], dpi=150)
    write_atomically(path, drawing.getvalue())
