"""Which columns of a table hold paths and labels, and what their cells say."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lightning.pytorch.utilities import rank_zero_info

from datamodules.reading import table_rows
from datamodules.reading.coco import Annotated
from datamodules.reading.column_names import LABEL_COLUMNS, PATH_COLUMNS, UNLABELLED_COLUMNS
from datamodules.reading.label_text import (
    IF_A_NAME,
    MISSING,
    LabelKinds,
    names_a_list,
    nested,
    plain_text,
    refuse_vector,
    whole_number,
)
from datamodules.reading.splits import CELLS
from datamodules.reading.stated_split import naming
from vit_lightning.errors import InputError

YES_OR_NO = {
    "0": False,
    "0.0": False,
    "False": False,
    "false": False,
    "1": True,
    "1.0": True,
    "True": True,
    "true": True,
}
TO_YES_OR_NO = (
    "write 0 where the class does not show, as for the -1 of CelebA, and 0 or 1 where it is blank or unsure, as for "
    "the -1 of CheXpert"
)


class Columns(NamedTuple):
    """Names of columns."""

    paths: list[str]
    labels: list[str]
    """One column; several, each of which is named after a class and holds 0 or 1; or none."""
    one_hot: bool
    split: str | None = None
    group: str | None = None
    unlabelled: str | None = None
    """One that says of an image that it has not got its label."""


class TableRow(NamedTuple):
    """What a row says."""

    path: str
    labels: list[str]
    split: str
    """Name of its split; empty without a column for it."""
    group: str
    """What stays together; empty without a column for it."""
    is_hidden: bool = False
    """Whether the labels are not told, which an empty list is not."""


def choose(
    table: Path,
    path: str | Sequence[str] | None,
    label: str | Sequence[str] | None,
    split: str | None = None,
    group: str | None = None,
    may_lack_labels: bool = False,
) -> Columns:
    """Return the columns of a table with paths and labels.

    Args:
        table: the table.
        path: the columns with the paths; None: the only one that can be meant.
        label: the column with the labels, or one for each class; None: the only one that can be meant.
        split: the column with the name of each image's split, if there is one.
        group: the column that says which images stay together, if there is one.
        may_lack_labels: whether it may have no column with labels.

    Raises:
        InputError: naming the columns that are there.
    """
    there = table_rows.header(table)
    paths = _given(path) or [only_column(table, there, "path_column", PATH_COLUMNS)]
    labels = _given(label)
    one_hot = len(labels) > 1
    unlabelled = None
    if not labels and table.name == "_classes.csv":  # Roboflow's, with a column for each class
        unlabelled = next((name for name in there if name.lower() in UNLABELLED_COLUMNS), None)
        labels, one_hot = [name for name in there if name not in (*paths, unlabelled)], True
    labels = labels or [only_column(table, there, "label_column", LABEL_COLUMNS)]
    if may_lack_labels and not set(labels) & set(there):
        labels = []
    given = {"path_column": paths, "label_column": labels, "split_column": _given(split), "group_column": _given(group)}
    for flag, names in given.items():
        for name in names:
            if there.count(name) > 1 or names.count(name) > 1:
                raise InputError(f"{table} has the column {name!r} twice; give each column a name of its own")
            if name not in there:
                other = ", or score another table with --data.test TABLE, which needs none" * (flag == "group_column")
                raise InputError(
                    f"{table} has no column {name!r} but {', '.join(there) or 'none'}; give --data.{flag}{other}"
                )
    return Columns(paths, labels, one_hot, split, group, unlabelled)


def read(
    table: Path,
    columns: Columns,
    multi_label: bool,
    separator: str,
    may_lack_labels: bool = False,
    missing: Collection[str] = MISSING,
    words: Mapping[str, str] = CELLS,
    lists: Collection[str] = (),
) -> Iterator[TableRow]:
    """Yield what each row says.

    Args:
        table: the table.
        columns: its columns.
        multi_label: whether a row may have several labels, or none.
        separator: what stands between several labels in text.
        may_lack_labels: whether labels may be missing, as those of test images are.
        missing: words that stand for a missing label, in small letters.
        words: the split that each word stands for, in small letters.
        lists: names of classes that are called as lists are.

    Raises:
        InputError: naming the first row whose path, labels, split or group cannot be.
    """
    count, ends = len(columns.paths), len(columns.paths) + len(columns.labels)
    further = [name for name in (columns.split, columns.group, columns.unlabelled) if name]
    kinds = LabelKinds()
    for row, cells in enumerate(table_rows.values(table, [*columns.paths, *columns.labels, *further]), start=1):
        try:
            path = _path(cells[:count])
        except ValueError as error:
            raise InputError(f"{table} has {error} in row {row}") from error
        try:
            split, group = _further(columns, cells[ends:], names_blank="" in words)
            lacks_labels = columns.unlabelled is not None and _is_set(cells[-1], columns.unlabelled)
            is_hidden = may_lack_labels or words.get(split.lower()) == "test"
            given = cells[count:ends]
            if lacks_labels and not is_hidden:
                raise ValueError(f"1 in the column {columns.unlabelled!r}, which is no class; remove the row, which is")
            is_blank = is_hidden and (lacks_labels or all(_is_blank(cell, missing) for cell in given))
            if is_blank:
                labels = []
            elif columns.one_hot:
                labels = [name for name, cell in zip(columns.labels, given, strict=True) if _is_set(cell, name)]
            else:
                labels = [
                    label for cell in given for label in _labels(cell, multi_label, separator, kinds, is_hidden, lists)
                ]
            nothing = next((label for label in labels if not label or label.lower() in missing), None)
            if is_hidden and nothing is not None:  # what else the row has is not the whole truth
                labels, is_blank = [], True
            elif nothing is not None:
                raise ValueError(
                    f"the label {nothing!r}, which stands for a missing one (if it is a class, list all in "
                    "--data.class_map),"
                )
        except ValueError as error:
            said, *fix = error.args
            if columns.group and said == _nothing_in(columns.group):
                fix = [_ungrouped(table, columns.group)]
            raise InputError("; ".join([f"{table} has {said} in row {row} ({path})", *fix])) from error
        if len(labels) != 1 and not multi_label and columns.labels and not is_blank:
            raise InputError(
                f"{table} has {len(labels)} labels in row {row} ({path}), expected one; "
                f"{_forgotten(table, columns, row) if columns.one_hot and not labels else ''}"
                "give --data.multi_label true for images with several labels or none"
            )
        yield TableRow(path, labels, split, group, is_blank)


def _forgotten(table: Path, columns: Columns, row: int) -> str:
    """Say which further columns of 0 and 1 fill a row that has no label; nothing if none does."""
    known = {*columns.paths, *columns.labels, columns.split, columns.group, columns.unlabelled}
    others = [name for name in table_rows.header(table) if name not in known]
    rows = [[YES_OR_NO.get(str(cell).strip()) for cell in cells] for cells in table_rows.values(table, others)]
    found = [
        name
        for name, cells in zip(others, zip(*rows, strict=True), strict=True)
        if None not in cells and cells[row - 1]
    ]
    if not found:
        return ""
    more = ",".join([*columns.labels, *found])
    return f"the column {found[0]} has 1 there, so give --data.label_column '[{more}]' if it is a class, or "


def _further(columns: Columns, cells: Sequence[Any], names_blank: bool) -> tuple[str, str]:
    """Return split and group of a row, which must be there where there is a column for them.

    Args:
        columns: those.
        cells: what stands in them.
        names_blank: whether nothing in the column of splits is the word of a split.
    """
    names = [name for name in (columns.split, columns.group) if name]
    texts = {}
    for name, cell in zip(names, cells, strict=False):
        text = _text(cell)
        is_blank, is_split = _says_nothing(text), name == columns.split
        if is_blank and not (is_split and names_blank):
            fix = [f"write its split, or give {naming([''])}, or --data.split_column false"] if is_split else []
            raise ValueError(_nothing_in(name), *fix)
        texts[name] = "" if is_blank else text
    return texts.get(columns.split or "", ""), texts.get(columns.group or "", "")


def _text(cell: Any) -> str:
    return "" if cell is None or cell != cell else whole_number(str(cell).strip())


def _says_nothing(text: str) -> bool:
    return not text or text.lower() in MISSING


def _nothing_in(column: str) -> str:
    return f"nothing in the column {column!r}"


def _ungrouped(table: Path, column: str) -> str:
    """Say how many rows do not say with which images theirs stays together, and what to do about them."""
    blank = sum(_says_nothing(_text(cell)) for (cell,) in table_rows.values(table, [column]))
    rows = "1 row has" if blank == 1 else f"{blank:,} rows have"
    return (
        f"{rows} none, of which --data.group_column cannot tell what they belong to; write it there, a value of its "
        "own for an image that belongs to no other, or leave the row out"
    )


def _given(names: str | Sequence[str] | None) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


def only_column(table: Path, there: Sequence[str], flag: str, known: Sequence[str]) -> str:
    """Return the only column that can be meant; the first name wins, since it is the documented one."""
    found = [name for name in known if name in there]
    if known[0] in found or not found:
        return known[0]
    if len(found) > 1:
        raise InputError(f"{table} has the columns {' and '.join(found)}; give --data.{flag} {found[0]}")
    rank_zero_info(f"{table.name} has the column {found[0]}, which is taken for --data.{flag}")
    return found[0]


def _is_blank(cell: Any, missing: Collection[str]) -> bool:
    text = cell.strip().lower() if isinstance(cell, str) else None
    return cell is None or cell != cell or text == "" or text in missing


def _is_set(cell: Any, name: str) -> bool:
    if cell is None:
        raise ValueError(f"nothing in the column of class {name}, expected 0 or 1,", TO_YES_OR_NO)
    text = str(cell).strip()
    if text not in YES_OR_NO:
        raise ValueError(f"{text!r} in the column of class {name}, expected 0 or 1,", TO_YES_OR_NO)
    return YES_OR_NO[text]


def _path(cells: Sequence[Any]) -> str:
    """Return the path that some cells make up."""
    parts = []
    for cell in cells:
        if cell is None or cell != cell or cell == "":
            continue
        if not isinstance(cell, str | int | float):
            raise ValueError(f"the path {cell!r:.60}, expected text,")
        parts.append(whole_number(str(cell)) if isinstance(cell, float) else str(cell))
    if not parts:
        raise ValueError("no path")
    return "/".join([parts[0], *(part.strip("/") for part in parts[1:])])


def _labels(
    cell: Any, multi_label: bool, separator: str, kinds: LabelKinds, may_hide: bool = False, lists: Collection[str] = ()
) -> list[str]:
    """Return the labels in a cell; one is empty where it may be hidden and is."""
    text = cell.strip() if isinstance(cell, str) else ""
    if text in lists:
        return [text]
    if text and (found := nested(text)) is not None:
        cell = found
    if isinstance(cell, dict) and list(cell) == ["choices"] and isinstance(cell["choices"], list):  # Label Studio's
        cell = cell["choices"]
        cell = cell[0] if len(cell) == 1 and not multi_label else cell
    if isinstance(cell, Annotated) and not multi_label:
        return _annotated(cell)
    if isinstance(cell, list) and cell and not multi_label:
        fix = (f"{IF_A_NAME} ({text:.60} is one line of a .txt)",) if names_a_list(text) else ()
        raise ValueError(f"the list {cell!r:.60} as a label; give --data.multi_label true if it is one,", *fix)
    if isinstance(cell, list):
        parts = cell
    elif not multi_label:
        parts = [cell]
    else:
        parts = [part for part in cell.split(separator) if part.strip()] if isinstance(cell, str) else [cell]
    for part in parts:
        kinds.check(part)
    labels = [plain_text(part) for part in parts]
    if not multi_label:
        return list(filter(None, labels))
    if "" in labels and may_hide:
        return [""]
    if "" in labels:
        nothing = "nothing in its list" if isinstance(cell, list) else "nothing, not even an empty list,"
        raise ValueError(f"{nothing} where a label is expected; write [] for an image without any,")
    if isinstance(cell, list) and any(isinstance(part, bool) for part in parts):
        raise ValueError(f"the list {cell!r:.60}, expected the names or the numbers of classes,")
    refuse_vector(labels)
    return labels


def _annotated(classes: Annotated) -> list[str]:
    """Return the class of an image with annotations of one class."""
    if len(classes) != 1:
        found = f"annotations of {len(classes)} classes" if classes else "no annotation"
        raise ValueError(f"{found}, expected one class; give --data.multi_label true for several or none,")
    return list(classes)
