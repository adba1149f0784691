import math

import numpy as np
import pytest
import torch
from einops import rearrange, repeat
from scipy.special import erf
from torch import Tensor, nn
from torch.nn import functional

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, blocks, build, vit
from vit_lightning.models.position import resample

# Nets that between them use every field of NetConfig.
VARIED = {
    "plain": {},
    "registers": {"registers": 2, "layer_scale": 0.1, "position": "learned_2d", "gelu": "exact"},
    "gap": {"pool": "gap", "registers": 2, "position": "sincos_2d", "position_at": "every_layer_shared"},
    "map": {"pool": "map", "position_at": "every_layer", "representation": 6},
    "relative": {"position": "relative", "channels": 2},
    "axial": {"pool": "gap", "attention": "axial", "position": "relative"},
    "overlapping": {"stride": 2, "position": "none"},
    "cropped": {"patch": 5, "crop_to_patch": True, "position_at": "every_layer_shared"},
}
EVERY = pytest.mark.parametrize("fields", VARIED.values(), ids=VARIED)


def images_for(net: nn.Module, batch: int = 3) -> Tensor:
    return torch.randn(batch, net.config.channels, *net.image_size, dtype=net.head.weight.dtype)


class Reference:
    """The net in numpy with loops, written from the paper's equations."""

    def __init__(self, net: nn.Module) -> None:
        self.c, self.grid = net.config, net.grid
        self.w = {
            name: value.detach().numpy() for name, value in (net.state_dict() | dict(net.named_buffers())).items()
        }

    def dense(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self.w[f"{name}.weight"].T + self.w[f"{name}.bias"]

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
        return x * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]

    def mlp(self, name: str, x: np.ndarray) -> np.ndarray:
        x = self.dense(f"{name}.up", x)
        tanh = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
        return self.dense(f"{name}.down", x / 2 * (1 + (tanh if self.c.gelu == "tanh" else erf(x / math.sqrt(2)))))

    def mix(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, table: np.ndarray | None = None) -> np.ndarray:
        result, size = np.zeros_like(q), q.shape[1] // self.c.heads
        for head in range(self.c.heads):
            s = slice(head * size, (head + 1) * size)
            for i in range(len(q)):
                offsets = [0 if table is None else table[i - j + len(k) - 1] for j in range(len(k))]
                logits = np.array([q[i, s] @ (k[j, s] + offsets[j]) for j in range(len(k))]) / math.sqrt(size)
                weights = np.exp(logits) / np.exp(logits).sum()
                result[i, s] = sum(weights[j] * v[j, s] for j in range(len(k)))
        return result

    def attention(self, name: str, x: np.ndarray, lines: list[list[int]]) -> np.ndarray:
        q, k, v = np.split(self.dense(f"{name}.qkv", x), 3, axis=1)
        table, mixed = self.w.get(f"{name}.position.table"), np.zeros_like(x)
        for line in lines:
            mixed[line] = self.mix(q[line], k[line], v[line], table)
        return self.dense(f"{name}.out", mixed)

    def block(self, name: str, x: np.ndarray, lines: list[list[int]]) -> np.ndarray:
        scale1, scale2 = (self.w.get(f"{name}.scale{i}", 1) for i in (1, 2))
        x = x + scale1 * self.attention(f"{name}.attention", self.norm(f"{name}.norm1", x), lines)
        return x + scale2 * self.mlp(f"{name}.mlp", self.norm(f"{name}.norm2", x))

    def positions(self, name: str) -> np.ndarray:
        token, (rows, columns) = int(self.c.pool == "token"), self.grid
        zero = np.zeros((token, self.c.width))
        if f"{name}.rows" in self.w:
            x, y = self.w[f"{name}.columns"], self.w[f"{name}.rows"]
            patches = [np.concatenate([x[j], y[i]]) for i in range(rows) for j in range(columns)]
            table = np.concatenate([self.w[f"{name}.class_row"][0] if token else zero, patches])
        else:
            table = self.w[f"{name}.table"][0] if f"{name}.table" in self.w else np.zeros((token + rows * columns, 1))
        return np.insert(table, [token] * self.c.registers, 0, axis=0)

    def lines(self) -> list[list[list[int]]]:
        rows, columns = self.grid
        if self.c.attention == "global":
            return [[list(range(self.c.prefix_tokens + rows * columns))]] * self.c.depth
        by_row = [[y * columns + x for x in range(columns)] for y in range(rows)]
        by_column = [[y * columns + x for y in range(rows)] for x in range(columns)]
        return [by_row, by_column] * self.c.depth

    def pool(self, x: np.ndarray) -> np.ndarray:
        if self.c.pool == "token":
            return x[0]
        if self.c.pool == "gap":
            return x[self.c.registers :].mean(0)
        k, v = np.split(self.dense("pool.attention.kv", x), 2, axis=1)
        mixed = self.mix(self.dense("pool.attention.q", self.w["pool.probe"][0]), k, v)
        pooled = self.dense("pool.attention.out", mixed)
        return (pooled + self.mlp("pool.mlp", self.norm("pool.norm", pooled)))[0]

    def __call__(self, image: np.ndarray) -> np.ndarray:
        p, s, (rows, columns) = self.c.patch, self.c.stride, self.grid
        image = np.moveaxis(image, 0, -1)
        cut = [image[y * s : y * s + p, x * s : x * s + p].ravel() for y in range(rows) for x in range(columns)]
        prefix = [self.w[name][0] for name in ("class_token", "registers") if name in self.w]
        x = np.concatenate([*prefix, self.dense("patches.proj", np.array(cut))])
        for i, lines in enumerate(self.lines()):
            if self.c.position_at != "stem" or i == 0:
                x = x + self.positions(f"blocks.{i}.position" if self.c.position_at == "every_layer" else "position")
            x = self.block(f"blocks.{i}", x, lines)
        x = self.pool(self.norm("norm", x))
        return self.dense("head", np.tanh(self.dense("representation", x)) if self.c.representation else x)


