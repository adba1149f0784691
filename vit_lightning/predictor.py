"""Predictor: a trained net, from wherever it lies, that answers for photographs in Python."""

from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from einops import rearrange, repeat
from PIL import Image
from torch import Tensor

from vit_lightning.augment import Augment, per_image
from vit_lightning.augment.per_image import Transform
from vit_lightning.classifier import Classifier
from vit_lightning.data import images as image_files
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.errors import InputError
from vit_lightning.models import Net, NetConfig
from vit_lightning.models.finite import check_finite
from vit_lightning.runs import folders
from vit_lightning.weights import Report, open_weights
from vit_lightning.weights.class_names import distinct
from vit_lightning.weights.heads import is_empty
from vit_lightning.weights.interface import evaluation_of

Picture = str | Path | bytes | Image.Image | np.ndarray | Tensor
"""A file, its bytes, a Pillow image, an array `(y, x, c)` or `(y, x)`, or a tensor `(c, y, x)`; numbers are uint8, or
float in [0, 1], which are rounded to 8 bits as in training. A net trained with a window takes raw counts, and maps
those that are not uint8 by that window."""
OURS = ("", "vit_lightning.classifier.Classifier", "vit_lightning.masked_patch.MaskedPatch")
"""Models whose checkpoint is its net and no code of others."""


