"""Kill a real training run at random moments with SIGKILL, resume it, and compare it with the run left alone.

    python -m tests.kill_and_resume --count 20 --seed 0

Every run trains on scikit-learn's digits through `python -m vit_lightning fit`, on the CPU in fp32, with two loader
workers, dropout, MixUp, accumulation over 3 batches and validation inside the epochs; --experiment takes another YAML.
The killed run and its workers get SIGKILL at a moment drawn evenly from the time between its first and its last step.
A run that has no checkpoint by then is started anew, as its error message says.
"""

import argparse
import csv
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import torch
import yaml

EXPERIMENT = {
    "seed_everything": 3,
    "model": {
        "net": {"variant": "Ti/4", "width": 48, "depth": 2, "heads": 2, "mlp": 96, "dropout": 0.1},
        "optim": {"name": "adamw", "lr": 2e-3, "weight_decay": 0.05},
        "schedule": {"warmup_steps": 10},
    },
    "data": {
        "class_path": "Digits",
        "init_args": {"image_size": 8, "batch_size": 16, "num_workers": 2, "augment": {"mixup_alpha": 0.2}},
    },
    "last": {"every_n_steps": 12},
    "trainer": {
        "accelerator": "cpu",
        "accumulate_grad_batches": 3,
        "val_check_interval": 0.4,
        "log_every_n_steps": 1,
        "gradient_clip_val": 1.0,
    },
}
COLUMNS = ("train/loss", "lr", "val/loss", "val/top1")
TIMEOUT = 1800


class End(NamedTuple):
    """What a finished run leaves."""

    weights: str
    best: str
    metrics: str


class Runs:
    """Runs of one experiment, each in a folder of its own.

    Args:
        folder: Where they go.
        experiment: The YAML file.
    """

    def __init__(self, folder: Path, experiment: Path) -> None:
        self.folder = folder
        self.experiment = experiment

    def start(self, name: str, *words: str) -> subprocess.Popen:
        """Start `fit` in a process group of its own."""
        command = [sys.executable, "-m", "vit_lightning", "fit", "-c", str(self.experiment), *words]
        command += ["--trainer.default_root_dir", name]
        # What is trained is this checkout, not what is installed.
        path = os.pathsep.join(filter(None, (str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH"))))
        with (self.folder / f"{name}.log").open("a") as log:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env=os.environ | {"PYTHONPATH": path},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def finish(self, name: str, *words: str) -> int:
        """Run `fit` to its end and return its exit status."""
        process = self.start(name, *words)
        try:
            return process.wait(TIMEOUT)
        finally:
            kill(process)

    def run_folder(self, name: str) -> Path:
        """The newest run folder."""
        return max((self.folder / name / self.experiment.stem).glob("[0-9]*"), key=lambda path: int(path.name))

    def wait_for_step(self, name: str, process: subprocess.Popen, step: int = 0) -> None:
        """Return when an optimiser step has been logged."""
        deadline = time.monotonic() + TIMEOUT
        files = (self.folder / name).glob
        while not any(int(row["step"]) >= step for path in files("*/*/metrics.csv") for row in rows_of(path)):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} never began to train:\n{(self.folder / f'{name}.log').read_text()}")
            time.sleep(0.01)

    def end(self, name: str) -> End:
        """Hashes of the last weights, the best weights and the logged figures."""
        run = self.run_folder(name)
        rows = rows_of(run / "metrics.csv")
        figures = [(column, row["step"], row[column]) for column in COLUMNS for row in rows if row.get(column)]
        last, best = (run / "checkpoints" / f"{which}.ckpt" for which in ("last", "best"))
        return End(weights_hash(last), weights_hash(best), hashlib.sha256(repr(figures).encode()).hexdigest())


def rows_of(path: Path) -> list[dict[str, str]]:
    """Rows of a metrics.csv, which may be growing."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def kill(process: subprocess.Popen) -> None:
    """SIGKILL a process and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def weights_hash(path: Path) -> str:
    """SHA-256 of a checkpoint's step and of every tensor's name and bytes."""
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    digest = hashlib.sha256(str(checkpoint["global_step"]).encode())
    for name, tensor in sorted(checkpoint["state_dict"].items()):
        digest.update(name.encode() + tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def kill_and_resume(runs: Runs, name: str, seconds: float) -> str | None:
    """Kill a run after some seconds of training and bring it to its end; return how, or None if it ended before."""
    process = runs.start(name)
    try:
        runs.wait_for_step(name, process)
        try:
            process.wait(seconds)
            return None
        except subprocess.TimeoutExpired:
            pass
    finally:
        kill(process)
    folder = runs.run_folder(name) / "checkpoints"
    held = [path for path in (folder / "last.ckpt", folder / "previous.ckpt") if path.is_file()]
    if not held:
        if runs.finish(name, "--ckpt_path", "last") != 1:
            raise RuntimeError(f"{name}: a run without a checkpoint was resumed")
        how = "no checkpoint yet, started anew"
        words: tuple[str, ...] = ()
    else:
        step = torch.load(held[0], map_location="cpu", weights_only=True, mmap=True)["global_step"]
        how, words = f"resumed from step {step}", ("--ckpt_path", "last")
    if runs.finish(name, *words) != 0:
        raise RuntimeError(f"{name} did not go on:\n{(runs.folder / f'{name}.log').read_text()}")
    return how


def prove(folder: Path, experiment: Path, count: int, seed: int) -> int:
    """Print one line per killed run; return how many ended otherwise than the run left alone."""
    runs, chance = Runs(folder, experiment), random.Random(seed)
    process = runs.start("whole")
    try:
        runs.wait_for_step("whole", process)
        began = time.time()
        if process.wait(TIMEOUT) != 0:
            raise RuntimeError((folder / "whole.log").read_text())
    finally:
        kill(process)
    steps, whole = runs.run_folder("whole") / "metrics.csv", runs.end("whole")
    length = steps.stat().st_mtime - began
    print(f"uninterrupted: {length:.1f} s of training, weights {whole.weights[:16]}", flush=True)
    different = 0
    for number in range(1, count + 1):
        name, how = f"killed{number}", None
        while how is None:
            shutil.rmtree(folder / name, ignore_errors=True)
            seconds = chance.uniform(0, length)
            how = kill_and_resume(runs, name, seconds)
        end = runs.end(name)
        wrong = [part for part in End._fields if getattr(end, part) != getattr(whole, part)]
        different += bool(wrong)
        said = f"other {', '.join(wrong)}" if wrong else "the same"
        print(f"{number:2}: kill -9 after {seconds:5.2f} s, {how}: weights {end.weights[:16]}, {said}", flush=True)
        shutil.rmtree(folder / name)
    print(f"{count - different} of {count} runs ended with the weights, best weights and figures of the whole run")
    return different


def main() -> int:
    """Read the command line and prove."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20, help="runs to kill")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments")
    parser.add_argument("--experiment", type=Path, help="YAML to train instead of the built-in one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        experiment = options.experiment.resolve() if options.experiment else write_experiment(Path(folder))
        return 1 if prove(Path(folder), experiment, options.count, options.seed) else 0


def write_experiment(folder: Path, epochs: int = 8) -> Path:
    """Write the built-in experiment."""
    path = folder / "digits.yaml"
    trainer = EXPERIMENT["trainer"] | {"max_epochs": epochs}
    path.write_text(yaml.safe_dump(EXPERIMENT | {"trainer": trainer}))
    return path


if __name__ == "__main__":
    sys.exit(main())
