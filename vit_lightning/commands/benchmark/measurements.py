"""What `benchmark` measures, one thing after another, and what is shown and kept of it when it is interrupted."""

import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from types import FrameType

import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, LearningRateMonitor
from lightning.pytorch.trainer.states import TrainerStatus

from vit_lightning.callbacks import Require
from vit_lightning.callbacks.finite_guard import FiniteGuard
from vit_lightning.callbacks.throughput import Throughput
from vit_lightning.commands.benchmark import loaders, results
from vit_lightning.commands.benchmark import sizes as input_sizes
from vit_lightning.commands.benchmark.contender import Contender, peak_flops, rebuild
from vit_lightning.commands.benchmark.fit import FitVersusBareSteps, measure_fit
from vit_lightning.commands.benchmark.peers import is_peer, peer_class
from vit_lightning.commands.benchmark.rounds import BenchmarkRow, BenchmarkTask, alternate
from vit_lightning.compute.clock import clock_of
from vit_lightning.compute.gpu_memory import STEPS, fits, free_memory, largest
from vit_lightning.compute.peaks import device_name
from vit_lightning.data import ImageDataModule
from vit_lightning.errors import InputError
from vit_lightning.files import write_atomically
from vit_lightning.models import NetConfig
from vit_lightning.models.config import as_pair
from vit_lightning.runs.loggers import MetricsCSV, TensorBoard
from vit_lightning.terminal import console, report

REDUCE_OVERHEAD = "reduce-overhead"
"""Mode of torch.compile that launches a compiled net as a CUDA graph."""
BENCHMARK_LR = 1e-5
"""Learning rate of what is measured. Numbers decide how much power a product takes, and so how fast it is: at 1e-3 B/16
learnt random labels until it diverged, at 0 the head stays zero and so does every gradient below it (4,341 images/s and
4,669 on an H100)."""


@dataclass
class Measurements:
    """Everything that one call measures, and what it shows and keeps of it."""

    trainer: Trainer
    model: LightningModule
    data: LightningDataModule
    cap: int
    rounds: int
    seconds: float

    def __post_init__(self) -> None:
        self.rows: list[BenchmarkRow] = []
        self.model = rebuild(self.model, optim=self.model.hparams.optim | {"lr": BENCHMARK_LR})
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
            results.show(self.rows, console())
            self.keep(json, ended)
        if interrupted:
            until = "the figures are those until then" if self.rows else "nothing was measured until then"
            print(f"interrupted: {until}", file=sys.stderr, flush=True)
            sys.exit(128 + received)  # as shells have it

    def keep(self, json: Path | None, ended: bool) -> None:
        """Write what was measured until now, where there is a file for it."""
        if json is not None:
            content = results.as_json(self.rows, _facts(self.trainer, self.model) | {"ended": ended})
            write_atomically(json, dumps(content, indent=2) + "\n")

    def peer(self, name: str, compiled: bool | None) -> LightningModule:
        """Return the model of another net in the same recipe, compiled or as the model is."""
        ours = self.model.config
        shared = {"channels": ours.channels, "dropout": ours.dropout, "stochastic_depth": ours.stochastic_depth}
        compile = self.model.hparams.compile if compiled is None else compiled
        off = {flag: False for flag in ("cuda_graph", "fp8") if flag in self.model.hparams}
        if is_peer(name):
            kind = peer_class(self.model, name)
            return rebuild(self.model, NetConfig(**shared), kind, peer=name, compile=compile, **off)
        return rebuild(self.model, NetConfig(variant=name, **shared), compile=compile, **off)

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

        def keep_and_report(text: str) -> None:
            report(text)
            self.keep(json, ended=False)

        try:
            input_sizes.sweep(self.trainer, models, self.cap, self.seconds, self.rows, keep_and_report)
        finally:
            if figure is not None and self.rows:
                input_sizes.draw(self.rows, figure)

    def _steps(self, what: str, peers: list[LightningModule], auto: bool) -> None:
        tasks = [self._task(what, rebuild(self.model), auto)]
        for peer in peers:
            tasks += [self._task(what, rebuild(peer), auto, mode) for mode in self._modes(peer)]
        ours, *theirs = (task.row for task in tasks)
        for row in theirs:
            row.net += ", no flags" * (row.net == ours.net)
        alternate(tasks, clock_of(self.device), self.rounds, self.seconds, report)

    def _modes(self, peer: LightningModule) -> tuple[str | None, ...]:
        """Ways in which a peer is compiled: its users take the faster one, and which that is depends on the net."""
        return (None, REDUCE_OVERHEAD) if peer.hparams.compile and self.device.type == "cuda" else (None,)

    def _task(self, what: str, model: LightningModule, auto: bool, mode: str | None = None) -> BenchmarkTask:
        batch = self._largest(what, model) if auto else self.data.batch_size
        compiled = " compiled" * bool(model.hparams.compile) + f", {mode}" * bool(mode)
        fp8 = " fp8" * (what == "train" and model.hparams.get("fp8", False))
        row = self._row(what, model.config.variant + compiled + fp8, batch)

        def build() -> Callable[[int], None]:
            contender = Contender(self.trainer, model, what == "train", mode)
            row.flops, row.peak = contender.flops(what), peak_flops(self.trainer)
            return contender.task(what, batch)

        return BenchmarkTask(row, build)

    def _row(self, what: str, name: str, batch: int) -> BenchmarkRow:
        row = BenchmarkRow(what, name, as_pair(self.model.hparams.image_size), batch)
        self.rows.append(row)
        return row

    def _largest(self, what: str, model: LightningModule) -> int:
        found = self._largest_that_fits(Contender(self.trainer, rebuild(model), training=what == "train"), what)
        free_memory()
        torch.compiler.reset()  # what was compiled for many batch sizes is slower than what is for one
        if not found:
            raise InputError(
                f"not even one image of {model.config.variant} fits in the memory of {place_of(self.trainer)}"
            )
        limit = " (the cap)" if found == self.cap else ""
        report(f"{what}: the largest batch of {model.config.variant} is {found}{limit}")
        return found

    def _largest_that_fits(self, contender: Contender, what: str) -> int:
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
            measure_fit(self.trainer, model, FitVersusBareSteps(fit, bare, self.rounds, self.seconds, report))

    def _data(self, compare_loaders: bool) -> None:
        data = self.data
        contenders = {type(data).__name__ + ", undecoded" * data.decode_on_device: loaders.datamodule}
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
            report(f"data: round {number + 1}/{self.rounds}: {speeds} images/s with {data.workers} workers")


def place_of(trainer: Trainer) -> str:
    """Return the device and its memory, for a sentence."""
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
