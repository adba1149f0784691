"""A model's net and how its images are normalised: whose mean and std, on which scale, and what is assumed."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy

from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig
from vit_lightning.training import net_model as module
from vit_lightning.training.net_model import SILENT

MEAN, STD = (0.1, 0.2, 0.3), (0.5, 0.25, 2.0)


def made(net: str | NetConfig = "mu/8", **facts) -> Classifier:
    return Classifier(net, **{"num_classes": 3, "image_size": 8} | facts)


@pytest.mark.parametrize(
    ("facts", "mean", "std", "by", "assumed"),
    [
        ({}, (0.5,) * 3, (0.5,) * 3, "the default", {"mean", "std"}),
        ({"mean": MEAN}, MEAN, (0.5,) * 3, "the checkpoint", {"std"}),
        ({"std": STD}, (0.5,) * 3, STD, "the checkpoint", {"mean"}),
        ({"mean": MEAN, "std": STD}, MEAN, STD, "the checkpoint", set()),
    ],
)
def test_mean_and_std_are_those_given_else_one_half(facts, mean, std, by, assumed):
    model = made(**facts)
    for name, expected in (("mean", mean), ("std", std)):
        torch.testing.assert_close(getattr(model, name), torch.tensor(expected)[:, None, None])
        assert model.hparams[name] == expected
        assert name not in model.state_dict()
    assert (model.normalised_by, model.assumed & {"mean", "std"}) == (by, assumed)


@pytest.mark.parametrize("taken", ["mean", "std", None])
def test_what_the_weights_say_is_theirs_and_where_they_are_silent_that_is_said(monkeypatch, taken):
    model = made(num_classes=None)
    model.weights, model.hparams["num_classes"] = "w.npz", 3
    build = Classifier.build_net

    def take(self):
        weights, self.weights = self.weights, None
        net, self.weights = build(self), weights
        if taken:
            self.hparams[taken] = MEAN
        return net

    monkeypatch.setattr(Classifier, "build_net", take)
    model.configure_model()
    assert model.normalised_by == ("the weights" if taken else SILENT)
    assert model.assumed == {"mean", "std"} - {taken}


@pytest.mark.parametrize("name", ["mean", "std"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_channel_has_one_value(name, count):
    with pytest.raises(InputError, match=rf"{name} has {count} values for a net of 3 channels; give --data.{name} one"):
        made(**{name: (0.5,) * count})
    with pytest.raises(InputError, match=rf"{name} has {count} values"):
        made().state_fact(name, (0.5,) * count)


def test_each_channel_is_normalised_by_its_own_numbers_whatever_the_type():
    model = made(mean=MEAN, std=STD)
    bytes_ = torch.tensor([0, 51, 255], dtype=torch.uint8)[None, :, None, None].expand(2, 3, 4, 5)
    expected = torch.tensor([(0 - 0.1) / 0.5, (0.2 - 0.2) / 0.25, (1 - 0.3) / 2])
    for images in (bytes_, bytes_ / 255, (bytes_ / 255).double()):
        found = model.normalise(images)
        assert found.dtype == torch.float32 and found.shape == (2, 3, 4, 5)
        torch.testing.assert_close(found[1, :, 3, 4], expected, atol=1e-6, rtol=1e-5)
    with pytest.raises(InputError):
        model.normalise(bytes_[:, :1])


def test_a_net_that_stands_takes_other_statistics_and_no_other_channels():
    model = made()
    model.state_fact("std", [0.25, 0.5, 1.0])
    assert model.hparams["std"] == (0.25, 0.5, 1.0) and model.std.flatten().tolist() == [0.25, 0.5, 1.0]
    assert model.assumed & {"mean", "std"} == {"mean"}
    model.state_fact("channels", 3)
    model.state_fact("window", [0, 9])
    assert model.pixel_facts == (3, (0, 9))
    with pytest.raises(InputError, match=r"--data.channels is 1, but the model's net was built for 3; .*channels=1"):
        model.state_fact("channels", 1)


def test_a_net_that_waits_takes_the_channels_of_the_data_into_all_that_says_them():
    model = made(num_classes=None)
    model.state_fact("channels", 2)
    assert model.net is None and model.chosen.channels == model.config.channels == 2
    assert model.hparams["net"]["channels"] == 2 and model.hparams["channels"] == 2
    model.hparams["num_classes"] = 5
    model.configure_model()
    first = model.net
    assert first.config.channels == 2 and model.mean.flatten().tolist() == [0.5, 0.5]
    model.configure_model()
    assert model.net is first  # once is enough


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"num_classes": None}, "num_classes unknown: give --data"),
        ({"image_size": None}, "image_size unknown: give --data"),
        ({"num_classes": None, "image_size": None}, "num_classes and image_size unknown: give --data"),
    ],
)
def test_what_is_unknown_is_named_where_the_net_is_needed(facts, said):
    with pytest.raises(InputError, match=f"^{said}"):
        made(**facts).configure_model()


@pytest.mark.parametrize(
    ("precision", "lora", "half"),
    [("bf16-mixed", None, True), ("bf16-mixed", 2, False), ("32-true", None, False), ("bf16-true", None, False)],
)
def test_weights_travel_in_half_floats_in_bf16_mixed_alone(monkeypatch, precision, lora, half):
    model = made(**({"lora": {"rank": lora}} if lora else {}))
    monkeypatch.setattr(Classifier, "trainer", SimpleNamespace(precision=precision))
    found = model.sharded_precision
    expected = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
    assert found == (expected if half else MixedPrecisionPolicy())


def test_blocks_are_sharded_one_by_one_before_the_whole(monkeypatch):
    model = made(NetConfig("mu/8", depth=3))
    monkeypatch.setattr(Classifier, "trainer", SimpleNamespace(precision="bf16-mixed"))
    seen: list[tuple] = []
    monkeypatch.setattr(module, "fully_shard", lambda part, mesh, mp_policy: seen.append((part, mesh, mp_policy)))
    model.shard("mesh")
    assert [part for part, *_ in seen] == [*model.net.blocks, model.net]
    assert {mesh for _, mesh, _ in seen} == {"mesh"} and {policy for *_, policy in seen} == {model.sharded_precision}
    seen.clear()
    model.net = nn.Linear(1, 1)
    model.shard("mesh")
    assert [part for part, *_ in seen] == [model.net]


def test_each_sharded_part_is_sharded_again_behind_a_validation(monkeypatch):
    class Sharded(nn.Linear):
        def reshard(self) -> None:
            again.append(self)

    again: list[nn.Module] = []
    model = made()
    model.one, model.other = Sharded(1, 1), Sharded(1, 1)
    monkeypatch.setattr(module, "FSDPModule", Sharded)
    model.on_validation_end()
    assert again == [model.one, model.other]
