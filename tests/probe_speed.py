"""Time and memory of the probes on made features: `python -m tests.probe_speed --classes 1000 --train 65000`.

The defaults are ImageNet's few-shot split, its validation images and a B net's width, after extraction.
"""

import argparse
import resource
import time

import torch

from vit_lightning.commands.probe.methods import Probes, Probing
from vit_lightning.evaluation.features import FeatureSet
from vit_lightning.evaluation.fewshot import L2, ORIGINAL_L2


def made(images: int, classes: int, width: int, seed: int) -> FeatureSet:
    """Features of classes that a linear probe tells apart for the most part, with correlated features."""
    shared, own = torch.Generator().manual_seed(0), torch.Generator().manual_seed(seed)
    scale = torch.logspace(0, -2, width)
    turn = torch.linalg.qr(torch.randn(width, width, generator=shared))[0]
    centres = 0.5 * torch.randn(classes, width, generator=shared) * scale * torch.logspace(0, -1.5, width)
    labels = torch.arange(images) % classes
    features = (centres[labels] + torch.randn(images, width, generator=own) * scale) @ turn
    return FeatureSet(features, labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, usual in (("train", 65_000), ("test", 50_000), ("classes", 1000), ("width", 768), ("seeds", 3)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--original", action="store_true", help="the 30 penalties of Google's earlier code")
    given = parser.parse_args()
    train, test = (made(n, given.classes, given.width, seed) for n, seed in ((given.train, 1), (given.test, 2)))
    train = FeatureSet(train.features.to(given.device), train.labels)
    penalties, seeds = (ORIGINAL_L2, [None]) if given.original else ((L2,), list(range(given.seeds)))
    probes = Probes(("fewshot", "knn", "logistic"), (1, 5, 10, 25), seeds, penalties, (10, 20, 100), 0.07, False)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    print(f"{torch.get_num_threads()} threads, {before / 2**20:.2f} GiB before", flush=True)
    for probe, setting, values, regularisation, seconds in Probing(probes, train, test, given.classes).rows(
        lambda said: print(f"  {time.monotonic() - began:6.1f} s  {said}", flush=True)
    ):
        print(
            f"{probe} {setting}: {100 * sum(values) / len(values):.2f} %, {seconds:.1f} s {regularisation}", flush=True
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{time.monotonic() - began:.1f} s in all, {peak / 2**20:.2f} GiB at most", flush=True)


if __name__ == "__main__":
    main()
