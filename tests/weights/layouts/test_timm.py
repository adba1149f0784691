"""timm's nets: every kind that the layout covers, against timm's own forward pass."""

import argparse
import json
import re
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import load_into, load_net, open_weights
from vit_lightning.weights.archive import Stored
from vit_lightning.weights.completeness import check_whole
from vit_lightning.weights.layouts.timm import read, recognises
from vit_lightning.weights.load import _skeleton
from vit_lightning.weights.save import save

timm = pytest.importorskip("timm")

SHALLOW = {"depth": 2, "num_classes": 11}
NARROW = {"embed_dim": 96, "num_heads": 3}
SIZES = ("tiny", "small", "base")
KINDS = {
    "tiny": ("vit_tiny_patch16_224", {}),
    "small": ("vit_small_patch32_224", {}),
    "base": ("vit_base_patch32_224", {"img_size": 96}),
    "large": ("vit_large_patch14_224", {"img_size": 56}),
    "not square": ("vit_tiny_patch16_224", {"img_size": (64, 96)}),
    "one channel": ("vit_tiny_patch16_224", {"img_size": 64, "in_chans": 1}),
    "no head": ("vit_tiny_patch16_224", {"img_size": 64, "num_classes": 0}),
    "gap with fc_norm keeps the token": ("vit_small_patch16_224", {"img_size": 64, "global_pool": "avg"}),
    "gap keeps the token, no fc_norm": (
        "vit_tiny_patch16_224",
        {"img_size": 64, "global_pool": "avg", "fc_norm": False},
    ),
    "gap without token": ("vit_base_patch16_gap_224", {"img_size": 64}),
    "gap, no bias in qkv": ("vit_medium_patch16_gap_240", {"img_size": 64}),
    "registers": ("vit_medium_patch16_reg4_gap_256", {"img_size": 64}),
    "registers with positions": ("vit_so150m_patch16_reg4_gap_256", {"img_size": 64}),
    "token and registers with positions": ("vit_small_patch16_224", {"img_size": 64, "reg_tokens": 4}),
    "no_embed_class": ("deit3_small_patch16_224", {"img_size": 64}),
    "dinov2": ("vit_small_patch14_dinov2", {"img_size": 56}),
    "dinov2 with registers": ("vit_small_patch14_reg4_dinov2", {"img_size": 56}),
    "dinov2 giant": ("vit_giant_patch14_dinov2", {"img_size": 28}),
    "map": ("vit_base_patch16_siglip_224", {"img_size": 64}),
    "map and registers": ("vit_so150m_patch16_reg4_map_256", {"img_size": 64}),
    "tanh": ("vit_large_patch16_siglip_512", {"img_size": 64}),
    "clip": ("vit_base_patch32_clip_224", {"img_size": 64}),
    "patch does not divide": ("vit_so400m_patch14_siglip_384", {"img_size": 64}),
}


def images_for(net):
    return torch.randn(2, net.config.channels, *net.image_size, generator=torch.Generator().manual_seed(1))


def published(kind, folder, randomise, narrow=True):
    """A folder as timm publishes it, and timm's net; narrower than real unless the kind is a size."""
    name, arguments = KINDS[kind]
    arguments = SHALLOW | arguments | (NARROW if narrow and kind not in SIZES else {})
    theirs = randomise(timm.create_model(name, **arguments))
    timm.models.save_for_hf(theirs, folder, safe_serialization=True)
    return theirs


def check_kind(kind, folder, randomise, difference, narrow=True):
    theirs = published(kind, folder / "theirs", randomise, narrow)
    net, report = load_net(folder / "theirs")
    images = images_for(net)
    with torch.no_grad():
        expected = theirs(images)
        assert difference(net.eval()(images), expected) < 1e-5
    assert not report.missing
    assert not report.dropped
    assert list(report.mean) == json.loads((folder / "theirs" / "config.json").read_text())["pretrained_cfg"]["mean"]

    report.class_names = [f"class {i}" for i in range(net.num_classes)]
    assert save(net, report, folder / "ours", "timm") == 0
    opened = timm.create_model(f"local-dir:{folder / 'ours'}", pretrained=True).eval()
    with torch.no_grad():
        assert difference(opened(images), expected) < 1e-5
    assert tuple(opened.pretrained_cfg["mean"]) == report.mean


@pytest.mark.parametrize("kind", KINDS)
def test_folder_of_timm_gives_its_logits_there_and_back(kind, tmp_path, randomise, difference):
    check_kind(kind, tmp_path, randomise, difference)