@EVERY
def test_equals_an_independent_numpy_forward(tiny, fields):
    net = tiny(**fields).double()
    images = images_for(net)
    expected = [Reference(net)(image) for image in images.numpy()]
    np.testing.assert_allclose(net(images).detach(), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["A1_token_prelogits", "A2_token_depth12", "B1_tok_learned"])
def test_equals_the_official_code(golden_case, official, name):
    case = golden_case(name)
    net = build(NetConfig(**case.config), case.model["image_size"], case.model["num_classes"]).eval()
    net.load_state_dict(official(case.arrays))
    assert_golden(net, case)


def test_equals_the_official_code_at_another_resolution(golden_case, official):
    case = golden_case("A4_resize_32_to_48")
    net = build(NetConfig(**case.config), 48, case.model["num_classes"]).eval()
    state = official(case.arrays)
    state["position.table"] = resample(state["position.table"], (4, 4), net.grid)
    assert np.abs(state["position.table"] - case.expected["resampled_pos_embedding"]).max() <= 2e-5
    net.load_state_dict(state)
    assert_golden(net, case)


def test_equals_timm_with_the_exact_gelu(golden_case, golden):
    from safetensors.torch import load_file

    case = golden_case("D1_timm_token")
    net = build(NetConfig(gelu="exact", **case.config), 48, case.model["num_classes"]).eval()
    renamed = {
        "cls_token": "class_token",
        "pos_embed": "position.table",
        "patch_embed.": "patches.",
        ".attn.": ".attention.",
    }
    renamed |= {".attention.proj": ".attention.out", ".fc1.": ".up.", ".fc2.": ".down."}
    state = {}
    for name, tensor in load_file(golden / "D1_timm_token" / "model.safetensors").items():
        for theirs, ours in renamed.items():
            name = name.replace(theirs, ours)
        state[name] = rearrange(tensor, "d c p q -> d (p q c)") if tensor.ndim == 4 else tensor
    net.load_state_dict(state)
    assert_golden(net, case)


