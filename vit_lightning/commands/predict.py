"""The verb `predict`: what a net says of each image, in files that grow image by image."""

from pathlib import Path
from typing import Literal

from lightning.pytorch import LightningDataModule, LightningModule, Trainer

from vit_lightning.callbacks.predictions import Predictions
from vit_lightning.errors import InputError


def predict(
    trainer: Trainer,
    model: LightningModule,
    datamodule: LightningDataModule,
    *,
    ckpt_path: str | None = None,
    top: int | Literal["all"] = 5,
    out: Path | None = None,
    features: Path | None = None,
) -> None:
    """Write the best classes of each image, and its label where that is known, in the order of the images.

    Rows are written as they come. The same command goes on where it was stopped.

    Args:
        trainer: Says where and how precisely to compute.
        model: The model.
        datamodule: The images.
        ckpt_path: Checkpoint that predicts, in place of --model.weights: a path, or the word last or best.
        top: Best classes of each image; all: the probabilities of all classes, in their order.
        out: File to write, as .csv, .jsonl or .parquet; unset: predictions.csv in the run folder.
        features: File for what the head reads of each image, as .npz or .parquet; unset: none.

    Raises:
        InputError: a file exists or cannot be written, or the net does not suit the images.
    """
    if top != "all" and top < 1:
        raise InputError(f"--top is {top}, expected 1 or more, or all")
    files = next(callback for callback in trainer.callbacks if isinstance(callback, Predictions))  # type: ignore[attr-defined]
    files.write_to(out, features, None if top == "all" else top)
    Trainer.predict(trainer, model, datamodule=datamodule, ckpt_path=ckpt_path, return_predictions=False)
