"""torchvision's VisionTransformer, against its own forward pass."""

import json

import numpy as np
import pytest
import torch
from torchvision.models.vision_transformer import VisionTransformer

from vit_lightning.weights import load_net
from vit_lightning.weights.save import save

# Width and heads of torchvision's vit_b, vit_l and vit_h.
SIZES = {"b": (768, 12), "l": (1024, 16), "h": (1280, 16)}


def theirs_of(size, depth, representation=None):
    width, heads = SIZES[size]
    return VisionTransformer(32, 16, depth, heads, width, 4 * width, num_classes=9, representation_size=representation)


def check(theirs, folder, difference):
    torch.save(theirs.state_dict(), folder / "theirs.pth")
    net, report = load_net(folder / "theirs.pth")
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert difference(net.eval()(images), theirs(images)) < 1e-5
    assert report.mean == (0.485, 0.456, 0.406)
    assert "the file does not say net.gelu=exact, net.norm_eps=1e-06: assumed; --model.net.gelu" in str(report)
    assert not report.missing
    assert save(net, report, folder / "ours.pth", "torchvision") == 0
    state = torch.load(folder / "ours.pth", weights_only=True)
    assert all(torch.equal(state[name], tensor) for name, tensor in theirs.state_dict().items())
    theirs.load_state_dict(state)


@pytest.mark.parametrize(("size", "representation"), [("b", None), ("l", None), ("h", None), ("b", 40)])
def test_state_dict_gives_its_logits_there_and_back(size, representation, tmp_path, randomise, difference):
    check(randomise(theirs_of(size, 1, representation)), tmp_path, difference)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "depth"), [("b", 12), ("l", 24), ("h", 32)])
def test_whole_nets(size, depth, tmp_path, randomise, difference):
    check(randomise(theirs_of(size, depth)), tmp_path, difference)


def test_names_before_version_0_13(tmp_path, randomise):
    theirs = randomise(theirs_of("b", 1))
    old = {
        name.replace("mlp.0.", "mlp.linear_1.").replace("mlp.3.", "mlp.linear_2."): tensor
        for name, tensor in theirs.state_dict().items()
    }
    torch.save(old, tmp_path / "w.pth")
    assert torch.equal(load_net(tmp_path / "w.pth")[0].blocks[0].mlp.down.bias, theirs.encoder.layers[0].mlp[3].bias)


@pytest.mark.parametrize("name", ["D1_timm_token", "E1_hf_gelu", "F1_torchvision"])
def test_golden(name, golden):
    """The originals' outputs for the layouts of PyTorch; the files of timm and torchvision do not say their heads."""
    folder = golden / name
    case = json.loads((folder / "case.json").read_text())
    source = folder if name.startswith("E") else folder / case["weights"]["file"]
    net, report = load_net(source, heads=case["model"]["heads"])
    images, expected = torch.from_numpy(np.load(folder / "input.npy")), np.load(folder / "expected.npz")
    with torch.no_grad():
        outputs = {
            "logits": net.eval()(images),
            "pre_logits": net.features(images),
            "encoder_tokens": net.tokens(images),
        }
    for key, value in outputs.items():
        assert np.abs(value.numpy() - expected[key]).max() < case["tolerance"][key], key
    assert report.class_names == case["model"].get("class_names", [])