class Predictor:
    """A trained net that answers for photographs, as the verb `predict` does.

    It computes in fp32 on every device. Images are brought to size as in the run's validation; where no run says how,
    the whole image is resized. Keys are class names. Classes of the same name also show their numbers. Classes without
    names are their numbers as text.

    Args:
        source: A run folder, of which the best checkpoint is taken, else the last; a checkpoint; weights in any layout
            that --model.weights reads, by path, https address or hf://owner/repo; or a Classifier.
        device: Where to compute; None: the GPU if there is one.
        batch_size: Most images that are computed at once.
        net: What a file cannot tell of its net, as --model.net states it.
        image_size: Pixels per side, or (y, x); None: those of the weights.
        multi_label: Whether scores are independent (sigmoid), or sum to 1 (softmax); None: as the net was trained,
            else softmax.
        transform: Maps uint8 `(c, y, x)` to the size of the net, in place of the validation's.

    Raises:
        InputError: the source holds no net, or one of code that is not ours.
    """

    def __init__(
        self,
        source: str | Path | Classifier,
        device: str | torch.device | None = None,
        batch_size: int = 64,
        *,
        net: NetConfig | None = None,
        image_size: int | tuple[int, int] | None = None,
        multi_label: bool | None = None,
        transform: Transform | None = None,
    ) -> None:
        self.batch_size, self.device = _at_least("batch_size", batch_size, 1), _device(device)
        if net is not None and not isinstance(net, NetConfig):
            raise InputError(f"net is {net!r:.50}, expected a NetConfig, such as NetConfig(gelu='tanh')")
        if transform is not None and not callable(transform):
            raise InputError(f"transform is {transform!r:.50}, expected a function of an image uint8 (c, y, x)")
        if isinstance(source, Classifier):
            self._take_model(source)
        elif source == "":
            raise InputError("the source is an empty text, expected a run folder, a checkpoint or weights")
        elif isinstance(source, str | Path):
            self._take_file(source, net or NetConfig(), _size(image_size))
        else:
            raise InputError(
                f"the source is of the type {type(source).__name__}, expected a run folder, a checkpoint, weights or a "
                "Classifier"
            )
        if multi_label is not None:
            self.multi_label = multi_label
        self.net.eval().to(self.device)
        self.mean, self.std = (rearrange(torch.tensor(each), "c -> c 1 1").to(self.device) for each in self._scale)
        self.class_names = distinct(self.class_names) or [str(index) for index in range(self.net.num_classes)]
        self.transform = transform or per_image.eval_transform(self.augment, self.net.image_size)

    def __call__(self, images: Picture | Sequence[Picture], top: int | None = None) -> Any:
        """Return the score of each class, best first, `{"car": 0.97, ...}`; of several images, a list of these.

        Args:
            images: A picture, or a list of pictures.
            top: How many classes to return; None: all.

        Raises:
            InputError: an image cannot be read or is in no such form, or the net has no classes.
        """
        if top is not None:
            _at_least("top", top, 1)
        if not self.net.num_classes:
            raise InputError("the net has no classes: use .features, or fine-tune a Classifier from it first")
        if is_empty(self.net.head):
            raise InputError("the head of the net is all zeros, so that it tells no classes apart: use .features")
        rows = self._computed(images, self._logits)
        scores = (rows.sigmoid() if self.multi_label else rows.softmax(-1)).masked_fill(~rows.isfinite(), torch.nan)
        answers = [self._named(row, number, top) for number, row in enumerate(scores)]
        return answers if _is_several(images) else answers[0]

    def features(self, images: Picture | Sequence[Picture]) -> Tensor:
        """Return what the head reads of n images, pooled, `(n, d)`; d is a hidden layer's size where there is one."""
        return self._computed(images, lambda batch: self.net.features(self._normalised(batch)))

    def attention(self, images: Picture | Sequence[Picture]) -> list[Tensor]:
        """Return the attention `(b, h, n, n)` of each layer for b images, computed explicitly; rows sum to 1.

        Tokens are the class token and registers, where the net has them, then the patches in raster order.
        """
        layers: list[list[Tensor]] = []
        with torch.no_grad():
            for batch in self._batches(images):
                layers.append([each.cpu() for each in self.net.attention(self._normalised(batch))])
        return [torch.cat(maps) for maps in zip(*layers, strict=True)]

    # The net ---------------------------------------------------------------------------------------------------------

    def _take_file(self, source: str | Path, stated: NetConfig, image_size: int | tuple[int, int] | None) -> None:
        source = folders.checkpoint_behind(str(source))
        place = source if "://" in source else Path(source).expanduser()
        opened = open_weights(place, stated=stated)
        if (model := str(opened.archive.facts.get("model") or "")) not in OURS:
            if (known := _loaded(model)) and stated == NetConfig() and image_size is None:
                self._take_model(known.load_from_checkpoint(place, map_location="cpu"))
                self.augment = _evaluation(place)
                return
            raise InputError(
                f"{place} holds a {model:.100}, whose code Predictor does not run: import that class, and give "
                f"Predictor({model.rpartition('.')[2]:.50}.load_from_checkpoint(...))"
            )
        net, report = opened.build(stated.heads, image_size)
        check_finite(net.state_dict(), str(place))
        self.net: Net = net
        self.report: Report | None = report
        self._forward: Callable[[Tensor], Tensor] | None = None
        self._scale = report.normalisation(net.config.channels)
        self._window = report.window
        self.class_names, self.multi_label = report.class_names, report.loss == "sigmoid"
        self.augment = _evaluation(place)

    def _take_model(self, model: Classifier) -> None:
        model.configure_model()
        self.net, self.report, self._forward = model.net, None, model.eval().to(self.device)
        self._scale, self._window = (model.hparams.mean, model.hparams.std), model.pixel_facts[1]
        self.class_names, self.multi_label = model.class_names, model.hparams.loss == "sigmoid"
        self.augment = Augment()

    def _logits(self, batch: Tensor) -> Tensor:
        return self.net(self._normalised(batch)) if self._forward is None else self._forward(batch)

    def _normalised(self, batch: Tensor) -> Tensor:
        return (batch - self.mean) / self.std

    def _computed(self, images: Picture | Sequence[Picture], compute: Callable[[Tensor], Tensor]) -> Tensor:
        with torch.no_grad():
            return torch.cat([compute(batch).float().cpu() for batch in self._batches(images)])

    def _named(self, scores: Tensor, number: int, top: int | None) -> dict[str, float]:
        if not scores.isfinite().all():
            raise InputError(f"the outputs for image {number} are not finite; the weights do not suit it")
        best = scores.sort(descending=True, stable=True)
        pairs = list(zip(best.indices.tolist(), best.values.tolist(), strict=True))[:top]
        return {self.class_names[index]: score for index, score in pairs}

    # Images ----------------------------------------------------------------------------------------------------------

    def _batches(self, images: Picture | Sequence[Picture]) -> Iterator[Tensor]:
        """Yield float images `(b, c, y, x)` in [0, 1] on the device."""
        several = list(images) if _is_several(images) else [images]  # type: ignore[arg-type]  # then it is a sequence
        if not several:
            raise InputError("the list of images is empty; give one or more")
        for start in range(0, len(several), self.batch_size):
            part = several[start : start + self.batch_size]
            yield torch.stack([self._pixels(image, number) for number, image in enumerate(part, start)])

    def _pixels(self, image: Any, number: int) -> Tensor:
        name = str(image) if isinstance(image, str | Path) else f"image {number}"
        channels = self.net.config.channels
        form = PixelForm(channels, self._window, f"the net takes {channels}", counts=True)
        pixels = image_files.load(_coloured(image, channels), name=name, form=form)
        seen = self.transform(pixels).to(self.device)
        return seen.float() / 255 if seen.dtype == torch.uint8 else seen.float()


