"""VTAB's own defaults, several sets in one, and names with blanks in the lists of the shared copy."""

import numpy as np

from datamodules.vtab import VTAB, Joined
from vit_lightning.augment import Augment
from vit_lightning.data.subsets import Subset


class Named:
    def __init__(self, first: int, count: int) -> None:
        self.keys = [f"{first + number}.png" for number in range(count)]
        self.labels = np.arange(first, first + count) % 3

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int):
        return self.keys[index], int(self.labels[index])


def test_sets_follow_each_other_with_their_names_and_labels():
    joined = Joined([Subset(Named(0, 9), np.array([7, 2])), Named(20, 1), Named(30, 3)])
    assert joined.keys == ["7.png", "2.png", "20.png", "30.png", "31.png", "32.png"]
    assert joined.labels.tolist() == [1, 2, 2, 0, 1, 2]
    assert [joined[number] for number in range(6)] == list(zip(joined.keys, joined.labels.tolist(), strict=True))


def test_lists_of_the_shared_copy_may_name_files_with_blanks(tmp_path):
    for name, lines in (
        ("train800val200", "images/a b.jpg 3\nimages/c.jpg  0\n"),
        ("train800", "images/a b.jpg 3\n"),
        ("val200", "images/c.jpg 0\n"),
        ("test", "images/d  e 5.jpg 2\nimages/f.jpg\t1\n"),
    ):
        (tmp_path / "dmlab").mkdir(exist_ok=True)
        (tmp_path / f"dmlab/{name}.txt").write_text(lines)
    data = VTAB("dmlab", root=tmp_path, allow_incomplete=True)
    data.setup("fit")
    whole = [data.train_set[number] for number in range(2)]
    assert whole == [(tmp_path / "dmlab/images/a b.jpg", 3), (tmp_path / "dmlab/images/c.jpg", 0)]
    assert [data.test_set[number] for number in range(2)] == [
        (tmp_path / "dmlab/images/d  e 5.jpg", 2),
        (tmp_path / "dmlab/images/f.jpg", 1),
    ]
    assert data.val_set is None
    data = VTAB("dmlab", split="train800", root=tmp_path, allow_incomplete=True)
    data.setup("fit")
    assert (data.train_set[0], data.val_set[0], len(data.test_set)) == (*whole, 2)


def test_images_are_of_384_pixels_and_both_sides_resized():
    data = VTAB("dtd")
    assert (data.size, data.augment, data.split) == ((384, 384), Augment(crop="resize"), "train800val200")
    assert (data.on_error, data.allow_incomplete, data.download) == ("fix", False, False)
