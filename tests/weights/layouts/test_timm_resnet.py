"""timm's hybrids and BiT nets in our own nets: against timm's own forward pass, and back through its layout."""

from functools import partial

import pytest
import torch
from safetensors.torch import load_file, save_file

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, ResNet, TimmNet, ViT, build, resolve
from vit_lightning.weights import load_into, load_net
from vit_lightning.weights.layouts import timm as timm_layout
from vit_lightning.weights.layouts import timm_resnet
from vit_lightning.weights.layouts.tensor_mapping import to_theirs
from vit_lightning.weights.save import save

timm = pytest.importorskip("timm")

HYBRIDS = {
    "vit_tiny_r_s16_p8_224": "R+Ti/16",
    "vit_tiny_r_s16_p8_384": "R+Ti/16",
    "vit_small_r26_s32_224": "R26+S/32",
    "vit_small_r26_s32_384": "R26+S/32",
    "vit_base_r26_s32_224": "R26+B/32",
    "vit_base_r50_s16_224": "R50+B/16",
    "vit_base_r50_s16_384": "R50+B/16",
    "vit_large_r50_s32_224": "R50+L/32",
    "vit_large_r50_s32_384": "R50+L/32",
}
BITS = {f"resnetv2_{name[1:]}_bit": name for name in timm_resnet.BITS}
SHALLOW = {"depth": 1, "embed_dim": 96, "num_heads": 3, "num_classes": 5}


def moved(net):
    """Every parameter at a random value, kernels of such different and small scales that epsilons are seen."""
    draw = torch.Generator().manual_seed(0)
    net = net.to_empty(device="cpu")
    with torch.no_grad():
        for name, tensor in net.named_parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=draw) * 0.1)
            if "norm" in name and name.endswith("weight"):
                tensor.add_(1)
            if tensor.ndim == 4 and "head" not in name:
                tensor.mul_(10 ** (-3 * torch.rand(len(tensor), 1, 1, 1, generator=draw)))
    return net.eval()


