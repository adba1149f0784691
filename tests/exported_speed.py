"""Inference from an exported ONNX file beside torch's compiled net of timm, on a CPU, in turn.

python -m tests.exported_speed S/16 timm/vit_small_patch16_224 --image_size 224 --batch 1 --threads 1
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import onnxruntime
import torch

from vit_lightning.commands.benchmark.rounds import BenchmarkRow, BenchmarkTask, alternate, ratio
from vit_lightning.compute.clock import WallClock
from vit_lightning.models import NetConfig, build, resolve
from vit_lightning.weights.deploy import to_onnx
from vit_lightning.weights.interface import INPUT, OUTPUT
from vit_lightning.weights.report import Report


def exported(name: str, images: torch.Tensor, threads: int, classes: int) -> Callable[[int], None]:
    """Return a function of a number of batches that onnxruntime takes from a file of `export`."""
    net = build(resolve(NetConfig(name)), images.shape[-1], classes).eval()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as folder:
        to_onnx(net, Report("none", "ours"), Path(folder, "net"))
        session = onnxruntime.InferenceSession(Path(folder, "net", "model.onnx"), options)
    values = {INPUT: images.numpy()}
    return lambda steps: [session.run([OUTPUT], values) for _ in range(steps)]


def compiled(name: str, images: torch.Tensor, classes: int) -> Callable[[int], None]:
    """Return the same of a net that torch compiles."""
    net = torch.compile(build(resolve(NetConfig(name)), images.shape[-1], classes).eval())

    def run(steps: int) -> None:
        with torch.inference_mode():
            for _ in range(steps):
                net(images)

    return run


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net")
    parser.add_argument("peer")
    for name, default in {"image_size": 224, "batch": 1, "threads": 1, "rounds": 7}.items():
        parser.add_argument(f"--{name}", type=positive, default=default)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(0)
    images, classes = torch.rand(chosen.batch, 3, chosen.image_size, chosen.image_size), 1000
    builds = {
        f"{chosen.net} from ONNX": lambda: exported(chosen.net, images, chosen.threads, classes),
        f"{chosen.net} compiled": lambda: compiled(chosen.net, images, classes),
        f"{chosen.peer} compiled": lambda: compiled(chosen.peer, images, classes),
    }
    size = (chosen.image_size, chosen.image_size)
    tasks = [BenchmarkTask(BenchmarkRow("inference", name, size, chosen.batch), each) for name, each in builds.items()]
    alternate(tasks, WallClock(), chosen.rounds, seconds=2)
    for task in tasks:
        middle, least, most = ratio(task.row, tasks[-1].row)
        print(
            f"{task.row.net}: {task.row.images_per_s:.2f} images/s, {middle:.2f} x the peer ({least:.2f} to {most:.2f})"
        )


if __name__ == "__main__":
    main()
