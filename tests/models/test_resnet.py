from dataclasses import asdict

import numpy as np
import pytest
import torch
from einops import rearrange
from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, ResNet, ViT, build
from vit_lightning.models.resnet import Conv, HybridUnit, SameConv, pad_same

TINY = {"width": 16, "depth": 1, "heads": 2, "mlp": 24}
NETS = {"hybrid": NetConfig("R26+S/32", stages=(1, 1), **TINY), "bit": NetConfig("R26x0.5", stages=(1, 2))}
BOTH = pytest.mark.parametrize("config", NETS.values(), ids=NETS)


def random_net(config: NetConfig, size: int | tuple[int, int] = 32) -> ViT | ResNet:
    torch.manual_seed(0)
    net = build(config, size, 5).eval()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.normal_(1.0 if "norm" in name and "weight" in name else 0.0, 0.3)
    return net


def test_equals_the_official_hybrid(golden_case, official):
    case = golden_case("A3_hybrid_2_2")
    config = NetConfig("R26+S/32", stages=tuple(case.model["resnet_stages"]), **case.config)
    net = build(config, case.model["image_size"], case.model["num_classes"]).eval()
    net.load_state_dict(official(case.arrays) | stem_state(case.arrays))
    with torch.no_grad():
        outputs = {
            "backbone_map": rearrange(net.stem(case.images), "b c y x -> b y x c"),
            "encoder_tokens": net.tokens(case.images),
            "pre_logits": net.features(case.images),
            "logits": net(case.images),
        }
    for name, value in outputs.items():
        assert np.abs(value.numpy() - case.expected[name]).max() <= case.tolerance[name], name


def stem_state(arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    state = {}
    for name, array in arrays.items():
        if name.startswith(("block", "conv_root", "gn_root")):
            *place, module, kind = name.split("/")
            block = [f"stages.{int(place[0][5:]) - 1}.{int(place[1][4:]) - 1}"] if place else []
            ours = ".".join(["stem", *block, module.replace("gn", "norm"), "bias" if kind == "bias" else "weight"])
            tensor = torch.from_numpy(array)
            state[ours] = rearrange(tensor, "p q i o -> o i p q") if kind == "kernel" else tensor.flatten()
    return state


def test_equals_the_official_bit(golden_case):
    case = golden_case("C1_bit_r26_half_width")
    net = build(NetConfig("R26x0.5"), case.model["image_size"], case.model["num_classes"]).eval()
    net.load_state_dict(bit_state(case.arrays))
    with torch.no_grad():
        outputs = {
            "final_map": rearrange(net.maps(case.images), "b c y x -> b y x c"),
            "pre_logits": net.features(case.images),
            "logits": net(case.images),
        }
    for name, value in outputs.items():
        assert np.abs(value.numpy() - case.expected[name]).max() <= case.tolerance[name], name


def bit_state(arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    numbers, kinds = {"a": "1", "b": "2", "c": "3"}, {"kernel": "weight", "gamma": "weight", "beta": "bias"}
    state = {}
    for name, array in arrays.items():
        *place, module, kind = name.removeprefix("resnet/").split("/")
        tensor = torch.from_numpy(array)
        if place[:1] == ["head"] or module == "head":
            state[f"head.{'bias' if kind == 'bias' else 'weight'}"] = (
                tensor.flatten() if kind == "bias" else rearrange(tensor, "1 1 i o -> o i")
            )
            continue
        if place[:1] == ["root_block"]:
            ours = "conv_root"
        elif not place:
            ours = "norm"
        else:
            ours = f"stages.{int(place[0][5:]) - 1}.{int(place[1][4:]) - 1}."
            conv = "conv_proj" if "proj" in place else f"conv{numbers[place[2]]}"
            ours += f"norm{numbers[place[2]]}" if module == "group_norm" else conv
        state[f"{ours}.{kinds[kind]}"] = rearrange(tensor, "p q i o -> o i p q") if kind == "kernel" else tensor
    return state


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "sides"),
    [
        (224, 7, 2, (2, 3)),
        (112, 3, 2, (0, 1)),
        (14, 3, 1, (1, 1)),
        (7, 3, 2, (1, 1)),
        (225, 7, 2, (3, 3)),
        (8, 1, 2, (0, 0)),
    ],
)
def test_same_padding_is_tensorflow_s(size, kernel, stride, sides):
    padded = pad_same(torch.ones(1, 1, size, 3), kernel, stride)[0, 0].amax(dim=1)
    before, after = sides
    assert padded.tolist() == [0.0] * before + [1.0] * size + [0.0] * after
    assert (len(padded) - kernel) // stride + 1 == -(-size // stride)


