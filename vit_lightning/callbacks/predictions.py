"""The best classes of each image as a CSV file, written while they are computed."""

import csv
import fcntl
import hashlib
import io
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

import torch
from einops import rearrange
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import BasePredictionWriter
from lightning.pytorch.utilities import rank_zero_info

from vit_lightning.contracts import PredictsFrom
from vit_lightning.data.image_set import keys_of
from vit_lightning.data.sampling import BROKEN
from vit_lightning.errors import InputError
from vit_lightning.files import check_place, spreadsheet_cell, unwritable
from vit_lightning.terminal import counted

PAIR = ("class", "probability")
"""What is written of each of the best classes."""
FEW = 10
"""Images whose best class is also printed."""


class Predictions(Callback):
    """Write the best classes of each image to a CSV file: one row per image, in the order of the data.

    Rows are written as they come, to predictions.DIGEST.part.csv, which the last row turns into predictions.csv. The
    digest stands for the checkpoint, the images' names and how they are seen, so that a second call goes on where a
    first one was stopped. An earlier file stays: the next one is called predictions-2.csv.

    The row of an image that was skipped because it cannot be read says why in its column error. A name that is not
    UTF-8 keeps its bytes. A text that a spreadsheet would compute is written behind an apostrophe.

    The best class of each of a few images is printed too.

    Args:
        path: The file.
        checkpoint: Where the weights come from, if from a checkpoint.
        top: Classes per image.
    """

    def __init__(self, path: Path, checkpoint: str | None = None, top: int = 5) -> None:
        self.path = path
        self.checkpoint = checkpoint
        self.top = top
        self._file: PartFile | None = None
        self._rows = 0
        self._written = 0
        self._waiting: list[torch.Tensor] = []

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Refuse a place that cannot be written, before the data take their time, and find what a stop has left."""
        if trainer.is_global_zero:
            check_place(self.path, "--trainer.default_root_dir")
            self._file = PartFile(
                self.path.with_suffix(f".{_digest(trainer, pl_module, self.checkpoint)}.part{self.path.suffix}")
            )
        data, done = trainer.datamodule, 0
        if isinstance(data, PredictsFrom):
            size = len(data.predict_set) if data.predict_set is not None else 0
            done = max(0, min(self._file.rows - 1, size - 1)) if self._file else 0
            done = data.predict_from = trainer.strategy.broadcast(done)
        if self._file:
            self._file.keep(done)
        if done:
            rank_zero_info(f"goes on after the {counted(done, 'image')} of {self._file and self._file.path}")
        self._rows = self._written = done

    def on_predict_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: torch.Tensor,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Take the best classes; the rows of the batch before are written while the device computes the next."""
        values, classes = outputs.float().topk(min(self.top, outputs.shape[-1]))
        labels = batch[1] if batch[1].ndim == 1 else batch[1][:, 0]
        columns = [values, classes, labels == BROKEN]
        if trainer.world_size > 1:  # ranks hold equal numbers of records, dealt out in turns
            columns = [rearrange(pl_module.all_gather(column), "r n ... -> (n r) ...") for column in columns]
        self._write_waiting(trainer, pl_module)
        self._waiting = columns
        if not any(isinstance(callback, BasePredictionWriter) for callback in trainer.callbacks):
            # Lightning notes the records of every batch for them.
            getattr(trainer.predict_dataloaders.batch_sampler, "seen_batch_indices", []).clear()

    def on_predict_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._write_waiting(trainer, pl_module)
        if self._file is None:
            return
        path = _unused(self.path)
        self._file.finish(path)
        self._file = None  # nothing is left to go on with
        if self._rows <= FEW:
            print("".join(_shown(path)), end="")
        print(f"wrote    {path}: {counted(self._rows, 'image')}", flush=True)
        if not self._written and self._rows:
            which = "the image cannot" if self._rows == 1 else f"none of the {self._rows} images can"
            raise InputError(f"{which} be read; {path} says why")

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        if self._file is None:
            return
        if self._rows:
            rank_zero_info(
                f"{self._file.path} holds {counted(self._rows, 'image')}; the same command goes on after them"
            )
        self._file.close()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if self._file is not None:
            self._file.close()

    def _write_waiting(self, trainer: Trainer, model: LightningModule) -> None:
        columns, self._waiting = self._waiting, []
        if not columns or self._file is None:
            return
        dataset = trainer.predict_dataloaders.dataset
        columns = [column[: len(dataset) - self._rows] for column in columns]  # without the padding at the end
        values, classes, broken = (column.tolist() for column in columns)
        names = [spreadsheet_cell(name) for name in model.class_names or range(model.hparams.num_classes)]
        keys, rows = keys_of(dataset), []
        if not self._rows:
            rows.append(["image", *(f"{what}{k + 1}" for k in range(len(values[0])) for what in PAIR), "error"])
        for number, (probabilities, best) in enumerate(zip(values, classes, strict=True), self._rows):
            key = spreadsheet_cell(keys[number])
            cells = [cell for index, p in zip(best, probabilities, strict=True) for cell in (names[index], f"{p:.6f}")]
            if broken[number - self._rows]:
                rows.append([key, *[""] * len(cells), spreadsheet_cell(dataset.reason(number))])
            elif not all(map(torch.isfinite, columns[0][number - self._rows])):
                raise InputError(
                    f"the outputs for image {keys[number]} are not finite; the weights or --trainer.precision "
                    f"{trainer.precision} do not suit it"
                )
            else:
                rows.append([key, *cells, ""])
        self._file.add(rows)
        self._rows += len(values)
        self._written += len(values) - sum(broken)


class PartFile:
    """A CSV file in the making, which one process holds; whole rows of an earlier one stay.

    Args:
        path: The file.

    Raises:
        InputError: another process is writing it, or it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: IO[bytes] = path.open("ab")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"another predict is writing {path}; wait for it, or give another folder") from error
        except OSError as error:
            raise unwritable(path, error) or error from error
        self.rows = sum(1 for _ in _ends(path))

    def keep(self, images: int) -> None:
        """Drop all but the head and the rows of the first images, of which there are enough."""
        self._file.truncate(next(islice(_ends(self.path), images, None)) if images else 0)

    def add(self, rows: list[list[Any]]) -> None:
        """Write rows, which a later kill does not take."""
        text = "".join(map(_line, rows))
        try:
            self._file.write(text.encode(errors="surrogateescape"))
            self._file.flush()
        except OSError as error:
            raise unwritable(self.path, error) or error from error

    def finish(self, path: Path) -> None:
        """Give the file its name."""
        self._file.close()
        self.path.replace(path)

    def close(self) -> None:
        """Let go of the file, which stays for a later call unless it is empty."""
        if not self._file.closed and not self._file.tell():
            self.path.unlink(missing_ok=True)
        self._file.close()


def _shown(path: Path) -> Iterator[str]:
    """Yield a line for each image of a finished file: its name, and its best class with the probability in percent."""
    with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        rows = list(csv.DictReader(file))
    names = [row["image"].encode(errors="surrogateescape").decode(errors="replace") for row in rows]
    width = max(map(len, names), default=0)
    for name, row in zip(names, rows, strict=True):
        told = row["error"] or f"{row['class1']} {float(row['probability1']):.1%}".replace("%", " %")
        yield f"{name:{width}}  {told}\n"


def _line(row: list[Any]) -> str:
    r"""Spell a row; before Python 3.13, only an end of \r\n makes the writer quote a \r inside."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(row)
    return text.getvalue().removesuffix("\r\n") + "\n"


def _ends(path: Path) -> Iterator[int]:
    """Yield where each whole row ends, up to one that a stop has cut."""
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        with path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    return
                read += len(line)
                yield line.decode(errors="surrogateescape")

    try:
        for _ in csv.reader(lines(), strict=True):
            yield read
    except csv.Error:
        return


def _digest(trainer: Trainer, model: LightningModule, checkpoint: str | None) -> str:
    """Return what stands for the rows to be written: weights, images by name, and how they are seen."""
    data = trainer.datamodule
    facts: list[Any] = [trainer.precision, sorted(map(str, model.hparams.items()))]
    for name in ("augment", "image_size", "channels", "window", "mean", "std"):
        facts.append((name, str(getattr(data, name, None))))
    facts.append(str(Path(getattr(data, "root", None) or "").resolve()))
    for source in (checkpoint, getattr(model, "weights", None)):
        path = Path(source or "")
        stat = path.stat() if source and path.is_file() else None
        facts.append((str(path.resolve() if stat else source), stat and (stat.st_size, stat.st_mtime_ns)))
    digest = hashlib.sha256(repr(facts).encode(errors="surrogateescape"))
    for key in keys_of(data.predict_set) if isinstance(data, PredictsFrom) else ():
        digest.update(f"{key}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()[:8]


def _unused(path: Path) -> Path:
    """Return the path, or the first numbered one beside it that is not taken."""
    taken = 1
    while (chosen := path if taken == 1 else path.with_stem(f"{path.stem}-{taken}")).exists():
        taken += 1
    return chosen
