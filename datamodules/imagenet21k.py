"""ImageNet-21k: 14 million images, and the several label sets that go by that name."""

from functools import cached_property
from pathlib import Path

import numpy as np
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn

from datamodules.imagenet import wnid_labels
from datamodules.reading import synsets
from datamodules.reading.class_map_file import read_lines
from datamodules.reading.image_index import IndexedData, IndexedImages
from datamodules.reading.multihot import MultiHot
from vit_lightning.data.image_set import ImageSet
from vit_lightning.data.subsets import Subset, hold_out
from vit_lightning.errors import InputError

WINTER21 = 19_167
LABEL_SETS = ("google", "fall11", "winter21", "miil-p", "miil-p-winter21")


class ImageNet21k(IndexedData):
    """ImageNet-21k: 14,197,122 images (fall11) in folders or tars named after WordNet ids.

    Under root lie

        n00004475/n00004475_2.JPEG ...   or n00004475.tar ...   or fall11_whole.tar, which holds those

    or the same under root/train and, for validation, root/val. Tars are read where they lie. The files are indexed
    once, which takes minutes; later runs start from the index in seconds.

    The classes are those of a label set, in its own order, however many of them lie under root:

        google           21,843   the classes of the released weights; two of them never had images
        fall11           21,841   the release of 2011
        winter21         19,167   the release of 2021; no list of it is at hand, so root must hold all its folders
        miil-p           11,221   those of fall11 with enough images (Ridnik et al. 2021)
        miil-p-winter21  10,450   those of winter21 with enough images

    Folders of other classes are left out.

    Args:
        root: folder as above.
        label_set: one of the names above, or a text file with one WordNet id per line.
        hierarchy: let each image show all classes that WordNet places above its own too: the labels become float
            vectors, for --model.loss sigmoid.
        val_images: training images held out for validation if root has no folder val; 102,400 as in the released
            weights' recipe (the choice of images is this project's own).
    """

    def __init__(
        self,
        root: Path,
        label_set: str = "google",
        hierarchy: bool = False,
        val_images: int = 102_400,
        **kwargs,
    ) -> None:
        super().__init__(root=root, **kwargs)
        self.label_set = label_set
        self.hierarchy = hierarchy
        self.val_images = val_images

    @property
    def num_classes(self) -> int:
        return len(self.wnids)

    @cached_property
    def class_names(self) -> list[str]:
        return [f"{wnid} {synsets.words(wnid)}" for wnid in self.wnids]

    @cached_property
    def wnids(self) -> list[str]:
        """WordNet id of each class."""
        if self.label_set == "winter21":
            return _winter21(self._folder("train"))
        if self.label_set in LABEL_SETS:
            return synsets.wnids(self.label_set)
        try:
            lines = " ".join(read_lines(self.label_set)).split()
        except ValueError as error:
            raise InputError(
                f"--data.label_set {self.label_set} is neither one of {', '.join(LABEL_SETS)} nor a text file ({error})"
            ) from error
        wrong = next((line for line in lines if not synsets.WNID.fullmatch(line)), None)
        if wrong is not None or len(set(lines)) < len(lines) or not lines:
            raise InputError(
                f"--data.label_set {self.label_set} must hold a different WordNet id such as n00004475 on each line"
                f"{f', not {wrong}' if wrong else ''}"
            )
        return lines

    def places(self) -> list[Path]:
        return [place for place in (self._folder("train"), self.root / "val") if place.is_dir()]

    def setup(self, stage: str) -> None:
        rank_zero_info(
            f"label set {self.label_set}: {self.num_classes} classes, sha256 {synsets.fingerprint(self.wnids)}"
        )
        whole = self._read(self._folder("train"))
        if (self.root / "val").is_dir():
            train, val = whole, self._read(self.root / "val")
        elif self.val_images >= len(whole):
            raise InputError(
                f"--data.val_images {self.val_images} leaves none of the {len(whole)} images of {self.root} for "
                "training; give less"
            )
        else:
            train, val = hold_out(whole, self.val_images / len(whole))
        self.train_set, self.val_set = (self._with_ancestors(images) for images in (train, val))

    def _folder(self, split: str) -> Path:
        """Return root's folder of that name, or root itself."""
        return self.root / split if (self.root / split).is_dir() else self.root

    def _read(self, place: Path) -> ImageSet:
        if not place.is_dir():
            raise InputError(f"{place} is missing: expected <wnid>/<image>.JPEG or <wnid>.tar in it; give --data.root")
        index = self.index(place)
        labels = wnid_labels(index, self.wnids)
        counts = np.bincount(labels[labels >= 0], minlength=self.num_classes)
        if not counts.any():
            raise InputError(
                f"{place} holds no image in a folder or tar named after a class of {self.label_set}: expected "
                "<wnid>/<image>.JPEG or <wnid>.tar; give --data.root"
            )
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            rank_zero_warn(
                f"{len(empty)} of {self.num_classes} classes have no images in {place}, such as "
                f"{self.wnids[empty[0]]}; they keep their numbers"
            )
        images = IndexedImages(index, labels)
        if counts.sum() == len(images):
            return images
        rank_zero_info(f"{place}: left out {len(images) - counts.sum()} images of classes outside {self.label_set}")
        return Subset(images, np.flatnonzero(labels >= 0))

    def _with_ancestors(self, images: ImageSet | None) -> ImageSet | None:
        if images is None or not self.hierarchy:
            return images
        return MultiHot(images, synsets.ancestry(self.wnids), images.labels, self.num_classes)


def _winter21(root: Path) -> list[str]:
    found = sorted({wnid for path in root.glob("n*") if (wnid := synsets.wnid_in(path.name))})
    if len(found) != WINTER21:
        raise InputError(
            f"{root} holds {len(found)} folders or tars named after WordNet ids, where the label set winter21 has "
            f"{WINTER21}; complete it, or give --data.label_set a text file with its WordNet ids"
        )
    return found
