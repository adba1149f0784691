"""metrics.csv and TensorBoard's files in the run folder, continued when the run is resumed."""

import csv
import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.fabric.loggers.logger import _DummyExperiment, rank_zero_experiment
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter

from vit_lightning.errors import InputError
from vit_lightning.files import check_regular, is_utf8, write_atomically
from vit_lightning.runs.folders import REMOVED


class MetricsCSV(CSVLogger):
    """Write metrics.csv straight into a run folder; Lightning's own deletes what an earlier part of the run wrote.

    Args:
        folder: The run folder.
        resume_step: Optimiser step the run goes on from: later rows, which it will write again, are dropped.
    """

    def __init__(self, folder: Path, resume_step: int = 0) -> None:
        super().__init__(save_dir=folder, name="", version="")
        file = folder / ExperimentWriter.NAME_METRICS_FILE
        check_regular(file)
        if file.is_dir():
            raise InputError(f"{file} is a folder; move it away to let the run write its metrics there")
        self.resume_step = resume_step

    @property
    @rank_zero_experiment
    def experiment(self) -> ExperimentWriter:
        if self._experiment is None:
            self._experiment: ExperimentWriter = _Continued(self.log_dir, self.resume_step)
        return self._experiment

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: config.yaml beside the file holds them."""


class TensorBoard(TensorBoardLogger):
    """TensorBoardLogger whose file begins with the first thing that is logged, since the run may yet be refused."""

    opened = False

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        return super().experiment if self.opened else _DummyExperiment()

    def log_metrics(self, *args: Any, **kwargs: Any) -> None:
        if self.is_gone:
            raise InputError(REMOVED.format(folder=self.save_dir))
        self.opened = True
        super().log_metrics(*args, **kwargs)

    def save(self) -> None:
        if not self.is_gone:
            super().save()

    def finalize(self, status: str) -> None:
        if not self.is_gone:
            super().finalize(status)

    @property
    def is_gone(self) -> bool:
        """Whether the folder was removed: the thread that writes there has then ended, and would be waited for."""
        return self._experiment is not None and not Path(self.log_dir).is_dir()

    def log_hyperparams(self, params: Any, metrics: Any = None, step: int | None = None) -> None:
        """Fill the tab HPARAMS: Lightning's own does so only beside a metric of its own that it sets to -1.

        Args:
            params: Settings, which may be nested.
            metrics: Metrics that the tab shows beside them, by name; their values come from what is logged.
            step: Not used.
        """
        from torch.utils.tensorboard.summary import hparams  # slow to import

        self.opened = True
        if isinstance(self.experiment, _DummyExperiment):  # not the first process
            return
        for summary in hparams(flat(params), metrics or {}):
            self.experiment.file_writer.add_summary(summary)


def tensorboards(folder: Path, resume_step: int) -> list[TensorBoard]:
    """Return the logger for TensorBoard, or, with a warning, none where it cannot open the run folder."""
    if not is_utf8(folder):
        warnings.warn(
            f"{folder} is no name in UTF-8, as TensorBoard needs it: metrics.csv alone is written", stacklevel=2
        )
        return []
    return [TensorBoard(folder, name="", version="tensorboard", purge_step=resume_step or None)]


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, bool | float | str]:
    """Return nested settings under dotted names, each a number or a text."""
    found: dict[str, bool | float | str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value if isinstance(value, bool | int | float) else str(value)
    return found


class _Continued(ExperimentWriter):
    """Writes on below the rows of a run's earlier part."""

    def __init__(self, folder: str, resume_step: int) -> None:
        self.resume_step = resume_step
        super().__init__(folder)

    def _check_log_dir_exists(self) -> None:
        """Leave all as it is: the run may yet be refused."""

    def save(self) -> None:
        if self.metrics and not self.metrics_keys:
            self._drop_later_rows()
        super().save()

    def _drop_later_rows(self) -> None:
        path = Path(self.metrics_file_path)
        if not path.is_file():
            return
        columns, rows = _whole_rows(path)
        self.metrics_keys = sorted(columns)  # as what follows will be written, whoever wrote the file
        self._rewrite(path, [row for row in rows if int(row["step"]) < self.resume_step])

    def _rewrite_with_new_header(self, fieldnames: list[str]) -> None:
        """Lightning's own empties the file first: a kill would take every row, and a reader may find half of them."""
        path = Path(self.metrics_file_path)
        self._rewrite(path, _whole_rows(path)[1])

    def _rewrite(self, path: Path, rows: list[dict[str, str]]) -> None:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, fieldnames=self.metrics_keys)
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(path, text.getvalue())


def _whole_rows(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return the columns and the rows of a log, without a row that a kill or a full disk cut, nor what is none."""
    lines = path.read_text(errors="replace").replace("\0", "").splitlines(keepends=True)
    reader = csv.DictReader(line for line in lines if line.endswith("\n"))
    rows = [row for row in reader if None not in row and None not in row.values()]
    return list(reader.fieldnames or []), [row for row in rows if row.get("step", "").isdecimal()]
