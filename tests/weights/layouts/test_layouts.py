"""The one table of layouts, and the verbs that offer them."""

from inspect import get_annotations
from typing import get_args

import pytest
import torch

from vit_lightning.commands.convert import convert
from vit_lightning.commands.export import export
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report, load_net
from vit_lightning.weights.layouts import LAYOUTS
from vit_lightning.weights.save import save

PROGRAMS = {"onnx", "torch_export"}
"""What export writes that no layout of weights is."""


def test_verbs_offer_the_layouts_of_the_table():
    converted, exported = (set(get_args(get_annotations(verb)["to"])) for verb in (convert, export))
    assert converted | exported - PROGRAMS == LAYOUTS.keys()


# Nets of twelve blocks and twelve classes, whose numbers are sorted otherwise as text -------------------------------

CLASSES = [f"kind {letter}" for letter in "lkjihgfedcba"]
FILES = {"huggingface": "x", "timm": "x", "torchvision": "x.pth", "npz": "x.npz", "checkpoint": "x.ckpt"}


@pytest.mark.parametrize("layout", FILES)
def test_twelve_blocks_and_classes_come_back_in_their_order(layout, tmp_path, randomise):
    gelu = "tanh" if layout == "npz" else "exact"
    net = randomise(build(NetConfig("Ti/8", width=16, depth=12, heads=2, mlp=24, gelu=gelu), 24, 12))
    save(net, Report("", "", class_names=CLASSES), tmp_path / FILES[layout], layout)
    again, report = load_net(tmp_path / FILES[layout], heads=None if layout in ("npz", "checkpoint", "timm") else 2)
    assert again.config.depth == 12 and again.image_size == (24, 24)
    state, found = net.state_dict(), again.state_dict()
    assert state.keys() == found.keys() and all(torch.equal(state[name], found[name]) for name in state)
    assert report.class_names == (CLASSES if layout in ("huggingface", "timm", "checkpoint") else [])


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("layout", [*FILES, "bit"])
def test_mean_and_deviation_are_those_of_a_net_s_channels(layout, channels, tmp_path, randomise):
    """What a layout has for photographs says nothing of other images."""
    fields = {"width": 192, "depth": 1, "heads": 3, "mlp": 24, "gelu": "tanh" if layout == "npz" else "exact"}
    config = NetConfig("R50x1", width=32, stages=(1,)) if layout == "bit" else NetConfig("Ti/8", **fields)
    config.channels = channels
    net, layout = randomise(build(config, 16, 3)), "npz" if layout == "bit" else layout
    save(net, Report("", ""), tmp_path / FILES[layout], layout)
    _, report = load_net(tmp_path / FILES[layout])
    assert list(map(len, report.normalisation(channels))) == [channels, channels]
    assert layout != "npz" or report.mean == report.std == (0.5,) * channels
    photographs = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    assert layout != "torchvision" or (report.mean, report.std) == (photographs if channels == 3 else (None, None))


@pytest.mark.parametrize("layout", FILES)
def test_images_may_be_wider_than_high(layout, tmp_path, randomise):
    gelu = "tanh" if layout == "npz" else "exact"
    net = randomise(build(NetConfig("Ti/8", width=16, depth=1, heads=2, mlp=24, gelu=gelu), (16, 40), 3))
    save(net, Report("", "", mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6)), tmp_path / FILES[layout], layout)
    silent = layout in ("torchvision", "npz")
    again, report = load_net(tmp_path / FILES[layout], heads=2, image_size=(16, 40) if silent else None)
    assert again.image_size == (16, 40)
    images = torch.randn(2, 3, 16, 40, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(again.eval()(images), net.eval()(images))
    if not silent:
        assert (report.mean, report.std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
