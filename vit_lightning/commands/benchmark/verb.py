"""The verb `benchmark`: training, inference, fit and data in images per second, beside a peer where one is named."""

import json as notation
import math
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, LearningRateMonitor
from lightning.pytorch.trainer.states import TrainerStatus
from rich.console import Console

from vit_lightning.callbacks import Require
from vit_lightning.callbacks.finite_guard import FiniteGuard
from vit_lightning.callbacks.throughput import Throughput
from vit_lightning.commands.benchmark import loaders, report
from vit_lightning.commands.benchmark import sizes as input_sizes
from vit_lightning.commands.benchmark.contender import Contender, peak_flops, rebuild, try_out
from vit_lightning.commands.benchmark.fit import Turns, measure_fit
from vit_lightning.commands.benchmark.rounds import Row, Task, alternate
from vit_lightning.compute.clock import clock_of
from vit_lightning.compute.gpu_memory import STEPS, fits, free_memory, is_exhausted, largest
from vit_lightning.compute.peaks import device_name
from vit_lightning.data import ImageDataModule
from vit_lightning.data.datamodule import LARGEST_SIDE
from vit_lightning.errors import InputError
from vit_lightning.files import check_place, write_atomically
from vit_lightning.models import NetConfig
from vit_lightning.models.config import as_pair
from vit_lightning.runs.loggers import MetricsCSV, TensorBoard

MEASURES = ("train", "inference", "fit", "data")
CAPS = {"cuda": 16384, "cpu": 64}
"""Largest batch to try where --cap does not say."""
CALM = 1e-5
"""Learning rate of what is measured. Numbers decide how much power a product takes, and so how fast it is: at 1e-3 B/16
learnt random labels until it diverged, at 0 the head stays zero and so does every gradient below it (4,341 images/s and
4,669 on an H100)."""


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
        compare: Another net with the same recipe, such as timm/vit_base_patch16_224, measured in turn with the model's.
            It is what its name says, with --model.net's channels, dropout and stochastic depth and no other flag.
        compare_compiled: Whether that net is compiled; unset: as --model.compile says for both.
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
    if not hasattr(model, "config"):
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
    _refuse_idle(flags | {"sizes": sizes, "variants": variants, "figure": figure}, chosen)
    if json is not None:
        check_place(json, "--json")
    if figure is not None:
        input_sizes.check_figure(figure)
    if getattr(model, "weights", None):
        model.configure_model()  # the weights may bring the net
    cap = cap or CAPS.get(trainer.strategy.root_device.type, CAPS["cpu"])
    bench = Bench(trainer, model, datamodule, cap, rounds, seconds)
    if sizes is not None:
        models = input_sizes.models(bench.model, _names(variants, model.config.variant), _numbers("sizes", sizes))
    else:
        models = [bench.model, *([bench.peer(compare, compare_compiled)] if compare else [])]
    for candidate in models if set(chosen) != {"data"} else []:
        try_out(candidate)
    if "data" in chosen and sizes is None:
        bench.set_up(compare_loaders)
    try:
        with bench.reported(json):
            if sizes is not None:
                bench.sizes(models, json, figure)
                return
            for what in (name for name in MEASURES if name in chosen):
                bench.measure(what, models[1:], compare_loaders, batches == "auto")
    except (RuntimeError, MemoryError) as error:
        if not is_exhausted(error):
            raise
        if not bench.rows:
            raise InputError(f"--sizes {sizes}: not even one image fits in the memory of {_place(trainer)}") from error
        raise InputError(_too_large(bench.rows[-1], trainer)) from error


