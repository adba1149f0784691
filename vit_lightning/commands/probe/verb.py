"""The verb `probe`: few-shot, k-NN and logistic classifiers on the features of a frozen net."""

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer

from vit_lightning.commands.probe.extraction import Extracted, FrozenNet, ProbeData, frozen_model, goes_through_all
from vit_lightning.commands.probe.methods import Probes, Probing
from vit_lightning.commands.probe.results import ProbeRow, table, write
from vit_lightning.data import ImageDataModule
from vit_lightning.data.image_set import ImageSet
from vit_lightning.errors import InputError
from vit_lightning.evaluation import fewshot, knn
from vit_lightning.evaluation.features import FeatureSet
from vit_lightning.files import check_place
from vit_lightning.runs import folders
from vit_lightning.terminal import console, near, report
from vit_lightning.training.seen_before import places_seen_before
from vit_lightning.training.seen_labels import trained_among
from vit_lightning.weights import open_weights

SHOTS, NEIGHBOURS = (1, 5, 10, 25), (10, 20, 100)
FREE = 0.4
"""Part of a GPU's free memory that features may take there."""


def probe(
    trainer: Trainer,
    model: LightningModule,
    datamodule: LightningDataModule,
    *,
    ckpt_path: str | None = None,
    probes: tuple[Literal["fewshot", "knn", "logistic"], ...] = ("fewshot", "knn", "logistic"),
    shots: tuple[int, ...] | None = None,
    seeds: int = 3,
    protocol: Literal["big_vision", "original"] = "big_vision",
    l2: float = 1024.0,
    neighbours: tuple[int, ...] | None = None,
    temperature: float = 0.07,
    missing_classes: Literal["error", "ignore"] = "error",
    out: Path | None = None,
    cache: Path | None = None,
) -> None:
    """Fit simple classifiers to the features of a frozen net, and score them on the test images.

    The features are what the head reads. No image is varied. Without test images, the validation images are scored.
    Features are kept in files, and taken from there as long as net, images and preprocessing stay the same.

    Args:
        trainer: Says where and how precisely to compute.
        model: The model whose net is probed.
        datamodule: Its images.
        ckpt_path: Checkpoint whose net is probed, in place of --model.weights: a path, or the word last or best.
        probes: Classifiers. fewshot: least squares on a few images of each class; knn: nearest neighbours by cosine;
            logistic: logistic regression on all images, its C chosen on held-out training images.
        shots: Training images of each class, for fewshot; unset: 1, 5, 10 and 25, as far as every class has them.
        seeds: Times that these images are drawn anew.
        protocol: How fewshot draws and regularises. big_vision: shuffled by each seed, with one --l2; original: the
            first images of each class, and the best of 30 penalties on the test images, as Google's earlier code.
        l2: Penalty of fewshot by the protocol big_vision.
        neighbours: Each k of knn; unset: 10, 20 and 100, as far as there are as many training images.
        temperature: Temperature of knn's votes, exp(cosine / temperature).
        missing_classes: What happens if a split lacks classes. error: the command ends; ignore: the others are probed.
        out: Folder for probe.csv and probe.json; unset: that of the run whose net it is, or the folder probe.
        cache: Folder for features; unset: features in the folder of --out.
    """
    if not isinstance(datamodule, ImageDataModule) or datamodule.num_classes is None:
        raise InputError(f"probe needs images with classes, which {type(datamodule).__name__} does not give")
    usual = [flag for flag, values in (("shots", shots), ("neighbours", neighbours)) if values is None]
    shots = SHOTS if shots is None else shots
    neighbours = NEIGHBOURS if neighbours is None else neighbours
    _check_numbers(probes=probes, shots=shots, seeds=seeds, l2=l2, neighbours=neighbours, temperature=temperature)
    if not goes_through_all(trainer):
        raise InputError(
            "probe goes through all images; for fewer, give --data.fraction or --data.per_class in place of "
            "--trainer.limit_predict_batches and --trainer.fast_dev_run"
        )
    place = out or (folders.folder_of(Path(ckpt_path)) if ckpt_path else None) or Path("probe")
    if trainer.is_global_zero:
        folders.make(place)
        check_place(place / "probe.json", "--out")
    original, names = protocol == "original", datamodule.class_names
    chosen = Probes(
        probes,
        sorted(set(shots)),
        seeds=[None] if original else list(range(seeds)),
        penalties=fewshot.ORIGINAL_L2 if original else (l2,),
        neighbours=sorted(set(neighbours)),
        temperature=temperature,
        missing_is_fine=missing_classes == "ignore",
        usual=usual,
    )
    data = ProbeData(datamodule, lambda train, test, split: chosen.check(train, test, split, names))
    net = FrozenNet(frozen_model(model, ckpt_path), data, cache or place / "features", _shows(trainer))
    Trainer.predict(trainer, net, datamodule=data, return_predictions=False)  # not the verb
    if not trainer.is_global_zero:
        return
    net.check()
    split = list(data.sets)[1]
    train, test = (_countable(net.extracted[part].found, part) for part in data.sets)
    chosen.check(train.labels, test.labels, split, names)
    chosen, left_out = chosen.possible(train.labels, names)
    device = _device(trainer, train, test)
    probing = Probing(chosen, FeatureSet(train.features.to(device), train.labels), test, len(names))
    _say_extraction(net.extracted, split)
    for line in left_out:
        report(line)
    if "logistic" in probes and (known := _trained_among(net, data.sets["training"])):
        report(
            f"warning  the net was trained on these training images ({known} such are known), so that logistic "
            "chooses C by images that it knows, whose scores may be near 100 %"
        )
    rows = [ProbeRow(*row) for row in probing.rows(lambda said: report(f"logistic {said}"))]
    source = ckpt_path or net.model.weights or ""
    paths = write(rows, _facts(net, source, datamodule, split, train, test), place)
    console().print(table(rows))
    report(f"probed   {near(source) if Path(source).exists() else source}")
    report(f"wrote    {near(paths[0])}, {near(paths[1])}")
    report(f"kept     {near(net.folder)}: the features, which another probe reads; delete the folder to free its space")


