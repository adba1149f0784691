"""What a net says of each image, written to files while it is computed: its best classes, and its features."""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import torch
from einops import rearrange
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import BasePredictionWriter
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor, nn

from vit_lightning.callbacks import feature_files, prediction_files
from vit_lightning.callbacks.feature_files import FeaturePart
from vit_lightning.callbacks.prediction_files import LIKELY, Answer, Columns, PartFile, shown, unused
from vit_lightning.contracts import PredictsFrom, ShowsFeatures
from vit_lightning.data.image_set import keys_of
from vit_lightning.data.images import UNKNOWN
from vit_lightning.data.sampling import BROKEN
from vit_lightning.errors import InputError, seen
from vit_lightning.files import check_place
from vit_lightning.terminal import counted
from vit_lightning.weights.class_names import distinct
from vit_lightning.weights.heads import is_empty

FEW = 10
"""Images whose best class, or whose likely ones, are also printed."""
ROWS = 3
"""Form of the rows; those of another form are written anew."""


class Batch(NamedTuple):
    """What came of a batch, of all devices, in the order of the data."""

    values: Tensor
    classes: Tensor
    """The classes that the values are of, `(n, k)`."""
    labels: Tensor
    features: Tensor | None
    predicted: Tensor | None = None
    """Whether each class is predicted `(n, classes)`, where classes are independent."""


