"""What is trained, frozen and held still, and how it is planned, learnt, resumed and scored."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vit_lightning.callbacks.plan import _parameters
from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig
from vit_lightning.training.freezing import freeze
from vit_lightning.training.optim import Optim, parameter_groups

LORA = {"rank": 2, "alpha": 4.0}
TUNED = [{}, {"freeze_trunk": True}, {"bias_only": True}, {"lora": LORA}]


def classifier(net: dict | None = None, **settings) -> Classifier:
    return Classifier(net={"variant": "mu/8", "depth": 2} | (net or {}), num_classes=4, image_size=16, **settings)


def trained(model: Classifier) -> set[str]:
    return {name for name, parameter in model.net.named_parameters() if parameter.requires_grad}


HEAD = {"head.weight", "head.bias"}


def test_biases_of_every_kind_are_trained_beside_the_head():
    model = classifier(bias_only=True)
    biases = {name for name, _ in model.net.named_parameters() if name.endswith(".bias")}
    assert trained(model) == biases | HEAD
    kinds = ("attention.qkv", "attention.out", "mlp.up", "mlp.down", "norm1", "norm2")
    assert biases > {f"blocks.1.{kind}.bias" for kind in kinds} | {"patches.proj.bias", "norm.bias"}


def test_factors_of_updates_are_trained_beside_the_head():
    factors = {f"{layer}.lora.{part}" for layer in ("attention.qkv", "mlp.up", "mlp.down") for part in "ab"}
    assert trained(classifier(lora=LORA)) == {f"blocks.{i}.{name}" for i in range(2) for name in factors} | HEAD


def test_a_whole_net_is_trained_unless_told():
    model = classifier()
    assert len(trained(model)) == len(list(model.net.parameters()))


@pytest.mark.parametrize("variant", ["R26x1", "timm/resnet10t"])
def test_biases_of_other_nets(variant):
    if variant.startswith("timm"):
        pytest.importorskip("timm")
    model = Classifier(net=NetConfig(variant), num_classes=4, image_size=32, bias_only=True)
    head = HEAD if variant == "R26x1" else {"body.fc.weight", "body.fc.bias"}
    biases = {name for name, _ in model.net.named_parameters() if name.endswith("bias")}
    assert trained(model) == biases | head and len(biases) > 1


def test_a_bias_of_the_head_is_no_bias_before_it():
    net = nn.ModuleDict({"body": nn.Linear(3, 4, bias=False), "head": nn.Linear(4, 2)})
    net.config = SimpleNamespace(variant="x/1")
    settings = {"freeze_trunk": False, "bias_only": True, "lora": {"rank": 0}}
    with pytest.raises(
        InputError, match=r"^x/1 has no biases before its head, which --model.bias_only true would train"
    ):
        freeze(net, settings)
    freeze(net, settings | {"bias_only": False, "freeze_trunk": True})
    assert {name for name, parameter in net.named_parameters() if parameter.requires_grad} == HEAD


def test_a_net_of_timm_without_biases_is_refused(monkeypatch):
    pytest.importorskip("timm")
    kept = nn.Module.named_parameters

    def without(module, *words, **settings):
        return ((name, each) for name, each in kept(module, *words, **settings) if not name.endswith("bias"))

    monkeypatch.setattr(nn.Module, "named_parameters", without)
    with pytest.raises(InputError, match=r"timm/resnet10t has no biases before its head.*freeze_trunk true"):
        Classifier(net=NetConfig("timm/resnet10t"), num_classes=4, image_size=32, bias_only=True)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"freeze_trunk": True, "bias_only": True}, "freeze_trunk true and --model.bias_only true train different"),
        ({"bias_only": True, "lora": LORA}, "bias_only true and --model.lora.rank 2 train different parts"),
        ({"lora": LORA, "net": {"variant": "R26x1"}}, "is for the blocks of a ViT, and this net has none"),
    ],
)
def test_contradictions_are_refused(settings, said):
    with pytest.raises(InputError, match=said):
        classifier(**settings)


@pytest.mark.parametrize("settings", TUNED)
def test_dropout_is_off_in_a_linear_probe_alone(settings):
    model = classifier({"dropout": 0.5}, **settings).train()
    model.on_train_epoch_start()
    images = torch.rand(2, 3, 16, 16)
    assert torch.equal(model.net.features(images), model.net.features(images)) == ("freeze_trunk" in settings)


@pytest.mark.parametrize("settings", TUNED[:3])
def test_statistics_of_batch_norm_are_those_of_the_weights_where_kernels_are_frozen(settings):
    pytest.importorskip("timm")
    model = Classifier(net=NetConfig("timm/resnet10t"), num_classes=4, image_size=32, **settings).train()
    model.on_train_epoch_start()
    before = {name: value.clone() for name, value in model.net.named_buffers()}
    model.net(torch.rand(2, 3, 32, 32))
    moved = any(not torch.equal(value, before[name]) for name, value in model.net.named_buffers())
    assert moved == (not settings)


def test_biases_and_norms_do_not_decay_and_factors_do():
    groups = parameter_groups(classifier(lora=LORA).net, Optim(name="adamw", weight_decay=0.1))
    decays = {name: group["weight_decay"] for group in groups for name in group["parameter_names"]}
    assert {name for name, decay in decays.items() if not decay} == {"head.bias"} and len(decays) == 14
    groups = parameter_groups(classifier(bias_only=True).net, Optim(name="adamw", weight_decay=0.1))
    decays = {name: group["weight_decay"] for group in groups for name in group["parameter_names"]}
    assert {name for name, decay in decays.items() if decay} == {"head.weight"}


@pytest.mark.parametrize("settings", TUNED[1:])
def test_muon_has_no_kernel_to_learn(settings):
    with pytest.raises(InputError, match="no block is trained here; use adamw"):
        Optim(name="muon").build(classifier(**settings).net)


@pytest.mark.parametrize("settings", TUNED)
def test_the_plan_counts_what_is_trained_and_frozen(settings):
    model = classifier(**settings)
    counts = [sum(each.numel() for each in model.parameters() if each.requires_grad is kind) for kind in (True, False)]
    total = f"{sum(counts):,} parameters"
    assert _parameters(model) == total + (f" ({counts[0]:,} trained, {counts[1]:,} frozen)" if counts[1] else "")
    assert bool(counts[1]) == bool(settings)


def test_weights_of_updates_travel_in_fp32_between_processes():
    for settings, dtype in (({"lora": LORA}, None), ({}, torch.bfloat16)):
        model = classifier(**settings)
        model._trainer = SimpleNamespace(precision="bf16-mixed")
        assert model.sharded_precision.param_dtype == dtype


DATA = ("--data", "Synthetic", "--data.train_size", 24, "--data.eval_size", 8, "--data.batch_size", 8)
DATA += ("--data.num_workers", 0, "--data.image_size", 16, "--trainer.accelerator", "cpu")
FIT = ("fit", *DATA, "--model.net.variant", "mu/8", "--model.optim.name", "adamw", "--model.optim.lr", 0.02)
TWO = ("--trainer.max_epochs", 2, "--last.every_n_steps", 1, "--model.averaging.decay", 0.9)
RANK = ("--model.lora.rank", 2)


def last(name: str) -> dict:
    return torch.load(f"runs/{name}/0/checkpoints/last.ckpt", weights_only=True)


@pytest.fixture
def begun(app):
    """The app, beside the weights of a run."""
    done = app(*FIT, "--name", "whole", "--trainer.max_steps", 3)
    assert done.code == 0, done.err
    return app


WEIGHTS = ("--model.weights", "runs/whole/0/checkpoints/last.ckpt")


def test_a_tuned_net_scores_alike_from_its_run_and_exported(begun, tmp_path):
    """Fit, test and export: the exported program has the updates in its kernels."""
    done = begun(*FIT, *WEIGHTS, *RANK, *TWO, "--name", "tuned")
    assert done.code == 0 and "trained, " in done.out, done.err
    state, began = last("tuned")["state_dict"], last("whole")["state_dict"]
    assert all(torch.equal(state[name], tensor) for name, tensor in began.items() if ".head." not in f".{name}")
    assert begun("test", "runs/tuned/0/checkpoints/last.ckpt").code == 0
    model = Classifier.load_from_checkpoint("runs/tuned/0/checkpoints/last.ckpt", weights_only=True).eval()
    done = begun("export", "runs/tuned/0/checkpoints/last.ckpt", "out", "--to", "torch_export")
    assert done.code == 0 and "low-rank updates are merged into 3 kernels" in done.out, done.err
    program = torch.export.load(next(Path("out").glob("*.pt2"))).module()
    images = torch.rand(3, 3, 16, 16)
    plain = classifier({"depth": 1})
    with torch.no_grad():
        assert (program(images) - model(images)).abs().max() < 1e-5
    done = begun("convert", "runs/tuned/0/checkpoints/last.ckpt", "plain.ckpt")
    assert done.code == 0, done.err
    plain = Classifier.load_from_checkpoint("plain.ckpt", weights_only=True).eval()
    assert plain.hparams.lora["rank"] == 0 and not any(".lora." in name for name in plain.state_dict())
    with torch.no_grad():
        assert (plain(images) - model(images)).abs().max() < 1e-5


@pytest.mark.parametrize("tuned", [RANK, ("--model.freeze_trunk", "true")], ids=["updates", "head"])
def test_a_run_that_ended_inside_an_epoch_resumes_to_the_same_weights_and_average(begun, tuned):
    """Lightning calls no hook at the beginning of such an epoch; a frozen trunk's dropout is off all the same."""
    fit = (*FIT, *tuned, *TWO, "--model.net.dropout", 0.3, "--model.schedule.decay", "constant")
    for name, words in (("one", ()), ("two", ("--trainer.max_steps", 4))):
        assert begun(*fit, *WEIGHTS, "--name", name, *words).code == 0
    done = begun(*fit, "--name", "two", "--ckpt_path", "last")
    assert done.code == 0, done.err
    for key in ("state_dict", "current_model_state"):
        whole, resumed = last("one")[key], last("two")[key]
        assert whole.keys() == resumed.keys() and all(torch.equal(whole[name], resumed[name]) for name in whole)


@pytest.mark.parametrize("verb", ["fit", "test"])
def test_a_checkpoint_of_another_rank_or_kind_is_refused(begun, verb):
    words = (*(FIT if verb == "fit" else ("test", *DATA, "--model.net.variant", "mu/8")), "--name", "whole")
    done = begun(*words, *RANK, "--ckpt_path", "last")
    assert done.code == 1 and "lora.rank: 0 -> 2" in done.err and "leave model.lora.rank" in done.err, done.err
    if verb == "fit":
        done = begun(*words, "--model.bias_only", "true", "--ckpt_path", "last")
        assert done.code == 1 and "bias_only: False -> True" in done.err, done.err


def test_half_precision_weights_are_refused_before_the_first_step(begun):
    done = begun(*FIT, *WEIGHTS, *RANK, "--trainer.precision", "bf16-true", "--trainer.max_steps", 1)
    assert done.code == 1 and "needs weights in fp32" in done.err, done.err
