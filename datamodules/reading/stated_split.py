"""Columns of a table that state each image's split, told by their values, so that no test image trains unseen."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from datamodules.reading import table_rows
from datamodules.reading.folder_names import words_of
from datamodules.reading.splits import BOTH, CELLS, KNOWN, SPLITS
from vit_lightning.errors import InputError
from vit_lightning.terminal import counted

Use = Literal["taken", "refused", "left"]
"""What becomes of such a column: it divides its table, it is an error beside other tables, or it is left alone."""
SURE = frozenset({"split", "splits", "fold", "folds", "subset", "partition"})
"""Words in the name of a column that say that its values are splits."""
LIKELY = SURE | {"set", "dataset", "datasplit", "phase", "usage", "use", "part", "purpose", "stage"}
"""Words in names of columns whose values may be splits."""
LEFT_ALONE = "--data.split_column false leaves the column alone"


class Said(NamedTuple):
    """What the cells of a column say."""

    splits: Counter[str]
    """Rows of each split."""
    words: Counter[str]
    """Rows of each word for validation images that train."""
    others: list[tuple[int, str]]
    """Row, counted from 1, and text of the first cell that names no split, an empty one too."""
    count: int
    """Rows in which something stands that names no split."""
    blank: int
    """Rows in which nothing stands."""

    def states(self, split: str) -> bool:
        """Tell whether a split and another one are named, and nothing else; whoever reads the column names blanks.

        Args:
            split: one that is named, unless that of training is.
        """
        return not self.count and len(self.splits) > 1 and bool({"train", split} & self.splits.keys())


class Found(NamedTuple):
    """The column that divides a table, and what there is to say."""

    column: str | None
    notices: list[str]


def check_flag(split_column: bool | str | None) -> None:
    """Refuse what is no name of a column.

    Raises:
        InputError: saying what is expected.
    """
    if split_column is True or split_column == "":
        raise InputError(
            f"--data.split_column {split_column!r} is no column; give its name, or false where there is none"
        )


def split_words(given: Mapping[str, str] | None) -> dict[str, str]:
    """Return the split of each word in a table, in small letters.

    Args:
        given: what --data.split_names is.

    Raises:
        InputError: naming a split that is none.
    """
    for word, split in (given or {}).items():
        if split not in SPLITS:
            raise InputError(f"--data.split_names {word}: {split!r} is no split, expected one of {', '.join(SPLITS)}")
    return CELLS | {str(word).strip().lower(): split for word, split in (given or {}).items()}


def stated_split(
    table: Path, known: Iterable[str | None], split: str, use: Use, words: Mapping[str, str] = CELLS
) -> Found:
    """Return the column that divides a table by its values, if there is one.

    Args:
        table: the table.
        known: columns that hold something else.
        split: the split of the table as a whole.
        use: what becomes of the column.
        words: the split of each word.

    Raises:
        InputError: naming several such columns, one beside tables of other splits, or a row that is in no split.
    """
    names = [name for name in table_rows.text_columns(table) if name not in set(known)] if use != "left" else []
    return decide(str(table), read(table_rows.values(table, names), names, words) if names else {}, split, use)


def decide(table: str, columns: Mapping[str, Said], split: str, use: Use) -> Found:
    """Return which of some columns divides a table.

    Args:
        table: what to call it.
        columns: what their cells say.
        split: the split of the table as a whole.
        use: what becomes of the column.

    Raises:
        InputError: as `stated_split`.
    """
    found = [name for name, said in columns.items() if said.states(split)]
    if len(found) > 1:
        one, other = found[:2]
        raise InputError(
            f"{table} has the columns {one!r} and {other!r}, which both name splits; give --data.split_column {one}"
        )
    if found and use == "refused":
        raise InputError(beside(table, found[0], columns[found[0]].splits))
    notices = []
    for name, said in columns.items():
        if name not in found and (text := _doubt(table, name, said, bool(found))):
            notices.append(text)
        if name in found and said.words:
            notices.append(trained_words(table, name, said.words))
    return Found(found[0] if found else None, notices)


def trained_words(table: str, column: str, words: Mapping[str, int]) -> str:
    """Say which words for validation images are of images that train."""
    shown = " and ".join(f"{word} in {counted(rows, 'row')}" for word, rows in words.items())
    return f"{table} has in the column {column!r} {shown}, which train as well"


def beside(table: str, column: str, splits: Iterable[str]) -> str:
    """Say that a column names splits that other tables hold."""
    return (
        f"{table} has the column {column!r}, which names the splits {' and '.join(splits)}, beside tables of "
        f"other splits; put all rows into one table for --data.split_column {column}, or take the column out; "
        f"{LEFT_ALONE}"
    )


def _doubt(table: str, name: str, said: Said, is_divided: bool) -> str:
    """Say what a column may mean that names splits and something else; refuse it where it is likely to name splits."""
    named = said.splits.total()
    if not said.others or not named or not LIKELY & {*words_of(name)}:
        return ""
    row, text = said.others[0]
    what = f"{table} has in row {row} {text!r:.60} in the column {name!r}"
    example = f"--data.split_names '{{{text or 'word'}: test}}'"
    is_likely = 2 * named > named + said.count + said.blank or bool(SURE & {*words_of(name)})
    if is_divided or not is_likely:
        return (
            f"{what}, which names the splits {' and '.join(said.splits)} elsewhere and is left alone; if it states "
            f"each image's split, give --data.split_column {name} and {example}"
        )
    fix = f"{example} says its split" if text else "write its split"
    raise InputError(
        f"{what}, which names the splits {' and '.join(said.splits)} elsewhere, expected one of {KNOWN}; {fix}, and "
        f"{LEFT_ALONE}"
    )


def read(rows: Iterable[Sequence[Any]], names: Sequence[str], words: Mapping[str, str] = CELLS) -> dict[str, Said]:
    """Return what some columns say, but for those that name something else and are not called as splits are.

    Args:
        rows: the cells of these columns, row after row.
        names: the columns.
        words: the split of each word.
    """
    found = {name: Said(Counter(), Counter(), [], 0, 0) for name in dict.fromkeys(names)}
    likely = {name for name in found if LIKELY & {*words_of(name)}}
    for number, cells in enumerate(rows, start=1):
        for name, cell in zip(names, cells, strict=True):
            if name not in found:
                continue
            said, text = found[name], "" if cell is None or cell != cell else str(cell).strip()
            word = text.lower()
            if word in words:
                said.splits[words[word]] += 1
                said.words.update([word] if word in BOTH else [])
            elif text and name not in likely:
                del found[name]
            else:
                said.others or said.others.append((number, text))
                found[name] = said._replace(count=said.count + bool(text), blank=said.blank + (not text))
        if not found:
            break
    return found
