"""An ONNX program of the verb `export` as a model that predicts."""

import json
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor

from vit_lightning.augment import Augment
from vit_lightning.errors import InputError
from vit_lightning.files import in_utf8
from vit_lightning.weights.interface import INPUT, OUTPUT

FILE = "model.onnx"
"""Name of the program in the folder that `export` makes."""


class ExportedProgram(LightningModule):
    """A program of `export --to onnx`, run by onnxruntime on the CPU.

    What it takes and gives stands in its metadata, which hold all that a net's checkpoint would say.

    Args:
        file: The program.

    Raises:
        InputError: onnxruntime is not installed, or the file is no such program.
    """

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.weights = str(file)
        self.session, self.facts = _open(file)
        given = self.facts["input"]
        window = given["black"], given["white"]
        self.class_names: list[str] = self.facts["class_names"]
        self.save_hyperparameters(
            {
                "num_classes": self._classes(),
                "loss": self.facts["output"].get("probabilities"),
                "image_size": tuple(given["size"]),
                "channels": given["channels"],
                "window": None if window == (0, 255) else window,
            },
            logger=False,
        )
        if not self.hparams["num_classes"]:
            self.wants_features = False  # it has features to show

    def setup(self, stage: str) -> None:
        """Refuse data of other classes or sizes, whose labels or images would be taken for something else.

        Raises:
            InputError: naming what differs.
        """
        data = self.trainer.datamodule  # type: ignore[attr-defined]  # set by Lightning from outside
        names = list(getattr(data, "class_names", ()))
        self.class_names = self.class_names or names
        if names and (names != self.class_names or len(names) != self.hparams["num_classes"]):
            raise InputError(
                f"the data has other classes than {self.weights}, or another order of them; give data of the same "
                "classes, or --data Images"
            )
        size = getattr(data, "size", None) if getattr(data, "image_size", None) else None
        if size is not None and tuple(size) != self.hparams["image_size"]:
            height, width = self.hparams["image_size"]
            raise InputError(
                f"{self.weights} takes images of {height} x {width}; give --data.image_size '[{height},{width}]'"
            )

    def _classes(self) -> int:
        if self.facts["output"]["holds"] == "features":
            return 0
        classes = self.session.get_outputs()[0].shape[-1]
        if self.class_names and len(self.class_names) != classes:
            raise InputError(
                f"{self.weights} names {len(self.class_names)} classes for {classes} outputs; export it again"
            )
        return classes

    @property
    def evaluation(self) -> Augment:
        """How images are brought to size."""
        given = self.facts["input"]
        if given["resize"] == "whole":
            return Augment()
        return Augment(evaluation="center", zoom=given["resize_to"][0] / given["size"][0])

    @property
    def pixel_facts(self) -> tuple[int | None, tuple[float, float] | None]:
        """Channels and window of the images."""
        return self.hparams["channels"], self.hparams["window"]

    def predict_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor | tuple[Tensor, Tensor]:
        """Return what a `Classifier` returns for images `(b, c, y, x)`, uint8 or float in [0, 1]."""
        images = batch[0].cpu()
        images = images.float() / 255 if images.dtype == torch.uint8 else images.float()
        found = torch.from_numpy(self.session.run([OUTPUT], {INPUT: images.numpy()})[0]).to(batch[0].device)
        if not self.hparams["num_classes"]:
            return found[:, :0], found
        shares = found.sigmoid() if self.facts["output"]["probabilities"] == "sigmoid" else found.softmax(-1)
        return shares.masked_fill(~found.isfinite(), torch.nan)


def _open(file: Path) -> tuple[Any, dict[str, Any]]:
    """Return a session of the program, and what its metadata say."""
    try:
        import onnxruntime
    except ImportError as error:
        raise InputError(
            f"{file} needs onnxruntime, which is not installed: pip install 'vit-lightning[onnx]'"
        ) from error
    try:
        with in_utf8(file) as name:
            session = onnxruntime.InferenceSession(name, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own classes have no other parent
        raise InputError(f"{file} cannot be read as an ONNX program; it may be cut off, or something else") from error
    try:
        facts = {name: json.loads(text) for name, text in session.get_modelmeta().custom_metadata_map.items()}
        _check(facts)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file} does not say what it takes and gives; make it with the verb export") from error
    return session, facts


def _check(facts: dict[str, Any]) -> None:
    """Raise one of Python's own errors where the metadata are not those of `export`."""
    given, names = facts["input"], facts["class_names"]
    numbers = [*given["size"], *given["resize_to"], given["channels"], given["black"], given["white"]]
    is_whole = all(type(number) is int and number > 0 for number in (*given["size"], given["channels"]))
    is_sound = len(given["size"]) == len(given["resize_to"]) == 2 and given["resize"] in ("whole", "cover")
    if not (is_whole and is_sound and all(type(number) in (int, float) for number in numbers)):
        raise ValueError
    if (given["name"], facts["output"]["name"]) != (INPUT, OUTPUT) or not isinstance(facts["output"]["holds"], str):
        raise ValueError
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError
