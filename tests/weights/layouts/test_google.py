"""The JAX files: every dialect, against the original implementations' outputs and a plain numpy net."""

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from einops import rearrange

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report, load_into, load_net
from vit_lightning.weights.layouts import google
from vit_lightning.weights.layouts.tensor_mapping import to_theirs
from vit_lightning.weights.save import save

WIDTH, HEADS, MLP, PATCH, GRID, DEPTH, CLASSES = 32, 2, 48, 8, 4, 2, 5
LINEN = dict(zip(google.PUBLISHED, google.LINEN, strict=True))


def published(pre_logits=0, zero_head=False, head=True, depth=DEPTH, seed=0):
    """Random arrays under the published names, as case C6 asks."""
    draw = np.random.default_rng(seed)

    def array(*shape, mean=0.0):
        return (mean + 0.1 * draw.standard_normal(shape)).astype(np.float32)

    def dense(*shape, bias):
        return {"kernel": array(*shape), "bias": array(*bias)}

    def norm():
        return {"scale": array(WIDTH, mean=1.0), "bias": array(WIDTH)}

    k = WIDTH // HEADS
    groups = {
        "embedding": dense(PATCH, PATCH, 3, WIDTH, bias=(WIDTH,)),
        "Transformer/encoder_norm": norm(),
        **({"pre_logits": dense(WIDTH, pre_logits, bias=(pre_logits,))} if pre_logits else {}),
        **({"head": dense(pre_logits or WIDTH, CLASSES, bias=(CLASSES,))} if head else {}),
    }
    for i in range(depth):
        norm1, attention, norm2, mlp = (f"Transformer/encoderblock_{i}/{child}" for child in google.PUBLISHED)
        groups |= {norm1: norm(), norm2: norm()}
        groups |= {f"{attention}/{part}": dense(WIDTH, HEADS, k, bias=(HEADS, k)) for part in ("query", "key", "value")}
        groups[f"{attention}/out"] = dense(HEADS, k, WIDTH, bias=(WIDTH,))
        groups |= {f"{mlp}/Dense_0": dense(WIDTH, MLP, bias=(MLP,)), f"{mlp}/Dense_1": dense(MLP, WIDTH, bias=(WIDTH,))}
    arrays = {f"{group}/{name}": value for group, values in groups.items() for name, value in values.items()}
    arrays |= {"cls": array(1, 1, WIDTH), google.TABLE: array(1, GRID * GRID + 1, WIDTH)}
    if zero_head:
        arrays |= {name: np.zeros_like(arrays[name]) for name in ("head/kernel", "head/bias")}
    return arrays


