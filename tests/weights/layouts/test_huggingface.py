"""transformers' folders, against transformers' own forward pass."""

import json
from contextlib import nullcontext

import pytest
import torch
from safetensors.torch import load_file

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report, load_net
from vit_lightning.weights.save import save

transformers = pytest.importorskip("transformers")

SIZES = {"Ti": (192, 3), "S": (384, 6), "B": (768, 12)}
SMALL = {"hidden_size": 96, "num_attention_heads": 3, "num_hidden_layers": 2, "image_size": 32, "patch_size": 8}
NAMES = {"id2label": {0: "tench", 1: "snow leopard", 2: "Zürich tram, blue", 3: "no. 7"}}
KINDS = {
    **{
        size: (
            "ViTForImageClassification",
            {"hidden_size": width, "num_attention_heads": heads, "intermediate_size": 4 * width},
        )
        for size, (width, heads) in SIZES.items()
    },
    "tanh": ("ViTForImageClassification", {"hidden_act": "gelu_pytorch_tanh", "intermediate_size": 200}),
    "other epsilon": ("ViTForImageClassification", {"layer_norm_eps": 1e-5, "intermediate_size": 200}),
    "no bias": ("ViTForImageClassification", {"qkv_bias": False, "intermediate_size": 200}),
    "not square": ("ViTForImageClassification", {"image_size": [24, 48], "intermediate_size": 200}),
    "backbone with pooler": ("ViTModel", {"intermediate_size": 200}),
    "dinov2": ("Dinov2ForImageClassification", {}),
    "dinov2 backbone": ("Dinov2Model", {}),
    "dinov2 gated": ("Dinov2ForImageClassification", {"use_swiglu_ffn": True}),
    "dinov2 with registers": ("Dinov2WithRegistersForImageClassification", {"num_register_tokens": 3}),
    "patch does not divide": ("Dinov2ForImageClassification", {"image_size": 38}),
}


def published(kind, folder, randomise):
    name, arguments = KINDS[kind]
    family = name.removesuffix("ForImageClassification").removesuffix("Model")
    config = getattr(transformers, f"{family}Config")(**SMALL | NAMES | arguments)
    theirs = randomise(getattr(transformers, name)(config))
    theirs.save_pretrained(folder)
    return theirs


def output(theirs, images):
    with torch.no_grad():
        out = theirs(images)
    return out.logits if hasattr(out, "logits") else out.pooler_output


@pytest.mark.parametrize("kind", KINDS)
def test_folder_gives_its_logits_there_and_back(kind, tmp_path, randomise, difference):
    theirs = published(kind, tmp_path / "theirs", randomise)
    net, report = load_net(tmp_path / "theirs")
    images = torch.randn(2, 3, *net.image_size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert difference(net.eval()(images), output(theirs, images)) < 1e-5
    assert report.class_names == (list(NAMES["id2label"].values()) if net.num_classes else [])
    assert not report.missing and net.config.crop_to_patch == (kind == "patch does not divide")
    assert set(report.dropped) <= {"embeddings.mask_token"}

    report.mean, report.std = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)
    assert save(net, report, tmp_path / "ours", "huggingface") == 0
    opened, info = type(theirs).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info.values())
    assert difference(output(opened.eval(), images), output(theirs, images)) < 1e-5
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "ours")
    assert tuple(processor.image_mean) == report.mean
    assert (processor.size["height"], processor.size["width"]) == net.image_size
    if net.num_classes:
        assert opened.config.id2label == NAMES["id2label"]
    assert load_net(tmp_path / "ours")[1].mean == report.mean


@pytest.mark.parametrize("kind", ["Ti", "tanh", "backbone with pooler", "dinov2", "dinov2 with registers"])
def test_file_comes_back_bit_identical(kind, tmp_path, randomise):
    published(kind, tmp_path / "theirs", randomise)
    net, report = load_net(tmp_path / "theirs")
    save(net, report, tmp_path / "ours", "huggingface")
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "ours"))
    changed = [name for name in before if name not in after or not torch.equal(before[name], after[name])]
    assert all(name.endswith("mask_token") for name in changed)
    assert after.keys() <= before.keys()


def test_dinov2_head_that_reads_the_class_token_alone(tmp_path, randomise, difference):
    """transformers' head reads two vectors; ours comes back as it was, and transformers computes the same."""
    net = randomise(
        build(NetConfig("S/14", width=96, heads=3, mlp=384, depth=2, layer_scale=1e-5, gelu="exact"), 56, 4)
    )
    save(net, Report("", ""), tmp_path / "hf", "huggingface")
    again, _ = load_net(tmp_path / "hf")
    assert again.config.pool == "token"
    assert torch.equal(again.head.weight, net.head.weight)
    images = torch.randn(2, 3, 56, 56)
    theirs = transformers.Dinov2ForImageClassification.from_pretrained(tmp_path / "hf").eval()
    with torch.no_grad():
        assert difference(output(theirs, images), net(images)) < 1e-5