def logits(net, size, channels=3):
    """In double precision, so that nothing but another function is a difference."""
    sides = (size, size) if isinstance(size, int) else size
    images = torch.randn(2, channels, *sides, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = net.eval().double()(images.double())
    net.float()
    return logits


def small_bit(**more):
    """A BiT that has no name in timm, small enough to be computed often."""
    from timm.layers import StdConv2d
    from timm.models.resnetv2 import ResNetV2

    conv = partial(StdConv2d, eps=1e-8)
    with torch.device("meta"):
        net = ResNetV2(layers=[1, 2], channels=(256, 512), width_factor=0.5, stem_type="fixed", conv_layer=conv, **more)
    return moved(net)


def hybrid(name, size, **more):
    with torch.device("meta"):
        net = timm.create_model(name, img_size=size, **SHALLOW | more)
    return moved(net)


CASES = {
    "root alone": ("vit_tiny_r_s16_p8_224", 64, {}),
    "R26, not square": ("vit_small_r26_s32_224", (32, 64), {"global_pool": "avg"}),
    "one channel": ("vit_tiny_r_s16_p8_224", 64, {"in_chans": 1}),
    "no head": ("vit_tiny_r_s16_p8_224", 64, {"num_classes": 0}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_hybrid_gives_timms_logits_and_comes_back(case, tmp_path, difference):
    name, size, more = CASES[case]
    theirs, channels = hybrid(name, size, **more), more.get("in_chans", 3)
    timm.models.save_for_hf(theirs, tmp_path / "theirs", safe_serialization=True)
    net, report = load_net(tmp_path / "theirs")
    assert isinstance(net, ViT)
    assert not report.missing
    assert not report.dropped
    expected = logits(theirs, size, channels)
    assert difference(logits(net, size, channels), expected) < 1e-9
    official = build(NetConfig(**vars(net.config) | {"resnet_code": "official"}), net.image_size, net.num_classes)
    official.load_state_dict(net.state_dict())
    assert difference(logits(official, size, channels), expected) > 1e-5, "the test sees no epsilon"

    report.class_names = [str(index) for index in range(net.num_classes)]
    assert save(net, report, tmp_path / "ours", "timm") == 0
    again = timm.create_model(f"local-dir:{tmp_path / 'ours'}", pretrained=True)
    assert torch.equal(logits(again, size, channels), expected)
    assert load_net(tmp_path / "ours")[1].class_names == report.class_names


def test_a_bit_gives_timms_logits(tmp_path, difference):
    theirs = small_bit(num_classes=5)
    for prefix in ("", "model."):
        path = tmp_path / f"w{prefix}safetensors"
        save_file({prefix + name: tensor for name, tensor in theirs.state_dict().items()}, path)
        net, report = load_net(path, image_size=65)
        assert isinstance(net, ResNet)
        assert difference(logits(net, 65), logits(theirs, 65)) < 1e-9
        assert "the file does not say net.resnet_code=timm: assumed; --model.net.resnet_code" in str(report)
        official, _ = load_net(path, image_size=65, stated=NetConfig(resnet_code="official"))
        assert difference(logits(official, 65), logits(theirs, 65)) > 1e-5, "the test sees no padding"


def test_a_bit_comes_back_through_timms_layout(tmp_path, difference):
    with torch.device("meta"):
        theirs = timm.create_model("resnetv2_50x1_bit", num_classes=5)
    moved(theirs)
    timm.models.save_for_hf(theirs, tmp_path / "theirs", safe_serialization=True)
    net, report = load_net(tmp_path / "theirs", image_size=32)
    assert (type(net), net.config.variant, report.mean) == (ResNet, "R50x1", (0.5, 0.5, 0.5))
    assert "assumed" not in str(report)
    assert difference(logits(net, 32), logits(theirs, 32)) < 1e-9
    assert save(net, report, tmp_path / "ours", "timm") == 0
    again = timm.create_model(f"local-dir:{tmp_path / 'ours'}", pretrained=True)
    assert torch.equal(logits(again, 32), logits(theirs, 32))
    named, _ = load_net(tmp_path / "theirs", image_size=32, stated=NetConfig("timm/resnetv2_50x1_bit"))
    assert isinstance(named, TimmNet), "timm's own net is built where it is named"


def shapes(net):
    return {name: tuple(tensor.shape) for name, tensor in net.state_dict().items()}


@pytest.mark.parametrize("name", HYBRIDS | BITS)
def test_every_size_has_a_place_for_every_tensor_of_timms(name):
    """Both directions, without storage."""
    variant, size = (HYBRIDS | BITS)[name], 384 if name.endswith("384") else 224
    config = resolve(NetConfig(variant, resnet_code="timm"))
    layout = timm_layout if name in HYBRIDS else timm_resnet
    with torch.device("meta"):
        theirs = timm.create_model(name, num_classes=7, **({"img_size": size} if name in HYBRIDS else {}))
        ours = build(config, size, 7)
    assert shapes_of(to_theirs(layout.mappings(config), ours.state_dict(), config, name)) == shapes(theirs)


def shapes_of(tensors):
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (NetConfig("R50x1", width=32), r"timm has no R50x0.5, only R50x1, .*convert to npz or checkpoint"),
        (NetConfig("R26+S/32", stages=(1, 1), width=32, heads=2, mlp=32, depth=1), r"no hybrid with net.stages=\(1, 1"),
    ],
)
def test_what_timm_has_not_is_named(config, message, tmp_path):
    config.resnet_code = "timm"
    net = build(config, 64, 3)
    _, report = load_net(_checkpoint(net, tmp_path))
    with pytest.raises(InputError, match=message):
        save(net, report, tmp_path / "out", "timm")
    assert [path.name for path in tmp_path.iterdir()] == ["w.ckpt"]


@pytest.mark.parametrize("variant", ["R+Ti/16", "R50x1"])
def test_the_official_code_is_not_timms(variant, tmp_path):
    """Even a new net, whose outputs the epsilons hardly move."""
    small = {} if variant == "R50x1" else {"width": 48, "heads": 3, "mlp": 48, "depth": 1}
    net = build(NetConfig(variant, **small), 64, 3)
    _, report = load_net(_checkpoint(net, tmp_path))
    with pytest.raises(InputError, match=r"other epsilons and padding than net.resnet_code=official: convert to npz"):
        save(net, report, tmp_path / "out", "timm")
    theirs = build(NetConfig(variant, resnet_code="timm", **small), 64, 3)
    with pytest.raises(InputError, match=r"net.resnet_code=timm.*convert to timm or checkpoint"):
        save(theirs, report, tmp_path / "out.npz", "npz")
    with pytest.raises(InputError, match=r"net.resnet_code=official, but the net has timm"):
        load_into(theirs, tmp_path / "w.ckpt")


def _checkpoint(net, folder):
    from vit_lightning.weights.layouts.checkpoint import write
    from vit_lightning.weights.report import Report

    write(net, Report("", ""), folder / "w.ckpt")
    return folder / "w.ckpt"


def test_another_resnet_in_front_is_named(tmp_path):
    theirs = timm.create_model("vit_small_resnet26d_224", depth=1, num_classes=3)
    torch.save(theirs.state_dict(), tmp_path / "w.pth")
    with pytest.raises(InputError, match=r"another ResNet than the paper's \(patch_embed.*--model.net.variant timm/"):
        load_net(tmp_path / "w.pth")


def test_a_resnet_with_batch_norm_is_no_bit(tmp_path):
    theirs = timm.create_model("resnetv2_50", num_classes=3)
    torch.save(theirs.state_dict(), tmp_path / "w.pth")
    with pytest.raises(InputError, match=r"no known layout.*--model.net.variant timm/"):
        load_net(tmp_path / "w.pth")
    timm.models.save_for_hf(theirs, tmp_path / "folder", safe_serialization=True)
    assert load_net(tmp_path / "folder", image_size=32)[0].config.variant == "timm/resnetv2_50"


def test_a_damaged_bit_is_refused(tmp_path):
    tensors = small_bit(num_classes=5).state_dict()
    for name, message in {
        "stages.1.blocks.1.conv2.weight": r"lacks stages.1.blocks.1.conv2.weight: it is cut down",
        "head.fc.bias": r"lacks head.fc.bias",
    }.items():
        save_file({n: t for n, t in tensors.items() if n != name}, tmp_path / "w.safetensors")
        with pytest.raises(InputError, match=message):
            load_net(tmp_path / "w.safetensors")
    assert load_file(tmp_path / "w.safetensors")


def test_the_code_means_nothing_without_a_resnet():
    with pytest.raises(InputError, match=r"net.resnet_code=timm means nothing without a ResNet, in B/16"):
        resolve(NetConfig("B/16", resnet_code="timm"))
