"""Images that cannot be read: raised with their name, or skipped, replaced, marked and counted."""

import csv
import logging
import pickle
from itertools import chain
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from vit_lightning.augment import Augment
from vit_lightning.callbacks.skipped_images import SkippedImages
from vit_lightning.data import ImageDataModule
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.records import Records, Skipped
from vit_lightning.data.sampling import BROKEN, IGNORE, Draw
from vit_lightning.errors import InputError


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
    defaults["in_memory"] = False  # tests/test_memory.py has sets that are
    data = Tiny(augment=Augment(crop="none", flip=False), **defaults | options)
    data.train_set, data.val_set = train, val
    return data


def on_rank(data: Tiny, rank: int, world: int) -> Tiny:
    data.trainer = SimpleNamespace(
        distributed_sampler_kwargs={"num_replicas": world, "rank": rank},
        num_devices=world,
        training=False,
        state=SimpleNamespace(fn="fit"),
        strategy=SimpleNamespace(root_device=torch.device("cpu")),
    )
    return data


def shown(loader) -> list[int]:
    return [int(image[0, 0, 0]) for images, _ in loader for image in images]


def labels(loader) -> list[int]:
    return [label for _, labels in loader for label in labels.tolist()]


def fault(loader) -> str:
    """Last line of the error that loading ends with."""
    batches = DataLoader.__iter__(loader)
    with pytest.raises(InputError) as caught:
        list(batches)
    if loader.num_workers:
        batches._shutdown_workers()  # as Lightning does; the garbage collector waits 5 s for each
    return str(caught.value).splitlines()[-1]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", [Damaged, Empty])
def test_raising_is_the_default_and_names_the_image(kind, num_workers):
    loader = tiny(val=kind(9, {7}), on_error="raise", num_workers=num_workers).val_dataloader()
    reason = "the disk had a bad day" if kind is Damaged else "the file is empty"
    assert fault(loader).endswith(f"7.png: {reason}; --data.on_error skip goes on without it")


@pytest.mark.parametrize("changes", [{"epoch": 1}, {"position": 1}, {"seed": 1}])
def test_what_varies_an_image_follows_from_seed_epoch_and_position_alone(monkeypatch, changes):
    """Another epoch shows the same image otherwise, another image in the same place is varied alike."""

    def vary(pixels: torch.Tensor) -> torch.Tensor:
        return torch.randint(0, 256, pixels.shape, dtype=torch.uint8)

    def drawn(index: int = 0, epoch: int = 0, position: int = 0, seed: int = 0) -> list[int]:
        monkeypatch.setenv("PL_GLOBAL_SEED", str(seed))
        records = Records(Damaged(9, set()), vary, (8, 8), 3, "training")
        return records[Draw(index, epoch, position)][0].flatten().tolist()

    torch.manual_seed(5)
    state = torch.get_rng_state()
    assert drawn() == drawn(index=4) != drawn(**changes)
    assert drawn(**changes) == drawn(index=4, **changes)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_name_is_looked_up_for_a_broken_image_alone():
    """Shards hold names beside the images."""

    class Names(list):
        def __getitem__(self, index):
            asked.append(index)
            return super().__getitem__(index)

    asked: list[int] = []
    source = Empty(6, {4})
    source.keys = Names(source.keys)
    records = Records(source, lambda image: image, (8, 8), 3, "training")
    assert [int(records[index][1]) for index in (0, 1, 2, 3, 5)] == [0, 1, 2, 0, 2]
    assert not asked
    with pytest.raises(BrokenImage, match=r"4\.png: the file is empty"):
        records[4]
    assert asked == [4]


def test_a_wrong_image_is_one_error_with_its_name():
    """The trial without a name is no cause of it, which a traceback would show."""
    source = [(np.full((8, 8, 3), 255.0), 0)]
    records = Records(source, lambda image: image, (8, 8), 3, "training")
    with pytest.raises(InputError, match=r"^training image 0: float images must lie in") as told:
        records[0]
    assert told.value.__context__ is None