def test_shards_and_pickles(tmp_path, randomise):
    theirs = published("Ti", tmp_path / "one", randomise)
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="1MB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    (tmp_path / "bin").mkdir()
    torch.save(load_file(tmp_path / "one" / "model.safetensors"), tmp_path / "bin" / "pytorch_model.bin")
    (tmp_path / "bin" / "config.json").write_text((tmp_path / "one" / "config.json").read_text())
    nets = [load_net(tmp_path / folder)[0].state_dict() for folder in ("one", "shards", "bin")]
    for other in nets[1:]:
        assert all(torch.equal(nets[0][name], other[name]) for name in nets[0])


def test_names_follow_their_numbers_not_the_text(tmp_path, randomise):
    """JSON sorted as text puts 10 before 2."""
    published("tanh", tmp_path, randomise)
    config = json.loads((tmp_path / "config.json").read_text())
    labels = {str(number): config["id2label"][str(number)] for number in (3, 0, 2, 1)}
    (tmp_path / "config.json").write_text(json.dumps(config | {"id2label": labels}))
    assert load_net(tmp_path)[1].class_names == list(NAMES["id2label"].values())


def test_names_of_more_than_ten_classes_follow_their_numbers(tmp_path, randomise):
    """Sorted as text, 10 and 11 would come before 2."""
    names = [f"kind {letter}" for letter in "lkjihgfedcba"]
    config = transformers.ViTConfig(**SMALL, intermediate_size=8, id2label=dict(enumerate(names)))
    randomise(transformers.ViTForImageClassification(config)).save_pretrained(tmp_path)
    assert load_net(tmp_path)[1].class_names == names


@pytest.mark.parametrize("kind", ["tanh", "dinov2", "dinov2 with registers"])
def test_what_a_config_leaves_out_is_what_transformers_takes(kind, tmp_path, randomise):
    """transformers writes what differs from its defaults alone, and ViT's epsilon is another than DINOv2's."""
    theirs = published(kind, tmp_path, randomise)
    config = json.loads((tmp_path / "config.json").read_text())
    names = ("layer_norm_eps", "hidden_act", "qkv_bias", "layerscale_value", "pooler_act", "use_swiglu_ffn")
    kept = {name: value for name, value in config.items() if name not in names}
    (tmp_path / "config.json").write_text(json.dumps(kept))
    default = type(theirs.config)()
    found = load_net(tmp_path)[0].config
    assert found.norm_eps == default.layer_norm_eps
    assert found.layer_scale == getattr(default, "layerscale_value", 0.0)
    assert (found.gelu, default.hidden_act, found.swiglu) == ("exact", "gelu", False)


@pytest.mark.parametrize("fields", [{"registers": 2}, {"swiglu": True}, {"pool": "gap"}, {"representation": 8}])
def test_nets_that_transformers_cannot_say(fields, tmp_path):
    net = build(NetConfig("Ti/8", width=32, heads=2, mlp=64, depth=1, **fields), 16, 4)
    with pytest.raises(InputError, match=rf"net\.{next(iter(fields))}=.*: convert to"):
        save(net, Report("", ""), tmp_path / "hf", "huggingface")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "deit"}, "model_type 'deit'"),
        ({"hidden_act": "quick_gelu"}, "'quick_gelu'"),
        ({"pooler_act": "relu"}, "'relu'"),
        ({"num_attention_heads": "three"}, "num_attention_heads.*'three'"),
        ({"num_attention_heads": 5}, "5 heads do not divide"),
        ({"layer_norm_eps": "small"}, "layer_norm_eps.*'small'"),
        ({"id2label": "tench"}, "id2label.*'tench'"),
        ({"image_size": [32]}, "image_size"),
        ({"id2label": {"one": "a"}}, "id2label.*no numbers"),
        ({"num_hidden_layers": 5}, r"num_hidden_layers=5.*2 blocks"),
    ],
)
def test_config_that_is_wrong(change, message, tmp_path, randomise):
    published("tanh", tmp_path, randomise)
    config = json.loads((tmp_path / "config.json").read_text()) | change
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=message):
        load_net(tmp_path)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "patch does not divide"])  # no tensor shows it
