"""Images that cannot be read: raised with their name, or skipped, replaced, marked and counted."""

import logging
import pickle
from itertools import chain
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule
from vit_lightning.errors import InputError
from vit_lightning.images import BrokenImage
from vit_lightning.records import Records, Skipped
from vit_lightning.sampling import BROKEN, IGNORE


class Damaged:
    """Image i is filled with i and has label i modulo 3; some cannot be read."""

    def __init__(self, size: int, broken: set[int], channels: int = 3) -> None:
        self.size = size
        self.broken = broken
        self.channels = channels
        self.keys = [f"{index}.png" for index in range(size)]

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index in self.broken:
            raise BrokenImage(self.keys[index], "the disk had a bad day")
        return torch.full((self.channels, 8, 8), index, dtype=torch.uint8), index % 3


class Empty(Damaged):
    """The same, but broken images are empty files instead of faults of the set."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor | bytes, int]:
        return (b"", index % 3) if index in self.broken else super().__getitem__(index)


class MultiHot(Damaged):
    def __getitem__(self, index: int) -> tuple[torch.Tensor, np.ndarray]:
        return super().__getitem__(index)[0], np.array([1.0, 0.0, 1.0])


class Tiny(ImageDataModule):
    num_classes = 3

    def setup(self, stage: str) -> None:
        pass


def tiny(train=None, val=None, **options) -> Tiny:
    defaults = {"image_size": 8, "batch_size": 4, "num_workers": 0, "on_error": "skip", "max_broken": 0.5}
    data = Tiny(augment=Augment(crop="none", flip=False), **defaults | options)
    data.train_set, data.val_set = train, val
    return data


def on_rank(data: Tiny, rank: int, world: int) -> Tiny:
    data.trainer = SimpleNamespace(
        distributed_sampler_kwargs={"num_replicas": world, "rank": rank},
        num_devices=world,
        training=False,
        state=SimpleNamespace(fn="fit"),
    )
    return data


def shown(loader) -> list[int]:
    return [int(image[0, 0, 0]) for images, _ in loader for image in images]


def labels(loader) -> list[int]:
    return [label for _, labels in loader for label in labels.tolist()]


def faults(loader) -> list[str]:
    """Last lines of all errors; an iterator left half way would hold up its workers for seconds."""
    batches, found = DataLoader.__iter__(loader), []
    while True:
        try:
            next(batches)
        except StopIteration:
            return found
        except InputError as error:
            found.append(str(error).splitlines()[-1])


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", [Damaged, Empty])
def test_raising_is_the_default_and_names_the_image(kind, num_workers):
    loader = tiny(val=kind(9, {7}), on_error="raise", num_workers=num_workers).val_dataloader()
    reason = "the disk had a bad day" if kind is Damaged else "the file is empty"
    (fault,) = faults(loader)
    assert fault.endswith(f"7.png: {reason}")


@pytest.mark.parametrize("num_workers", [0, 2])
def test_next_readable_image_takes_a_broken_ones_place_in_training(num_workers):
    whole = shown(tiny(Damaged(20, set())).train_dataloader())
    data = tiny(Damaged(20, {3, 4, 19}), num_workers=num_workers)
    for epoch in range(2):  # the order is that of a whole set, again after a resume
        loader = data.train_dataloader()
        assert shown(loader) == [{3: 5, 4: 5, 19: 0}.get(index, index) for index in whole], epoch
        assert labels(loader) == [index % 3 for index in shown(loader)]
        assert loader.dataset.skipped.count == 3


@pytest.mark.parametrize("world", [2, 3])
def test_replacements_do_not_depend_on_the_number_of_devices(world):
    alone = shown(tiny(Damaged(12, {2, 5}), batch_size=12).train_dataloader())
    ranks = [on_rank(tiny(Damaged(12, {2, 5}), batch_size=2), rank, world) for rank in range(world)]
    shares = [shown(data.train_dataloader()) for data in ranks]
    assert list(chain(*zip(*shares, strict=True))) == alone


@pytest.mark.parametrize("num_workers", [0, 2])
def test_broken_images_of_an_evaluation_are_marked(num_workers):
    loader = tiny(val=Damaged(9, {0, 7}), num_workers=num_workers).val_dataloader()
    assert labels(loader) == [BROKEN, 1, 2, 0, 1, 2, 0, BROKEN, 2]
    assert shown(loader) == [0, 1, 2, 3, 4, 5, 6, 0, 8]
    assert loader.dataset.skipped.count == 2
    assert [loader.dataset.reason(index) for index in (0, 1)] == ["the disk had a bad day", ""]


def test_marks_and_padding_of_devices():
    ranks = [on_rank(tiny(val=Damaged(5, {1, 4}), batch_size=2), rank, 2).val_dataloader() for rank in range(2)]
    assert [labels(loader) for loader in ranks] == [[0, 2, BROKEN], [BROKEN, 0, BROKEN]]
    assert [loader.dataset.skipped.count for loader in ranks] == [1, 1]  # the padding is not its rank's to count
    ranks = [on_rank(tiny(val=Damaged(5, {1}), batch_size=2), rank, 2).val_dataloader() for rank in range(2)]
    assert [labels(loader) for loader in ranks] == [[0, 2, 1], [BROKEN, 0, IGNORE]]


def test_marks_have_the_form_of_the_other_records():
    (images, marked), *_ = tiny(val=MultiHot(4, {0}, channels=5)).val_dataloader()
    assert images.shape == (4, 5, 8, 8)
    assert images[0].max() == 0
    assert marked.tolist() == [[BROKEN] * 3, *[[1, 0, 1]] * 3]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_each_is_logged_once_however_often_it_is_met(num_workers, capfd):
    handler = logging.StreamHandler()
    logging.getLogger("vit_lightning.records").addHandler(handler)
    loader = tiny(Damaged(20, {3, 9}), num_workers=num_workers).train_dataloader()
    for _ in range(2):
        list(loader)
    logging.getLogger("vit_lightning.records").removeHandler(handler)
    said = capfd.readouterr().err
    for name in ("3.png", "9.png"):
        assert said.count(f"skipped {name}: the disk had a bad day") == 1


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("split", ["train", "val"])
def test_too_many_broken_images_end_the_run(split, num_workers):
    data = tiny(max_broken=0.1, num_workers=num_workers, **{split: Damaged(20, {5, 11, 17})})
    loader = getattr(data, f"{split}_dataloader")()
    (fault,) = faults(loader)
    assert "3 of 20 " in fault
    assert "images cannot be read, a larger share than --data.max_broken 0.1;" in fault


def test_share_may_be_reached_but_not_passed():
    skipped = Skipped(100, 0.29, "test")
    skipped.flags[:29] = True
    skipped.check()
    skipped.flags[29] = True
    with pytest.raises(InputError, match="30 of 100 test images"):
        skipped.check()


def test_a_share_is_a_share():
    with pytest.raises(InputError, match=r"--data\.max_broken is 5"):
        tiny(max_broken=5)


def test_nothing_readable():
    assert labels(tiny(val=Damaged(3, {0, 1, 2}), max_broken=1.0).val_dataloader()) == [BROKEN] * 3
    with pytest.raises(InputError, match="none of the 4 training images can be read"):
        tiny(Damaged(4, {0, 1, 2, 3}), max_broken=1.0).train_dataloader()


def test_records_without_classes():
    records = Records(Damaged(3, set()), lambda image: image, (8, 8), None, "test")
    with pytest.raises(InputError, match=r"test image 0\.png has label 0, but the data names no classes"):
        records.check()


def test_count_is_shared_with_workers_started_anew():
    skipped = Skipped(3, 1.0, "test")
    pickle.loads(ForkingPickler.dumps(skipped)).add(1, BrokenImage("1.png", "no reason"))
    assert skipped.flags.tolist() == [False, True, False]
    assert pickle.loads(pickle.dumps(skipped)).count == 1
