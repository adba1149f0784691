"""Columns of a table that state each image's split, told by their values, so that no test image trains unseen."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from datamodules.reading import table_rows
from datamodules.reading.folder_names import SPLIT_WORDS, words_of
from datamodules.reading.label_text import whole_number
from datamodules.reading.splits import BOTH, CELLS, KNOWN, SHORT, SPLITS
from vit_lightning.errors import InputError
from vit_lightning.terminal import counted

Use = Literal["taken", "refused", "left"]
"""What becomes of such a column: it divides its table, it is an error beside other tables, or it is left alone."""
SURE = frozenset({"split", "splits", "fold", "folds", "subset", "partition"})
"""Words in the name of a column that say that its values are splits."""
LIKELY = SURE | {"set", "dataset", "datasplit", "phase", "usage", "use", "part", "purpose", "stage"}
"""Words in names of columns whose values may be splits."""
LEFT_ALONE = "--data.split_column false leaves the column alone"


PLAIN_KEY = re.compile(r"\w[\w .()%/+-]*")
"""Words that YAML reads without quotation marks."""
LIKELY_MEANT = {**dict.fromkeys(("0", "false", "no"), "train"), **dict.fromkeys(("vld", "vl", "validate"), "val")}
"""The split that a word stands for in most tables that have it."""
SHOWN = 4
"""Words of a column that an error proposes splits for."""
MOST_NAMED = 12
"""As many, where a column that was given has them; the words of more are hardly those of splits."""
OF_FLAGS = {"false": ("no", "off"), "true": ("yes", "on")}
"""What YAML takes for false and true, by what it makes of them."""


@dataclass
class Said:
    """What the cells of a column say."""

    is_likely: bool
    """Whether the column is called as those of splits may be."""
    splits: Counter[str] = field(default_factory=Counter)
    """Rows of each split."""
    words: Counter[str] = field(default_factory=Counter)
    """Rows of each word for validation images that train."""
    joined: Counter[str] = field(default_factory=Counter)
    """Rows of each text that holds the word of a split among others, in a column that is likely to state splits."""
    first_other: tuple[int, str] | None = None
    """Row, counted from 1, and text of the first cell that names no split, an empty one too."""
    count: int = 0
    """Rows in which something stands that names no split."""
    blank: int = 0
    """Rows in which nothing stands."""
    is_plain: bool = False
    """Whether a word names a split that is hardly anything else, as te is a language."""

    def states(self, split: str) -> bool:
        """Tell whether a split and another one are named, and nothing else; whoever reads the column names blanks.

        Args:
            split: one that is named, unless that of training is.
        """
        is_sure = self.is_likely or (self.is_plain and self.blank < self.splits.total())
        return is_sure and not self.count and len(self.splits) > 1 and bool({"train", split} & self.splits.keys())

    @property
    def may_state(self) -> set[str]:
        """The splits that are named, also among other words."""
        return self.splits.keys() | {split for text in self.joined if (split := split_within(text))}


class Found(NamedTuple):
    """The column that divides a table, and what there is to say."""

    column: str | None
    notices: list[str]


def check_flag(column: bool | str | None, flag: str) -> None:
    """Refuse what is no name of a column, and not false either.

    Raises:
        InputError: saying what is expected.
    """
    if column is True or column == "":
        raise InputError(f"--data.{flag} {column!r} is no column; give its name, or false where there is none")


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
    words = {whole_number(str(word).strip()).lower(): split for word, split in (given or {}).items()}
    read_as = {word: words[flag] for flag, some in OF_FLAGS.items() if flag in words for word in some}
    return CELLS | read_as | words


@lru_cache(maxsize=4096)
def split_within(text: str) -> str | None:
    """Return the split whose word is among those of a text, as in train_set; that of training if there are several."""
    found = {SPLIT_WORDS[word] for word in words_of(text) if word in SPLIT_WORDS}
    return next((split for split in SPLITS if split in found), None)


def naming(texts: Iterable[str], named: Collection[str] = ("train",)) -> str:
    """Return the flag that says the splits of some texts, without a guess at what a blank stands for.

    Args:
        texts: what names no split.
        named: the splits that other cells name, of which these texts hardly are.
    """
    rest = next((split for split in ("train", "test", "val") if split not in named), "test")
    meant = {text: (split_within(text) or LIKELY_MEANT.get(text.lower(), rest)) if text else "SPLIT" for text in texts}
    return names_flag(meant) + " with train, val or test in place of SPLIT" * ("" in meant)


def naming_all(cells: Iterable[Any], words: Mapping[str, str]) -> str:
    """Return the end of a sentence with the flag that says the splits of all that names none in a column.

    Args:
        cells: what stands in the column.
        words: the split of each word, in small letters.
    """
    texts = Counter("" if cell is None or cell != cell else whole_number(str(cell).strip()) for cell in cells)
    named = {words[text.lower()] for text in texts if text.lower() in words}
    unknown = [text for text in texts if text.lower() not in words][:MOST_NAMED]
    if "train" in named or any(split_within(text) == "train" for text in unknown) or not unknown[1:]:
        return f"{naming(unknown, named | {'train'})} says {'their splits' if unknown[1:] else 'its split'}"
    most = max(filter(None, unknown), key=texts.__getitem__)
    meant = {text: ("train" if text == most else split_within(text) or "test") if text else "SPLIT" for text in unknown}
    return f"{names_flag(meant)} says their splits, with what each stands for"


def names_flag(meant: Mapping[str, str]) -> str:
    """Return the flag that says which split each text stands for, as a shell takes it."""
    pairs = ", ".join(f"{_key(text[:60])}: {split}" for text, split in meant.items())
    return f"--data.split_names {shlex.quote(f'{{{pairs}}}')}"


def _key(text: str) -> str:
    """Return a key of YAML that is read as the text, which no, 1_0 and 2020-01-01 are not without quotation marks."""
    try:
        read = yaml.safe_load(text) if PLAIN_KEY.fullmatch(text) else None
    except (ValueError, yaml.YAMLError):
        read = None
    is_plain = isinstance(read, str | int | float) and str(read).lower() == text.lower()
    return text if is_plain else json.dumps(text, ensure_ascii=False)


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
        raise InputError(beside(table, found[0], columns[found[0]].splits, split))
    notices = []
    for name, said in columns.items():
        if split == "train" and use == "taken":
            _check_trains(table, name, said)
        if name not in found and (text := _doubt(table, name, said, bool(found))):
            notices.append(text)
        if name in found and said.words:
            notices.append(trained_words(table, name, said.words))
    return Found(found[0] if found else None, notices)


def trained_words(table: str, column: str, words: Mapping[str, int]) -> str:
    """Say which words for validation images are of images that train."""
    shown = " and ".join(f"{word} in {counted(rows, 'row')}" for word, rows in words.items())
    return f"{table} has in the column {column!r} {shown}, which train as well"


def beside(table: str, column: str, splits: Iterable[str], split: str = "train") -> str:
    """Say that a column of the table of a split names splits that other tables hold."""
    alone = "" if split == "train" else f"leave the {split} rows alone in it, or "
    return (
        f"{table} has the column {column!r}, which names the splits {' and '.join(splits)}, beside tables of "
        f"other splits; {alone}put all rows into one table for --data.split_column {column}, or take the column out; "
        f"{LEFT_ALONE}"
    )


def _check_trains(table: str, name: str, said: Said) -> None:
    """Refuse a table of training images of which a column says that none of them trains."""
    named = said.may_state
    if named and "train" not in named and said.is_likely and said.count == said.joined.total():
        raise InputError(
            f"{table} is to train, and its column {name!r} names no split but {' and '.join(sorted(named))}; give "
            f"another --data.train, or --data.train null to score it; {LEFT_ALONE}"
        )


def _doubt(table: str, name: str, said: Said, is_divided: bool) -> str:
    """Say what a column may mean that names splits and something else; refuse it where it is likely to name splits."""
    if not said.is_likely:
        return _left(table, name, said)
    states, joined = said.may_state, said.joined.total()
    is_of_one = len(states) == 1 and not said.splits and said.count == joined and not said.blank
    if said.first_other is None or not states or is_of_one:
        return ""
    named = said.splits.total() + joined
    row, text = said.first_other
    what = f"{table} has in row {row} {text!r:.60} in the column {name!r}"
    names = f"names the splits {' and '.join(said.splits)} elsewhere"
    if not said.splits:
        names = f"may name the splits {' and '.join(split for split in SPLITS if split in states)}"
    texts = [one for one, _ in said.joined.most_common(SHOWN)] if text in said.joined else [text]
    example = naming(texts, said.splits)
    is_likely = 2 * named > named - joined + said.count + said.blank or bool(SURE & {*words_of(name)})
    if is_divided or not is_likely:
        return (
            f"{what}, which {names} and is left alone; if it states each image's split, give --data.split_column "
            f"{name} and {example}"
        )
    fix = "write its split" if not text else f"{example} says {'its split' if len(texts) == 1 else 'their splits'}"
    raise InputError(f"{what}, which {names}, expected one of {KNOWN}; {fix}, and {LEFT_ALONE}")


def _left(table: str, name: str, said: Said) -> str:
    """Say that a column is left alone that names splits, though neither its name nor all its cells say so."""
    if said.states("") or "train" not in said.splits or len(said.splits) < 2 or said.count:
        return ""
    return (
        f"{table} has the column {name!r}, in which some words may name the splits {' and '.join(said.splits)} and "
        f"which is left alone; if it states each image's split, give --data.split_column {name}"
    )


def read(rows: Iterable[Sequence[Any]], names: Sequence[str], words: Mapping[str, str] = CELLS) -> dict[str, Said]:
    """Return what some columns say, but for those that name something else and are not called as splits are.

    Args:
        rows: the cells of these columns, row after row.
        names: the columns.
        words: the split of each word.
    """
    found = {name: Said(bool(LIKELY & {*words_of(name)})) for name in dict.fromkeys(names)}
    for number, cells in enumerate(rows, start=1):
        for name, cell in zip(names, cells, strict=True):
            if name not in found:
                continue
            said, text = found[name], "" if cell is None or cell != cell else whole_number(str(cell).strip())
            word = text.lower()
            if word in words:
                said.splits[words[word]] += 1
                said.is_plain = said.is_plain or word not in SHORT
                said.words.update([word] if word in BOTH and words[word] == "train" else [])
            elif text and not said.is_likely:
                del found[name]
            else:
                said.first_other = said.first_other or (number, text)
                said.joined.update([text] if split_within(text) else [])
                said.count += bool(text)
                said.blank += not text
        if not found:
            break
    return found
