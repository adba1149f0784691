"""Files of predictions, which grow by whole rows: CSV, JSON lines, and parquet, which is made of such lines."""

import csv
import fcntl
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice, takewhile
from pathlib import Path
from typing import IO, Any, NamedTuple

from vit_lightning.errors import InputError
from vit_lightning.files import spreadsheet_cell, unwritable

ENDINGS = (".csv", ".jsonl", ".parquet")
ROWS_AT_ONCE = 10_000
"""Rows of a group in a parquet file."""
BETWEEN = " | "
"""What stands between several names in a cell of CSV."""
LIKELY = 0.5
"""Least probability of a class that a person reads as shown, where classes are independent."""


class Answer(NamedTuple):
    """What is known of one image."""

    image: str
    label: str | list[str] | None
    """Name of its class, names where it may have several; None: nobody told."""
    probabilities: dict[str, float]
    """Of the classes that are written; empty where the image could not be read."""
    error: str = ""
    predicted: list[str] | None = None
    """Names of the classes that are predicted, where these are independent; None: they are not."""


@dataclass(frozen=True)
class Columns:
    """What the rows of a file hold.

    Args:
        classes: names of the classes, each once.
        top: how many of the best classes are written, best first; None: all, in their order.
        has_labels: whether the data know labels.
        has_predicted: whether classes are independent, so that any number of them is predicted.
    """

    classes: list[str]
    top: int | None
    has_labels: bool
    has_predicted: bool = False

    @property
    def names(self) -> list[str]:
        """Names of the columns of a table."""
        best = [f"{what}{k}" for k in range(1, (self.top or 0) + 1) for what in ("class", "probability")]
        probabilities = best if self.top else [f"probability:{name}" for name in self.classes]
        beside = ["label"] * self.has_labels + ["predicted"] * self.has_predicted
        return ["image", *beside, *probabilities, "error"]

    def values(self, answer: Answer) -> list[Any]:
        """Return the values of a row in a table, None where there is none."""
        pairs = answer.probabilities.items()
        found: list[Any] = [part for pair in pairs for part in pair] if self.top else [p for _, p in pairs]
        beside: list[Any] = [answer.label] * self.has_labels + [answer.predicted] * self.has_predicted
        found += [None] * (len(self.names) - 2 - len(beside) - len(found))
        return [answer.image, *beside, *found, answer.error or None]


def open_alone(path: Path) -> IO[bytes]:
    """Open a file for more bytes, which no other process may write meanwhile.

    Raises:
        InputError: another process is writing it, or it cannot be written.
    """
    try:
        file = path.open("ab")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InputError(f"another predict is writing {path}; wait for it, or write elsewhere") from error
    except OSError as error:
        raise unwritable(path, error) or error from error
    return file


class PartFile:
    """A file of rows in the making, which one process holds; whole rows of an earlier one stay.

    Rows are CSV behind a head, or JSON lines. Of a parquet file, these are what it is made of in the end.

    Args:
        path: The file.

    Raises:
        InputError: another process is writing it, or it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_csv = path.suffix == ".csv"
        self._file = open_alone(path)
        self.rows = sum(1 for _ in self._ends())

    @property
    def images(self) -> int:
        """Images whose rows are there."""
        return max(0, self.rows - self.is_csv)

    def keep(self, images: int) -> None:
        """Drop all but the head and the rows of the first images, of which there are enough."""
        last = images - (not self.is_csv)
        self._file.truncate(next(islice(self._ends(), last, None)) if images else 0)
        self._file.seek(0, io.SEEK_END)  # where there is nothing, the head comes first

    def add(self, rows: list[list[Any]]) -> None:
        """Write rows of CSV, which a later kill does not take."""
        self._write("".join(map(_line, rows)))

    def add_answers(self, answers: list[Answer], columns: Columns) -> None:
        """Write rows of either kind, and before the first one of CSV the head."""
        if self.is_csv:
            head = [] if self._file.tell() else [columns.names]
            rows = [columns.values(answer._replace(probabilities=_rounded(answer, columns))) for answer in answers]
            self.add([*head, *([_cell(value) for value in row] for row in rows)])
            return
        self._write("".join(f"{json.dumps(_facts(answer, columns))}\n" for answer in answers))

    def _write(self, text: str) -> None:
        try:
            self._file.write(text.encode(errors="surrogateescape"))
            self._file.flush()
        except OSError as error:
            raise unwritable(self.path, error) or error from error

    def finish(self, path: Path, columns: Columns, several: bool = False) -> None:
        """Give the file its name, or make the parquet file of it.

        Args:
            path: The name.
            columns: What the rows hold.
            several: Whether images have lists of labels.
        """
        if path.suffix == ".parquet":
            made = self.path.with_name(f".{path.name}.part")
            try:
                _write_parquet(self.path, made, columns, several)
                made.replace(path)
            except OSError as error:
                raise unwritable(path, error) or error from error
            finally:
                made.unlink(missing_ok=True)
            self._file.close()
            self.path.unlink()
            return
        self._file.close()
        self.path.replace(path)

    def close(self) -> None:
        """Let go of the file, which stays for a later call unless it is empty."""
        if not self._file.closed and not self._file.tell():
            self.path.unlink(missing_ok=True)
        self._file.close()

    def _ends(self) -> Iterator[int]:
        return _ends(self.path) if self.is_csv else _line_ends(self.path)


def check_ending(path: Path) -> None:
    """Refuse a name that says no known form, or one whose library is not there."""
    if path.suffix not in ENDINGS:
        raise InputError(f"--out {path} ends in none of {', '.join(ENDINGS)}, which say the form; name it so")
    if path.suffix == ".parquet":
        check_parquet(f"--out {path}")


def check_parquet(what: str) -> None:
    """Refuse a parquet file where its library is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise InputError(f"{what} needs pyarrow: pip install 'vit-lightning[parquet]', or end it otherwise") from error