@dataclass
class Bench:
    """Everything that one call measures."""

    trainer: Trainer
    model: LightningModule
    data: LightningDataModule
    cap: int
    rounds: int
    seconds: float

    def __post_init__(self) -> None:
        self.rows: list[Row] = []
        self.model = rebuild(self.model, optim=self.model.hparams.optim | {"lr": CALM})
        self.device = self.trainer.strategy.root_device

    @contextmanager
    def reported(self, json: Path | None) -> Iterator[None]:
        """Show and keep what was measured, however far it went."""
        ended, interrupted, received = False, False, signal.SIGINT

        def interrupt(signum: int, frame: FrameType | None) -> None:
            nonlocal received
            received = signum
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGTERM, interrupt)
        try:
            yield
            ended = True
        except KeyboardInterrupt:
            interrupted = True
        except SystemExit:  # what Lightning makes of an interruption inside a fit
            if self.trainer.state.status != TrainerStatus.INTERRUPTED:
                raise
            interrupted = True
        finally:
            signal.signal(signal.SIGTERM, before)
            report.show(self.rows, _console())
            self.keep(json, ended)
        if interrupted:
            until = "the figures are those until then" if self.rows else "nothing was measured until then"
            print(f"interrupted: {until}", file=sys.stderr, flush=True)
            sys.exit(128 + received)  # as shells have it

    def keep(self, json: Path | None, ended: bool) -> None:
        """Write what was measured until now, where there is a file for it."""
        if json is not None:
            content = report.as_json(self.rows, _facts(self.trainer, self.model) | {"ended": ended})
            write_atomically(json, notation.dumps(content, indent=2) + "\n")

    def peer(self, name: str, compiled: bool | None) -> LightningModule:
        """Return the model of another net in the same recipe, compiled or as the model is."""
        ours = self.model.config
        shared = {"channels": ours.channels, "dropout": ours.dropout, "stochastic_depth": ours.stochastic_depth}
        compile = self.model.hparams.compile if compiled is None else compiled
        return rebuild(self.model, NetConfig(variant=name, **shared), compile=compile, cuda_graph=False)

    def set_up(self, compare_loaders: bool) -> None:
        """Set the training data up, and look whether they suit what is to be measured."""
        data = self.data
        if not isinstance(data, ImageDataModule):
            raise InputError(f"--measure data knows data that subclass ImageDataModule, not {type(data).__name__}")
        data.trainer = self.trainer
        data.prepare_data()
        data.setup("fit")
        if compare_loaders:
            loaders.check_peers(data)

    def measure(self, what: str, peers: list[LightningModule], compare_loaders: bool, auto: bool) -> None:
        """Measure one thing; nets beside peers."""
        match what:
            case "train" | "inference":
                self._steps(what, peers, auto)
            case "fit":
                self._fit(auto)
            case "data":
                self._data(compare_loaders)
        free_memory()

    def sizes(self, models: list[LightningModule], json: Path | None, figure: Path | None) -> None:
        """Measure inference over sizes of images, keep each as it comes, and draw them."""

        def tell(text: str) -> None:
            _tell(text)
            self.keep(json, ended=False)

        try:
            input_sizes.sweep(self.trainer, models, self.cap, self.seconds, self.rows, tell)
        finally:
            if figure is not None and self.rows:
                input_sizes.draw(self.rows, figure)

    def _steps(self, what: str, peers: list[LightningModule], auto: bool) -> None:
        tasks = [self._task(what, rebuild(model), auto) for model in (self.model, *peers)]
        ours, *theirs = (task.row for task in tasks)
        for row in theirs:
            row.net += ", no flags" * (row.net == ours.net)
        alternate(tasks, clock_of(self.device), self.rounds, self.seconds, _tell)

    def _task(self, what: str, model: LightningModule, auto: bool) -> Task:
        batch = self._largest(what, model) if auto else self.data.batch_size
        compiled = " compiled" * bool(model.hparams.compile)
        row = self._row(what, model.config.variant + compiled, batch)

        def build() -> Callable[[int], None]:
            contender = Contender(self.trainer, model, training=what == "train")
            row.flops, row.peak = contender.flops(what), peak_flops(self.trainer)
            return contender.task(what, batch)

        return Task(row, build)

    def _row(self, what: str, name: str, batch: int) -> Row:
        row = Row(what, name, as_pair(self.model.hparams.image_size), batch)
        self.rows.append(row)
        return row

    def _largest(self, what: str, model: LightningModule) -> int:
        found = self._probe(Contender(self.trainer, rebuild(model), training=what == "train"), what)
        free_memory()
        torch.compiler.reset()  # what was compiled for many batch sizes is slower than what is for one
        if not found:
            raise InputError(
                f"not even one image of {model.config.variant} fits in the memory of {_place(self.trainer)}"
            )
        limit = " (the cap)" if found == self.cap else ""
        _tell(f"{what}: the largest batch of {model.config.variant} is {found}{limit}")
        return found

    def _probe(self, contender: Contender, what: str) -> int:
        return largest(lambda batch: fits(lambda: contender.task(what, batch)(STEPS)), self.cap)

    def _fit(self, auto: bool) -> None:
        model = rebuild(self.model)
        batch = self._largest("train", model) if auto else self.data.batch_size
        name = model.config.variant
        fit, bare = (self._row("fit", text, batch) for text in (name, f"{name} bare"))
        with tempfile.TemporaryDirectory() as folder:
            kept = [callback for callback in self.trainer.callbacks if not isinstance(callback, Checkpoint | Require)]
            self.trainer.callbacks = [*kept, FiniteGuard(), Throughput(), LearningRateMonitor("step")]
            tensorboard = TensorBoard(folder, name="", version="tensorboard")
            self.trainer.loggers = [MetricsCSV(Path(folder)), tensorboard]
            measure_fit(self.trainer, model, Turns(fit, bare, self.rounds, self.seconds, _tell))

    def _data(self, compare_loaders: bool) -> None:
        data = self.data
        contenders = {type(data).__name__ + ", undecoded" * data.decode_on_device: loaders.own}
        if self.device.type != "cpu" or data.decode_on_device:
            contenders["on the device"] = loaders.OnDevice
        if compare_loaders:
            contenders |= {"timm": loaders.timm, "torchvision": loaders.torchvision}
        rows = {name: self._row("data", name, data.batch_size) for name in contenders}
        for number in range(self.rounds):
            for name, make in contenders.items():
                try:
                    rows[name].rounds.append(loaders.speed(make(self.trainer, data), data.workers, self.seconds))
                except InputError as error:
                    data.on_exception(error)  # as a fit does
                    raise
            speeds = ", ".join(f"{name} {row.rounds[-1]:,.1f}" for name, row in rows.items())
            _tell(f"data: round {number + 1}/{self.rounds}: {speeds} images/s with {data.workers} workers")


def _refuse_idle(flags: dict[str, Any], chosen: list[str]) -> None:
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


def _too_large(row: Row, trainer: Trainer) -> str:
    return (
        f"{row.measure} with a batch of {row.batch} does not fit in the memory of {_place(trainer)}; "
        "give a smaller --data.batch_size, or --batches auto"
    )


def _place(trainer: Trainer) -> str:
    device = trainer.strategy.root_device
    if device.type != "cuda":
        return f"this {device_name(device)}"
    gib = torch.cuda.get_device_properties(device).total_memory / 2**30
    return f"the {device_name(device)} ({gib:.0f} GiB)"


def _facts(trainer: Trainer, model: LightningModule) -> dict[str, str | int | bool]:
    return {
        "device": device_name(trainer.strategy.root_device),
        "torch": torch.__version__,
        "precision": str(trainer.precision),
        "compile": bool(model.hparams.get("compile", False)),
        "threads": torch.get_num_threads(),
        "date": time.strftime("%Y-%m-%d"),
    }


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=160)  # a pipe would wrap the table at 80


def _tell(text: str) -> None:
    print(text, flush=True)
