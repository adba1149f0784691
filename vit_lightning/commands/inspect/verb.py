"""The verb `inspect`: what a net looks at and what it has learned, in figures."""

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from lightning.pytorch import LightningDataModule, LightningModule, Trainer

from vit_lightning.commands.inspect.choices import Choices
from vit_lightning.commands.inspect.looking import InspectedData, Looking
from vit_lightning.commands.inspect.pictures import Pictures
from vit_lightning.commands.inspect.results import Results
from vit_lightning.commands.probe.extraction import frozen_model, goes_through_all
from vit_lightning.data import ImageDataModule
from vit_lightning.errors import InputError
from vit_lightning.files import check_place
from vit_lightning.inspection.drawing.style import check_installed
from vit_lightning.runs import folders
from vit_lightning.terminal import console, counted, near, report
from vit_lightning.weights import open_weights


def inspect(
    trainer: Trainer,
    model: LightningModule,
    datamodule: LightningDataModule,
    *,
    ckpt_path: str | None = None,
    figures: tuple[  # written out: --help reads the choices here, and imports nothing
        Literal[
            "rollout",
            "heads",
            "distance",
            "position",
            "filters",
            "pca",
            "artefacts",
            "relevance",
            "embedding",
            "ablation",
        ],
        ...,
    ]
    | None = None,
    split: Literal["val", "test", "train"] = "val",
    images: int = 1000,
    maps: int = 16,
    layers: tuple[int, ...] = (-1,),
    heads: tuple[int, ...] | None = None,
    relevance_class: str | None = None,
    embeddings: tuple[Literal["pca", "tsne", "umap"], ...] | None = None,
    ablation_images: int = 16,
    formats: tuple[Literal["png", "svg"], ...] = ("png", "svg"),
    out: Path | None = None,
) -> None:
    """Draw what a net looks at and what it has learned: figures, and their arrays as .npz.

    python -m vit_lightning inspect runs/tuned/0 photos/*.jpg

    rollout: where the attention of all layers leads, over each image (paper, figures 6 and 14). heads: the attention of
    single heads. distance: how far each head looks, in pixels (figures 7 and 11). position: how alike the position
    embeddings are (figures 7 and 10). filters: the first 28 principal components of the first layer's filters (figure
    7). pca: the patches' features as colours, from components of all images together. artefacts: patches of high norm,
    and what test-time registers do to them (arXiv 2506.08010). relevance: which patches speak for a class, with
    gradients and without. embedding: a map of the images. ablation: what is lost without a head or a kind of token,
    which takes minutes. It replaces by the mean of the images, and by another image, never by zero (arXiv 2604.14433).

    Args:
        trainer: Says where to compute.
        model: The model whose net is looked into.
        datamodule: Its images.
        ckpt_path: Checkpoint whose net is looked into, in place of --model.weights: a path, or the word last or best.
        figures: Figures to draw; unset: all that the net has, but ablation.
        split: Set of a datamodule with classes whose images are looked at.
        images: Most images that are looked at; of more, the same ones are drawn every time.
        maps: Most images of which maps are drawn, each with its arrays in a file.
        layers: Layers whose heads are drawn, from 0; -1 is the last.
        heads: Heads that are drawn, from 0; unset: all.
        relevance_class: Class whose relevance is drawn, by name or number; unset: the best class of each image.
        embeddings: Methods of the map of images; unset: pca, tsne, and umap where umap-learn is installed.
        ablation_images: Images on which ablation is measured.
        formats: Formats of the figures.
        out: Folder for all of it; unset: inspection in the folder of the run, or in the current one.
    """
    if not isinstance(datamodule, ImageDataModule):
        raise InputError(f"inspect needs images, which {type(datamodule).__name__} does not give")
    choices = Choices(
        figures,
        layers,
        heads,
        images,
        maps,
        relevance_class,
        embeddings,
        ablation_images,
        tuple(dict.fromkeys(formats)),
    )
    if trainer.world_size > 1:
        raise InputError(f"inspect runs on one device, not on {trainer.world_size}; give --trainer.devices 1")
    if not goes_through_all(trainer):
        raise InputError(
            "inspect takes so many images as --images says, in place of --trainer.limit_predict_batches and "
            "--trainer.fast_dev_run"
        )
    check_installed()
    source = ckpt_path or getattr(model, "weights", None) or ""
    folder = out or ((folders.folder_of(Path(ckpt_path)) if ckpt_path else None) or Path()) / "inspection"
    folders.make(folder)
    check_place(folder / "inspection.json", "--out")
    shown = trainer.progress_bar_callback
    if shown is not None:
        shown.disable()
    with tempfile.TemporaryDirectory(dir=folder, prefix=".images.") as spool:
        data = InspectedData(datamodule, split, images)
        looking = Looking(frozen_model(model, ckpt_path, "inspect"), data, choices, Path(spool), shown is not None)
        Trainer.predict(trainer, looking, datamodule=data, return_predictions=False)  # not the verb
        if not looking.sums.count:
            raise InputError(f"none of the {counted(looking.came, 'image')} could be read; give others")
        _say_rate(looking)
        looking.to(trainer.strategy.root_device)
        looking.model.eval()
        results = Results(folder, choices.formats, trainer.loggers)
        pictures = Pictures(looking, results, _resampled(looking))
        pictures.draw()
        results.facts(_facts(looking, source) | pictures.numbers)
    console().print(results.table())
    report(f"inspected {near(source) if Path(source).exists() else source}")


def _say_rate(looking: Looking) -> None:
    sums = looking.sums
    unread = looking.came - sums.count
    left = f", {unread:,} more could not be read" if unread else ""
    rate = sums.count / max(sums.seconds, 1e-9)
    report(f"looked at {counted(sums.count, 'image', grouped=True)}, {rate:,.1f} images/s{left}")


def _resampled(looking: Looking) -> str:
    """Say whether the position embeddings were trained for another image size."""
    opened = open_weights(looking.model.weights, looking.model.hparams["weights_raw"], looking.model.chosen)  # type: ignore[arg-type]
    theirs, ours = opened.image_size, looking.net.image_size
    if theirs == ours or looking.net.config.position == "sincos_2d":
        return ""
    return f"resampled from images of {theirs[0]}x{theirs[1]} pixels to {ours[0]}x{ours[1]}"


def _facts(looking: Looking, source: str) -> dict[str, object]:
    net, kind = looking.net, type(looking.inspected.data)
    return {
        "verb": "inspect",
        "net": str(Path(source).resolve()) if Path(source).exists() else source,
        "variant": net.config.variant,
        "data": f"{kind.__module__}.{kind.__qualname__}",
        "split": looking.inspected.called,
        "images": looking.sums.count,
        "images_per_s": looking.sums.count / max(looking.sums.seconds, 1e-9),
        "image_size": list(net.image_size),
        "grid": list(net.grid),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
