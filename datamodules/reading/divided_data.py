"""Data that are divided into training, validation and test images here, and never otherwise in a resumed run."""

import posixpath
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from lightning.pytorch.utilities import rank_zero_info

from datamodules.reading import drawn_split, image_sources, split_sentences, unlisted
from datamodules.reading.drawn_split import LEFT_OUT, NAMES, TEST, TRAIN, VAL
from datamodules.reading.idle_flags import name_idle
from datamodules.reading.kept_splits import run_that_begins
from datamodules.reading.split_sentences import SETTINGS
from datamodules.reading.stated_images import Stated, as_kept
from vit_lightning.data import ImageDataModule
from vit_lightning.data.image_set import ImageSet, keys_of
from vit_lightning.data.subsets import Subset, check_share, hold_out
from vit_lightning.errors import InputError
from vit_lightning.files import meant
from vit_lightning.runs.folders import SPLIT_TABLE

HELD_OUT = 0.1
"""Share of a training set of its own that validates, unless --data.val_fraction says otherwise."""
DRAWN = 0.15
"""Share of images without any split that validates, and that tests."""


class DividedData(ImageDataModule):
    """Images that are divided here where they come without a validation or test set.

    Args:
        root: folder that holds the images.
        val_fraction: share of the images that validates where no validation set is given; 0: none; unset: 0.1 of a
            training set, 0.15 of images without any split.
        test_fraction: share of the images drawn for the test, if no test set is given; unset: 0.15 of images without
            any split, else none.
        split_seed: number of the split that is drawn; unset: 0. It does not depend on the run's seed.
        split_file: CSV with the columns file and split to use in place of drawing, such as split.csv in a run folder; a
            column class or label is compared with the images' own.
        unlisted: what becomes of images that split_file does not list, as those that were added since: leave_out; or
            train, where those of a group that validates or tests go with it. The new run's split.csv keeps it.
    """

    def __init__(
        self,
        root: Path,
        val_fraction: float | None = None,
        test_fraction: float | None = None,
        split_seed: int | None = None,
        split_file: Path | None = None,
        unlisted: Literal["leave_out", "train"] = "leave_out",
        **kwargs: Any,
    ) -> None:
        super().__init__(root=root, **kwargs)
        self.val_fraction = val_fraction
        self.test_fraction = test_fraction
        self.split_seed = split_seed
        self.split_file = None if split_file is None else Path(split_file).expanduser()
        self.unlisted = unlisted
        self._said: set[str] = set()
        self.split_facts: dict[str, Any] = {}
        """What a checkpoint keeps of a split that was made here."""
        for name in ("val_fraction", "test_fraction"):
            check_share(getattr(self, name) or 0.0, name)
        if (val_fraction or 0) + (test_fraction or 0) >= 1:
            raise InputError(
                f"--data.val_fraction {val_fraction} and --data.test_fraction {test_fraction} leave no training images"
            )

    def wants_divided(self, lacking: tuple[bool, bool]) -> bool:
        """Tell whether a set with a training set of its own is to be divided otherwise than by `hold_out`."""
        return self._table() is not None or (lacking[1] and bool(self.test_fraction))

    def hold_out(self, groups: np.ndarray | None = None, kept: np.ndarray | None = None) -> None:
        """Take part of the training set for validation.

        Args:
            groups: a number per image; images of one number stay together; unset: each stands for itself.
            kept: the run's split of each image; None: not known.
        """
        share = HELD_OUT if self.val_fraction is None else self.val_fraction
        images = self.train_set
        if images is None:
            return
        if kept is None:
            together = image_sources.numbers(keys_of(images), groups)
            if together is not groups:
                self._say(image_sources.SAID)
            self.train_set, self.val_set = hold_out(images, share, groups=together)
        else:
            self.train_set, self.val_set, _ = self._parts(images, kept)
        if self.val_set is not None:
            keys = list(map(str, keys_of(self.val_set)))
            self._keep(drawn_split.digest(keys, [VAL] * len(keys)), (len(self.train_set), len(keys), 0), share, 0.0)

    def divide(
        self,
        classes: Sequence[int],
        names: Sequence[str],
        groups: Sequence[str] | None = None,
        lacking: tuple[bool, bool] = (True, True),
        is_whole: bool = False,
        grouped_by: str = "",
        stated: Stated | None = None,
        kept: np.ndarray | None = None,
    ) -> None:
        """Divide the training set by the run's table, by that of --data.split_file, or by drawing.

        Args:
            classes: a class per image, -1 for none; of several the rarest.
            names: what the table says about each image beside its split.
            groups: a name per image; images of one name stay together; unset: each stands for itself.
            lacking: whether validation and test images are drawn.
            is_whole: whether the images come without any split, which decides what unset fractions mean.
            grouped_by: what the groups are, in messages.
            stated: images that the data put into a split, which are kept beside those that are drawn.
            kept: the run's split of each image, where the run's table has more images than these; None: read it.
        """
        images = self.train_set
        if images is None:
            return
        files = [str(key) for key in keys_of(images)]
        table = self._table() if stated is None or kept is not None or self.split_file is not None else None
        if stated is None and self._is_other(table, files):
            self.train_set, self.val_set, self.test_set = None, self.val_set or images, self.test_set or images
            why = f", of which {table} lists none" if table else ""
            self._say(f"split    none: all {len(images)} images of {self.root} are scored{why}")
            return
        shares: tuple[float | None, float | None]
        if table is not None and kept is not None:
            splits, shares, origin = kept, (None, None), f"from {table}"
        elif table is not None:
            splits, _ = drawn_split.by_table(table, files, str(self.root), self.split_file is None, names, groups)
            splits = self._place_unlisted(table, files, splits, groups)
            shares = None, None
            origin = f"from {table}"
            self._name_ignored(table)
        else:
            given, unset = (self.val_fraction, self.test_fraction), (DRAWN, DRAWN) if is_whole else (HELD_OUT, 0.0)
            val, test = (
                (unset[part] if given[part] is None else given[part]) if lacks else 0.0
                for part, lacks in enumerate(lacking)
            )
            seed = self.split_seed or 0
            together = groups or image_sources.sources(files)
            if not groups and len({*together}) < len({*map(posixpath.normpath, files)}):
                self._say(image_sources.SAID)
            splits = drawn_split.draw(together, classes, (1 - val - test, val, test), seed)
            shares = val, test
            of = f", {split_sentences.counts_of_groups(groups, splits)} values of {grouped_by}," if groups else ""
            origin = f"drawn by class{of} (val_fraction {val:g}, test_fraction {test:g}, split_seed {seed})"
        parts = self._parts(images, splits)
        self._check_own(table, [parts[VAL], parts[TEST]])
        counts = tuple(int((splits == split).sum()) for split in (TRAIN, VAL, TEST))
        here = splits != LEFT_OUT
        listed = [file for file, kept in zip(files, here, strict=True) if kept]
        drawn = splits[here]
        # training images that a run's table does not list were added since, and change nothing
        known = {*listed} if table is None or kept is None else drawn_split.listed_in(table, listed)
        places = [place for place, file in enumerate(listed) if file in known]
        self._keep(drawn_split.digest([listed[place] for place in places], drawn[places].tolist()), counts, *shares)
        said = [name for name, kept in zip(names, here, strict=True) if kept]
        more = Stated([], [], np.empty(0, np.int8)) if stated is None else stated
        origin += self._write(table, listed + more.files, said + more.names, np.concatenate([drawn, more.splits]))
        self._say(f"split    {counts[0]} training, {counts[1]} validation and {counts[2]} test images, {origin}")
        if groups:
            shown = split_sentences.images_of_classes(images, np.asarray(classes), splits, self.class_names)
            self._say(f"split    {shown}")
        made = [split for split in (VAL, TEST) if counts[split]]
        for said in split_sentences.absent_classes(np.asarray(classes), splits, made, self.class_names):
            self.notice(said)
        self.train_set = parts[TRAIN]
        self.val_set = parts[VAL] or self.val_set
        self.test_set = parts[TEST] or self.test_set

    def keep_stated(self, stated: Stated) -> None:
        """Keep splits that the data state in the run folder while a run begins."""
        self._write(self._table(), stated.files, stated.names, stated.splits)

    def kept_splits(self, source: Path, stated: Stated, groups: Sequence[str] | None = None) -> np.ndarray | None:
        """Return the run's split of each image whose split the data state, None if the run has kept none of them.

        Args:
            source: the table that states the splits.
            stated: its images.
            groups: a name per image; images of one name stay together; None: each stands for itself.

        Raises:
            InputError: naming an image that the table has in another split than the run's.
        """
        own = None if self.split_file is not None else self._table()
        if own is None or self._is_other(own, stated.files):
            return None
        return as_kept(own, source, stated, groups)

    def state_dict(self) -> dict[str, Any]:
        """Return what a split that was made here is known by, for a checkpoint."""
        return {"split": self.split_facts} if self.split_facts else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Refuse another split than the checkpoint's.

        Raises:
            InputError: saying what differs and how to go on.
        """
        then, now = state_dict.get("split"), self.split_facts
        if not then or not now:
            return
        verb = None if self.trainer is None else self.trainer.state.fn
        trains = verb == "fit"
        if verb in ("test", "predict") and self.test_set is not None and not (then["test"] and now["test"]):
            return  # what validated has no part in it, and a test set of its own is none of the split
        if self.split_file is not None and not trains and then["digest"] != now["digest"]:
            rank_zero_info(f"--data.split_file {self.split_file} is another split than the checkpoint's")
            return
        given = {name: getattr(self, name) for name in SETTINGS}
        if said := split_sentences.other_split(then, now, given, trains):
            raise InputError(said)

    def _is_other(self, table: Path | None, files: Sequence[str]) -> bool:
        """Tell whether a net is scored on other data than its run's, of which the run's split says nothing."""
        verb = None if self.trainer is None else self.trainer.state.fn
        if verb not in ("validate", "test", "predict"):
            return False
        if self.ignores_split or table is None or self.split_file is not None:
            return self.ignores_split
        listed = drawn_split.read(table)
        return bool(listed) and not listed.keys() & {*files}

    def _table(self) -> Path | None:
        """Return the table to divide by: the one that was named, else the run's own; None: draw."""
        if self.ignores_split:
            return None
        if self.split_file is not None:
            if not self.split_file.exists():
                raise InputError(
                    f"--data.split_file {self.split_file} is missing (no such file){meant(self.split_file)}"
                )
            return self.split_file
        own = None if self.run_folder is None else self.run_folder / SPLIT_TABLE
        return own if own is not None and own.exists() else None

    def _write(self, table: Path | None, files: list[str], names: list[str], splits: np.ndarray) -> str:
        """Keep the split in the run folder while a run begins there; say where.

        A run that goes on keeps its own: it may yet be refused.
        """
        if (folder := run_that_begins(self)) is None:
            return ""
        own = folder / SPLIT_TABLE
        if self.trainer is not None and self.trainer.is_global_zero:
            drawn_split.write(own, files, names, splits.tolist())
        return "" if table == own else f", kept in {own} once the run trains"

    def _place_unlisted(
        self, table: Path, files: Sequence[str], splits: np.ndarray, groups: Sequence[str] | None
    ) -> np.ndarray:
        """Give images that the table does not list the split that --data.unlisted says, and name them."""
        own = None if self.run_folder is None else self.run_folder / SPLIT_TABLE
        goes_on = own is not None and own.exists()
        fits = self.trainer is None or self.trainer.state.fn == "fit"
        found = splits
        if self.unlisted == "train":
            found = unlisted.placed(splits, files, groups, own if goes_on else None)
            if said := unlisted.said_of_placed(table, files, splits, found):
                self._say(f"split    {said}")
        if said := unlisted.said_of_left_out(table, files, self.root, found, may_train=fits and not goes_on):
            self.notice(said)
        return found

    def _parts(self, images: ImageSet, splits: np.ndarray) -> list[Subset | None]:
        places = [np.flatnonzero(splits == split) for split in (TRAIN, VAL, TEST)]
        if not len(places[TRAIN]):
            raise InputError(f"the split of the {len(splits)} images of {self.root} leaves no training images")
        return [Subset(images, some) if len(some) else None for some in places]

    def _check_own(self, table: Path | None, parts: Sequence[Subset | None]) -> None:
        """Refuse a table that puts training images where the data have images of their own."""
        for name, part, own in zip(NAMES[1:], parts, (self.val_set, self.test_set), strict=True):
            if part is not None and own is not None:
                raise InputError(
                    f"{table} puts {len(part)} training images in {name}, such as {keys_of(part)[0]}, and "
                    f"{self.root} has {len(own)} {name} images of its own; remove these rows, or take the others away"
                )

    def _keep(
        self, digest: str, counts: tuple[int, ...], val_fraction: float | None, test_fraction: float | None
    ) -> None:
        seed = None if val_fraction is None else self.split_seed or 0
        self.split_facts = {
            "digest": digest,
            **dict(zip(NAMES, counts, strict=True)),
            **dict(zip(SETTINGS, (val_fraction, test_fraction, seed), strict=True)),
        }

    def _name_ignored(self, table: Path) -> None:
        """Say which settings of a drawn split are of no account, since a table of the user's states it."""
        if self.split_file is not None:
            name_idle(self, SETTINGS, f"--data.split_file {table} states the split")

    def name_idle_shares(self, lacking: tuple[bool, bool], draws: bool) -> None:
        """Say which settings of a drawn split are of no account, since the data have images of their own for it.

        Args:
            lacking: whether there are no validation and no test images.
            draws: whether `divide` follows; `hold_out` knows no seed.
        """
        if self.split_file is not None:
            return
        name_idle(self, ("unlisted",), "no --data.split_file lists images")
        for name, what, lacks in zip(SETTINGS, ("validation", "test"), lacking, strict=False):
            if not lacks:
                name_idle(self, (name,), f"{self.root} has {what} images of its own")
        if not (draws and any(lacking)):
            held_out = "the validation images are held out in a fixed order" if lacking[0] else "no split is drawn"
            name_idle(self, ("split_seed",), held_out)

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            rank_zero_info(text)
