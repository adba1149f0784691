"""Images without labels, to be predicted."""

import os
from collections.abc import Sequence
from functools import cached_property
from glob import glob
from pathlib import Path

from datamodules.reading import unread_images
from datamodules.reading.class_map_file import read_class_map
from datamodules.reading.damaged_files import read_whole
from datamodules.reading.image_files import files_below, is_image
from datamodules.reading.shared_sequences import Strings
from datamodules.reading.unread_images import refused
from vit_lightning.data import ImageDataModule
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.records import OnError
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError
from vit_lightning.files import meant


class Unlabelled:
    """Image files whose classes nobody knows; those of formats that are not read are broken images.

    Args:
        root: folder that the paths start from.
        paths: the files.
    """

    def __init__(self, root: Path, paths: Sequence[str]) -> None:
        self.root = root
        self.keys = Strings(paths)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> tuple[Path, int]:
        path = self.keys[index]
        if why := refused(path):
            raise BrokenImage(path, why)
        return self.root / path, IGNORE


class Images(ImageDataModule):
    """Images without labels: a folder, a pattern, one file, a text file of such lines, or a list of those, for predict.

    They come in the order given, those of a folder (at any depth) or of a pattern sorted as text; one that cannot be
    read keeps its place. The classes and, unless given, the image size are those of the checkpoint; give --data.augment
    as it was when the model was evaluated.

    Args:
        files: a folder, a pattern such as 'photos/*.jpg' or 'photos/**/*.jpg', one image, a .txt file with one of these
            on each line, or a list of those.
        root: folder that their paths start from; unset: the current one.
        image_size: height and width of the images given to the model; unset: those it was trained with.
        on_error: what an image does that cannot be read. skip: it keeps its place, marked as broken; raise: it ends
            the run.
        max_broken: share of such images above which the run ends after all.
        class_map: names of the net's classes in their order, for weights that do not say them; in the forms that
            ImageFolder reads.
    """

    num_classes = None

    def __init__(
        self,
        files: str | list[str],
        root: Path | None = None,
        image_size: int | tuple[int, int] | None = None,
        on_error: OnError = "skip",
        max_broken: float = 1.0,
        class_map: Path | None = None,
        **kwargs,
    ) -> None:
        super().__init__(root=root, image_size=image_size or 1, on_error=on_error, max_broken=max_broken, **kwargs)
        self.files = [files] if isinstance(files, str) else files
        self.image_size = image_size
        self.class_map = class_map

    @cached_property
    def class_names(self) -> list[str]:
        return read_class_map(self.class_map) if self.class_map else []

    def setup(self, stage: str) -> None:
        if stage != "predict":
            verb = str(getattr(stage, "value", stage))  # Lightning hands over a member of its TrainerFn
            raise InputError(f"Images have no labels, which {verb} needs; they serve predict alone")
        if self.image_size is None:
            self.image_size = self.trainer.lightning_module.hparams.image_size
        root = self.root or Path()
        self.test_set = Unlabelled(root, [path for given in self.files for path in self._matches(root, given)])

    def _matches(self, root: Path, given: str, may_list: bool = True) -> list[str]:
        given = os.path.expanduser(given)
        if may_list and given.endswith(".txt") and (root / given).is_file():
            lines = read_whole(root / given).decode(errors="replace").splitlines()
            return [
                path for line in lines if line.strip() for path in self._matches(root, line.strip(), may_list=False)
            ]
        if (root / given).is_file():
            return [given]
        if (root / given).is_dir():
            found = [os.path.normpath(os.path.join(given, file)) for file in files_below(root / given, "")]
            shown = any(map(is_image, found))
            for said in unread_images.check(root, given, [file for file in found if not (shown and refused(file))]):
                self.notice(said)
        else:
            found = sorted(glob(given, root_dir=root, recursive=True))
        images = [path for path in found if is_image(path) or refused(path)]
        if not images:
            what = "holds no images" if (root / given).is_dir() else "is no file or folder, and no image matches it"
            raise InputError(f"--data.files {given}: it {what} in {root.resolve()}{meant(root / given)}")
        return images