@pytest.mark.parametrize("size", [(9, 12), (8, 7)])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (3, 1), (3, 2), (7, 2)])
def test_a_convolution_that_pads_same_equals_a_loop(size, kernel, stride):
    conv, maps = SameConv(2, 4, kernel, stride), torch.randn(1, 2, *size)
    w = conv.weight.detach().numpy()
    axes = (1, 2, 3)
    w = (w - w.mean(axes, keepdims=True)) / (w.std(axes, keepdims=True) + 1e-5)
    padded = pad_same(maps, kernel, stride)[0].numpy()
    out = conv(maps)[0].detach()
    assert out.shape == (4, *(-(-side // stride) for side in size))
    for y in range(out.shape[1]):
        for x in range(out.shape[2]):
            window = padded[:, y * stride : y * stride + kernel, x * stride : x * stride + kernel]
            expected = (w * window).sum(axes)
            assert np.abs(out[:, y, x] - expected).max() < 1e-5 * max(1, np.abs(expected).max())


@pytest.mark.parametrize("conv", [Conv, SameConv])
def test_kernels_are_standardised_with_the_stated_epsilon(conv):
    layer = conv(1, 2, 3)
    with torch.no_grad():
        layer.weight.copy_(1e-5 * torch.arange(18).reshape(2, 1, 3, 3))
    deviation = 1e-5 * np.arange(9).std()
    scale = np.sqrt(deviation**2 + 1e-10) if conv is Conv else deviation + 1e-5
    expected = 1e-5 * (np.arange(9) - 4) / scale
    assert layer.standardised()[0].flatten().tolist() == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-7)


def test_a_hybrid_unit_starts_as_its_shortcut():
    unit, maps = HybridUnit(128, 32, stride=1), torch.randn(2, 128, 5, 5).relu()
    assert not unit.project
    assert torch.equal(unit(maps), maps)


def test_group_norms_have_the_stated_epsilon():
    hybrid, bit = (build(config, 32, 5) for config in NETS.values())
    assert {module.eps for module in hybrid.modules() if hasattr(module, "num_groups")} == {1e-6}
    assert {module.eps for module in bit.modules() if hasattr(module, "num_groups")} == {1e-5}


@pytest.mark.parametrize(
    ("variant", "grid"),
    [
        *((variant, (7, 12)) for variant in ("R+Ti/16", "R26+S/32", "R26+B/32", "R50+B/32", "R50+L/32")),
        *((variant, (14, 24)) for variant in ("R50+B/16", "R50+L/16")),
    ],
)
def test_hybrids_have_the_stated_grid(variant, grid):
    with torch.device("meta"):
        nets = [build(NetConfig(variant, depth=1), size, 10) for size in (224, 384)]
        maps = [net.patches(net.stem(torch.empty(1, 3, *net.image_size))).shape[1] for net in nets]
    assert [net.grid for net in nets] == [(side, side) for side in grid]
    assert maps == [side * side for side in grid]


@pytest.mark.parametrize("config", [*NETS.values(), NetConfig("R+Ti/16", **TINY)], ids=lambda config: config.variant)
def test_odd_sizes_agree_with_the_grid(config):
    net = random_net(config, (97, 61) if config.variant != "R+Ti/16" else (125, 61))
    images = torch.randn(2, 3, *net.image_size)
    maps = net.maps(images) if isinstance(net, ResNet) else net.stem(images)
    patch = net.config.patch
    assert (maps.shape[2] // patch, maps.shape[3] // patch) == net.grid
    assert net(images).shape == (2, 5)


@BOTH
def test_compiles_to_one_graph_with_any_batch(config, assert_one_graph):
    assert_one_graph(random_net(config), torch.randn(2, 3, 32, 32), torch.randn(3, 3, 32, 32))


@BOTH
def test_exports_with_any_batch(config):
    net = random_net(config)
    program = torch.export.export(net, (torch.randn(2, 3, 32, 32),), dynamic_shapes=({0: torch.export.Dim("b")},))
    images = torch.randn(3, 3, 32, 32)
    assert (program.module()(images) - net(images)).abs().max() < 1e-4


@BOTH
def test_a_net_starts_at_its_head_bias(config):
    net = build(NetConfig(**asdict(config) | {"head_bias": -6.9}), 32, 5)
    assert net(torch.randn(2, 3, 32, 32)).unique().tolist() == pytest.approx([-6.9])


def test_a_resnet_says_what_it_has_not():
    net = build(NETS["bit"], 32, 5)
    images = torch.zeros(1, 3, 32, 32)
    with pytest.raises(InputError, match=r"R26x0\.5 has no tokens"):
        net.tokens(images)
    with pytest.raises(InputError, match=r"R26x0\.5 has no attention"):
        net.attention(images)
    with pytest.raises(InputError, match=r"1 channels.*expects 3"):
        net(images[:, :1])


def test_depth_of_counts_units():
    net = build(NETS["bit"], 32, 5)
    assert net.config.depth == 3
    names = ["conv_root.weight", "stages.0.0.conv1.weight", "stages.1.0.norm1.bias", "stages.1.1.conv3.weight"]
    assert [net.depth_of(name) for name in [*names, "norm.weight", "head.weight"]] == [0, 1, 2, 3, 4, 4]
    assert build(NETS["hybrid"], 32, 5).depth_of("stem.stages.0.0.conv1.weight") == 0


@BOTH
def test_only_kernels_are_tensors_named_weight(config):
    for name, parameter in build(config, 32, 5).named_parameters():
        if "conv" in name:
            assert name.endswith(".weight")
            assert parameter.ndim == 4
        if "norm" in name:
            assert parameter.ndim == 1


def test_units_are_counted_through_stages_of_other_lengths():
    net = build(NetConfig("R50x1", stages=(1, 3, 2, 1), width=32), 32, 3)
    names = ["conv_root", *(f"stages.{i}.{j}.conv2" for i, count in enumerate((1, 3, 2, 1)) for j in range(count))]
    assert [net.depth_of(f"{name}.weight") for name in names] == list(range(8))
    assert net.depth_of("norm.weight") == net.depth_of("head.bias") == 8


@pytest.mark.parametrize(("code", "stem", "bit"), [("official", 1e-6, 1e-5), ("timm", 1e-5, 1e-5)])
def test_norms_have_the_epsilon_of_the_code_that_made_them(code, stem, bit):
    hybrid = build(NetConfig("R26+S/32", stages=(1, 1, 1, 1), depth=1, resnet_code=code), 32, 3)
    plain = build(NetConfig("R50x1", stages=(1, 1), resnet_code=code), 32, 3)
    for net, eps in ((hybrid.stem, stem), (plain, bit)):
        found = {module.eps for module in net.modules() if isinstance(module, torch.nn.GroupNorm)}
        assert found == {eps}
