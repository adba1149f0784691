"""A table of training images that is divided: by a column of it, by groups that are never divided, or by drawing."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from datamodules.reading import table_repeats
from datamodules.reading.array_cache import MappedStrings
from datamodules.reading.divided_data import DividedData
from datamodules.reading.drawn_split import TEST, TRAIN, VAL
from datamodules.reading.idle_flags import name_idle
from datamodules.reading.splits import SPLITS
from datamodules.reading.stated_images import Stated
from datamodules.reading.stated_split import Use
from vit_lightning.data.subsets import Subset


class DividedTable(DividedData):
    """Images listed in tables, of which that of the training images may be divided."""

    tables: Mapping[str, Path | None]
    """The table of each split, from root."""
    lacks_train: bool
    """Whether there is no table of training images."""
    split_column: bool | str | None
    group_column: str | None
    multi_label: bool
    separator: str

    @abstractmethod
    def _file(self, split: str) -> Path:
        """Return the file that keeps the content of a split's table."""

    @property
    def _divides(self) -> str | None:
        """The column with each image's split, given or found."""
        return None if self.lacks_train else next(iter(MappedStrings(self._file("train"), "split_column")), None)

    def _stated(self, split: str) -> Use:
        """What becomes of a column that states each image's split and was not given for a split's table."""
        if self.lacks_train or self.split_column is False or self.split_file is not None:
            return "left"
        if split != "train":
            return "refused"
        return "left" if self.split_column else "taken"

    def _divide_by_column(self, splits: np.ndarray, digests: np.ndarray) -> None:
        """Take validation and test images from the rows that state them; the rest goes as in the run so far."""
        whole = self.train_set
        every = np.arange(len(whole))
        stated = Stated(list(map(str, whole.keys)), self._texts(every), splits)
        found = self.kept_splits(self.root / self.tables["train"], stated, self._groups(every))
        if found is not None:
            self._check_groups(found)
        own = self.val_set, self.test_set
        parts = [np.flatnonzero(splits == split) for split in (TRAIN, VAL, TEST)]
        self.train_set = Subset(whole, parts[TRAIN])
        self.val_set, self.test_set = (
            Subset(whole, part) if len(part) else one for part, one in zip(parts[VAL:], own, strict=True)
        )
        self._draw(parts[TRAIN], digests, stated, found)

    def _draw(
        self, rows: np.ndarray, digests: np.ndarray, stated: Stated | None = None, found: np.ndarray | None = None
    ) -> None:
        """Draw what is lacking from the training images, which are these rows of their table.

        Args:
            rows: those.
            digests: a number for the path of each row.
            stated: all images of the table, where a column states their splits.
            found: the splits of these in the run so far.
        """
        lacking = self.val_set is None, self.test_set is None
        is_drawn = (lacking[1] and bool(self.test_fraction)) or (self.group_column is not None and lacking[0])
        draws = is_drawn or (stated is None and self.wants_divided(lacking))
        self.name_idle_shares(lacking, draws)
        if not draws and self.split_file is not None:
            name_idle(self, ("split_file",), f"the column {self._divides} states the split")
        if draws:
            self._divide(rows, lacking, stated, found)
        elif lacking[0]:
            kept = None if found is None or TEST in found[rows] else found[rows]
            self.hold_out(digests[rows], kept)  # an image that stands in two rows stays in one split
        if stated is not None and not is_drawn:
            splits = stated.splits.copy()
            if lacking[0] and self.val_set is not None:
                splits[rows[self.val_set.indices]] = VAL
            self.keep_stated(stated._replace(splits=splits))

    def _divide(
        self, rows: np.ndarray, lacking: tuple[bool, bool], stated: Stated | None, found: np.ndarray | None
    ) -> None:
        """Divide the training images, which are these rows of their table."""
        labels = self._labels_of(rows)
        counts = Counter(int(label) for some in labels for label in some)
        rarest = [min((counts[int(label)], int(label)) for label in some)[1] if len(some) else -1 for some in labels]
        others = None if stated is None else stated.without(rows)
        drawn = None if found is None else found[rows]
        by = self.group_column or ""
        self.divide(rarest, self._texts(rows), self._groups(rows), lacking, grouped_by=by, stated=others, kept=drawn)

    def _labels_of(self, rows: np.ndarray) -> list[Sequence[int]]:
        """Return the classes of some images of the training table."""
        images = self.train_set.source if isinstance(self.train_set, Subset) else self.train_set
        return [np.flatnonzero(images[row][1]) if self.multi_label else [images.labels[row]] for row in rows]

    def _texts(self, rows: np.ndarray) -> list[str]:
        """Return the names of the classes of some images of the training table, as one text each."""
        known = self.class_names
        return [self.separator.join(known[label] for label in some if label >= 0) for some in self._labels_of(rows)]

    def _groups(self, rows: np.ndarray) -> list[str] | None:
        if self.group_column is None:
            return None
        found = MappedStrings(self._file("train"), "groups")
        return [found[int(row)] for row in rows]

    def _check_groups(self, splits: np.ndarray | None = None) -> None:
        """Refuse a group with images in two splits that the tables give."""
        if self.group_column is None:
            return
        found = []
        for split, table in self.tables.items():
            if table is not None:
                groups = list(MappedStrings(self._file(split), "groups"))
                found.append(table_repeats.Grouped(split, self.root / table, range(len(groups)), groups))
        if splits is not None:
            whole = found[0]
            parts = [(name, np.flatnonzero(splits == split).tolist()) for split, name in enumerate(SPLITS)]
            found[:1] = [
                table_repeats.Grouped(name, whole.table, rows, [whole.groups[row] for row in rows])
                for name, rows in parts
            ]
        table_repeats.check_groups(found, self.group_column)
