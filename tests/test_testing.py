import random
from contextlib import nullcontext

import pytest
import torch
from torchvision.transforms import v2

from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.sampling import IGNORE
from vit_lightning.testing import check_datamodule


class Numbered:
    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, 8, 8), index, dtype=torch.uint8), index % 3


class Gaps(Numbered):
    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index == 2:
            raise BrokenImage("2.png", "gone")
        return super().__getitem__(index)


class Good(ImageDataModule):
    num_classes = 3

    def setup(self, stage: str) -> None:
        self.train_set, self.val_set, self.test_set = Numbered(40), Numbered(5), Numbered(7)


class Trusting(Good):
    def setup(self, stage: str) -> None:
        super().setup(stage)
        self.val_set = self.train_set


class Unlabelled(ImageDataModule):
    num_classes = None

    def setup(self, stage: str) -> None:
        assert stage == "predict"
        self.test_set = [(image, IGNORE) for image, _ in map(Numbered(5).__getitem__, range(5))]


class NamedForNobody(Unlabelled):
    class_names = ("a", "b")


class Untyped(Good):
    def __init__(self, depth=1, **kwargs) -> None:
        super().__init__(**kwargs)


class FewNames(Good):
    class_names = ("a", "b")


class SameNames(Good):
    class_names = ("a", "b", "a")


class Unpicklable(Good):
    def setup(self, stage):
        super().setup(stage)
        self.val_set.open = lambda path: path


def shade(image: torch.Tensor) -> torch.Tensor:
    return image + random.randint(0, 9)


class ForeignRandomness(Good):
    def train_transform(self):
        return shade


class RandomEvaluation(Good):
    def eval_transform(self):
        return shade


class UnpicklableTransform(Good):
    def train_transform(self):
        return lambda image: image


class Normalised(Good):
    def train_transform(self):
        return v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3)])


class AlwaysTheSameEpoch(Good):
    def train_dataloader(self):
        loader = super().train_dataloader()
        loader.sampler.set_epoch = lambda epoch: None
        return loader


class DropsTheLastBatch(Good):
    def val_dataloader(self):
        loader = super().val_dataloader()
        loader.batch_sampler.drop_last = True
        return loader


class HalfAClass(Good):
    num_classes = 3.0


class NoClass(Good):
    num_classes = 0
    class_names = ()


class NumbersForNames(Good):
    class_names = (1, 2, 3)


class InWorkers(Numbered):
    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image, label = super().__getitem__(index)
        return image + (torch.utils.data.get_worker_info() is not None), label


class OtherInWorkers(Good):
    def setup(self, stage):
        self.train_set = InWorkers(40)


class Drawn(Numbered):
    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        torch.rand(1)
        return super().__getitem__(index)


class DrawsFromTheCaller(Good):
    def setup(self, stage):
        self.train_set = Drawn(40)


class Shuffled(Numbered):
    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return super().__getitem__(random.randrange(1000) % len(self))


class TestInAnyOrder(Good):
    __test__ = False  # no test of pytest's

    def setup(self, stage):
        super().setup(stage)
        self.test_set = Shuffled(30)


def fresh(kind: type[ImageDataModule]) -> ImageDataModule:
    return kind(image_size=8, batch_size=4, augment=Augment(crop="none"))


def test_a_ten_line_datamodule_passes():
    check_datamodule(fresh(Good))


@pytest.mark.parametrize(("scale", "window", "fails"), [(1, 4095, True), (4095, 4095, False), (1, 1, False)])
def test_floats_within_one_under_a_window_for_raw_counts(scale, window, fails):
    data = Good(image_size=8, batch_size=4, augment=Augment(crop="none"), channels=1, window=(0, window))
    films = [(torch.rand(1, 8, 8) * scale, number % 3) for number in range(40)]
    data.setup = lambda stage: setattr(data, "train_set", films)
    with pytest.raises(AssertionError, match=r"train_set: .*raw counts") if fails else nullcontext():
        check_datamodule(data)


def test_a_module_without_training_set_passes():
    data = fresh(Good)
    data.setup = lambda stage: setattr(data, "test_set", Numbered(3))
    check_datamodule(data)


def test_unlabelled_images_pass():
    data = fresh(Unlabelled)
    check_datamodule(data)
    assert data.class_names == []


def test_images_that_are_skipped_pass():
    data = Good(image_size=8, batch_size=4, augment=Augment(crop="none"), on_error="skip", max_broken=0.5)
    data.setup = lambda stage: setattr(data, "val_set", Gaps(5))
    check_datamodule(data)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Untyped, r"Untyped\(depth\) needs a type hint"),
        (NamedForNobody, "class_names of unlabelled images come from the checkpoint"),
        (FewNames, "2 class_names for 3 classes"),
        (SameNames, "differ"),
        (Trusting, "val_set is the train_set itself"),
        (Unpicklable, "val_set and its transform must be picklable"),
        (UnpicklableTransform, "train_set and its transform must be picklable"),
        (ForeignRandomness, "torch's generator alone"),
        (Normalised, r"\[0, 1\]"),
        (RandomEvaluation, "same order"),
        (AlwaysTheSameEpoch, "epochs"),
        (HalfAClass, "num_classes is 3.0, expected a whole number"),
        (NoClass, "num_classes is 0$"),
        (NumbersForNames, "class_names must be text"),
        (OtherInWorkers, "a worker process must give the same batches"),
        (DrawsFromTheCaller, "leave the caller's random state as it was"),
        (TestInAnyOrder, "test_set must come in the same order and form every time"),
        (DropsTheLastBatch, "val_set has 5 images, its loader gave 4"),
    ],
)
def test_what_breaks_the_contract_is_named(kind, message):
    with pytest.raises(AssertionError, match=message):
        check_datamodule(fresh(kind))


def test_a_module_that_was_set_up_is_refused():
    data = fresh(Good)
    data.setup("fit")
    with pytest.raises(AssertionError, match="not set up yet"):
        check_datamodule(data)
    with pytest.raises(AssertionError, match="must subclass ImageDataModule"):
        check_datamodule(object())


class Transposed(Numbered):
    """Arrays as tensors are laid out."""

    def __getitem__(self, index: int) -> tuple:
        image, label = super().__getitem__(index)
        return image.numpy(), label


def test_arrays_that_are_laid_out_as_tensors_are_refused():
    data = fresh(Good)
    data.setup = lambda stage: setattr(data, "train_set", Transposed(30))
    with pytest.raises(AssertionError, match=r"images have 8 channels, and channels is None; an array is \(y, x, c\)"):
        check_datamodule(data)


class AnyOrder(Good):
    def setup(self, stage):
        super().setup(stage)
        records = [self.train_set[number] for number in range(len(self.train_set))]
        self.train_set = [records[number] for number in torch.randperm(len(records)).tolist()]


class AnyLabels(Good):
    def setup(self, stage):
        super().setup(stage)
        self.train_set = [(self.train_set[number][0], random.randrange(3)) for number in range(30)]


@pytest.mark.parametrize("kind", [AnyOrder, AnyLabels])
def test_a_set_that_differs_between_two_set_ups_is_refused(kind):
    with pytest.raises(AssertionError, match=r"train_set has another record .* after another setup; let no chance"):
        check_datamodule(fresh(kind))