def test_the_arguments_that_build_timms_net_win_over_what_else_is_said(tmp_path, randomise, difference):
    """4 x 6 patches and a token are as many rows as 5 x 5 patches alone."""
    arguments = SHALLOW | {"img_size": (64, 96), "global_pool": "avg", "fc_norm": False}
    theirs = randomise(timm.create_model("vit_tiny_patch16_224", **arguments))
    timm.models.save_for_hf(theirs, tmp_path / "theirs", model_args=arguments, safe_serialization=True)
    config = tmp_path / "theirs" / "config.json"
    said = json.loads(config.read_text())
    said["global_pool"], said["pretrained_cfg"]["input_size"] = "token", [3, 80, 80]
    config.write_text(json.dumps(said))
    net, _ = load_net(tmp_path / "theirs")
    opened = timm.create_model(f"local-dir:{tmp_path / 'theirs'}", pretrained=True).eval()
    assert net.image_size == opened.patch_embed.img_size == (64, 96)
    assert (net.config.pool, opened.global_pool) == ("gap", "avg")
    with torch.no_grad():
        assert difference(net.eval()(images_for(net)), opened(images_for(net))) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_folder_of_timm_in_its_real_width(kind, tmp_path, randomise, difference):
    check_kind(kind, tmp_path, randomise, difference, narrow=False)


@pytest.mark.parametrize("kind", ["tiny", "dinov2", "no_embed_class", "dinov2 with registers", "map", "registers"])
def test_file_comes_back_bit_identical(kind, tmp_path, randomise):
    published(kind, tmp_path / "theirs", randomise)
    net, report = load_net(tmp_path / "theirs")
    save(net, report, tmp_path / "ours", "timm")
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "ours"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["vit_tiny_patch16_384", "vit_small_patch16_224", "vit_base_patch16_224", "vit_large_patch32_224"]
)
def test_whole_nets(name, tmp_path, randomise, difference):
    theirs = randomise(timm.create_model(name))
    torch.save(theirs.state_dict(), tmp_path / "w.pth")
    net, _ = load_net(tmp_path / "w.pth")
    images = images_for(net)
    with torch.no_grad():
        assert difference(net.eval()(images), theirs(images)) < 1e-5


def test_bare_file_of_a_published_width_says_what_it_took_for_granted(tmp_path, randomise, difference):
    theirs = randomise(timm.create_model("vit_tiny_patch16_224", img_size=32, **SHALLOW))
    save_file(theirs.state_dict(), tmp_path / "w.safetensors")
    net, report = load_net(tmp_path / "w.safetensors")
    assert net.config.heads == 3
    assert "attention heads: as published nets of width 192" in str(report)
    assert report.mean is None
    images = images_for(net)
    with torch.no_grad():
        assert difference(net.eval()(images), theirs(images)) < 1e-5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"act_layer": "silu"}, "'silu'"),
        ({"act_layer": "quick_gelu"}, "'quick_gelu'"),
        ({"norm_layer": "rmsnorm"}, "works otherwise"),
        ({"pool_include_prefix": True}, "works otherwise"),
        ({"global_pool": "avgmax"}, "'avgmax'"),
        ({"num_heads": 5}, "5 heads do not divide"),
        ({"num_heads": 6}, "6 heads, but heads is 3"),
    ],
)
def test_config_that_we_cannot_follow(arguments, message, tmp_path, randomise):
    published("clip", tmp_path, randomise)
    said = json.loads((tmp_path / "config.json").read_text())
    said["model_args"] |= arguments
    (tmp_path / "config.json").write_text(json.dumps(said))
    with pytest.raises(InputError, match=message):
        load_net(tmp_path, heads=3)