def _check_numbers(**flags: Any) -> None:
    """Refuse flags with which nothing can be computed."""
    for name in ("probes", "shots", "neighbours"):
        if not flags[name]:
            raise InputError(f"--{name} is empty; give one or more, or leave the flag away")
    for name in ("shots", "neighbours", "seeds"):
        least = flags[name] if name == "seeds" else min(flags[name])
        if least < 1:
            raise InputError(f"--{name} is {least}, expected 1 or more")
    for name, usual in (("l2", fewshot.L2), ("temperature", knn.TEMPERATURE)):
        if not 0 < flags[name] < math.inf:
            raise InputError(f"--{name} is {flags[name]:g}, expected a number above 0, such as {usual:g}")


def _shows(trainer: Trainer) -> bool:
    """Whether progress is shown, in images of a set, where the trainer's own would count batches."""
    shown = trainer.progress_bar_callback
    if shown is not None:
        shown.disable()
    return shown is not None


def _trained_among(net: FrozenNet, images: ImageSet) -> int:
    """Return how many images are known to be among those that a net was trained on; of weights from elsewhere none."""
    model = net.model
    opened = open_weights(model.weights or "", model.hparams["weights_raw"], model.chosen)
    seen = [opened.of_data.get("seen_labels"), *opened.of_data.get("seen_by_members", ())]
    before = places_seen_before(opened.of_data.get("seen_before"), images)
    return max(len(before), *(trained_among(one or {}, images) for one in seen))


def _countable(found: FeatureSet, split: str) -> FeatureSet:
    """Return the images that have a label and could be read; say how many there are if not all."""
    labelled = found.labelled()
    if 0 < len(labelled) < len(found):
        counted = f"{len(labelled):,} of {len(found):,} {split} images"
        report(f"{counted} have a label and could be read; the others count nothing")
    return labelled


def _device(trainer: Trainer, *sets: FeatureSet) -> torch.device:
    """Return where probes are computed: the GPU where the features fit beside the work, else the processor."""
    device = trainer.strategy.root_device
    if device.type != "cuda":
        return torch.device("cpu")
    needed = sum(one.features.nbytes for one in sets)
    return device if needed < FREE * torch.cuda.mem_get_info(device)[0] else torch.device("cpu")


def _say_extraction(extracted: dict[str, Extracted], split: str) -> None:
    if split == "validation":
        report("scored   the validation images, since there are no test images")
    for part, one in extracted.items():
        if one.seconds is not None:
            rate = len(one.found) / max(one.seconds, 1e-9)
            report(f"features {len(one.found):,} {part} images, {rate:,.1f} images/s")


def _facts(
    net: FrozenNet, source: str, data: ImageDataModule, split: str, train: FeatureSet, test: FeatureSet
) -> dict[str, Any]:
    kind = type(data)
    return {
        "verb": "probe",
        "net": str(Path(source).resolve()) if Path(source).exists() else source,
        "net_digest": net.cache.net,
        "data": f"{kind.__module__}.{kind.__qualname__}",
        "image_size": list(data.size),
        "mean": list(net.model.hparams["mean"]),
        "std": list(net.model.hparams["std"]),
        "precision": str(net.trainer.precision),
        "scored": split,
        "images": {"training": len(train), split: len(test)},
        "features": train.features.shape[1],
        "seconds_of_extraction": {part: one.seconds for part, one in net.extracted.items()},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