class Predictions(Callback):
    """Write a row per image to a CSV file, JSON lines or a parquet file, in the order of the data.

    A row has the image, its label where the data know one, the best classes with their probabilities, or all of them,
    and why it could not be read. Where classes are independent it also has those predicted at the model's threshold.
    Several names in a cell of CSV stand with " | " between them. Features go to a file of their own.

    Rows are written as they come, to predictions.DIGEST.part.csv, which the last row turns into predictions.csv. The
    digest stands for the checkpoint, the images' names and how they are seen, so that a second call goes on where a
    first one was stopped. An earlier file stays: the next one is called predictions-2.csv.

    A name that is not UTF-8 keeps its bytes in CSV. A text that a spreadsheet would compute is written there behind an
    apostrophe.

    The best class of each of a few images is printed too, or all of 50 % and more where these are independent.

    Args:
        path: The file.
        checkpoint: Where the weights come from, if from a checkpoint.
        top: Classes per image; None: all, in their order.
        features: File for features; None: they are not kept.
    """

    def __init__(
        self, path: Path, checkpoint: str | None = None, top: int | None = 5, features: Path | None = None
    ) -> None:
        self.path = path
        self.checkpoint = checkpoint
        self.top = top
        self.features = features
        self._file: PartFile | None = None
        self._features: FeaturePart | None = None
        self._rows = 0
        self._written = 0
        self._several = False
        self._waiting: Batch | None = None

    def write_to(self, out: Path | None, features: Path | None, top: int | None) -> None:
        """Name other files, and say how many classes a row has.

        Raises:
            InputError: a file exists, or its name says no known form.
        """
        for flag, path, files in (("--out", out, prediction_files), ("--features", features, feature_files)):
            if path is None:
                continue
            files.check_ending(path)
            check_place(path, flag)
            if path.exists():
                raise InputError(f"{flag} {path} exists already; choose another name, or remove it first")
        self.path, self.features, self.top = out or self.path, features, top

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Refuse a place that cannot be written, before the data take their time, and find what a stop has left."""
        self._want_features(pl_module)
        digest = _digest(trainer, pl_module, self.checkpoint, self.top)
        if trainer.is_global_zero:
            self._open(pl_module, digest)
        data, done = trainer.datamodule, 0
        parts = [part for part in (self._file, self._features) if part]
        if isinstance(data, PredictsFrom):
            size = len(data.predict_set) if data.predict_set is not None else 0
            there = min((part.images for part in parts), default=0)
            self._say_set(data, size)
            done = data.predict_from = trainer.strategy.broadcast(max(0, min(there, size - 1)))
        for part in parts:
            part.keep(done)
        if done and parts:
            rank_zero_info(f"goes on after the {counted(done, 'image')} of {parts[0].path}")
        self._rows = self._written = done

    def _say_set(self, data: PredictsFrom, size: int) -> None:
        """Say which set of the data is predicted; images that were named are no set."""
        if getattr(data, "num_classes", None) is not None and size:
            which = "validation" if getattr(data, "test_set", None) is None else "test"
            rank_zero_info(f"predict  {which} set, {counted(size, 'image')}")

    def _want_features(self, model: LightningModule) -> None:
        has_classes = model.hparams.get("num_classes") != 0
        if not has_classes and self.features is None:
            raise InputError("the net has no classes; give --features FILE for what it sees, or fine-tune it first")
        if self.features is not None and _members(model):
            raise InputError(f"--features {self.features} are of one net; give one --ckpt_path")
        if isinstance(model, ShowsFeatures):
            model.wants_features = self.features is not None
        elif self.features is not None:
            source = getattr(model, "weights", None) or f"a {type(model).__name__}"
            raise InputError(
                f"--features {self.features}: {source} gives no features; leave the flag out, or give the checkpoint "
                "or weights of a Classifier, such as those that a program was exported from"
            )

    def _open(self, model: LightningModule, digest: str) -> None:
        if model.hparams.get("num_classes") != 0:
            check_place(self.path, "--trainer.default_root_dir")
            suffix = ".csv" if self.path.suffix == ".csv" else ".jsonl"
            self._file = PartFile(self.path.with_suffix(f".{digest}.part{suffix}"))
        if self.features is not None:
            self._features = FeaturePart(self.features.with_suffix(f".{digest}.part"))

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse a head of zeros, as some published weights have, which tells no classes apart."""
        head = getattr(getattr(pl_module, "net", None), "head", None)
        has_classes = pl_module.hparams.get("num_classes") != 0
        if not (has_classes and getattr(pl_module, "weights", None) and isinstance(head, nn.Module) and is_empty(head)):
            return
        if self.features is None:
            raise InputError(
                f"the head of {pl_module.weights} is all zeros, so that it tells no classes apart; give --features "
                "FILE for what it sees, or fine-tune it first"
            )
        if self._file is not None:
            self._file.keep(0)
            self._file.close()
            self._file = None

    def on_predict_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Take what came; the rows of the batch before are written while the device computes the next."""
        shares, features = outputs if isinstance(outputs, tuple) else (outputs, None)
        values = shares.float()
        if self.top is None:
            classes = torch.arange(values.shape[-1], device=values.device).expand(values.shape)
        else:
            values, classes = values.topk(min(self.top, values.shape[-1]))
        threshold = _threshold(pl_module)
        predicted = None if threshold is None else (shares.float() > threshold).to(torch.uint8)
        taken = Batch(values, classes, batch[1], features, predicted)
        if trainer.world_size > 1:  # ranks hold equal numbers of records, dealt out in turns
            taken = Batch(*(None if each is None else _in_turns(pl_module.all_gather(each)) for each in taken))
        self._write_waiting(trainer, pl_module)
        self._waiting = taken
        if not any(isinstance(callback, BasePredictionWriter) for callback in trainer.callbacks):
            # Lightning notes the records of every batch for them.
            getattr(trainer.predict_dataloaders.batch_sampler, "seen_batch_indices", []).clear()

    def on_predict_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._write_waiting(trainer, pl_module)
        if trainer.is_global_zero and not self._written and self._rows:
            self._refuse(trainer.predict_dataloaders.dataset)
        said = []  # once all files are there, since a reader of the output may have gone
        if self._features is not None and self.features is not None:
            path = unused(self.features)
            self._features.finish(path, keys_of(trainer.predict_dataloaders.dataset))
            self._features = None
            said.append(f"wrote    {path}: features of {counted(self._rows, 'image')}\n")
        if self._file is not None:
            path, columns = unused(self.path), self._columns(trainer, pl_module)
            self._file.finish(path, columns, self._several)
            self._file = None  # nothing is left to go on with
            are_independent = pl_module.hparams.get("loss") == "sigmoid"
            said += shown(path, are_independent, len(columns.classes)) if self._rows <= FEW else ()
            earlier = f"; {self.path.name} is of an earlier call" if path != self.path else ""
            said.append(f"wrote    {path}: {counted(self._rows, 'image')}{earlier}\n")
        print(seen("".join(said)), end="", flush=True)

    def _refuse(self, dataset: Any) -> None:
        """End a call of which no image can be read, and leave no file of that.

        Raises:
            InputError: naming the first image, and why it cannot be read.
        """
        for part in (self._file, self._features):
            if part is not None:
                part.close()
                part.path.unlink(missing_ok=True)
        self._file = self._features = None
        which = "the image cannot" if self._rows == 1 else f"none of the {self._rows} images can"
        reason = str(dataset.reason(0))
        own = "; predict RUN --data.root FOLDER has the class of the run's own data read them" * (reason == UNKNOWN)
        raise InputError(f"{which} be read: {keys_of(dataset)[0]}: {reason}{own}")

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        for part in (self._file, self._features):
            if part is None:
                continue
            if self._rows:
                rank_zero_info(f"{part.path} holds {counted(self._rows, 'image')}; the same command goes on after them")
            part.close()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        for part in (self._file, self._features):
            if part is not None:
                part.close()

    def _columns(self, trainer: Trainer, model: LightningModule) -> Columns:
        shifted = getattr(model, "shifted", None)  # of our models
        known, classes = model.class_names, model.hparams.num_classes
        if shifted is not None:
            known, classes = shifted.names, len(shifted.names)
        names = distinct(known) if known else list(map(str, range(classes)))
        top = None if self.top is None else min(self.top, classes)
        has_labels = getattr(trainer.datamodule, "num_classes", None) is not None
        return Columns(names, top, has_labels, _threshold(model) is not None)

    def _write_waiting(self, trainer: Trainer, model: LightningModule) -> None:
        taken, self._waiting = self._waiting, None
        if taken is None or not (self._file or self._features):
            return
        dataset = trainer.predict_dataloaders.dataset
        left = len(dataset) - self._rows  # without the padding at the end
        taken = Batch(*(None if each is None else each[:left].cpu() for each in taken))
        self._several = taken.labels.ndim == 2
        broken = (taken.labels[:, 0] if self._several else taken.labels) == BROKEN
        self._check_finite(trainer, taken, broken)
        if self._file is not None:
            columns = self._columns(trainer, model)
            self._file.add_answers(_answers(taken, broken, columns, dataset, self._rows), columns)
        if self._features is not None and taken.features is not None:
            self._features.add(taken.features.float().masked_fill(broken[:, None], torch.nan).numpy())
        self._rows += len(broken)
        self._written += len(broken) - int(broken.sum())

    def _check_finite(self, trainer: Trainer, taken: Batch, broken: Tensor) -> None:
        found = taken.values if taken.features is None else torch.cat([taken.values, taken.features.float()], dim=1)
        wrong = ~found.isfinite().all(1) & ~broken
        if wrong.any():
            key = keys_of(trainer.predict_dataloaders.dataset)[self._rows + int(wrong.int().argmax())]
            raise InputError(
                f"the outputs for image {key} are not finite; the weights or --trainer.precision {trainer.precision} "
                "do not suit it"
            )


def _answers(taken: Batch, broken: Tensor, columns: Columns, dataset: Any, first: int) -> list[Answer]:
    """Return the rows of a batch whose first image has a number in its set."""
    keys, names, answers = keys_of(dataset), columns.classes, []
    rows = zip(*(each.tolist() for each in (taken.values, taken.classes, taken.labels, broken)), strict=True)
    for number, (values, classes, label, is_broken) in enumerate(rows, first):
        if is_broken:
            answers.append(Answer(str(keys[number]), None, {}, str(dataset.reason(number))))
            continue
        shares = {names[index]: value for index, value in zip(classes, values, strict=True)}
        told = _label(label, names) if columns.has_labels else None
        chosen = None if taken.predicted is None else taken.predicted[number - first].nonzero().flatten().tolist()
        predicted = None if chosen is None else [names[index] for index in chosen]
        answers.append(Answer(str(keys[number]), told, shares, predicted=predicted))
    return answers


def _threshold(model: LightningModule) -> float | None:
    """Return the probability above which a class is predicted; None where classes exclude each other."""
    return model.hparams.get("threshold", LIKELY) if model.hparams.get("loss") == "sigmoid" else None


def _label(label: int | list[float], names: list[str]) -> str | list[str] | None:
    """Return the name of a label, or those of several; None for one that is hidden."""
    if isinstance(label, list):
        return [name for name, share in zip(names, label, strict=True) if share > 0.5] if label[0] >= 0 else None
    return names[label] if label >= 0 else None


def _in_turns(gathered: Tensor) -> Tensor:
    return rearrange(gathered, "r n ... -> (n r) ...")


def _digest(trainer: Trainer, model: LightningModule, checkpoint: str | None, top: int | None = 5) -> str:
    """Return what stands for the rows to be written: weights, images by name, and how they are seen."""
    data = trainer.datamodule
    facts: list[Any] = [ROWS, top, trainer.precision, sorted(map(str, model.hparams.items()))]
    for name in ("augment", "image_size", "channels", "window", "mean", "std"):
        facts.append((name, str(getattr(data, name, None))))
    facts.append(str(Path(getattr(data, "root", None) or "").resolve()))
    for source in (checkpoint, getattr(model, "weights", None), *_members(model)):
        path = Path(source or "")
        stat = path.stat() if source and path.is_file() else None
        facts.append((str(path.resolve() if stat else source), stat and (stat.st_size, stat.st_mtime_ns)))
    digest = hashlib.sha256(repr(facts).encode(errors="surrogateescape"))
    for key in keys_of(data.predict_set) if isinstance(data, PredictsFrom) else ():
        digest.update(f"{key}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()[:8]


def _members(model: LightningModule) -> list[str]:
    """Return where the further nets of an ensemble come from."""
    members = getattr(getattr(model, "answering", None), "members", None)
    return members.paths if members else []