def numpy_logits(w, images):
    """The official forward pass, in float64: LayerNorm with 1e-6, GELU in its tanh approximation."""
    w = {name: value.astype(np.float64) for name, value in w.items()}

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * w[f"{name}/scale"] + w[f"{name}/bias"]

    def dense(x, name):
        return x @ w[f"{name}/kernel"] + w[f"{name}/bias"]

    x = rearrange(images.astype(np.float64), "b (y p) (x q) c -> b (y x) (p q c)", p=PATCH, q=PATCH)
    x = x @ w["embedding/kernel"].reshape(-1, WIDTH) + w["embedding/bias"]
    x = np.concatenate([np.broadcast_to(w["cls"], (len(x), 1, WIDTH)), x], axis=1) + w[google.TABLE]
    for i in range(DEPTH):
        norm1, attention, norm2, mlp = (f"Transformer/encoderblock_{i}/{child}" for child in google.PUBLISHED)
        y = norm(x, norm1)
        q, k, v = (
            np.einsum("bnd,dhk->bhnk", y, w[f"{attention}/{part}/kernel"]) + w[f"{attention}/{part}/bias"][:, None]
            for part in ("query", "key", "value")
        )
        logits = np.einsum("bhik,bhjk->bhij", q, k) / math.sqrt(WIDTH // HEADS)
        share = np.exp(logits - logits.max(-1, keepdims=True))
        mixed = np.einsum("bhij,bhjk->bihk", share / share.sum(-1, keepdims=True), v)
        x = x + np.einsum("bihk,hkd->bid", mixed, w[f"{attention}/out/kernel"]) + w[f"{attention}/out/bias"]
        y = dense(norm(x, norm2), f"{mlp}/Dense_0")
        y = 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
        x = x + dense(y, f"{mlp}/Dense_1")
    x = norm(x, "Transformer/encoder_norm")[:, 0]
    return dense(np.tanh(dense(x, "pre_logits")) if "pre_logits/kernel" in w else x, "head")


def write(path, arrays):
    np.savez(path, **arrays)
    return path


@pytest.fixture
def images():
    return np.random.default_rng(1).uniform(-1, 1, (2, 32, 32, 3)).astype(np.float32)


@pytest.mark.parametrize("pre_logits", [0, 20])
def test_forward_equals_numpy(pre_logits, tmp_path, images):
    arrays = published(pre_logits)
    net, report = load_net(write(tmp_path / "w.npz", arrays))
    with torch.no_grad():
        logits = net.eval()(torch.from_numpy(rearrange(images, "b y x c -> b c y x"))).numpy()
    assert np.abs(logits - numpy_logits(arrays, images)).max() < 1e-5
    assert (report.mean, report.std) == ((0.5,) * 3, (0.5,) * 3)
    assert not report.missing
    assert not report.dropped


def test_zero_head_is_reported(tmp_path):
    net, report = load_net(write(tmp_path / "w.npz", published(zero_head=True)))
    assert net.num_classes == CLASSES
    assert report.missing == {"head.weight": "not released: zeros", "head.bias": "not released: zeros"}
    assert "not released" in str(report)


def test_hidden_layer_is_dropped_with_the_head_and_reported(tmp_path):
    source = write(tmp_path / "w.npz", published(pre_logits=20))
    net = build(NetConfig("Ti/8", width=WIDTH, depth=DEPTH, heads=HEADS, mlp=MLP), 32, 3)
    report = load_into(net, source, head="reset")
    assert set(report.dropped) == {
        f"{layer}.{part}" for layer in ("representation", "head") for part in ("weight", "bias")
    }
    assert set(report.missing) == {"head.weight", "head.bias"}
    assert "representation" in str(report)


def test_without_a_head(tmp_path, images):
    net, _ = load_net(write(tmp_path / "w.npz", published(head=False)))
    assert net.num_classes == 0
    assert net(torch.zeros(1, 3, 32, 32)).shape == (1, WIDTH)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Transformer/encoderblock_1/LayerNorm_2/scale": None}, "lacks Transformer/encoderblock_1/LayerNorm_2/scale"),
        ({"extra/kernel": np.zeros(3)}, "holds extra/kernel, unknown"),
        ({"cls": None}, "17 rows fits no square grid"),
        ({"head/bias": None}, "lacks head/bias"),
        ({google.TABLE: None}, "lacks the tensor Transformer/posembed_input"),
        ({"embedding/kernel": np.zeros((8, 4, 3, WIDTH))}, "8x4 pixels"),
        ({"cls": np.zeros(WIDTH)}, r"make class_token \(32,\), but its net needs \(1, 1, 32\)"),
        ({"Transformer/encoderblock_0/MlpBlock_3/Dense_1/kernel": np.zeros((WIDTH, MLP))}, r"needs \(32, 48\)"),
        ({"Transformer/encoderblock_0/MultiHeadDotProductAttention_1/key/kernel": np.zeros((WIDTH, WIDTH))}, "axes"),
        ({"Transformer/encoderblock_0/LayerNorm_5/scale": np.zeros(WIDTH)}, "LayerNorm_5/scale, unknown"),
    ],
)
def test_damage_is_named(change, message, tmp_path):
    arrays = {name: value for name, value in (published() | change).items() if value is not None}
    with pytest.raises(InputError, match=message):
        load_net(write(tmp_path / "w.npz", arrays))


def test_npz_to_net_to_npz_is_bit_identical(tmp_path):
    arrays = published(pre_logits=20)
    net, report = load_net(write(tmp_path / "w.npz", arrays))
    save(net, report, tmp_path / "again.npz", "npz")
    again = np.load(tmp_path / "again.npz")
    assert set(again.files) == set(arrays)
    assert all(np.array_equal(again[name], arrays[name]) for name in arrays)


# Dialects ------------------------------------------------------------------------------------------------------------


def linen(arrays):
    def new(name):
        for published_child, child in LINEN.items():
            name = name.replace(f"/{published_child}/", f"/{child}/")
        return name

    return {new(name): value for name, value in arrays.items()}