def assert_golden(net: nn.Module, case) -> None:
    with torch.no_grad():
        ours = {
            "logits": net(case.images),
            "pre_logits": net.features(case.images),
            "encoder_tokens": net.tokens(case.images),
        }
    for name, value in ours.items():
        assert np.abs(value.numpy() - case.expected[name]).max() <= case.tolerance[name], name


@EVERY
def test_explicit_attention_is_what_the_fused_forward_uses(tiny, fields, monkeypatch):
    net = tiny(**fields)
    images = images_for(net)
    logits, maps = net(images), net.attention(images)
    n = net.num_prefix_tokens + math.prod(net.grid)
    assert [m.shape for m in maps] == [(3, 2, n, n)] * len(net.blocks)
    assert all((m.sum(-1) - 1).abs().max() < 1e-6 for m in maps)

    def explicit(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        bias = 0 if attn_mask is None else attn_mask
        return (q @ k.mT / math.sqrt(q.shape[-1]) + bias).softmax(-1) @ v

    monkeypatch.setattr(vit, "scaled_dot_product_attention", explicit)
    assert (net(images) - logits).abs().max() < 1e-5


@EVERY
def test_attention_maps_reproduce_each_block(tiny, fields):
    net = tiny(**fields)
    attended = []
    for block in net.blocks:
        block.attention.register_forward_hook(lambda module, args, out: attended.append((module, args[0], out)))
    images = images_for(net)
    net.tokens(images)
    for weights, (module, tokens, out) in zip(net.attention(images), attended[: len(net.blocks)], strict=True):
        values = rearrange(module.qkv(tokens).chunk(3, dim=-1)[2], "b n (h k) -> b h n k", h=2)
        assert (module.out(rearrange(weights @ values, "b h n k -> b n (h k)")) - out).abs().max() < 1e-5


@EVERY
def test_the_last_block_computes_what_the_head_reads(tiny, fields):
    net = tiny(**fields).train()
    images = images_for(net)
    token = net.tokens(images)[:, 0]
    if net.config.pool == "token":
        expected = net.norm(token) if net.config.norm_after_pool else token
        assert (net.features(images) - net.representation(expected)).abs().max() < 1e-5


@EVERY
def test_compiles_to_one_graph_with_any_batch(tiny, fields, assert_one_graph):
    net = tiny(**fields).train()
    assert_one_graph(net, images_for(net, 2), images_for(net, 5))


@EVERY
def test_exports_with_any_batch(tiny, fields):
    net = tiny(**fields)
    program = torch.export.export(net, (images_for(net, 2),), dynamic_shapes=({0: torch.export.Dim("b")},))
    images = images_for(net, 4)
    assert (program.module()(images) - net(images)).abs().max() < 1e-5


def test_compiles_with_dropout_and_stochastic_depth(tiny):
    net = tiny(dropout=0.1, stochastic_depth=0.1).train()
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    images = images_for(net)
    first, second = compiled(images), compiled(images)
    assert not torch.equal(first, second)  # other draws
    first.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in net.parameters())
    assert torch.allclose(compiled.eval()(images), net.eval()(images), atol=1e-5)
    torch._dynamo.reset()


@pytest.mark.parametrize("stride", [2, 3, 4])
def test_patches_equal_a_convolution(stride):
    patches = vit.Patches(3, patch=4, stride=stride, width=7)
    images = torch.randn(2, 3, 10, 16)
    kernel = rearrange(patches.proj.weight, "d (p q c) -> d c p q", p=4, q=4)
    expected = functional.conv2d(images, kernel, patches.proj.bias, stride=stride)
    assert (patches(images) - rearrange(expected, "b d y x -> b (y x) d")).abs().max() < 1e-5


def test_h14_at_384_uses_378_pixels():
    with torch.device("meta"):
        net = build(NetConfig("H/14", depth=1, crop_to_patch=True), 384, 10)
    assert net.grid == (27, 27)
    net = build(NetConfig("Ti/14", depth=1, width=24, crop_to_patch=True), 384, 10).eval()
    images = torch.randn(1, 3, 384, 384)
    edge = images.clone()
    edge[:, :, 378:] = edge[:, :, :, 378:] = 9
    assert torch.equal(net.tokens(images), net.tokens(edge))


