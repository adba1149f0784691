"""config.json and preprocessor_config.json as we write them, to the letter."""

import json

import pytest
import torch

from vit_lightning.models import NetConfig, build
from vit_lightning.weights import load_net
from vit_lightning.weights.archive import Archive, Stored
from vit_lightning.weights.layouts import huggingface
from vit_lightning.weights.layouts.huggingface import recognises
from vit_lightning.weights.report import Report

FIELDS = {"width": 16, "depth": 2, "heads": 2, "mlp": 64, "gelu": "exact", "norm_eps": 1e-6}


def written(folder, classes: int = 2, size=(16, 24), names=(), **fields: object) -> tuple[dict, dict]:
    net = build(NetConfig("Ti/8", **FIELDS | fields), size, classes)
    report = Report("", "", mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6), class_names=list(names))
    huggingface.write(net, report, folder / "x")
    return tuple(
        json.loads((folder / "x" / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("config", "preprocessor_config")
    )


SAID = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-6,
    "image_size": [16, 24],
    "patch_size": 8,
    "num_channels": 3,
    "qkv_bias": True,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "id2label": {"0": "a", "1": "ü"},
    "label2id": {"a": 0, "ü": 1},
    "dtype": "float32",
}
VIT = {"intermediate_size": 64, "pooler_act": "tanh", "pooler_output_size": 16}
DINOV2 = {"mlp_ratio": 4, "layerscale_value": 0.5, "use_swiglu_ffn": False}


@pytest.mark.parametrize(
    ("fields", "name", "kind", "own"),
    [
        ({}, "ViTForImageClassification", "vit", VIT),
        ({"layer_scale": 0.5}, "Dinov2ForImageClassification", "dinov2", DINOV2 | {"use_mask_token": False}),
        (
            {"layer_scale": 0.5, "registers": 3},
            "Dinov2WithRegistersForImageClassification",
            "dinov2_with_registers",
            DINOV2 | {"num_register_tokens": 3},
        ),
    ],
)
def test_a_config_says_all_of_its_net(tmp_path, fields, name, kind, own):
    config, _ = written(tmp_path, names=["a", "ü"], **fields)
    assert config == SAID | own | {"architectures": [name], "model_type": kind}


@pytest.mark.parametrize(
    ("fields", "kind", "own"),
    [({}, "ViTModel", {"pooler_output_size": 16}), ({"representation": 5}, "ViTModel", {"pooler_output_size": 5})],
)
def test_a_net_without_a_head_is_the_model_alone(tmp_path, fields, kind, own):
    config, _ = written(tmp_path, 0, 16, **fields)
    assert config["architectures"] == [kind] and config["id2label"] == config["label2id"] == {}
    assert config["image_size"] == 16 and own.items() <= config.items()


def test_gelu_by_tanh_has_its_own_name(tmp_path):
    assert written(tmp_path, gelu="tanh")[0]["hidden_act"] in ("gelu_pytorch_tanh", "gelu_new")


@pytest.mark.parametrize("size", [16, (16, 24)])
def test_images_are_prepared_as_the_net_was_trained(tmp_path, size):
    _, prepared = written(tmp_path, size=size)
    height, width = (size, size) if isinstance(size, int) else size
    assert prepared == {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": height, "width": width},
        "resample": 2,  # Pillow's bilinear
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.1, 0.2, 0.3],
        "image_std": [0.4, 0.5, 0.6],
    }


@pytest.mark.parametrize(
    ("names", "ours"),
    [
        (["embeddings.patch_embeddings.projection.weight"], True),
        (["vit.embeddings.patch_embeddings.projection.weight"], True),
        (["embeddings.patch_embeddings.projection.bias"], False),
        ([], False),
    ],
)
def test_a_file_is_told_by_its_first_layer(tmp_path, names, ours):
    assert recognises(Archive(tmp_path, {name: Stored((1,), lambda: torch.zeros(1)) for name in names})) is ours


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ([], "vit"),
        (["embeddings.register_tokens"], "vit"),
        (["encoder.layer.0.layer_scale1.lambda1"], "dinov2"),
        (["encoder.layer.0.layer_scale1.lambda1", "embeddings.register_tokens"], "dinov2_with_registers"),
    ],
)
def test_the_kind_of_tensors_without_a_config(names, kind):
    assert huggingface._kind(dict.fromkeys(names)) == kind


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ({}, []),
        ({"10": "c", "9": "b", "0": "a"}, ["a", "b", "c"]),
        ({"1": "LABEL_1", "0": "LABEL_0"}, []),
        ({"0": "LABEL_1", "1": "LABEL_0"}, ["LABEL_1", "LABEL_0"]),
    ],
)
def test_names_in_the_order_of_their_numbers(labels, names):
    assert huggingface._names(labels) == names


@pytest.mark.parametrize(
    ("window", "rescale"), [(None, (True, 1 / 255)), ((0.0, 4095.0), (True, 1 / 4095)), ((-10.0, 40.0), (False, 1.0))]
)
def test_the_processor_rescales_by_the_window(tmp_path, window, rescale):
    net = build(NetConfig("Ti/8", channels=1, **FIELDS), 16, 2)
    huggingface.write(net, Report("", "", window=window), tmp_path / "x")
    said = json.loads((tmp_path / "x" / "preprocessor_config.json").read_text())
    assert (said["do_rescale"], said["rescale_factor"]) == rescale
    assert load_net(tmp_path / "x")[1].window == window


def test_transformers_shows_a_windowed_net_what_it_was_trained_on(tmp_path):
    transformers = pytest.importorskip("transformers")
    net = build(NetConfig("Ti/8", channels=1, **FIELDS), 16, 2)
    huggingface.write(net, Report("", "", mean=(0.2,), std=(0.4,), window=(0.0, 4095.0)), tmp_path / "x")
    film = torch.full((1, 16, 16), 1000.0)
    shown = transformers.AutoImageProcessor.from_pretrained(tmp_path / "x")([film], return_tensors="pt")["pixel_values"]
    assert torch.allclose(shown, (film[None] / 4095 - 0.2) / 0.4, atol=1e-6)
