"""Files of timm in nets that timm builds: any architecture, against timm's own forward pass."""

import warnings

import pytest
import torch
from safetensors.torch import save_file

from datamodules.synthetic import Synthetic
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.models.timm_net import published_weights
from vit_lightning.weights import load_into, load_net, open_weights
from vit_lightning.weights.save import save

timm = pytest.importorskip("timm")

NETS = {
    "resnet10t": 32,
    "mixer_s32_224": 64,
    "tf_efficientnet_b0": 32,
    "vit_tiny_patch16_224": 32,
    "deit_tiny_distilled_patch16_224": 32,
    "convnext_atto": 32,
    "eva02_tiny_patch14_224": 28,
    "resnetv2_50": 32,
    "resnetv2_50x1_bit": 32,
    "vit_tiny_r_s16_p8_224": 64,
}


def moved(net):
    """Every parameter and statistic of a net at a random value."""
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in net.state_dict().values():
            if tensor.is_floating_point():
                tensor.add_(torch.rand(tensor.shape, generator=draw), alpha=0.02)
    return net.eval()


@pytest.fixture
def theirs(request):
    name, arguments = request.param if isinstance(request.param, tuple) else (request.param, {})
    sized = {"img_size": NETS[name]} if timm.get_pretrained_cfg(name).fixed_input_size else {}
    return moved(timm.create_model(name, num_classes=5, **sized | arguments))


def logits(net, size, channels=3):
    with torch.no_grad():
        return net.eval()(torch.randn(2, channels, size, size, generator=torch.Generator().manual_seed(1)))


@pytest.mark.parametrize(
    ("theirs", "kind"),
    [*((name, "folder") for name in NETS), ("resnet10t", "safetensors"), ("resnet10t", "pth")],
    indirect=["theirs"],
)
def test_a_file_of_timm_gives_its_logits(theirs, kind, request, tmp_path):
    name = request.node.callspec.params["theirs"]
    size, path = NETS[name], tmp_path / f"w.{kind}"
    if kind == "folder":
        timm.models.save_for_hf(theirs, path, safe_serialization=True)
    elif kind == "pth":
        torch.save({"state_dict": theirs.state_dict()}, path)
    else:
        save_file(theirs.state_dict(), path)
    net = build(NetConfig(f"timm/{name}"), size, 5)
    report = load_into(net, path)
    assert torch.equal(logits(net, size), logits(theirs, size))
    assert set(report.loaded) == set(net.state_dict())
    if kind == "folder":
        assert report.mean == tuple(theirs.pretrained_cfg["mean"])


@pytest.mark.parametrize("theirs", ["resnet10t", "deit_tiny_distilled_patch16_224"], indirect=True)
def test_a_new_head(theirs, request, tmp_path):
    name = request.node.callspec.params["theirs"]
    save_file(theirs.state_dict(), tmp_path / "w.safetensors")
    net = build(NetConfig(f"timm/{name}"), NETS[name], 7)
    heads = {tensor: value.clone() for tensor, value in net.state_dict().items() if tensor in net.head_names}
    with pytest.raises(InputError, match=r"5 classes.*7.*weights_head reset"):
        load_into(net, tmp_path / "w.safetensors")
    report = load_into(net, tmp_path / "w.safetensors", head="reset")
    assert set(report.missing) == set(heads)
    ours = {name.removeprefix("body."): tensor for name, tensor in net.state_dict().items()}
    for tensor, value in theirs.state_dict().items():
        assert torch.equal(ours[tensor], heads.get(f"body.{tensor}", value)), tensor


@pytest.mark.parametrize("theirs", ["resnet10t", "convnext_atto", "resnetv2_50"], indirect=True)
def test_a_folder_of_timm_names_its_net_and_comes_back(theirs, request, tmp_path):
    """Read without a variant, written again, and opened by timm."""
    name = request.node.callspec.params["theirs"]
    timm.models.save_for_hf(theirs, tmp_path / "theirs", safe_serialization=True)
    net, report = load_net(tmp_path / "theirs", image_size=NETS[name])
    assert net.config.variant == f"timm/{name}"
    report.class_names = [str(index) for index in range(5)]
    assert save(net, report, tmp_path / "ours", "timm") == 0
    again = timm.create_model(f"local-dir:{tmp_path / 'ours'}", pretrained=True)
    assert torch.equal(logits(again, NETS[name]), logits(theirs, NETS[name]))
    assert load_net(tmp_path / "ours")[1].class_names == report.class_names


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "vit_tiny_r_s16_p8_224"])
def test_a_vit_of_timms_leaves_through_timms_layout(name, tmp_path):
    net = moved(build(NetConfig(f"timm/{name}"), 64, 5))
    _, report = load_net(_saved(net.body, tmp_path), stated=NetConfig(net.config.variant), image_size=64)
    save(net, report, tmp_path / "ours", "timm")
    again = timm.create_model(f"local-dir:{tmp_path / 'ours'}", pretrained=True, img_size=64)
    assert torch.equal(logits(again, 64), logits(net, 64))


def _saved(body, folder):
    save_file(body.state_dict(), folder / "w.safetensors")
    return folder / "w.safetensors"


@pytest.mark.parametrize("theirs", ["vit_tiny_patch16_224"], indirect=True)
def test_positions_are_resized_as_timm_does(theirs, tmp_path):
    net = build(NetConfig("timm/vit_tiny_patch16_224"), 64, 5)
    report = load_into(net, _saved(theirs, tmp_path))
    overlay = {"state_dict": theirs.state_dict(), "num_classes": 5, "source": ""}
    expected = timm.create_model(
        "vit_tiny_patch16_224", pretrained=True, pretrained_cfg_overlay=overlay, num_classes=5, img_size=64
    )
    assert torch.equal(logits(net, 64), logits(expected, 64))
    assert "pos_embed (1, 5, 192) -> (1, 17, 192), as timm resizes it" in str(report)


