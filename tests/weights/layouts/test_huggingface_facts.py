"""What names, shapes and both JSON files tell of a net of transformers, from folders made by hand."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.weights.archive import Stored
from vit_lightning.weights.layouts.huggingface import read

WIDTH = 192


def tensors(kind: str = "vit", depth: int = 2, rows: int = 17, mlp: int = 400, head: int | None = WIDTH, **more):
    """A net of 4 x 4 patches and a class token; `more` adds tensors, and takes those off that are None."""
    first = {"vit": "intermediate.dense", "dinov2": "mlp.fc1", "gated": "mlp.weights_in"}[kind]
    found = {
        "embeddings.cls_token": torch.zeros(1, 1, WIDTH),
        "embeddings.position_embeddings": torch.zeros(1, rows, WIDTH),
        "embeddings.patch_embeddings.projection.weight": torch.zeros(WIDTH, 3, 8, 8),
    }
    if head:
        found["classifier.weight"] = torch.arange(3.0 * head).reshape(3, head) + 1
    for number in range(depth):
        layer = f"encoder.layer.{number}"
        found |= {f"{layer}.attention.attention.{part}.bias": torch.ones(WIDTH) for part in ("query", "key", "value")}
        found[f"{layer}.{first}.weight"] = torch.zeros(2 * mlp if kind == "gated" else mlp, WIDTH)
        if kind != "vit":
            found[f"{layer}.layer_scale1.lambda1"] = torch.ones(WIDTH)
    found |= {name.replace("__", "."): tensor for name, tensor in more.items()}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def opened(given: dict, said: dict | None = None, prepared: dict | None = None, heads=None, size=None, prefix=""):
    stored = {
        prefix * (not name.startswith("classifier")) + name: Stored(tuple(tensor.shape), lambda tensor=tensor: tensor)
        for name, tensor in given.items()
    }
    files = {"config.json": said or {}, "preprocessor_config.json": prepared or {}}
    return read(SimpleNamespace(path=Path("x"), stored=stored, json=lambda name: files[name]), heads, size)


def config(kind: str = "vit", **facts) -> dict:
    return {"model_type": kind, "image_size": 32, "num_attention_heads": 4} | facts


@pytest.mark.parametrize(
    ("prepared", "mean", "std", "window"),
    [
        (
            {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6], "window": [5, 9]},
            (0.1, 0.2, 0.3),
            (0.4, 0.5, 0.6),
            (5, 9),
        ),
        ({"image_mean": [0.1], "window": [0, 4095, 1]}, None, None, None),
        ({}, None, None, None),
    ],
)
def test_mean_std_and_window_are_each_their_own(prepared, mean, std, window):
    found = opened(tensors(), config(), prepared)
    assert (found.mean, found.std, found.window) == (mean, std, window)


@pytest.mark.parametrize(
    ("kind", "facts", "scale", "eps"),
    [
        ("vit", {}, 0.0, 1e-12),
        ("vit", {"layer_norm_eps": 1e-5, "layerscale_value": 0.5}, 0.0, 1e-5),
        ("dinov2", {}, 1.0, 1e-6),
        ("dinov2", {"layerscale_value": 0.25, "layer_norm_eps": 1e-3}, 0.25, 1e-3),
    ],
)
def test_scale_and_epsilon_are_the_config_s_or_those_of_the_kind(kind, facts, scale, eps):
    found = opened(tensors(kind), config(kind, **facts)).config
    assert (found.layer_scale, found.norm_eps) == (scale, eps)


@pytest.mark.parametrize(
    ("size", "rows", "cropped"),
    [([32, 32], 17, False), ([38, 32], 17, True), ([32, 33], 17, True), ([16, 24], 7, False)],
)
def test_one_side_that_the_patch_does_not_divide_is_enough_to_crop(size, rows, cropped):
    found = opened(tensors(rows=rows), config(image_size=size))
    assert found.image_size == tuple(size) and found.config.crop_to_patch == cropped


@pytest.mark.parametrize(
    ("kind", "head", "second", "classes", "pool", "width"),
    [
        ("vit", WIDTH, None, 3, "token", WIDTH),
        ("vit", None, None, 0, "token", None),
        ("dinov2", WIDTH, None, 3, "token", WIDTH),
        ("dinov2", 2 * WIDTH, 0.0, 3, "token", WIDTH),
        ("dinov2", 2 * WIDTH, 0.5, 3, "token_and_gap", 2 * WIDTH),
    ],
)
def test_a_head_of_two_vectors_reads_both_unless_it_ignores_the_second(kind, head, second, classes, pool, width):
    given = tensors(kind, head=head)
    if second is not None:
        given["classifier.weight"][:, WIDTH:] = 0
        given["classifier.weight"][2, -1] = second  # one number is enough
    found = opened(given, config(kind))
    assert (found.num_classes, found.config.pool) == (classes, pool)
    if width:
        assert found.stored["classifier.weight"].shape == (3, width)
        assert torch.equal(found.stored["classifier.weight"].read(), given["classifier.weight"][:, :width])


@pytest.mark.parametrize(
    ("kind", "said", "mlp"),
    [
        ("vit", config(), 400),
        ("dinov2", config("dinov2"), 400),
        ("gated", config("dinov2", use_swiglu_ffn=True), 400),
        ("gated", None, 400),
        ("dinov2", None, 400),
    ],
)
def test_a_gated_layer_is_twice_as_wide_as_its_mlp(kind, said, mlp):
    found = opened(tensors(kind), said, heads=3, size=(32, 32))
    assert (found.config.mlp, found.config.swiglu) == (mlp, kind == "gated")
    unsaid = ("norm_eps",) if kind == "gated" else ("gelu", "norm_eps")
    assert found.assumed == (() if said else unsaid)


@pytest.mark.parametrize("stated", [True, False])
def test_every_block_without_biases_gets_them(stated):
    parts = ("query", "key", "value")
    names = [f"encoder.layer.{number}.attention.attention.{part}.bias" for number in range(2) for part in parts]
    bare = {name.replace(".", "__"): None for name in names}
    found = opened(tensors(**bare), config(qkv_bias=False) if stated else None, heads=3)
    assert all(found.stored[name].shape == (WIDTH,) and not found.stored[name].read().any() for name in names)
    kept = opened(tensors(), None, heads=3)
    assert all(kept.stored[name].read().all() for name in names)


@pytest.mark.parametrize(
    ("said", "heads", "found", "noted"),
    [(config(), None, 4, False), (config(), 6, 4, False), (None, None, 3, True), (None, 6, 6, False)],
)
def test_heads_are_the_config_s_then_those_given_then_those_of_the_width(said, heads, found, noted):
    read_net = opened(tensors(), said, heads=heads)
    assert read_net.config.heads == found
    assert read_net.notes == (["the file does not say its attention heads: 3 by its width"] if noted else [])


@pytest.mark.parametrize(
    ("act", "gelu"), [("gelu", "exact"), ("gelu_new", "tanh"), ("gelu_pytorch_tanh", "tanh"), (None, "exact")]
)
def test_both_names_of_gelu_by_tanh_are_known(act, gelu):
    assert opened(tensors(), config(**({"hidden_act": act} if act else {}))).config.gelu == gelu


@pytest.mark.parametrize(
    ("problem", "training"),
    [
        ("multi_label_classification", {"recipe": {"loss": "sigmoid"}}),
        ("single_label_classification", {}),
        (None, {}),
    ],
)
def test_classes_of_their_own_probabilities_say_so(problem, training):
    assert opened(tensors(), config(problem_type=problem)).training == training


def test_the_model_s_name_is_taken_off_and_the_mask_is_dropped():
    found = opened(tensors(embeddings__mask_token=torch.zeros(1)), config(), prefix="vit.")
    assert found.dropped == {"embeddings.mask_token": "only for masked pre-training"}
    assert "embeddings.cls_token" in found.stored and "classifier.weight" in found.stored
    assert "embeddings.mask_token" not in found.stored and found.layout == "transformers vit"
    assert opened(tensors(), config()).dropped == {}


def test_registers_and_a_pooler_are_read_where_the_kind_has_them():
    more = {"embeddings__register_tokens": torch.zeros(1, 5, WIDTH), "pooler__dense__weight": torch.zeros(70, WIDTH)}
    found = opened(tensors("dinov2", **more), config("dinov2_with_registers")).config
    assert (found.registers, found.representation) == (5, 70)
    assert opened(tensors(), config()).config.registers == 0
    with pytest.raises(InputError, match="model_type 'dinov3'"):
        opened(tensors(), config("dinov3"))


def test_a_folder_without_a_size_is_of_224_pixels_and_a_bare_file_of_a_square():
    said = {"model_type": "vit", "num_attention_heads": 4}
    found = opened(tensors(rows=785), said)  # 28 x 28 patches of 8
    assert found.image_size == (224, 224)
    assert opened(tensors(rows=17), None, heads=3).image_size == (32, 32)
    assert opened(tensors(rows=7), None, heads=3, size=(16, 24)).image_size == (16, 24)
