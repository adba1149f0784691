"""What the plan says of the data, from facts made by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from vit_lightning.augment import Augment
from vit_lightning.callbacks import plan_data
from vit_lightning.callbacks.plan_data import LARGE, PER_IMAGE, _mirrors
from vit_lightning.data import ImageDataModule
from vit_lightning.models import NetConfig, resolve


class Own(ImageDataModule):
    """Data of a third party."""

    num_classes = 2
    class_names = ("cat", "dog")

    def setup(self, stage: str) -> None:
        pass


class Images:
    def __init__(self, labels) -> None:
        self.labels = np.asarray(labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int):
        raise AssertionError("no image is looked at")


def data(labels=(), **facts) -> Own:
    made = Own(image_size=8, batch_size=2, num_workers=0, augment=Augment(crop="none"), **facts)
    made.train_set = Images(labels)
    return made


def pixels(channels, window, count=3, assumed=()) -> SimpleNamespace:
    return SimpleNamespace(pixel_facts=(channels, window), config=SimpleNamespace(channels=count), assumed=set(assumed))


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        (pixels(None, None), {}, []),
        (pixels(3, None), {}, []),
        (pixels(1, None, 1), {}, ["pixels   1 channel of 8 bits"]),
        (pixels(2, None, 2), {}, ["pixels   2 channels of 8 bits"]),
        (pixels(None, (0, 4095)), {}, ["pixels   3 channels in float32, window 0 to 4095, from the checkpoint"]),
        (
            pixels(None, (0, 4095), assumed=["window"]),
            {},
            ["pixels   3 channels in float32, window 0 to 4095, from 99.8 % of the values of training images"],
        ),
        (
            pixels(None, (0, 9), assumed=["window"]),
            {"window": (0, 9)},
            ["pixels   3 channels in float32, window 0 to 9, from --data.window"],
        ),
    ],
)
def test_images_of_other_than_8_bit_rgb_are_described(model, options, said):
    assert plan_data._pixel_lines(model, data(**options)) == said


def few(parameters: int, images: int, weights=None, checkpoint=None, has_weights=True) -> str | None:
    net = SimpleNamespace(parameters=lambda: [SimpleNamespace(numel=lambda: parameters // 2)] * 2)
    hparams = {"weights": None} if has_weights else {}
    model = SimpleNamespace(hparams=hparams, weights=weights, net=net, config=resolve(NetConfig("Ti/16")))
    records = SimpleNamespace(dataset=Images([0] * images))
    return plan_data._few_images(SimpleNamespace(train_dataloader=records, ckpt_path=checkpoint), model)


def test_few_images_are_fewer_than_a_thousandth_of_a_large_net():
    assert few(LARGE, LARGE // PER_IMAGE).startswith("5,000 images are few for Ti/16 from scratch; begin with")
    assert few(LARGE, 1).startswith("1 image is few")
    for facts in (
        (LARGE - 2, 1),
        (LARGE, LARGE // PER_IMAGE + 1),
        (LARGE, 1, "x.npz"),
        (LARGE, 1, None, "last.ckpt"),
        (LARGE, 1, None, None, False),
    ):
        assert few(*facts) is None


def one_class(made: Own, loss: str = "softmax") -> str | None:
    return plan_data._one_class(SimpleNamespace(hparams={"loss": loss}), made)


def test_training_images_of_one_class_are_named():
    assert one_class(data([1, 1])).startswith("all training images are of one class, dog, ")
    for made in (data([0, 1]), data([]), data([[0, 1], [0, 1]])):
        assert one_class(made) is None
    assert one_class(data([1, 1]), "sigmoid") is None
    nothing = data([1])
    nothing.train_set = None
    assert one_class(nothing) is None and plan_data._one_class(SimpleNamespace(hparams={}), object()) is None
    alone = data([])
    alone.num_classes, alone.class_names = 1, ["only"]
    assert one_class(alone).startswith("all training images are of one class, only, ")
    stray = data([7, 7])
    assert one_class(stray).startswith("all training images are of one class, 7, ")


def lines(made: Own) -> list[str]:
    trainer = SimpleNamespace(datamodule=made, train_dataloader=None, ckpt_path=None)
    return plan_data.data_facts(trainer, SimpleNamespace(hparams={}))


def test_a_run_says_that_it_mirrors_images():
    """A film's left and right are another finding."""
    said = [line for line in lines(data([0, 1])) if line.startswith("mirrored ")]
    assert len(said) == 1 and said[0].endswith("--data.augment.flip false stops it")
    still = data([0, 1])
    still.augment = Augment(crop="none", flip=False)

    class Varied(Own):
        def train_transform(self):
            return lambda image: image

    own = Varied(image_size=8, batch_size=2, num_workers=0)
    own.train_set = Images([0, 1])
    for made in (still, own):
        assert not [line for line in lines(made) if line.startswith("mirrored ")]


@pytest.mark.parametrize(
    ("flip", "has_set", "overrides", "said"),
    [(True, True, False, True), (True, False, False, False), (False, True, False, False), (True, True, True, False)],
)
def test_images_are_mirrored_where_ours_are_trained_on(flip, has_set, overrides, said):
    class Varied(Own):
        def train_transform(self):
            return None

    data = (Varied if overrides else Own)(image_size=8, augment=Augment(flip=flip))
    data.train_set = Images([0, 1]) if has_set else None
    assert _mirrors(data) == said
