"""What each data set takes where no flag says otherwise: the paper's splits, and what its images bear."""

from inspect import signature

import pytest

from datamodules.cifar import CIFAR10, CIFAR100
from datamodules.digits import Digits
from datamodules.flowers import Flowers
from datamodules.folder import ImageFolder
from datamodules.imagenet import ImageNet1k
from datamodules.imagenet21k import ImageNet21k
from datamodules.manifest import Manifest, WebScale
from datamodules.parquet import Parquet
from datamodules.pets import Pets
from datamodules.reading.divided_data import DRAWN, HELD_OUT
from datamodules.shards import Shards
from datamodules.synthetic import Synthetic
from datamodules.webshards import WebShards


def default(kind: type, name: str) -> object:
    return next(
        signature(each.__init__).parameters[name].default
        for each in kind.__mro__
        if "__init__" in vars(each) and name in signature(each.__init__).parameters
    )


@pytest.mark.parametrize(
    ("kind", "share"),
    [
        (CIFAR10, 0.02),  # table 4 and appendix B.1.1: 98 % of CIFAR's training images are for training,
        (CIFAR100, 0.02),
        (Pets, 0.1),  # 90 % of Pets' and Flowers'
        (Flowers, 0.1),
        (ImageNet1k, 0.01),  # and 99 % of ImageNet's
        (ImageFolder, None),  # 0.1 of a training set, 0.15 of images without any split
        (Manifest, None),
        (Parquet, 0.1),
        (Shards, 0.1),
        (WebShards, 0.1),
        (WebScale, 0.001),
    ],
)
def test_the_share_that_validates_is_the_papers(kind, share):
    assert default(kind, "val_fraction") == share
    assert (HELD_OUT, DRAWN) == (0.1, 0.15)


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        (CIFAR10, {"image_size": 32, "download": False}),
        (ImageNet21k, {"label_set": "google", "hierarchy": False, "val_images": 102_400}),
        (ImageNet1k, {"test": "val", "also": (), "allow_incomplete": False}),
        (Pets, {"on_error": "fix", "download": False, "allow_incomplete": False}),
        (WebScale, {"label_column": "labels", "multi_label": True}),
        (Manifest, {"separator": ";", "multi_label": False, "image_prefix": "", "image_ending": ""}),
        (WebShards, {"train": "train*.tar", "label_field": "label", "multi_label": False, "cache_limit": None}),
        (Synthetic, {"train_size": 2000, "eval_size": 200, "image_size": 32, "num_workers": 0}),
        (Digits, {"image_size": 16, "num_workers": 0}),
        (ImageFolder, {"on_error": "raise", "image_size": 224, "batch_size": 128, "max_broken": 0.01, "fraction": 1.0}),
    ],
)
def test_other_defaults(kind, facts):
    assert {name: default(kind, name) for name in facts} == facts


@pytest.mark.parametrize(
    ("kind", "crop", "flip"),
    [(CIFAR10, "pad", True), (CIFAR100, "pad", True), (Digits, "none", False), (Synthetic, "none", False)],
)
def test_images_are_varied_as_their_classes_bear(kind, crop, flip):
    augment = default(kind, "augment")
    assert (augment.crop, augment.flip) == (crop, flip)


@pytest.mark.parametrize(("kind", "count"), [(CIFAR10, 10), (CIFAR100, 100), (Pets, 37), (Flowers, 102)])
def test_classes_have_names_of_their_own(kind, count):
    assert kind.num_classes == len(kind.class_names) == len(set(kind.class_names)) == count


def test_the_stripes_are_named_after_their_angles_and_each_set_has_its_own_images():
    data = Synthetic(num_classes=8, train_size=5, eval_size=3, image_size=(8, 12), channels=2)
    data.setup("fit")
    assert data.class_names[:3] == ["stripes at 0 degrees", "stripes at 22.5 degrees", "stripes at 45 degrees"]
    assert [len(each) for each in (data.train_set, data.val_set, data.test_set)] == [5, 3, 3]
    assert [data.train_set[number][1] for number in range(5)] == [0, 1, 2, 3, 4]
    first = [each[0][0] for each in (data.train_set, data.val_set, data.test_set)]
    assert all(image.shape == (2, 8, 12) for image in first)
    assert len({image.numpy().tobytes() for image in first}) == 3


def test_stripes_stand_across_their_angle():
    """At 0 degrees they are columns, at 90 rows."""
    data = Synthetic(num_classes=2, train_size=40, image_size=(24, 40))
    data.setup("fit")
    for number in range(40):
        image, label = data.train_set[number]
        image = image.float()
        along, across = image.mean(1).std(), image.mean(2).std()  # of columns, of rows
        assert (across > along) == (label == 1)