def test_bare_file_of_another_width_needs_its_heads(tmp_path, randomise):
    theirs = timm.create_model("vit_tiny_patch16_224", img_size=32, **SHALLOW | NARROW)
    save_file(theirs.state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(InputError, match=r"width of 96.*pass heads"):
        load_net(tmp_path / "w.safetensors")
    with pytest.raises(InputError, match="7 heads do not divide"):
        load_net(tmp_path / "w.safetensors", heads=7)


@pytest.mark.parametrize(
    ("prefix", "nest"), [("module.", None), ("backbone.", "teacher"), ("_orig_mod.", "state_dict"), ("", "model")]
)
def test_training_prefixes_and_nests(prefix, nest, tmp_path, randomise):
    theirs = randomise(timm.create_model("vit_tiny_patch16_224", img_size=32, **SHALLOW))
    state = {f"{prefix}{name}": tensor for name, tensor in theirs.state_dict().items()}
    torch.save({nest: state, "epoch": 3} if nest else state, tmp_path / "w.pth")
    net, _ = load_net(tmp_path / "w.pth")
    assert torch.equal(net.blocks[1].mlp.up.weight, theirs.blocks[1].mlp.fc1.weight)


def test_mae_file_with_its_decoder_and_arguments(tmp_path, randomise):
    """What only pre-training needs is dropped and named; the arguments are plain values, which run nothing."""
    theirs = randomise(timm.create_model("vit_tiny_patch16_224", img_size=32, **SHALLOW | {"num_classes": 0}))
    decoder = {"mask_token": torch.zeros(1, 1, 8), "decoder_blocks.0.norm1.bias": torch.zeros(8)}
    content = {"model": theirs.state_dict() | decoder, "args": argparse.Namespace(lr=0.1, model="mae")}
    torch.save(content, tmp_path / "mae.pth")
    net, report = load_net(tmp_path / "mae.pth")
    assert set(report.dropped) == set(decoder)
    assert torch.equal(net.norm.weight, theirs.norm.weight)


def test_names_of_dinov2_itself(tmp_path, randomise, difference):
    """Its registers have no position, its class token has one, and its gated MLP is called w12 and w3."""
    theirs = randomise(
        timm.create_model("vit_giant_patch14_reg4_dinov2", img_size=28, **NARROW | SHALLOW | {"num_classes": 0})
    )
    state = theirs.state_dict()
    state["register_tokens"] = state.pop("reg_token")
    state["mask_token"] = torch.zeros(1, 96)
    row = torch.randn(1, 1, 96)
    state["cls_token"] = state["cls_token"] - row
    state["pos_embed"] = torch.cat([row, state["pos_embed"]], dim=1)
    for block in range(2):
        for part in ("weight", "bias"):
            state[f"blocks.{block}.mlp.w12.{part}"] = state.pop(f"blocks.{block}.mlp.fc1.{part}")
            state[f"blocks.{block}.mlp.w3.{part}"] = state.pop(f"blocks.{block}.mlp.fc2.{part}")
    torch.save(state, tmp_path / "w.pth")
    net, report = load_net(tmp_path / "w.pth", heads=3)
    assert report.dropped == {"mask_token": "only for masked pre-training"}
    images = images_for(net)
    with torch.no_grad():
        assert difference(net.eval()(images), theirs(images)) < 1e-5


@pytest.mark.slow
def test_every_architecture_of_timm_is_read_rightly_or_refused():
    """Heads, GELU, pooling, norms and tokens that we read from names and shapes are those of timm's own modules."""
    refused = []
    for name in timm.list_models("vit_*") + timm.list_models("deit*") + timm.list_models("flexivit*"):
        with torch.device("meta"):
            theirs = timm.create_model(name)
        if type(theirs) is not timm.models.VisionTransformer:
            continue
        size = theirs.pretrained_cfg["input_size"]
        said = {"architecture": name, "pretrained_cfg": {"input_size": size}}
        stored = {key: Stored(tuple(tensor.shape), lambda: None) for key, tensor in theirs.state_dict().items()}
        archive = SimpleNamespace(stored=stored, json=lambda file, said=said: said)
        if not recognises(archive):
            refused.append(name)
            continue
        try:
            weights = read(archive, None, None)
            check_whole(weights, _skeleton(weights.config, weights.image_size, weights.num_classes), name)
        except InputError:
            refused.append(name)
            continue
        ours, block = weights.config, theirs.blocks[0]
        activation = {"GELU": "exact", "GELUTanh": "tanh", "SiLU": "exact"}[type(block.mlp.act).__name__]
        assert (ours.heads, ours.norm_eps, ours.gelu) == (block.attn.num_heads, block.norm1.eps, activation), name
        assert ours.pool == {"token": "token", "avg": "gap", "map": "map"}[theirs.global_pool], name
        assert ours.norm_after_pool == isinstance(theirs.fc_norm, torch.nn.LayerNorm), name
        assert weights.image_size == tuple(size[1:]), name
        assert type(block) is timm.models.vision_transformer.Block, name
    other = re.compile(
        r"_mci_|_dlittle_|_dwee_|_radio_|_intern|_rpn_|_xp_|_18x2_|_dpwee_|_pwee_|_r\d*_s\d|_resnet|quickgelu"
    )
    assert not [name for name in refused if not other.search(name)]


# What a bare file cannot tell ----------------------------------------------------------------------------------------

OTHERWISE = {
    "act_layer": ({"act_layer": "gelu_tanh"}, {"gelu": "tanh"}),
    "eps": ({"norm_layer": partial(torch.nn.LayerNorm, eps=1e-3)}, {"norm_eps": 1e-3}),
    "pool": ({"global_pool": "avg", "fc_norm": False}, {"pool": "gap"}),
}


@pytest.mark.parametrize("kind", OTHERWISE)
def test_fields_that_a_bare_file_cannot_tell_are_named_and_may_be_stated(kind, tmp_path, randomise, difference):
    arguments, fields = OTHERWISE[kind]
    theirs = randomise(timm.create_model("vit_tiny_patch16_224", img_size=64, **SHALLOW, **arguments))
    save_file(theirs.state_dict(), tmp_path / "w.safetensors")
    assumed, report = load_net(tmp_path / "w.safetensors")
    stated, told = load_net(tmp_path / "w.safetensors", stated=NetConfig(**fields))
    images = images_for(assumed)
    with torch.no_grad():
        assert difference(assumed.eval()(images), theirs(images)) > 1e-5
        assert difference(stated.eval()(images), theirs(images)) < 1e-5
    note = "net.gelu=exact, net.norm_eps=1e-06, net.pool=token, net.norm_after_pool=False: assumed; --model.net.gelu"
    assert note in str(report)
    assert f"net.{next(iter(fields))}=" not in str(told)


def test_fit_and_convert_take_what_the_file_does_not_say(app, tmp_path, randomise):
    theirs = randomise(timm.create_model("vit_tiny_patch16_224", img_size=64, **SHALLOW))
    save_file(theirs.state_dict(), tmp_path / "w.safetensors")
    done = app("convert", "w.safetensors", "ours.ckpt", "--gelu", "tanh", "--norm_eps", "1e-5")
    assert done.code == 0, done.err
    net, report = load_net(tmp_path / "ours.ckpt")
    assert (net.config.gelu, net.config.norm_eps) == ("tanh", 1e-5)
    assert "assumed" not in str(report)
    net = build(NetConfig("Ti/16", depth=2, gelu="tanh"), 64, 11)
    with pytest.raises(InputError, match="set it to exact"):
        load_into(net, tmp_path / "w.safetensors")
    open_weights(tmp_path / "w.safetensors", stated=NetConfig(gelu="tanh")).fill(net)


def test_what_a_file_says_is_not_stated_otherwise(tmp_path, randomise):
    published("tiny", tmp_path, randomise)
    with pytest.raises(InputError, match="gelu=exact, but gelu is tanh: leave gelu out"):
        load_net(tmp_path, stated=NetConfig(gelu="tanh"))


# Nets that are others than they seem ---------------------------------------------------------------------------------


def test_blocks_in_chunks_are_dinov2s(tmp_path, randomise):
    """DINOv2 fills a chunk up with empty blocks, so that the inner number is that of the whole net."""
    theirs = randomise(timm.create_model("vit_small_patch14_dinov2", img_size=28, depth=3)).state_dict()
    chunked = {
        re.sub(r"^blocks\.(\d+)", lambda m: f"blocks.{int(m[1]) // 2}.{m[1]}", name): t for name, t in theirs.items()
    }
    assert any(name.startswith("blocks.1.2.") for name in chunked)
    torch.save(theirs, tmp_path / "plain.pth")
    torch.save(chunked, tmp_path / "chunked.pth")
    nets = [load_net(tmp_path / f"{name}.pth")[0].state_dict() for name in ("plain", "chunked")]
    assert all(torch.equal(nets[0][name], nets[1][name]) for name in nets[0])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("deit_tiny_distilled_patch16_224", r"a distilled DeiT \(.*second head.*--model.net.variant timm/"),
        ("beit_base_patch16_224", r"a BEiT"),
        ("eva02_tiny_patch14_224", r"an EVA|a BEiT or EVA"),
        ("vit_medium_patch16_rope_reg1_gap_256", r"EVA|lacks .* and holds .*another kind"),
    ],
)
def test_the_sentence_about_another_net_is_true(name, message, tmp_path):
    torch.save(timm.create_model(name, depth=1).state_dict(), tmp_path / "w.pth")
    with pytest.raises(InputError, match=message):
        load_net(tmp_path / "w.pth")
