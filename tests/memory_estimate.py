"""The memory of a training step, estimated and measured, on the device there is: python -m tests.memory_estimate.

A GPU's peak is that of its allocator. The CPU's is the growth of a new process over one that has only imported; glibc
keeps gaps, so that recomputing shows what it saves only with MALLOC_MMAP_THRESHOLD_=65536.
Words name variants and batches: python -m tests.memory_estimate B/16 32 128 L/16 32 64. Switches: --recompute,
--bias_only, --freeze_trunk, --size PIXELS.
"""

import argparse
import resource
import subprocess
import sys
from pathlib import Path

import torch
from lightning.pytorch import Trainer

from vit_lightning.callbacks.run_estimate import training_memory
from vit_lightning.classifier import Classifier
from vit_lightning.commands.benchmark.fit import RepeatedBatch
from vit_lightning.compute.energy import peak_memory

CLASSES = 1000


def resident() -> int:
    """Bytes that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measure(variant: str, batch: int, size: int, settings: dict[str, bool]) -> tuple[int, int]:
    """Return the estimate and the peak of three steps, in bytes."""
    gpu = torch.cuda.is_available()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    precision = "bf16-mixed" if gpu else "32-true"
    trainer = Trainer(
        accelerator="gpu" if gpu else "cpu",
        devices=1,
        max_steps=3,
        precision=precision,
        enable_model_summary=False,
        **quiet,
    )
    before = resident()
    model = Classifier({"variant": variant}, num_classes=CLASSES, image_size=size, **settings)
    loader = RepeatedBatch((torch.randn(batch, 3, size, size), torch.randint(CLASSES, (batch,))))
    trainer.fit(model, loader)
    estimate = training_memory(model, batch, trainer).total
    if gpu:
        return estimate, peak_memory(torch.device("cuda"))
    return estimate, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*", default=["Ti/16", "4", "16", "B/16", "1", "4"])
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--one", action="store_true", help="measure in this process")
    for name in ("recompute", "bias_only", "freeze_trunk"):
        parser.add_argument(f"--{name}", action="store_true")
    given = parser.parse_args()
    settings = {name: True for name in ("recompute", "bias_only", "freeze_trunk") if getattr(given, name)}
    if given.one:
        print(*measure(given.words[0], int(given.words[1]), given.size, settings))
        return
    variant = ""
    for word in given.words:
        if not word.isdecimal():
            variant = word
            continue
        flags = [f"--{name}" for name in settings]
        command = [sys.executable, "-m", "tests.memory_estimate", variant, word, "--one", "--size", str(given.size)]
        done = subprocess.run([*command, *flags], stdout=subprocess.PIPE, text=True, check=True)
        estimate, peak = (int(value) / 2**30 for value in done.stdout.split()[-2:])
        print(
            f"{variant} batch {word}: estimated {estimate:.3f} GiB, measured {peak:.3f} GiB, {estimate / peak - 1:+.1%}"
        )


if __name__ == "__main__":
    main()