@pytest.mark.parametrize(
    ("size", "wrong", "fit"),
    [
        (385, 385, "384, or set --model.net.crop_to_patch"),
        ((224, 230), 230, "224, or"),
        (8, 8, "16"),
        (398, 398, "400, or"),
    ],
)
def test_a_size_that_the_patch_does_not_divide_is_an_error_with_both_numbers(size, wrong, fit):
    with pytest.raises(InputError, match=rf"Patches of 16 .*image size {wrong}:.*for example {fit}"):
        build(NetConfig("B/16"), size, 10)


def test_wrong_channels_and_sizes_are_errors_with_both_numbers(tiny):
    net = tiny()
    with pytest.raises(InputError, match=r"4 channels.*expects 3"):
        net(torch.zeros(1, 4, 8, 12))
    with pytest.raises(InputError, match=r"12x8 pixels.*expects 8x12"):
        net(torch.zeros(1, 3, 12, 8))


def test_initialisation_follows_the_official_code():
    torch.manual_seed(0)
    net = build(NetConfig("B/16", depth=1, representation=768, head_bias=-10.0, layer_scale=1e-5), 224, 100)
    state = {name: value.detach() for name, value in net.named_parameters()}

    def uniform(weight: Tensor, bound: float) -> None:
        assert bound * 0.999 < weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.01)

    for part in state["blocks.0.attention.qkv.weight"].chunk(3):
        uniform(part, math.sqrt(6 / (2 * 768)))
    uniform(state["blocks.0.attention.out.weight"], math.sqrt(6 / (2 * 768)))
    uniform(state["blocks.0.mlp.up.weight"], math.sqrt(6 / (768 + 3072)))
    uniform(state["blocks.0.mlp.down.weight"], math.sqrt(6 / (768 + 3072)))
    for name in ("patches.proj.weight", "representation.weight"):
        assert state[name].std().item() == pytest.approx(768**-0.5, rel=0.01)
        assert 1.99 < state[name].abs().max() * 0.87962566 * 768**0.5 <= 2.0001
    for name in ("blocks.0.mlp.up.bias", "blocks.0.mlp.down.bias"):
        assert state[name].std().item() == pytest.approx(1e-6, rel=0.1)
    for name in ("patches.proj.bias", "blocks.0.attention.qkv.bias", "blocks.0.attention.out.bias", "class_token"):
        assert not state[name].any()
    assert not state["representation.bias"].any()
    assert not state["head.weight"].any()
    assert (state["head.bias"] == -10).all()
    assert state["position.table"].std().item() == pytest.approx(0.02, rel=0.02)
    assert (state["blocks.0.scale1"] == 1e-5).all()
    assert (state["norm.weight"] == 1).all()
    assert net(torch.randn(1, 3, 224, 224)).unique().tolist() == [-10]


def test_map_pool_starts_as_big_vision_does():
    net = build(NetConfig("B/32", depth=1, pool="map"), 32, 10)
    assert 0.98 * math.sqrt(6 / 769) < net.pool.probe.abs().max() <= math.sqrt(6 / 769)
    for part in net.pool.attention.kv.weight.chunk(2):
        assert part.std().item() == pytest.approx(math.sqrt(2 / (2 * 768)), rel=0.01)


def test_a_net_without_storage_can_be_filled_layer_by_layer():
    fields = {"width": 16, "heads": 2, "depth": 2, "registers": 2, "position": "sincos_2d", "layer_scale": 0.1}
    with torch.device("meta"):
        net = build(NetConfig("Ti/4", **fields), 8, 3)
    net.to_empty(device="cpu")
    for module in net.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    filled = net.state_dict() | dict(net.named_buffers())
    fresh = build(NetConfig("Ti/4", **fields), 8, 3)
    assert torch.equal(filled["position.table"], fresh.position.table)
    assert all(torch.isfinite(value).all() and value.abs().max() <= 1 for value in filled.values())
    assert (net(torch.randn(1, 3, 8, 8)) == 0).all()


