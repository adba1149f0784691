"""Columns that may state each image's split where they are not read: of flags, numbers, letters or tags."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from datamodules.reading.folder_names import IMAGE_WORDS, words_of
from datamodules.reading.label_text import whole_number
from datamodules.reading.splits import SHORT, SPLIT_OF, SPLITS
from datamodules.reading.stated_split import names_flag

TRUE = frozenset(
    {"true", "1", "yes", "t", "y", "wahr", "vrai", "verdadero", "verdadeiro", "vero", "waar", "prawda", "sant", "sand"}
)
FALSE = frozenset({"false", "0", "no", "f", "n", "falsch", "faux", "falso", "onwaar", "fałsz", "falskt", "falsk"})
"""Words of spreadsheets in several languages among them."""
NUMBERS = ({"0": "train", "1": "val", "2": "test"}, {"1": "train", "2": "val", "3": "test"})
"""What the numbers of splits stand for, counted from 0 and from 1."""
LETTERS = {"t": "train", "v": "val", "e": "test"}
TAGS = frozenset({"tag", "tags"})
"""Words in names of columns of several words a cell."""
BETWEEN_TAGS = re.compile(r"[\[\](){}'\",;|\s]+")
NUMBERED = frozenset({"split", "splits", "subset", "partition", "set", "dataset", "phase", "datasplit"})
"""Words in names of columns whose numbers may stand for splits; those of folds stand for others."""
SOURCES = frozenset({"dataset", "set"})
IDS = frozenset({"id", "ids", "idx", "index", "no", "nr", "num", "number", "code", "source", "version"})
"""Words that make of the name of a column that of the sets which images come from, as dataset_id."""
FLAGS = SPLIT_OF | {word: split for word, split in SHORT.items() if len(word) > len("te")}


def may_state(column: str) -> bool:
    """Tell whether numbers or flags in a column may state splits, by its name."""
    return _flagged(column) is not None or _is_numbered(column) or _has_tags(column)


def said_of_columns(table: str, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Say which columns may state splits by numbers or flags.

    Args:
        table: what to call it.
        names: columns of which `may_state` holds.
        rows: their cells, row after row.
    """
    found: dict[str, dict[str, None]] = {name: {} for name in names}
    tags: dict[str, dict[str, str]] = {name: {} for name in names if _has_tags(name)}
    for cells in rows if names else ():
        for name, cell in zip(names, cells, strict=True):
            text = "" if cell is None or cell != cell else whole_number(str(cell).strip())
            if text and name in found:
                found[name][text] = None
                if len(found[name]) > len(SPLITS):
                    del found[name]
            if name in tags and len(splits := _tagged(text)) == 1:
                tags[name].setdefault(splits.pop(), text)
            else:
                tags.pop(name, None)
        if not found and not tags:
            break
    said = []
    for name, words in found.items():
        if meant := _meant(name, sorted(words)):
            said.append(
                f"{table} has the column {name!r} of {' and '.join(meant)}, which may state each image's split and is "
                f"left alone; if it does, give --data.split_column {shlex.quote(name)} and {names_flag(meant)}, or "
                "what each stands for; --data.split_column false leaves it alone without this line"
            )
    for name, cells_of in tags.items():
        if len(cells_of) > 1 and "train" in cells_of:
            shown = " and ".join(repr(text)[:60] for text in cells_of.values())
            said.append(
                f"{table} has the column {name!r} of {shown}, whose words may state each image's split and which is "
                "left alone; if they do, write each row's split into a column of its own, for --data.split_column; "
                "--data.split_column false leaves it alone without this line"
            )
    return said


def _meant(column: str, words: Sequence[str]) -> Mapping[str, str] | None:
    """Return the split that each word of a column may stand for; None where they are no flags or numbers of splits."""
    low = [word.lower() for word in words]
    flagged = _flagged(column)
    if flagged and len(words) == 2 and {*low} & TRUE and {*low} & FALSE:
        other = "test" if flagged == "train" else "train"
        return {word: flagged if word.lower() in TRUE else other for word in words}
    if _is_numbered(column) and len(words) > 1:
        for known in (*NUMBERS, LETTERS):
            if {*low} <= known.keys() and next(iter(known)) in low:
                last = {} if known is LETTERS else {words[-1]: "test"}  # of two numbers as well
                return {word: known[word.lower()] for word in words} | last
        if {*low} <= TRUE | FALSE and len(words) == 2:
            return {word: "train" if word.lower() in TRUE else "test" for word in words}
    return None


def _flagged(column: str) -> str | None:
    """Return the split that a column is called after, as is_valid and is_training_image are."""
    words = [word for word in words_of(column) if word not in IMAGE_WORDS | {"is", "in", "set", "for"}]
    return FLAGS.get(words[0]) if len(words) == 1 else None


def _has_tags(column: str) -> bool:
    return bool(TAGS & {*words_of(column)})


def _tagged(text: str) -> set[str]:
    """Return the splits among the words of a cell."""
    return {SPLIT_OF[word] for word in BETWEEN_TAGS.split(text.lower()) if word in SPLIT_OF}


def _is_numbered(column: str) -> bool:
    words = {*words_of(column)}
    return bool(NUMBERED & words) and not (SOURCES & words and IDS & words)