@pytest.mark.parametrize("theirs", [("resnet10t", {"in_chans": 1})], indirect=True)
def test_other_channels(theirs, tmp_path):
    net = build(NetConfig("timm/resnet10t"), 32, 5)
    with pytest.raises(InputError, match=r"net.channels=1, but the net has 3"):
        load_into(net, _saved(theirs, tmp_path))
    load_into(net, tmp_path / "w.safetensors", adapt=True)
    one = build(NetConfig("timm/resnet10t", channels=1), 32, 5)
    load_into(one, tmp_path / "w.safetensors")
    assert torch.equal(logits(one, 32, channels=1), logits(theirs, 32, channels=1))


@pytest.mark.parametrize("theirs", ["resnet10t"], indirect=True)
def test_a_file_of_another_net_is_refused(theirs, tmp_path):
    _saved(theirs, tmp_path)
    with pytest.raises(InputError, match=r"not for timm/convnext_atto"):
        load_into(build(NetConfig("timm/convnext_atto"), 32, 5), tmp_path / "w.safetensors")
    with pytest.raises(InputError, match=r"no known layout.*--model.net.variant timm/NAME"):
        load_net(tmp_path / "w.safetensors")
    torch.save(
        {name: tensor for name, tensor in theirs.state_dict().items() if name != "bn1.weight"}, tmp_path / "w.pth"
    )
    with pytest.raises(InputError, match=r"not for timm/resnet10t \(.*bn1\.weight"):
        load_into(build(NetConfig("timm/resnet10t"), 32, 5), tmp_path / "w.pth")


# Tags ----------------------------------------------------------------------------------------------------------------


def test_a_tag_names_its_weights():
    assert published_weights("timm/resnet10t.c3_in1k") == "hf://timm/resnet10t.c3_in1k"
    assert published_weights("timm/resnet10t") is None
    assert published_weights("B/16") is None
    for ask in (published_weights, lambda variant: build(NetConfig(variant), 32, 5)):
        with pytest.raises(InputError, match=r"no weights 'nope' of resnet10t: .*resnet10t\.c3_in1k"):
            ask("timm/resnet10t.nope")


def test_a_net_of_a_tag_that_begins_at_random_says_so():
    with pytest.warns(UserWarning, match=r"timm/resnet10t.c3_in1k begins at random, .*load_into\(net, 'hf://timm/resn"):
        build(NetConfig("timm/resnet10t.c3_in1k"), 32, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build(NetConfig("timm/resnet10t"), 32, 5)
        with torch.device("meta"):
            build(NetConfig("timm/resnet10t.c3_in1k"), 32, 5)


def test_a_classifier_of_a_tag_that_begins_at_random_says_so(tmp_path):
    from lightning.pytorch import Trainer

    from vit_lightning.classifier import Classifier
    from vit_lightning.training.optim import Schedule

    def fit(ckpt_path=None, max_steps=1):
        data = Synthetic(image_size=32, batch_size=4)
        schedule = Schedule(allow_horizon_change=True)
        net = NetConfig("timm/resnet10t.c3_in1k")
        model = Classifier(net, schedule=schedule, num_classes=data.num_classes, image_size=32)
        trainer = Trainer(
            max_steps=max_steps, limit_val_batches=0, accelerator="cpu", logger=False, enable_checkpointing=False
        )
        trainer.fit(model, data, ckpt_path=ckpt_path)
        trainer.save_checkpoint(tmp_path / "w.ckpt")

    with pytest.warns(UserWarning, match=r"begins at random, .*Classifier\(weights='hf://timm/resnet10t.c3_in1k'\)"):
        fit()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fit(tmp_path / "w.ckpt", max_steps=2)
    assert not [one for one in said if "at random" in str(one.message)]


@pytest.mark.parametrize("theirs", ["resnet10t"], indirect=True)
def test_a_fit_of_a_tag_begins_with_its_weights_and_a_resume_does_not_fetch_them(theirs, app, tmp_path, monkeypatch):
    timm.models.save_for_hf(theirs, tmp_path / "published", safe_serialization=True)
    asked = []

    def fetch(source):
        asked.append(source)
        return tmp_path / "published"

    monkeypatch.setattr("vit_lightning.weights.load.fetch", fetch)
    words = ["fit", "--data", "Synthetic", "--data.image_size", 32, "--data.batch_size", 4]
    words += ["--trainer.limit_val_batches", 0, "--model.optim.lr", 1e-30, "--trainer.accelerator", "cpu"]
    tag = ["--model.net.variant", "timm/resnet10t.c3_in1k", "--model.weights_head", "reset"]
    done = app(*words, *tag, "--trainer.max_steps", 1)
    assert done.code == 0, done.err
    assert asked == ["hf://timm/resnet10t.c3_in1k"]
    saved = torch.load("runs/default/0/checkpoints/last.ckpt", weights_only=True)["state_dict"]
    assert torch.equal(saved["net.body.conv1.0.weight"], theirs.conv1[0].weight)
    done = app(*words, "--ckpt_path", "last", "--trainer.max_steps", 2, "--model.schedule.allow_horizon_change", "true")
    assert done.code == 0, done.err
    assert len(asked) == 1


def test_open_weights_of_a_named_net_tell_its_config(tmp_path):
    theirs = moved(timm.create_model("resnet10t", num_classes=5))
    opened = open_weights(_saved(theirs, tmp_path), stated=NetConfig("timm/resnet10t"))
    assert opened.config().variant == "timm/resnet10t"