def as_utf8(name: str) -> str:
    r"""Return a name as text that any library takes: bytes that are no UTF-8 become \xff."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def shown(path: Path, are_independent: bool = False, classes: int = 0) -> Iterator[str]:
    """Yield a line for each image of a finished file: its name, and its best class with the probability in percent.

    Args:
        path: The file.
        are_independent: Whether an image may show several classes or none (sigmoid); then all of 50 % and more are
            named, best first.
        classes: How many classes the net has, of which the file may hold the best.
    """
    rows = list(_read(path))
    names = [str(row["image"]).encode(errors="surrogateescape").decode(errors="replace") for row in rows]
    width = max(map(len, names), default=0)
    for name, row in zip(names, rows, strict=True):
        said = row["error"] or (_likely(row, classes) if are_independent else _best(row))
        yield f"{name:{width}}  {said}\n"


def _read(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".parquet":
        import pyarrow.parquet as parquet

        yield from parquet.read_table(path).to_pylist()
        return
    with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        yield from csv.DictReader(file) if path.suffix == ".csv" else map(json.loads, file)


def _best(row: dict[str, Any]) -> str:
    """Return the best class of a row of any form, and its probability."""
    return _share(*_ranked(row)[0])


def _likely(row: dict[str, Any], classes: int) -> str:
    """Return the classes of a row that are likelier than not, and their probabilities."""
    ranked = _ranked(row)
    likely = [_share(name, share) for name, share in ranked if share >= LIKELY]
    if not likely:
        return f"none of 50 % or more; highest {_share(*ranked[0])}"
    may_be_more = len(likely) == len(ranked) < classes
    return ", ".join(likely) + "; --top all shows whether others are" * may_be_more


def _ranked(row: dict[str, Any]) -> list[tuple[str, float]]:
    """Return the classes that a row of any form holds with their probabilities, best first."""
    if "class1" in row:
        numbers = takewhile(lambda number: row.get(f"class{number}") is not None, count(1))
        return [(row[f"class{number}"], float(row[f"probability{number}"])) for number in numbers]
    kept = {name: value for name, value in row.items() if name.startswith("probability:")}
    named = row.get("probabilities") or {name.removeprefix("probability:"): p for name, p in kept.items()}
    return sorted(((name, float(p)) for name, p in named.items()), key=lambda pair: -pair[1])


def _share(name: str, share: float) -> str:
    return f"{name} {share:.1%}".replace("%", " %")


def _rounded(answer: Answer, columns: Columns) -> dict[str, Any]:
    """Return probabilities as CSV spells them: of the best to 6 decimals, of all to 7 digits, as some are small."""
    form = ".6f" if columns.top else ".7g"
    return {name: f"{p:{form}}" for name, p in answer.probabilities.items()}


def _cell(value: Any) -> str:
    """Return a value of a CSV file as text; several names stand with a bar between them."""
    text = BETWEEN.join(value) if isinstance(value, list) else "" if value is None else value
    return spreadsheet_cell(text)


def _facts(answer: Answer, columns: Columns) -> dict[str, Any]:
    """Return the object of a JSON line; a number has the digits of float32."""
    label: dict[str, Any] = {"label": answer.label} if columns.has_labels else {}
    probabilities = {name: float(f"{p:.7g}") for name, p in answer.probabilities.items()}
    if columns.has_predicted:
        label["predicted"] = answer.predicted
    return {"image": answer.image, **label, "probabilities": probabilities or None, "error": answer.error or None}


def _write_parquet(lines: Path, path: Path, columns: Columns, several: bool) -> None:
    """Make a parquet file of JSON lines, some thousands at a time."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    def kind(name: str) -> Any:
        if (name == "label" and several) or (name == "predicted" and columns.has_predicted):
            return pa.list_(pa.string())
        return pa.float32() if name.startswith("probability") else pa.string()

    schema = pa.schema([(as_utf8(name), kind(name)) for name in columns.names])
    with lines.open(encoding="ascii") as file, parquet.ParquetWriter(path, schema) as writer:
        while rows := [_values(line, columns) for line in islice(file, ROWS_AT_ONCE)]:
            arrays = [
                pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _values(line: str, columns: Columns) -> list[Any]:
    """Return the row of a table that a JSON line holds."""
    facts = json.loads(line)
    told = facts.get("label"), facts["probabilities"] or {}, facts["error"] or "", facts.get("predicted")
    answer = Answer(facts["image"], *told)
    return [_in_utf8(value) for value in columns.values(answer)]


def _in_utf8(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(as_utf8, value))
    return as_utf8(value) if isinstance(value, str) else value


def _line(row: list[Any]) -> str:
    r"""Spell a row; before Python 3.13, only an end of \r\n makes the writer quote a \r inside."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(row)
    return text.getvalue().removesuffix("\r\n") + "\n"


def _ends(path: Path) -> Iterator[int]:
    """Yield where each whole row of CSV ends, up to one that a stop has cut."""
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


def _line_ends(path: Path) -> Iterator[int]:
    """Yield where each whole line ends."""
    read = 0
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            read += len(line)
            yield read


def unused(path: Path) -> Path:
    """Return the path, or the first numbered one beside it that is not taken."""
    taken = 1
    while (chosen := path if taken == 1 else path.with_stem(f"{path.stem}-{taken}")).exists():
        taken += 1
    return chosen
