"""The best classes of each image as a CSV file."""

import csv
import io
from pathlib import Path
from typing import Any

import torch
from einops import rearrange
from lightning.pytorch import Callback, LightningModule, Trainer

from vit_lightning.data.image_set import keys_of
from vit_lightning.data.sampling import BROKEN
from vit_lightning.errors import InputError
from vit_lightning.files import check_place, write_atomically


class Predictions(Callback):
    """Write the best classes of each image to a CSV file: one row per image, in the order of the data.

    An earlier file stays: the next one is called predictions-2.csv.

    The row of an image that was skipped because it cannot be read says why in its column error.

    Args:
        path: The file.
        top: Classes per image.
    """

    def __init__(self, path: Path, top: int = 5) -> None:
        self.path = path
        self.top = top
        self._best: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Refuse a place that cannot be written, before the data take their time."""
        if trainer.is_global_zero:
            check_place(self.path, "--trainer.default_root_dir")

    def on_predict_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: torch.Tensor,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        values, classes = outputs.float().topk(min(self.top, outputs.shape[-1]))
        labels = batch[1] if batch[1].ndim == 1 else batch[1][:, 0]
        self._best.append((values, classes, labels == BROKEN))

    def on_predict_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Ranks hold equal numbers of records, dealt out in turns: interleave them and drop the padding at the end."""
        columns = [torch.cat(parts) for parts in zip(*self._best, strict=True)]
        if trainer.world_size > 1:
            columns = [rearrange(pl_module.all_gather(column), "r n ... -> (n r) ...") for column in columns]
        if trainer.is_global_zero:
            dataset = trainer.predict_dataloaders.dataset
            path = _unused(self.path)
            self._write(path, dataset, pl_module, *(column.tolist() for column in columns))
            written = min(len(dataset), len(columns[-1]))  # fewer where batches are limited, more where ranks fill up
            print(f"wrote    {path}: {written} images", flush=True)
            if bool(columns[-1].all()):
                raise InputError(f"none of the {written} images can be read; {path} says why")

    def _write(
        self,
        path: Path,
        dataset: Any,
        model: LightningModule,
        values: list[list[float]],
        classes: list[list[int]],
        broken: list[bool],
    ) -> None:
        names = model.class_names or [str(index) for index in range(model.hparams.num_classes)]
        keys = keys_of(dataset)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        columns = [f"{what}{k + 1}" for k in range(len(values[0])) for what in ("class", "probability")]
        writer.writerow(["image", *columns, "error"])
        for number, (key, probabilities, best) in enumerate(zip(keys, values, classes, strict=False)):
            pairs = zip(best, probabilities, strict=True)
            cells = [cell for index, p in pairs for cell in (names[index], f"{p:.6f}")]
            writer.writerow([key, *[""] * len(cells), dataset.reason(number)] if broken[number] else [key, *cells, ""])
        write_atomically(path, text.getvalue())


def _unused(path: Path) -> Path:
    """Return the path, or the first numbered one beside it that is not taken."""
    taken = 1
    while (chosen := path if taken == 1 else path.with_stem(f"{path.stem}-{taken}")).exists():
        taken += 1
    return chosen
