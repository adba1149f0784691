"""timm's folder: what its config.json says of a net, and what is written into it."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from vit_lightning.models import NetConfig, build
from vit_lightning.weights.archive import open_archive
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