def test_what_tensors_without_their_config_cannot_tell_is_named_and_may_be_stated(
    kind, tmp_path, randomise, difference
):
    theirs = published(kind, tmp_path, randomise)
    known, _ = load_net(tmp_path)
    (tmp_path / "config.json").unlink()
    net, report = load_net(tmp_path, heads=known.config.heads, image_size=known.image_size)
    eps = 1e-12 if "vit" in report.layout else 1e-6
    fields = f"net.norm_eps={eps}" if known.config.swiglu else f"net.gelu=exact, net.norm_eps={eps}"
    assert f"the file does not say {fields}: assumed; --model.net." in str(report)
    assert report.class_names == []
    stated = NetConfig(norm_eps=known.config.norm_eps, gelu=None if known.config.swiglu else known.config.gelu)
    net, report = load_net(tmp_path, heads=known.config.heads, image_size=known.image_size, stated=stated)
    assert "assumed" not in str(report)
    images = torch.randn(2, 3, *net.image_size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert difference(net.eval()(images), output(theirs, images)) < 1e-5


def test_a_config_of_another_model(tmp_path, randomise):
    published("tanh", tmp_path, randomise)
    (tmp_path / "config.json").write_text('{"model_type": "beit"}')
    with pytest.raises(InputError, match=r"of the model_type 'beit': only vit, dinov2"):
        load_net(tmp_path)


def test_a_config_that_leaves_out_what_the_tensors_tell_is_enough(tmp_path, randomise):
    """Of 224 pixels, transformers' default, and with a size of two sides the table is that of two sides."""
    sides = {"image_size": 224, "patch_size": 16}
    config = transformers.ViTConfig(**SMALL | sides, intermediate_size=200, id2label={0: "a", 1: "b", 2: "c"})
    theirs = randomise(transformers.ViTForImageClassification(config))
    theirs.save_pretrained(tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    needed = ("model_type", "num_attention_heads", "id2label")
    (tmp_path / "config.json").write_text(json.dumps({name: said[name] for name in needed}))
    net, report = load_net(tmp_path)
    assert net.image_size == (224, 224) and report.class_names == ["a", "b", "c"]
    assert (net.config.depth, net.config.mlp, net.config.heads, net.config.patch) == (2, 200, 3, 16)
    images = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(net.eval()(images), theirs(images).logits, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_classes_of_one_s_own_sigmoid_are_said(tmp_path, loss):
    net = build(NetConfig("Ti/8", width=16, depth=1, heads=2, mlp=24, gelu="exact"), (16, 24), 3)
    report = Report("", "", mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    report.training = {"recipe": {"loss": loss}}
    save(net, report, tmp_path / "x", "huggingface")
    names = ("config", "preprocessor_config")
    said, prepared = (json.loads((tmp_path / "x" / f"{name}.json").read_text()) for name in names)
    assert said.get("problem_type") == ("multi_label_classification" if loss == "sigmoid" else None)
    assert said["image_size"] == [16, 24] and said["hidden_act"] == "gelu"
    assert said["id2label"] == {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}
    assert said["label2id"] == {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2}
    assert prepared["size"] == {"height": 16, "width": 24} and prepared["resample"] == 2
    assert (prepared["image_mean"], prepared["image_std"]) == ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
    assert prepared["do_rescale"] and prepared["rescale_factor"] == 1 / 255
    again = load_net(tmp_path / "x")[1]
    assert again.loss == (loss if loss == "sigmoid" else None) and again.class_names == []


@pytest.mark.parametrize("size", [(36, 48), (48, 36)])
def test_a_side_that_the_patch_does_not_divide_is_cropped(size, tmp_path, randomise):
    net = randomise(build(NetConfig("Ti/8", width=16, heads=2, mlp=64, depth=1, crop_to_patch=True), size, 4))
    save(net, Report("", ""), tmp_path / "hf", "huggingface")
    found, _ = load_net(tmp_path / "hf")
    assert found.config.crop_to_patch and found.image_size == size and found.grid == (size[0] // 8, size[1] // 8)


def test_names_for_other_outputs_than_the_head_s_are_none(tmp_path, randomise):
    published("tanh", tmp_path, randomise)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"id2label": {"0": "tench", "1": "cat"}}))
    assert load_net(tmp_path)[1].class_names == []


@pytest.mark.parametrize("classes", [0, 4])
def test_a_hidden_layer_goes_with_the_model_alone(classes, tmp_path, randomise):
    net = randomise(build(NetConfig("Ti/8", width=16, heads=2, mlp=64, depth=1, representation=8), 16, classes))
    with (
        pytest.raises(InputError, match=r"net\.representation=8: convert to npz or checkpoint")
        if classes
        else nullcontext()
    ):
        save(net, Report("", ""), tmp_path / "hf", "huggingface")
        assert load_net(tmp_path / "hf")[0].config.representation == 8
