"""Our own checkpoints and safetensors."""

import pytest
import torch
from safetensors.torch import save_file

from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report, load_into, load_net
from vit_lightning.weights.save import save

FIELDS = {"patch": 4, "width": 16, "depth": 2, "heads": 2, "mlp": 24}


@pytest.fixture
def net(randomise):
    return randomise(build(NetConfig("Ti/16", **FIELDS, gelu="exact", registers=2, layer_scale=0.1), (8, 12), 3))


def report():
    return Report("", "", mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6), class_names=["a", "b", "c"])


def same(net, other):
    return all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in net.state_dict().items())


@pytest.mark.parametrize("to", ["checkpoint", "safetensors"])
def test_everything_comes_back(to, net, tmp_path):
    save(net, report(), tmp_path / "ours", to)
    again, told = load_net(tmp_path / "ours")
    assert same(net, again)
    assert again.config == net.config
    assert again.image_size == (8, 12)
    assert (told.mean, told.std, told.class_names) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6), ["a", "b", "c"])


def test_lightning_opens_the_checkpoint(net, tmp_path):
    save(net, report(), tmp_path / "ours.ckpt", "checkpoint")
    model = Classifier.load_from_checkpoint(tmp_path / "ours.ckpt", weights_only=True).eval()
    images = torch.rand(2, 3, 8, 12)
    mean, std = (torch.tensor(values)[:, None, None] for values in (report().mean, report().std))
    with torch.no_grad():
        assert torch.equal(model(images), net((images - mean) / std))


def checkpoint_of(net, rename=lambda name: f"net.{name}"):
    model = Classifier(net.config, num_classes=3, image_size=(8, 12))
    state = {rename(name): tensor for name, tensor in net.state_dict().items()}
    return {"state_dict": state, "hyper_parameters": dict(model.hparams), "pytorch-lightning_version": "2.6.0"}


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: f"net._orig_mod.{name}",
        lambda name: f"_orig_mod.net.{name}",
        lambda name: f"net.{name}".replace("blocks.0.", "blocks.0._orig_mod."),
    ],
)
def test_compile_prefixes(rename, net, tmp_path):
    torch.save(checkpoint_of(net, rename), tmp_path / "w.ckpt")
    assert same(net, load_net(tmp_path / "w.ckpt")[0])


def test_averaged_and_raw_weights(net, tmp_path, randomise):
    """Lightning's WeightAveraging keeps the average in state_dict and what is trained in current_model_state."""
    content = checkpoint_of(net)
    raw = randomise(build(net.config, (8, 12), 3), seed=1)
    torch.save(content, tmp_path / "plain.ckpt")
    content["current_model_state"] = {f"net.{name}": tensor for name, tensor in raw.state_dict().items()}
    content["averaging_state"] = {"n_averaged": torch.tensor(4)}
    torch.save(content, tmp_path / "averaged.ckpt")
    assert same(net, load_net(tmp_path / "averaged.ckpt")[0])
    assert same(raw, load_net(tmp_path / "averaged.ckpt", raw=True)[0])
    with pytest.raises(InputError, match="no averaged weights"):
        load_net(tmp_path / "plain.ckpt", raw=True)


def test_what_is_beside_the_net_is_dropped_and_the_run_is_told(net, tmp_path):
    content = checkpoint_of(net) | {
        "global_step": 7,
        "callbacks": {"ModelCheckpoint": {"monitor": "val/top1", "best_model_score": torch.tensor(0.5)}},
    }
    content["state_dict"]["scores.val.count"] = torch.zeros(3)
    torch.save(content, tmp_path / "w.ckpt")
    _, told = load_net(tmp_path / "w.ckpt")
    assert told.dropped == {"scores.val.count": "beside the net"}
    assert (told.training["steps"], told.training["metrics"]) == (7, {"val/top1": 0.5})
    assert told.training["recipe"]["optim"]["lr"] == content["hyper_parameters"]["optim"]["lr"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"net": {"variant": "Ti/16", "speed": 3}}, "'speed'"),
        ({"net": {"variant": "Ti/16", "depth": "two"}}, "depth='two'"),
        ({"image_size": "big"}, "image_size='big'"),
        ({"mean": ["red"]}, "mean"),
    ],
)
def test_facts_that_are_wrong(change, message, net, tmp_path):
    content = checkpoint_of(net)
    content["hyper_parameters"] |= change
    torch.save(content, tmp_path / "w.ckpt")
    with pytest.raises(InputError, match=message):
        load_net(tmp_path / "w.ckpt")


def test_tensors_without_their_config(net, tmp_path):
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(InputError, match="without its config"):
        load_net(tmp_path / "w.safetensors")


def test_shards_that_were_not_written_to_their_end(tmp_path):
    (tmp_path / ".metadata").touch()
    with pytest.raises(InputError, match="not written to its end"):
        load_net(tmp_path)


def test_nets_of_timm_come_back_with_their_statistics(tmp_path, randomise):
    pytest.importorskip("timm")
    net = build(NetConfig("timm/resnet10t"), 32, 3)
    net(torch.randn(4, 3, 32, 32))
    save(randomise(net), report(), tmp_path / "w.ckpt", "checkpoint")
    again, _ = load_net(tmp_path / "w.ckpt")
    assert "body.conv1.1.running_mean" in net.state_dict()
    assert same(net, again)
    assert save(net, report(), tmp_path / "w", "timm") == 0
    into = build(NetConfig("timm/resnet10t"), 32, 3)
    load_into(into, tmp_path / "w.ckpt")
    assert same(net, into)


def test_compiling_changes_no_key(net, tmp_path):
    """Case C14: in place, whole or in part, and each loads into the other."""
    plain = set(net.state_dict())
    save(net, report(), tmp_path / "plain.ckpt", "checkpoint")
    net.compile(backend="eager")
    net(torch.zeros(1, 3, 8, 12))
    assert set(net.state_dict()) == plain
    save(net, report(), tmp_path / "compiled.ckpt", "checkpoint")
    for name in ("plain", "compiled"):
        content = torch.load(tmp_path / f"{name}.ckpt", weights_only=True)
        assert set(content["state_dict"]) == {f"net.{key}" for key in plain}
    assert same(load_net(tmp_path / "plain.ckpt")[0], load_net(tmp_path / "compiled.ckpt")[0])


@pytest.mark.parametrize("window", [None, (-5.0, 300.0)], ids=["8 bits", "a window"])
def test_lightning_takes_what_images_are_made_of_from_the_checkpoint(window, tmp_path, randomise):
    net = randomise(build(NetConfig("Ti/16", **FIELDS, channels=2), (8, 12), 3))
    save(net, Report("", "", window=window), tmp_path / "ours.ckpt", "checkpoint")
    model = Classifier.load_from_checkpoint(tmp_path / "ours.ckpt", weights_only=True)
    assert model.config.channels == 2
    assert model.pixel_facts == ((None, None) if window is None else (2, window))
