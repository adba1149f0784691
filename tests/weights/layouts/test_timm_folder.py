"""timm's folder: what its config.json says of a net, and what is written into it."""

import json

import pytest
import timm
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from timm.data import create_transform, resolve_model_data_config
from torchvision.transforms.v2 import functional as F

from vit_lightning.augment import Augment, per_image
from vit_lightning.models import NetConfig, build
from vit_lightning.weights.archive import open_archive
from vit_lightning.weights.layouts import LAYOUTS
from vit_lightning.weights.layouts.timm_folder import odd_arguments, said_by, write_folder
from vit_lightning.weights.report import Report

TENSORS = {"b": torch.arange(3.0), "a": torch.ones(2, 2)}


@pytest.mark.parametrize(
    ("said", "timms"),
    [
        ({"architecture": "resnet18", "x": 1}, True),
        ({"architecture": ""}, False),
        ({"architectures": ["ViTForImageClassification"]}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_config_is_timm_s_where_it_names_the_architecture(tmp_path, said, timms):
    save_file(TENSORS, tmp_path / "model.safetensors")
    if said is not None:
        (tmp_path / "config.json").write_text(json.dumps(said))
    for place in (tmp_path, tmp_path / "model.safetensors"):
        assert said_by(open_archive(place)) == (said if timms else {})


def test_arguments_that_make_another_net_are_named():
    plain = {"img_size": 3, "num_classes": 4, "in_chans": 5, "global_pool": "avg"}
    assert odd_arguments(plain) == odd_arguments({}) == []
    odd = {"qk_norm": False, "global_pool": "token", "pool": "avg"}
    assert odd_arguments(plain | odd) == ["global_pool", "qk_norm", "pool"]


@pytest.mark.parametrize("names", [["b", "a", "ü"], []])
def test_a_folder_holds_the_tensors_and_all_that_timm_asks(tmp_path, names):
    net = build(NetConfig("mu/8", channels=2), (16, 24), 3)
    report = Report("", "", mean=(0.1, 0.2), std=(0.3, 0.4), class_names=names)
    said = {"architecture": "vit", "num_features": 7}
    write_folder(tmp_path / "out", net, report, TENSORS, said, {"first_conv": "x", "pool_size": [1, 1]})
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["config.json", "model.safetensors"]
    found = load_file(tmp_path / "out" / "model.safetensors")
    assert found.keys() == TENSORS.keys() and all(torch.equal(found[name], TENSORS[name]) for name in TENSORS)
    with safe_open(tmp_path / "out" / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}  # transformers and timm ask for it
    card = {"input_size": [2, 16, 24], "num_classes": 3, "mean": [0.1, 0.2], "std": [0.3, 0.4]}
    card |= {"crop_mode": "squash", "crop_pct": 1.0, "interpolation": "bilinear"}
    assert json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8")) == {
        "num_classes": 3,
        "architecture": "vit",
        "num_features": 7,
        "pretrained_cfg": card | {"first_conv": "x", "pool_size": [1, 1]},
        **({"label_names": names} if names else {}),
    }


def test_statistics_that_nobody_knows_are_the_paper_s(tmp_path):
    write_folder(tmp_path / "out", build(NetConfig("mu/8"), 16, 0), Report("", ""), TENSORS, {"num_classes": 9}, {})
    said = json.loads((tmp_path / "out" / "config.json").read_text())
    assert said["pretrained_cfg"]["mean"] == said["pretrained_cfg"]["std"] == [0.5, 0.5, 0.5]
    assert said["num_classes"] == 9 and said["pretrained_cfg"]["num_classes"] == 0


@pytest.mark.parametrize(("height", "width"), [(90, 60), (45, 130), (64, 64)])
@pytest.mark.parametrize(
    ("evaluation", "size"),
    [
        (Augment(), (48, 48)),
        (Augment(), (32, 64)),
        (Augment(evaluation="center", zoom=1), (48, 48)),
        (Augment(evaluation="center"), (48, 48)),
        (Augment(evaluation="center"), (40, 40)),  # 46.7 pixels, which timm alone would cut to 46
        (Augment(evaluation="center", zoom=256 / 224), (56, 56)),
        (Augment(evaluation="center", zoom=2), (32, 32)),
        (Augment(evaluation="center"), (32, 64)),
    ],
)
def test_timm_s_own_transform_sees_what_our_evaluation_does(tmp_path, evaluation, size, height, width):
    net = build(NetConfig("mu/8", pool="token"), size, 3)
    report = Report("", "", mean=(0.1, 0.2, 0.3), std=(0.3, 0.4, 0.5), evaluation=evaluation)
    LAYOUTS["timm"].write(net, report, tmp_path / "out")
    card = resolve_model_data_config(timm.create_model(f"local-dir:{tmp_path / 'out'}", pretrained=True))
    rows, columns = torch.linspace(0, 3, height)[:, None], torch.linspace(0, 4, width)[None]
    smooth = torch.stack([rows.sin() + columns.cos(), (rows * columns).sin(), rows - columns])
    pixels = ((smooth + 4) * 31).to(torch.uint8)
    ours = per_image.eval_transform(evaluation, size)(pixels).float() / 255
    theirs = create_transform(**card)(Image.fromarray(pixels.permute(1, 2, 0).numpy()))
    assert (F.normalize(ours, report.mean, report.std) - theirs).abs().mean() < 0.01
    if size[0] == size[1] or evaluation.evaluation == "resize":  # else timm may round a side apart by a pixel
        assert (F.normalize(ours, report.mean, report.std) - theirs).abs().max() < 0.06