def scan(arrays):
    """One array for all blocks."""
    stacked = {name: value for name, value in arrays.items() if "encoderblock_" not in name}
    for name in [name for name in arrays if "encoderblock_0/" in name]:
        blocks = [arrays[name.replace("encoderblock_0/", f"encoderblock_{i}/")] for i in range(DEPTH)]
        stacked[name.replace("encoderblock_0/", "encoderblock/")] = np.stack(blocks)
    return stacked


def under(prefix, arrays):
    return {f"{prefix}{name}": value for name, value in arrays.items()}


TRAINING = {"opt/0/count": np.zeros(()), "opt/0/mu/cls": np.zeros((1, 1, WIDTH)), "chrono/x": np.zeros(2)}
DIALECTS = {
    "linen": linen,
    "old optimiser tree": lambda arrays: under("opt/target/", arrays) | {"opt/state/step": np.zeros(())},
    "old big_vision": lambda arrays: {
        name.replace("posembed_input/", ""): value for name, value in linen(arrays).items()
    },
    "params": lambda arrays: under("params/", linen(arrays)) | TRAINING,
    "image tower": lambda arrays: (
        under("params/img/", linen(arrays)) | {"params/txt/head/bias": np.zeros(3), "params/t": np.ones(1)}
    ),
    "beside training": lambda arrays: arrays | TRAINING,
    "scan": lambda arrays: scan(linen(arrays)),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_gives_the_same_net(dialect, tmp_path):
    arrays = published()
    plain, _ = load_net(write(tmp_path / "plain.npz", arrays))
    spoken = DIALECTS[dialect](arrays)
    net, report = load_net(write(tmp_path / "w.npz", spoken))
    assert all(torch.equal(value, net.state_dict()[name]) for name, value in plain.state_dict().items())
    beside = {name for name in spoken if name.startswith(("opt/0", "opt/state", "chrono", "params/t"))}
    assert set(report.dropped) == beside


def test_class_token_without_position(tmp_path):
    """big_vision's table holds the patches alone; moving row 0 into the token is the same net."""
    arrays = published()
    moved = linen(arrays)
    table = moved.pop(google.TABLE)
    moved["cls"] = moved["cls"] + table[:, :1]
    moved["pos_embedding"] = table[:, 1:]
    net, _ = load_net(write(tmp_path / "moved.npz", moved))
    plain, _ = load_net(write(tmp_path / "plain.npz", arrays))
    assert not net.position.table[:, 0].count_nonzero()
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(net.eval()(images), plain.eval()(images))


def test_bfloat16(tmp_path):
    arrays = published()
    halves = {name: (value.view(np.uint32) >> 16).astype(np.uint16).view("V2") for name, value in arrays.items()}
    net, _ = load_net(write(tmp_path / "w.npz", halves))
    expected = (arrays["head/bias"].view(np.uint32) & 0xFFFF0000).view(np.float32)
    assert net.head.bias.dtype == torch.float32
    assert np.array_equal(net.head.bias.detach().numpy(), expected)


@pytest.mark.parametrize("old", [False, True])
def test_map_head_and_fixed_positions(old, tmp_path, randomise):
    """What only big_vision has goes out in its names and comes back; before 2022 the head had no folder of its own."""
    fields = {"width": WIDTH, "depth": DEPTH, "heads": HEADS, "mlp": MLP, "pool": "map", "position": "sincos_2d"}
    net = randomise(build(NetConfig("Ti/8", **fields), 32, 3))
    save(net, Report("", ""), tmp_path / "w.npz", "npz")
    arrays = dict(np.load(tmp_path / "w.npz"))
    assert "MAPHead_0/MultiHeadDotProductAttention_0/query/kernel" in arrays
    assert "Transformer/encoderblock_0/LayerNorm_1/scale" in arrays
    if old:
        arrays = {name.removeprefix("MAPHead_0/"): value for name, value in arrays.items()}
    again, _ = load_net(write(tmp_path / "again.npz", arrays), image_size=32)
    assert replace(again.config, variant="Ti/8") == net.config
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(again.eval()(images), net(images))
    assert load_net(tmp_path / "again.npz")[0].image_size == (224, 224)


@pytest.mark.parametrize(("pool", "comes_back"), [("gap", True), ("map", True), ("token", False)])
def test_fixed_positions_come_back_of_a_net_without_a_class_token(pool, comes_back, tmp_path, randomise):
    fields = {"width": WIDTH, "depth": DEPTH, "heads": HEADS, "mlp": MLP, "pool": pool, "position": "sincos_2d"}
    net, file = randomise(build(NetConfig("Ti/8", **fields), 32, 3)), tmp_path / "w.npz"
    if not comes_back:
        with pytest.raises(InputError, match="convert to checkpoint"):
            save(net, Report("", ""), file, "npz")
        return
    assert save(net, Report("", ""), file, "npz") < 1e-5
    assert "Transformer/encoderblock_0/LayerNorm_1/scale" in np.load(file).files  # as big_vision calls it
    assert load_net(file, image_size=32)[0].config.position == "sincos_2d"


def test_map_head_equals_numpy(tmp_path, randomise):
    """big_vision's MAPHead, written anew from its paper (arXiv 2205.01580): a probe attends to all tokens."""
    fields = {"width": WIDTH, "depth": DEPTH, "heads": HEADS, "mlp": MLP, "pool": "map"}
    net = randomise(build(NetConfig("Ti/8", **fields), 32, 3))
    save(net, Report("", ""), tmp_path / "made.npz", "npz")
    draw = np.random.default_rng(2)
    arrays = {name: draw.standard_normal(value.shape) * 0.2 for name, value in np.load(tmp_path / "made.npz").items()}
    again, _ = load_net(write(tmp_path / "w.npz", {name: value.astype(np.float32) for name, value in arrays.items()}))
    w = {name.removeprefix("MAPHead_0/"): value for name, value in arrays.items() if name.startswith("MAPHead_0/")}
    attention, mlp = "MultiHeadDotProductAttention_0", "MlpBlock_0"
    tokens = draw.standard_normal((2, 16, WIDTH))
    q = np.einsum("bnd,dhk->bhnk", w["probe"], w[f"{attention}/query/kernel"]) + w[f"{attention}/query/bias"][:, None]
    key, value = (
        np.einsum("bnd,dhk->bhnk", tokens, w[f"{attention}/{part}/kernel"]) + w[f"{attention}/{part}/bias"][:, None]
        for part in ("key", "value")
    )
    share = np.exp(np.einsum("bhik,bhjk->bhij", q, key) / math.sqrt(WIDTH // HEADS))
    mixed = np.einsum("bhij,bhjk->bihk", share / share.sum(-1, keepdims=True), value)
    pooled = np.einsum("bihk,hkd->bid", mixed, w[f"{attention}/out/kernel"]) + w[f"{attention}/out/bias"]
    centred = pooled - pooled.mean(-1, keepdims=True)
    y = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * w["LayerNorm_0/scale"] + w["LayerNorm_0/bias"]
    y = y @ w[f"{mlp}/Dense_0/kernel"] + w[f"{mlp}/Dense_0/bias"]
    y = 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
    expected = (pooled + y @ w[f"{mlp}/Dense_1/kernel"] + w[f"{mlp}/Dense_1/bias"])[:, 0]
    with torch.no_grad():
        found = again.eval().pool(torch.from_numpy(tokens.astype(np.float32))).numpy()
    assert np.abs(found.reshape(expected.shape) - expected).max() < 1e-5


def test_gap_without_table_in_published_names_is_refused(tmp_path):
    """Only big_vision's names may lack a table: there it means fixed positions."""
    arrays = published()
    del arrays["cls"], arrays[google.TABLE]
    with pytest.raises(InputError, match="lacks the tensor Transformer/posembed_input"):
        load_net(write(tmp_path / "w.npz", arrays))


def test_what_a_file_does_not_say_is_named_and_may_be_stated(tmp_path):
    """timm computes the same files with the exact GELU."""
    path = write(tmp_path / "w.npz", published())
    net, report = load_net(path)
    assert "the file does not say net.gelu=tanh, net.norm_eps=1e-06: assumed; --model.net.gelu" in str(report)
    assert (net.config.gelu, net.config.norm_eps) == ("tanh", 1e-6)
    net, report = load_net(path, stated=NetConfig(gelu="exact", norm_eps=1e-5))
    assert "assumed" not in str(report)
    assert (net.config.gelu, net.config.norm_eps) == ("exact", 1e-5)


def test_the_code_of_a_hybrids_stem_is_named_too(tmp_path, randomise):
    net = randomise(build(NetConfig("Ti/1", width=WIDTH, depth=1, heads=HEADS, mlp=MLP, stages=(0,)), 16, 3))
    save(net, Report("", ""), tmp_path / "w.npz", "npz")
    fields = "net.gelu=tanh, net.norm_eps=1e-06, net.resnet_code=official"
    assert f"the file does not say {fields}: assumed" in str(load_net(tmp_path / "w.npz")[1])
    stated, _ = load_net(tmp_path / "w.npz", stated=NetConfig(resnet_code="timm"))
    assert stated.config.resnet_code == "timm"


# Hybrids and ResNets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("stages", [(0,), (1, 1, 1, 1)])
def test_hybrids_come_back(stages, flat, tmp_path, randomise):
    config = NetConfig("Ti/1", width=WIDTH, depth=1, heads=HEADS, mlp=MLP, stages=stages)
    net = randomise(build(config, 32 if len(stages) == 4 else 16, 3))
    save(net, Report("", ""), tmp_path / "w.npz", "npz")
    arrays = dict(np.load(tmp_path / "w.npz"))
    assert arrays["gn_root/scale"].shape == (1, 1, 1, 64)
    if flat:
        arrays = {name: value.reshape(-1) if "/gn" in f"/{name}" else value for name, value in arrays.items()}
    again, _ = load_net(write(tmp_path / "again.npz", arrays))
    assert again.config.stages == stages
    assert again.image_size == net.image_size
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize("numbered", [False, True])
def test_resnets_come_back(numbered, tmp_path, randomise):
    net = randomise(build(NetConfig("R50x1", width=32, stages=(1, 2)), 32, 3))
    save(net, Report("", ""), tmp_path / "w.npz", "npz")
    arrays = dict(np.load(tmp_path / "w.npz"))
    if numbered:
        arrays = {name.replace("conv2d/", f"conv2d_{i}/"): value for i, (name, value) in enumerate(arrays.items())}
        arrays = {re_head(name): value for name, value in arrays.items()}
    again, _ = load_net(write(tmp_path / "again.npz", arrays), image_size=32)
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in net.state_dict().items())


def re_head(name):
    """The head's layer has no number."""
    return (
        name
        if "standardized" in name or "conv2d_" not in name
        else name.partition("conv2d_")[0] + "conv2d/" + name.rpartition("/")[2]
    )


# The originals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "A1_token_prelogits",
        "A2_token_depth12",
        "A3_hybrid_2_2",
        "A4_resize_32_to_48",
        "B1_tok_learned",
        "C1_bit_r26_half_width",
    ],
)
def test_golden(name, golden):
    folder = golden / name
    case = json.loads((folder / "case.json").read_text())
    net, report = load_net(folder / "weights.npz", image_size=case["model"]["image_size"])
    images = torch.from_numpy(rearrange(np.load(folder / "input.npy"), "b y x c -> b c y x"))
    expected, tolerance = np.load(folder / "expected.npz"), case["tolerance"]
    with torch.no_grad():
        outputs = {"logits": net.eval()(images), "pre_logits": net.features(images)}
        if "encoder_tokens" in expected:
            outputs["encoder_tokens"] = net.tokens(images)
        if "resampled_pos_embedding" in expected:
            outputs["resampled_pos_embedding"] = net.position.table.detach()
    for key, value in outputs.items():
        assert np.abs(value.numpy() - expected[key]).max() < tolerance[key], key
    assert not report.missing
    assert list(report.resampled) == (["position.table"] if name.startswith("A4") else [])


PAPER = [f"ViT-{size}" for size in ("Ti_16", "S_16", "S_32", "B_16", "B_32", "B_8", "L_16", "L_32", "H_14")] + [
    f"{stem}+ViT-{size}"
    for stem, size in [("R", "Ti_16"), ("R26", "S_32"), ("R26", "B_32"), ("R50", "B_16"), ("R50", "L_32")]
]


@pytest.mark.parametrize("name", PAPER)
def test_every_parameter_of_the_official_nets(name, kit):
    """Names and shapes that we write are those of the list made from the official code."""
    with (kit.parent / "spec" / "params.tsv").open() as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["model"] == name]
    listed = {row["npz_key"]: tuple(map(int, row["npz_shape"].strip("()").replace(",", " ").split())) for row in rows}
    classes = listed["head/kernel"][1]
    hidden = listed["pre_logits/kernel"][1] if "pre_logits/kernel" in listed else 0
    with torch.device("meta"):
        net = build(NetConfig(name.replace("ViT-", "").replace("_", "/"), representation=hidden), 224, classes)
    arrays = to_theirs(google.mappings(net.config), net.state_dict(), net.config, "npz")
    assert {key: tuple(value.shape) for key, value in arrays.items()} == listed
