"""A step and a pass as plain calls, over stand-ins for the strategy and the net."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from vit_lightning.classifier import Classifier
from vit_lightning.commands.benchmark import contender as module
from vit_lightning.commands.benchmark.contender import (
    HORIZON,
    Contender,
    rebuild,
    remove_step_limit,
    resident_batch,
    take_step,
    without_callbacks,
)
from vit_lightning.models import NetConfig


@pytest.mark.parametrize("out", [torch.tensor(2.0), {"loss": torch.tensor(2.0), "logits": None}])
def test_a_step_is_forward_zeroed_gradients_backward_and_update(out):
    order: list = []
    optimizer = SimpleNamespace(zero_grad=lambda: order.append("zero"))
    strategy = SimpleNamespace(
        optimizers=[optimizer, None],
        training_step=lambda batch, number: order.append((batch, number)) or out,
        backward=lambda loss, given: order.append(("backward", loss.item(), given is optimizer)),
        optimizer_step=lambda given, closure: order.append(("update", given is optimizer, closure().item())),
    )
    take_step(strategy, "batch")
    assert order == [("batch", 0), "zero", ("backward", 2.0, True), ("update", True, 2.0)]


def test_callbacks_and_logging_are_left_out_inside_alone():
    model = Classifier(net={"variant": "mu/8"}, num_classes=2, image_size=8)
    trainer, log = SimpleNamespace(callbacks=["one"]), model.log
    for fails in (False, True):
        with pytest.raises(ZeroDivisionError) if fails else nullcontext(), without_callbacks(trainer, model):
            assert trainer.callbacks == [] and model.log("x", 1.0, sync_dist=True) is None
            assert 1 / (not fails)
        assert trainer.callbacks == ["one"] and model.log == log
    assert trainer.callbacks == ["one"] and model.log == log


def test_no_round_reaches_the_end_of_the_schedule():
    loop = SimpleNamespace(max_epochs=3, epoch_loop=SimpleNamespace(max_steps=5))
    remove_step_limit(SimpleNamespace(fit_loop=loop))
    assert (loop.max_epochs, loop.epoch_loop.max_steps) == (-1, HORIZON) and HORIZON >= 10**9


@pytest.mark.parametrize("classes", [0, 3])
def test_a_batch_has_the_nets_channels_size_and_classes(classes):
    model = Classifier(net={"variant": "mu/8", "channels": 2}, num_classes=classes, image_size=(8, 16))
    images, labels = resident_batch(model, 40, torch.device("cpu"))
    assert (images.shape, images.dtype, labels.shape) == ((40, 2, 8, 16), torch.uint8, (40,))
    assert set(labels.tolist()) == set(range(max(1, classes))) and images.max() > 200


def test_a_model_is_built_anew_with_its_recipe_or_another_net():
    model = Classifier(net={"variant": "mu/8"}, num_classes=2, image_size=8, optim={"lr": 0.5})
    again = rebuild(model)
    assert again is not model and again.config == model.config and again.optim == model.optim and again.net is None
    other = rebuild(model, NetConfig("Ti/16"), image_size=32, num_classes=5)
    assert (other.config.variant, other.hparams.image_size, other.hparams.num_classes) == ("Ti/16", 32, 5)
    assert other.optim.lr == 0.5 and model.hparams.image_size == 8


def contender(monkeypatch, attention: bool = False) -> tuple[Contender, list]:
    """One whose net notes what it is given."""
    order: list = []
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", lambda on: order.append(("cudnn", on)))
    monkeypatch.setattr(module, "resident_batch", lambda *words: order.append(words[1]) or ("images", "labels"))
    monkeypatch.setattr(module, "take_step", lambda strategy, batch: order.append((strategy, batch)))
    found = object.__new__(Contender)
    found.model = SimpleNamespace(
        train=lambda: order.append("train"),
        eval=lambda: order.append("eval"),
        normalise=lambda images: f"normal {images}",
        net=lambda images: order.append((images, torch.is_inference_mode_enabled())),
    )
    connect = SimpleNamespace(connect=lambda model: order.append(model is found.model))
    found.trainer, found.strategy = SimpleNamespace(strategy=connect, callbacks=[]), "strategy"
    found.precision = SimpleNamespace(forward_context=nullcontext)
    found.device, found._cudnn_attention = "cpu", attention
    return found, order


@pytest.mark.parametrize("attention", [False, True])
def test_steps_of_training_and_of_inference(monkeypatch, attention):
    found, order = contender(monkeypatch, attention)
    found.task("train", 7)(2)
    step = ("strategy", ("images", "labels"))
    assert order == [7, "train", True, ("cudnn", attention), step, step, False]
    order.clear()
    found.task("inference", 9)(2)
    assert order == [9, "eval", ("cudnn", attention), *[("normal images", True)] * 2]


def test_flops_of_training_are_those_of_what_is_trained(monkeypatch):
    called = []
    monkeypatch.setattr(module, "macs", lambda *words, **options: called.append((words, options)) or 5)
    monkeypatch.setattr(module, "training_flops", lambda *words, **options: called.append((words, options)) or 7)
    found = object.__new__(Contender)
    found.model = Classifier(net={"variant": "mu/8"}, num_classes=3, image_size=8, freeze_trunk=True)
    facts = found.model.config, (8, 8), 3
    assert (found.flops("inference"), found.flops("train")) == (10, 7)
    assert called == [(facts, {"computed": True}), ((*facts, True), {"computed": True, "bias_only": False})]
    assert (found.name, found.image_size) == ("mu/8", (8, 8))
