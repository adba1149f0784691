"""Which facts of the data a model takes, keeps or refuses, apart from any run."""

from types import SimpleNamespace

import pytest

from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig
from vit_lightning.training.data_facts import take_facts

HALF = (0.5, 0.5, 0.5)


class Model:
    """A model that notes what it is told."""

    fixed = ("num_classes", "image_size")

    def __init__(self, assumed: set[str], **facts) -> None:
        names = ("num_classes", "image_size", "channels", "window", "mean", "std")
        self.hparams = dict.fromkeys(names) | facts
        self.assumed, self.shifted, self.told = assumed, None, {}

    def state_fact(self, name: str, value: object) -> None:
        self.told[name] = value


def told(model: Model, **facts) -> dict[str, object]:
    take_facts(model, SimpleNamespace(**facts))
    return model.told


def test_what_nobody_has_stated_is_that_of_the_data():
    facts = {"num_classes": 3, "image_size": 8, "mean": (0.1, 0.2, 0.3), "std": None}
    assert told(Model(set()), **facts) == {"num_classes": 3, "image_size": 8, "mean": (0.1, 0.2, 0.3)}
    assert told(Model(set()), channels=1, window=(0, 9)) == {}  # elsewhere these names may mean anything
    assert told(Model(set()), channels=1, window=(0, 9), pixel_form=None) == {"channels": 1, "window": (0, 9)}
    scored = Model(set(), num_classes=5)
    scored.shifted = "some classes"
    assert told(scored, num_classes=3) == {}


def test_what_was_assumed_gives_way_and_what_was_stated_does_not():
    assert told(Model({"mean"}, mean=HALF, std=HALF), mean=(0.1, 0.2, 0.3), std=HALF) == {"mean": (0.1, 0.2, 0.3)}
    for name in ("mean", "std"):
        with pytest.raises(InputError, match=rf"the model's {name} is \(0\.5, 0\.5, 0\.5\), but that of .* is \(0\.1"):
            told(Model(set(), **{name: HALF}), **{name: (0.1, 0.5, 0.5)})
    assert told(Model(set(), mean=HALF), mean=(0.5001, 0.4999, 0.5)) == {}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"mean": HALF}, {"mean": (0.5,)}),
        ({"mean": (0.5,)}, {"mean": HALF}),
        ({"image_size": (8, 16)}, {"image_size": (16, 8)}),
        ({"image_size": 8}, {"image_size": (8, 9)}),
        ({"num_classes": 3}, {"num_classes": 2}),
    ],
)
def test_facts_of_another_number_or_order_are_others(ours, theirs):
    with pytest.raises(InputError, match="give one of them alone, or both the same"):
        told(Model(set(), **ours), **theirs)
    assert told(Model(set(), image_size=8), image_size=(8, 8)) == {}


def test_a_fact_that_was_taken_once_is_assumed_no_more():
    model = Classifier(NetConfig("mu/8"), num_classes=3, image_size=8)
    assert {"mean", "std"} <= model.assumed and model.mean.flatten().tolist() == [0.5] * 3
    take_facts(model, SimpleNamespace(mean=(0.25, 0.5, 0.75)))
    assert "mean" not in model.assumed and "std" in model.assumed
    assert model.mean.flatten().tolist() == [0.25, 0.5, 0.75]
    with pytest.raises(InputError, match="the model's mean is"):
        take_facts(model, SimpleNamespace(mean=HALF))


def test_a_mean_waits_for_the_net_whose_channels_the_data_tell():
    model = Classifier(NetConfig("mu/8"))
    model.state_fact("mean", (0.25,))
    model.state_fact("channels", 1)
    assert model.net is None and model.hparams["mean"] == (0.25,) and model.config.channels == 1
    model.state_fact("num_classes", 2)
    model.state_fact("image_size", 8)
    model.configure_model()
    assert model.net.config.channels == 1 and model.mean.flatten().tolist() == [0.25]