@pytest.mark.parametrize("num_workers", [0, 2])
def test_next_readable_image_takes_a_broken_ones_place_in_training(num_workers):
    whole = shown(tiny(Damaged(20, set())).train_dataloader())
    expected = [{3: 5, 4: 5, 19: 0}.get(index, index) for index in whole]
    loader = tiny(Damaged(20, {3, 4, 19}), num_workers=num_workers).train_dataloader()
    assert shown(loader) == expected
    assert labels(loader) == [index % 3 for index in expected]
    assert loader.dataset.skipped.count == 3
    loader.batches_seen = lambda: 2  # a run that resumes
    assert shown(loader) == expected[8:]


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
    logging.getLogger("vit_lightning.data.records").addHandler(handler)
    loader = tiny(Damaged(20, {3, 9}), num_workers=num_workers).train_dataloader()
    for _ in range(2):
        list(loader)
    logging.getLogger("vit_lightning.data.records").removeHandler(handler)
    said = capfd.readouterr().err
    for name in ("3.png", "9.png"):
        assert said.count(f"skipped {name}: the disk had a bad day") == 1


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("split", ["train", "val"])
def test_too_many_broken_images_end_the_run(split, num_workers):
    data = tiny(max_broken=0.1, num_workers=num_workers, **{split: Damaged(20, {5, 11, 17})})
    loader = getattr(data, f"{split}_dataloader")()
    said = fault(loader)
    assert "3 of 20 " in said
    assert "images cannot be read, a larger share than --data.max_broken 0.1;" in said


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


def test_devices_add_up_what_each_has_met():
    loader = tiny(val=Damaged(10, set()), max_broken=0.2).val_dataloader()
    skipped = loader.dataset.skipped
    skipped.flags[[0, 4]] = True

    def other_device(flags: torch.Tensor, reduce_op: str) -> torch.Tensor:
        assert reduce_op == "max"
        return flags.maximum(torch.tensor(met, dtype=torch.uint8))

    strategy = SimpleNamespace(root_device=torch.device("cpu"), reduce=other_device)
    trainer = SimpleNamespace(val_dataloaders=loader, train_dataloader=None, strategy=strategy)
    SkippedImages().on_train_epoch_end(trainer, None)
    met = [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    SkippedImages().on_validation_epoch_end(trainer, None)
    met = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    with pytest.raises(InputError, match="3 of 10 validation images cannot be read"):
        SkippedImages().on_validation_epoch_end(trainer, None)


@pytest.fixture
def folders(tmp_path) -> Path:
    """Two classes of eight training and four validation images; one of each split is a text file."""
    for split, count in (("train", 8), ("val", 4)):
        for name in ("cat", "dog"):
            (tmp_path / split / name).mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (16, 16), (20 * number, 0, 0)).save(tmp_path / split / name / f"{number}.png")
        (tmp_path / split / "dog/1.png").write_text("404")
    return tmp_path


def test_a_run_skips_counts_and_reports(folders, app):
    words = ("--data", "ImageFolder", "--data.root", folders, "--data.image_size", 16, "--data.batch_size", 4)
    words += ("--data.num_workers", 0, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    done = app("fit", *words)
    assert done.code == 1
    assert " image dog/1.png: not an image of a known format" in done.err.splitlines()[-1]
    done = app("fit", *words, "--data.on_error", "skip", "--data.max_broken", 0.1)
    assert done.code == 1
    assert "1 of 8 validation images cannot be read" in done.err.splitlines()[-1]
    words += ("--data.on_error", "skip", "--data.max_broken", 0.2)
    done = app("fit", *words)
    assert done.code == 0, done.err
    for said in ("skipped 1 of 16 training images", "skipped 1 of 8 validation images"):
        assert said in done.err
    done = app("predict", *words, "--ckpt_path", "last")
    assert done.code == 0, done.err
    (predictions,) = Path("runs/default").glob("*/predictions.csv")
    with predictions.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["image"] for row in rows] == [f"{name}/{number}.png" for name in ("cat", "dog") for number in range(4)]
    assert [row["error"] for row in rows] == [""] * 5 + ["not an image of a known format"] + [""] * 2
    assert [row["class1"] == "" for row in rows] == [False] * 5 + [True] + [False] * 2


@pytest.mark.parametrize(
    ("size", "broken", "advised"),
    [(1, {0}, False), (9, {4}, True), (9, {0, 2}, True), (9, {0, 2, 4}, False), (9, set(range(9)), False)],
)
def test_skipping_is_advised_where_it_helps(size, broken, advised):
    with pytest.raises(BrokenImage, match="the file is empty") as caught:
        list(tiny(val=Empty(size, broken), on_error="raise").val_dataloader())
    assert ("--data.on_error skip" in str(caught.value)) == advised
