"""What a table of images says, in arrays that all processes share."""

from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datamodules.reading import (
    beside_columns,
    named_codes,
    renamed_folders,
    table_columns,
    table_repeats,
    table_rows,
    unread_columns,
    unread_splits,
)
from datamodules.reading.class_map import is_hidden
from datamodules.reading.drawn_split import NAMES as SPLIT_NAMES
from datamodules.reading.drawn_split import split_number
from datamodules.reading.image_files import without_prefix
from datamodules.reading.label_text import is_whole, whole_number
from datamodules.reading.shared_sequences import Ragged, Strings
from datamodules.reading.splits import BOTH
from datamodules.reading.stated_split import Use, beside, naming_all, split_words, stated_split, trained_words
from vit_lightning.errors import InputError

Columns = str | Sequence[str] | None


@dataclass(frozen=True)
class TableForm:
    """How a table is read.

    Args:
        columns: those with paths, and those with labels; None: the only ones that can be meant.
        split: column with the name of each image's split, if there is one.
        group: column that says which images stay together, if there is one.
        prefix: beginning of the paths that is left out.
        ending: ending of the files where the paths lack it.
        multi_label: whether a row may have several labels, or none.
        separator: what stands between several labels in text.
        of: the split of the table as a whole; labels of test images may be missing.
        stated: what becomes of a column that states each image's split and was not given.
        missing: words that stand for a missing label, in small letters.
        lists: names of classes that are called as lists are.
        words: other words of such a column and the split of each.
        beside: splits that have tables of their own.
        renamed: labels that a class map calls otherwise, and their classes.
        by_place: numbers and their classes, by a class map that lists names.
    """

    columns: tuple[Columns, Columns]
    split: str | None
    group: str | None
    prefix: str
    ending: str
    multi_label: bool
    separator: str
    of: str
    stated: Use
    missing: tuple[str, ...]
    lists: tuple[str, ...] = ()
    words: tuple[tuple[str, str], ...] = ()
    beside: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    by_place: tuple[tuple[str, str], ...] = ()

    @property
    def is_test(self) -> bool:
        return self.of == "test"

    def path(self, path: str) -> str:
        """Return the path of a file by what the table says."""
        path = without_prefix(path, self.prefix)
        return path if path.endswith(self.ending) else path + self.ending