def test_dropout_acts_at_the_four_sites(tiny):
    net = tiny(dropout=0.5).train()
    shapes = []
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.register_forward_hook(
                lambda module, args, out: shapes.append((tuple(out.shape[1:]), (out == 0).any()))
            )
    net(images_for(net))
    # The last block computes the class token alone.
    assert [shape for shape, _ in shapes] == [(7, 16), (7, 16), (7, 24), (7, 16), (1, 16), (1, 24), (1, 16)]
    assert all(dropped for _, dropped in shapes)


def test_stochastic_depth_skips_whole_images_and_keeps_the_mean():
    skip = blocks.StochasticDepth(0.25)
    branch = torch.ones(20_000, 3, 2)
    out = skip(branch)
    assert out.unique().tolist() == pytest.approx([0, 4 / 3])
    assert torch.equal(out, out[:, :1, :1].expand_as(out))
    assert out.mean().item() == pytest.approx(1, abs=0.02)
    assert skip.eval()(branch) is branch


def test_stochastic_depth_grows_linearly_and_is_off_in_eval(tiny):
    net = tiny(depth=5, stochastic_depth=0.2)
    assert [block.skip.rate for block in net.blocks] == pytest.approx([0, 0.05, 0.1, 0.15, 0.2])
    images = images_for(net)
    assert torch.equal(net(images), tiny(depth=5)(images))


def test_patch_dropout_keeps_prefix_and_some_patches_of_each_image():
    drop = vit.PatchDropout(kept=6, prefix=2)
    tokens = repeat(torch.arange(10.0), "n -> b n d", b=2000, d=3)
    out = drop(tokens)
    assert out.shape == (2000, 8, 3) and torch.equal(out, repeat(out[..., 0], "b n -> b n d", d=3))
    assert torch.equal(out[:, :2], tokens[:, :2])
    kept = out[:, 2:, 0].int()
    assert all(len(set(row)) == 6 for row in kept.tolist())
    assert torch.allclose(kept.flatten().bincount(minlength=10)[2:] / 2000, torch.tensor(6 / 8), atol=0.05)
    assert drop.eval()(tokens) is tokens


@pytest.mark.parametrize("fields", [{}, {"pool": "map"}, {"pool": "gap", "position": "sincos_2d"}], ids=str)
def test_patches_left_out_shorten_training_alone(tiny, fields):
    net, whole = tiny(patch_dropout=0.5, **fields), tiny(**fields)
    images = images_for(net)
    assert torch.equal(net(images), whole(images))
    seen = []
    net.train().blocks[0].register_forward_pre_hook(lambda module, args: seen.append(args[0].shape[1]))
    net(images).sum().backward()
    assert seen == [net.num_prefix_tokens + math.prod(net.grid) // 2]


def test_depth_of_counts_from_stem_to_head(tiny):
    net = tiny(registers=1, position_at="every_layer", representation=4)
    depths = {name: net.depth_of(name) for name, _ in net.named_parameters()}
    assert {depths[name] for name in ("class_token", "registers", "patches.proj.weight")} == {0}
    assert depths["blocks.0.position.table"] == depths["blocks.0.mlp.up.bias"] == 1
    assert depths["blocks.1.norm1.weight"] == 2
    assert {depths[name] for name in ("norm.weight", "representation.bias", "head.weight")} == {3}
    assert tiny(position="learned").depth_of("position.table") == 0
    axial = tiny(pool="gap", attention="axial")
    assert [axial.depth_of(f"blocks.{i}.norm1.weight") for i in range(4)] == [1, 1, 2, 2]


@EVERY
def test_only_kernels_are_matrices_named_weight(tiny, fields):
    others = {"class_token", "registers", "probe", "table", "rows", "columns", "class_row", "scale1", "scale2", "bias"}
    for name, parameter in tiny(**fields).named_parameters():
        kind = name.split(".")[-1]
        assert parameter.ndim == (1 if "norm" in name else 2) if kind == "weight" else kind in others


@EVERY
def test_every_parameter_gets_a_gradient(tiny, fields):
    net = tiny(**fields).train()
    net(images_for(net)).square().sum().backward()
    assert all(parameter.grad.any() for parameter in net.parameters())