def _device(chosen: str | torch.device | None) -> torch.device:
    """Return the device that was chosen, if it computes here, else the GPU if there is one."""
    if chosen is None:
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return found or torch.device("cpu")
    try:
        device = torch.device(chosen)
        torch.zeros(1, device=device).add(1).item()
    except (RuntimeError, TypeError, ValueError, AssertionError, NotImplementedError) as error:
        found = torch.accelerator.device_count() if torch.accelerator.is_available() else 0
        raise InputError(
            f"device is {str(chosen)!r:.50}, which does not compute here; expected cpu, None for the GPU if there is "
            f"one, or the name of one such as cuda:0 (GPUs here: {found})"
        ) from error
    return device


def _at_least(name: str, value: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name} is {value!r:.50}, expected a whole number, {least} or more")
    return value


def _size(value: int | tuple[int, int] | None) -> int | tuple[int, int] | None:
    parts = list(value) if isinstance(value, tuple | list) else [value, value]
    if value is not None and (len(parts) != 2 or any(not isinstance(part, Integral) or part < 1 for part in parts)):
        raise InputError(f"image_size is {value!r:.50}, expected pixels per side, or (y, x)")
    return value


def _is_several(images: Any) -> bool:
    """Whether these are several images: a list, or a batch of four axes."""
    return images.ndim == 4 if isinstance(images, np.ndarray | Tensor) else isinstance(images, list | tuple)


def _coloured(image: Any, channels: int) -> Any:
    """Return a grey array, `(y, x)` or `(y, x, 1)`, with the same grey in every channel; anything else as it is."""
    if isinstance(image, np.ma.MaskedArray):
        return image  # to be refused
    if isinstance(image, np.ndarray) and image.ndim == 2:
        image = image[..., None]
    if isinstance(image, np.ndarray) and image.ndim == 3 and image.shape[-1] == 1:
        image = repeat(image, "y x 1 -> y x c", c=channels)
    return image.detach().cpu() if isinstance(image, Tensor) and not image.is_meta else image


def _loaded(path: str) -> type[Classifier] | None:
    """Return the model of this path, if its class is imported in this process."""
    kinds, found = [Classifier], None
    while kinds and found is None:
        kind = kinds.pop()
        found = kind if f"{kind.__module__}.{kind.__qualname__}" == path else None
        kinds += kind.__subclasses__()
    return found


def _evaluation(place: str | Path) -> Augment:
    """Return how images were brought to size in the validation of the run around a file, if there is one."""
    try:
        return evaluation_of(folders.folder_of(place) if isinstance(place, Path) else None)
    except InputError as error:
        raise InputError(f"{error}; give Predictor a transform") from error