def content(table: Path, form: TableForm) -> dict[str, np.ndarray | Strings | Ragged]:
    """Read a table: paths, names of labels in order, which of them each image has, and what else it says.

    Raises:
        InputError: naming the first row that cannot be, or two rows of one image that differ.
    """
    columns = table_columns.choose(table, *form.columns, form.split, form.group, may_lack_labels=form.is_test)
    words, notices, trained = split_words(dict(form.words)), list[str](), Counter[str]()
    if columns.split is None:
        known = *columns.paths, *columns.labels, columns.group, columns.unlabelled
        column, notices = stated_split(table, known, form.of, form.stated, words)
        columns = columns._replace(split=column)
        notices += _flags(table, known) if column is None and form.stated == "taken" else []
    numbers: dict[str, int] = {name: number for number, name in enumerate(columns.labels if columns.one_hot else ())}
    labels, ends = array("i"), array("q", [0])
    splits, groups, hidden = array("b"), list[str](), array("b")
    rows = table_repeats.Rows()

    def paths() -> Iterator[str]:
        read = table_columns.read(
            table, columns, form.multi_label, form.separator, form.is_test, form.missing, words, form.lists
        )
        for number, row in enumerate(read, start=1):
            labels.extend(numbers.setdefault(name, len(numbers)) for name in row.labels)
            ends.append(len(labels))
            hidden.append(row.is_hidden)
            if columns.split:
                where, fix = f"{table} has for {row.path}", ""
                if row.split.lower() not in words:
                    cells = (cell for (cell,) in table_rows.values(table, [columns.split]))
                    fix = f", in row {number}; {naming_all(cells, words)}"
                splits.append(split_number(row.split, where, words, fix))
                trained.update({word for word in (row.split.lower(),) if word in BOTH and words[word] == "train"})
            if columns.group:
                groups.append(row.group)
            path = form.path(row.path)
            rows.add(path, row.labels, row.split)
            yield path

    kept = Strings(paths())
    if not len(kept) or (columns.labels and not numbers and not form.is_test):
        raise InputError(f"{table} has {len(kept)} rows and no label in any")
    if columns.split:
        stated = [SPLIT_NAMES[split] for split in np.unique(np.array(splits, np.int8))]
        if {*stated} & {*form.beside}:
            raise InputError(beside(str(table), columns.split, stated))
        if trained and not notices:
            notices.append(trained_words(str(table), columns.split, trained))
    elif form.stated == "taken" and (said_of := unread_splits.said_of_paths(str(table), kept)):
        notices.append(said_of)
    names = sorted(numbers)
    place = np.empty(len(names), dtype=np.int32)
    place[[numbers[name] for name in names]] = np.arange(len(names))
    classes = Ragged(place[np.array(labels, dtype=np.int32)], np.array(ends))
    if twice := rows.differing(kept):
        said = [form.separator.join(names[label] for label in classes[row])[:60] or "nothing" for row in twice]
        if splits:
            said = [f"{what}, {SPLIT_NAMES[splits[row]]}" for row, what in zip(twice, said, strict=True)]
        raise _differing(table, kept[twice[0]], twice, said, form.multi_label)
    told = [names[row[0]] if len(row) else "" for row in classes] if columns.labels and not form.multi_label else []
    maps = dict(form.renamed), dict(form.by_place)
    if told and (differing := renamed_folders.differing(zip(kept, told, strict=True), *maps)):
        column, is_given = ",".join(columns.labels), form.columns[1] is not None
        notices.append(differing.said(str(table), f"[{column}]" if columns.one_hot else column, is_given))
    others = *columns.paths, *columns.labels, columns.split, columns.group, columns.unlabelled
    notices += beside_columns.denied(table, others)
    if columns.one_hot and form.multi_label and form.columns[1] is not None and form.of == "train":
        notices += beside_columns.further_classes(table, columns.labels, others)
    free = [name for name in dict.fromkeys(table_rows.header(table)) if name not in others]
    free = free if form.of == "train" and not form.group else []
    groups_by = beside_columns.may_group(free, lambda some: table_rows.values(table, some))
    numbered = all(map(is_whole, names)) and table_rows.may_be_numbers(table, columns.labels)
    named = _named(table, columns, told, splits) if numbered and told else []
    return {
        "paths": kept,
        "digests": rows.digests,
        "names": Strings(names),
        "labels": classes,
        "splits": np.array(splits, dtype=np.int8),
        "split_column": Strings([columns.split] if columns.split else []),
        "notices": Strings(notices),
        "groups": Strings(groups),
        "may_group": Strings([groups_by] if groups_by else []),
        "hidden": np.array(hidden, dtype=bool),
        "has_labels": np.array([bool(columns.labels)]),
        "one_hot": np.array([columns.one_hot]),
        "listed": Strings(table_rows.listed_names(table, columns.labels)),
        "numbered": np.array([numbered]),
        "named": Strings(named),
        "label_columns": Strings(columns.labels),
    }


def _named(table: Path, columns: table_columns.Columns, labels: Sequence[str], splits: Sequence[int]) -> list[str]:
    """Return what columns of names call labels that are numbers."""
    known = {*columns.paths, *columns.labels, columns.split, columns.group, columns.unlabelled}
    others = [name for name in table_rows.text_columns(table) if name not in known]
    numbers = ("" if is_hidden(label) else whole_number(label) for label in labels)
    rows = table_rows.values(table, others) if others else ()
    found = named_codes.in_rows(str(table), others, rows, numbers, splits) if others else []
    return [each.dumped() for each in found]


def _flags(table: Path, known: Collection[str | None]) -> list[str]:
    """Say which columns may state splits by numbers or flags, but for those that hold something else."""
    names = [name for name in dict.fromkeys(table_rows.header(table)) if name not in known]
    names = list(filter(unread_columns.may_state, names))
    return unread_columns.said_of_columns(str(table), names, table_rows.values(table, names) if names else ())


def _differing(table: Path, path: str, rows: Sequence[int], said: Sequence[str], multi_label: bool) -> InputError:
    """Say what two rows of one image say."""
    each = " and in ".join(f"row {row + 1} ({what})" for row, what in zip(rows, said, strict=True))
    all_labels = ", with all labels of the image" * multi_label
    return InputError(f"{table} lists {path} in {each}; keep one of the rows{all_labels}")
