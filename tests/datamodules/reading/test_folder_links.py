"""Links among folders of classes, told by the numbers of files."""

import os
from pathlib import Path

import numpy as np
import pytest

from datamodules.reading.folder_links import Numbered, check, check_other
from datamodules.reading.image_files import ImageFiles
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError


def split(root: Path, names: str, labels: list[int], trains: bool, numbers: list[int] | None = None) -> Numbered:
    some = names.split()
    for name in some:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if not (root / name).exists():
            (root / name).write_text(name)
    own = [os.stat(root / name).st_ino for name in some] if numbers is None else numbers
    return Numbered(ImageFiles(root, some, labels), np.array(own), trains)


def link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.hardlink_to(target)


def test_files_of_their_own_pass(tmp_path):
    check([split(tmp_path, "a/0 a/1 b/0", [0, 0, 1], True), split(tmp_path, "v/0 v/1", [0, 1], False)])
    check([split(tmp_path, "a/0", [0], True)])


@pytest.mark.parametrize("first", [True, False])
def test_one_file_in_two_classes(tmp_path, first):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/0").write_text("x")
    link(tmp_path / "b/9", tmp_path / "a/0")
    names = ("x/1 a/0 b/9", [2, 0, 1]) if first else ("b/9 x/1 a/0", [1, 2, 0])
    paths = ("a/0", "b/9") if first else ("b/9", "a/0")
    one, other = (tmp_path / path for path in paths)
    for trains in (True, False):
        with pytest.raises(InputError, match=f"^{one} and {other} are one through a link; keep it in one class of one"):
            check([split(tmp_path, *names, trains)])
    check([split(tmp_path, names[0], [0, 0, 0], True)])  # twice in one class
    hidden = [label if label == 2 else IGNORE for label in names[1]]
    check([split(tmp_path, names[0], hidden, False)])


def test_one_file_that_trains_and_is_scored(tmp_path):
    train = split(tmp_path, "t/0 t/1", [0, 1], True)
    link(tmp_path / "v/0", tmp_path / "t/1")
    with pytest.raises(InputError, match=r"t/1 and .*v/0 are one through a link"):
        check([train, split(tmp_path, "w/0 v/0", [0, 1], False)])
    with pytest.raises(InputError, match=r"t/1 and .*v/0 are one through a link"):
        check([train, split(tmp_path, "v/0", [IGNORE], False)])
    check([split(tmp_path, "t/1", [1], False), split(tmp_path, "v/0", [1], False)])


def test_equal_numbers_of_other_file_systems_are_no_links(tmp_path):
    check([split(tmp_path, "a/0 b/0", [0, 1], True, [7, 7]), split(tmp_path, "v/0", [0], False, [7])])
    (tmp_path / "c").mkdir()
    link(tmp_path / "c/0", tmp_path / "b/0")
    with pytest.raises(InputError, match=r"b/0 and .*c/0"):
        check([split(tmp_path, "a/0 b/0 c/0", [0, 1, 0], True, [7, 7, 7])])


def test_files_without_a_number_are_passed_over(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/0").write_text("x")
    link(tmp_path / "b/0", tmp_path / "a/0")
    check([split(tmp_path, "a/0 b/0", [0, 1], True, [0, 0])])


@pytest.mark.parametrize(("other", "how"), [("set/train", "is"), ("set/train/cat", "lies in"), ("set", "holds")])
def test_further_images_are_none_that_train(tmp_path, other, how):
    train = tmp_path / "set/train"
    (train / "cat").mkdir(parents=True)
    (tmp_path / "set/trains").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / other)
    for folder in (tmp_path / other, tmp_path / "link"):
        with pytest.raises(InputError, match=f"also x: {folder} {how} the folder of the training images, {train};"):
            check_other("x", folder, train)
    check_other("x", tmp_path / "set/trains", train)
    check_other("x", train, None)
