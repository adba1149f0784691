"""What each variant is, and where the fields of a net end; tests/compute/test_cost.py counts parameters."""

import math

import pytest

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, resolve
from vit_lightning.models.variants import SIZES, described

# name: layers, width, hidden width of the MLP, heads. Sources: the paper's Table 1, AugReg's Table 1, big_vision's
# `decode_variant`.
PUBLISHED = {
    "mu": (1, 32, 128, 2),
    "Ti": (12, 192, 768, 3),
    "S": (12, 384, 1536, 6),
    "M": (12, 512, 2048, 8),
    "B": (12, 768, 3072, 12),
    "L": (24, 1024, 4096, 16),
    "So400m": (27, 1152, 4304, 16),
    "H": (32, 1280, 5120, 16),
    "g": (40, 1408, 6144, 16),
    "g-opt": (40, 1536, 6144, 16),
    "G": (48, 1664, 8192, 16),
    "G-opt": (48, 1536, 8192, 16),
    "e": (56, 1792, 15360, 16),
}


def test_sizes_are_the_published_ones():
    assert SIZES == PUBLISHED
    for name, (depth, width, mlp, heads) in PUBLISHED.items():
        config = resolve(NetConfig(f"{name}/14"))
        assert (config.depth, config.width, config.mlp, config.heads) == (depth, width, mlp, heads)
        assert (config.patch, config.stride, config.stages) == (14, 14, ())


@pytest.mark.parametrize(
    ("variant", "stages", "patch"),
    [
        ("R+Ti/16", (0,), 8),
        ("R26+S/32", (2, 2, 2, 2), 1),
        ("R50+L/32", (3, 4, 6, 3), 1),
        ("R50+B/16", (3, 4, 9), 1),
        ("R101x1", (3, 4, 23, 3), 1),
        ("R152x4", (3, 8, 36, 3), 1),
        ("R200x3", (3, 24, 36, 3), 1),
    ],
)
def test_hybrids_and_resnets_have_the_published_stages(variant, stages, patch):
    config = resolve(NetConfig(variant))
    assert (config.stages, config.patch) == (stages, patch)
    if variant.endswith(("x1", "x3", "x4")):
        assert config.width == 64 * int(variant[-1]) and config.depth == sum(stages)


def test_what_a_net_has_if_nobody_says():
    config = resolve(NetConfig())
    said = {"variant": "B/16", "channels": 3, "pool": "token", "class_token": True, "position": "learned"}
    said |= {"position_at": "stem", "attention": "global", "attention_init": "xavier", "gelu": "tanh", "swiglu": False}
    said |= {"norm_eps": 1e-6, "embed_norm": False, "norm_after_pool": False, "representation": 0, "registers": 0}
    said |= {"dropout": 0, "stochastic_depth": 0, "patch_dropout": 0, "layer_scale": 0, "head_bias": 0}
    said |= {"position_temperature": 10_000, "crop_to_patch": False, "resnet_code": "official"}
    assert {name: getattr(config, name) for name in said} == said
    assert not resolve(NetConfig(pool="gap")).class_token and not resolve(NetConfig(pool="map")).class_token
    assert (
        resolve(NetConfig(pool="token_and_gap")).class_token
        and resolve(NetConfig(pool="token_and_gap")).pooled_width == 1536
    )
    assert resolve(NetConfig(registers=4)).prefix_tokens == 5 and resolve(NetConfig(pool="gap")).prefix_tokens == 0


WAVES, TABLES = {"position": "sincos_2d"}, {"position": "learned_2d"}
ENDS = [
    ({"width": 1, "heads": 1}, {"width": 0, "heads": 1}, "net.width is 0: choose 1 or more"),
    ({"channels": 1}, {"channels": 0}, "net.channels is 0: choose 1 or more"),
    ({"patch": 1}, {"patch": 0}, "net.patch is 0: choose 1 or more"),
    ({"depth": 1}, {"depth": 0}, "net.depth is 0: choose 1 or more"),
    ({"mlp": 1}, {"mlp": 0}, "net.mlp is 0: choose 1 or more"),
    ({"heads": 1}, {"heads": 0}, "net.heads is 0: choose 1 or more"),
    ({"registers": 0}, {"registers": -1}, "net.registers is -1: choose 0 or more"),
    ({"representation": 0}, {"representation": -1}, "net.representation is -1: choose 0 or more"),
    ({"stride": 1}, {"stride": 0}, "net.stride is 0: choose 1 to 16"),
    ({"stride": 16}, {"stride": 17}, "net.stride is 17: choose 1 to 16"),
    ({"dropout": 0.999}, {"dropout": 1}, "net.dropout is 1, which is no rate"),
    ({"stochastic_depth": 0}, {"stochastic_depth": -1e-9}, "stochastic_depth is -1e-09, which is no rate"),
    ({"patch_dropout": 0.999}, {"patch_dropout": math.nan}, "patch_dropout is nan, which is no rate"),
    ({"norm_eps": 1e-12}, {"norm_eps": 0}, "net.norm_eps is 0: choose a number above 0 and below 1"),
    ({"norm_eps": 0.999}, {"norm_eps": 1}, "net.norm_eps is 1: choose"),
    ({"head_bias": -3.4e38}, {"head_bias": -3.5e38}, "net.head_bias is -3.5e.38: choose a number that float32 holds"),
    ({"layer_scale": 3.4e38}, {"layer_scale": math.inf}, "net.layer_scale is inf: choose"),
    (WAVES | {"position_temperature": 1.001}, WAVES | {"position_temperature": 1}, "above 1"),
    (WAVES | {"width": 8, "heads": 1}, WAVES | {"width": 6, "heads": 1}, "by 4, got 6"),
    (
        {"position": "learned_2d", "width": 6, "heads": 1},
        {"position": "learned_2d", "width": 7, "heads": 1},
        "2, got 7",
    ),
    ({"pool": "gap", "class_token": True}, {"pool": "token", "class_token": False}, "reads the class token"),
    ({"pool": "token_and_gap"}, {"pool": "token_and_gap", "norm_after_pool": True}, "leave net.norm_after_pool out"),
    ({"pool": "token_and_gap"}, {"pool": "token_and_gap", "class_token": False}, "reads the class token"),
    ({"pool": "gap", "attention": "axial"}, {"pool": "token", "attention": "axial"}, "no row or column"),
]


@pytest.mark.parametrize(("right", "wrong", "said"), ENDS)
def test_fields_have_their_ends(right, wrong, said):
    config = resolve(NetConfig("Ti/16", **right))
    assert all(getattr(config, name) == value for name, value in right.items())
    with pytest.raises(InputError, match=said):
        resolve(NetConfig("Ti/16", **wrong))


@pytest.mark.parametrize(
    "field", ["pool", "position", "position_at", "attention", "gelu", "attention_init", "resnet_code"]
)
def test_a_word_that_is_none_of_the_choices_is_refused(field):
    with pytest.raises(InputError, match=f"net.{field} is 'odd', which is none of "):
        resolve(NetConfig("Ti/16", **{field: "odd"}))


def test_local_heads_may_have_four_features_and_no_less():
    fields = {"position": "sincos_2d", "attention_init": "local", "pool": "gap", "width": 64}
    assert resolve(NetConfig("Ti/16", heads=16, **fields)).attention_init == "local"
    with pytest.raises(InputError, match="heads of 4 features or more, but 32 share a width of 64"):
        resolve(NetConfig("Ti/16", heads=32, **fields))


def test_a_resnet_has_groups_of_32_and_stages():
    assert resolve(NetConfig("R50x0.5")).width == 32
    with pytest.raises(InputError, match="32 groups do not divide the 48 channels"):
        resolve(NetConfig("R50x1", width=48))
    with pytest.raises(InputError, match=r"net\.stages=\(2, -1\) has a stage without units"):
        resolve(NetConfig("R50x1", stages=(2, -1)))


def test_a_name_says_what_a_net_has_otherwise():
    config = vars(resolve(NetConfig("B/16", depth=3, width=192, heads=3, pool="gap", dropout=0.1)))
    assert described("B/16", config) == "B/16 with depth 3, width 192, heads 3"
    assert described("B/16", vars(resolve(NetConfig("B/16")))) == "B/16"


EVERY = ("every_layer", "every_layer_shared")
OTHERWISE = {
    "patch": 9,
    "stride": 2,
    "heads": 5,
    "mlp": 77,
    "pool": "map",
    "class_token": True,
    "representation": 5,
    "position": "sincos_2d",
    "position_temperature": 30.0,
    "position_at": "every_layer",
    "attention": "axial",
    "attention_init": "local",
    "patch_dropout": 0.5,
    "layer_scale": 0.1,
    "registers": 2,
    "gelu": "exact",
    "swiglu": True,
    "norm_after_pool": True,
    "norm_eps": 1e-5,
    "embed_norm": True,
    "crop_to_patch": True,
}
READ = {
    "timm/resnet10t": {"channels": 1, "dropout": 0.1, "stochastic_depth": 0.1, "head_bias": -10.0},
    "R50x1": {"channels": 1, "width": 32, "stages": (1, 1), "resnet_code": "timm", "head_bias": -10.0},
}
IDLE = {
    "timm/resnet10t": OTHERWISE | {"width": 8, "depth": 3, "resnet_code": "timm"},
    "R50x1": OTHERWISE | {"dropout": 0.1, "stochastic_depth": 0.1},
}


@pytest.mark.parametrize(("variant", "field"), [(variant, field) for variant in IDLE for field in IDLE[variant]])
def test_a_field_that_a_net_does_not_read_is_refused(variant, field):
    with pytest.raises(InputError, match=rf"net\.{field}=\S+ .*means? nothing in {variant}|^net\.{field}"):
        resolve(NetConfig(variant, **{field: IDLE[variant][field]}))


@pytest.mark.parametrize("variant", READ)
def test_fields_that_a_net_reads_are_taken(variant):
    config = resolve(NetConfig(variant, **READ[variant]))
    assert {name: getattr(config, name) for name in READ[variant]} == READ[variant]


@pytest.mark.parametrize(
    "other", [{"attention": "axial", "pool": "gap"}, {"position": "relative"}, *({"position_at": at} for at in EVERY)]
)
def test_patches_are_left_out_of_nets_alone_that_need_them_at_the_start_alone(other):
    name, value = next(iter(other.items()))
    with pytest.raises(InputError, match=rf"net\.{name}={value} needs every patch, of which net\.patch_dropout=0\.5"):
        resolve(NetConfig("Ti/16", patch_dropout=0.5, **other))
    for position in ("learned", "learned_2d", "sincos_2d", "none"):
        assert resolve(NetConfig("Ti/16", patch_dropout=0.5, position=position)).patch_dropout == 0.5


@pytest.mark.parametrize(
    ("name", "value"), [("position", "learned"), ("position_at", "every_layer"), ("attention", "axial")]
)
def test_local_attention_needs_positions_at_the_stem_and_all_tokens(name, value):
    right = {"position": "sincos_2d", "attention_init": "local", "pool": "gap"}
    with pytest.raises(InputError, match=rf"attention_init=local needs net\.{name}=\w+, got {value}: set it"):
        resolve(NetConfig("Ti/16", **right | {name: value}))


@pytest.mark.parametrize("temperature", [math.inf, math.nan, -5.0])
def test_a_temperature_is_a_number_above_one(temperature):
    with pytest.raises(InputError, match=r"net\.position_temperature is .*: choose a number above 1"):
        resolve(NetConfig("Ti/16", position="sincos_2d", position_temperature=temperature))


@pytest.mark.parametrize("position", ["learned", "learned_2d", "relative", "none"])
def test_a_temperature_is_for_waves_alone(position):
    with pytest.raises(InputError, match=rf"position_temperature=30 is for net\.position=sincos_2d, not {position}"):
        resolve(NetConfig("Ti/16", position=position, position_temperature=30))


def test_the_code_of_a_resnet_means_nothing_without_one():
    assert resolve(NetConfig("R50+B/16", resnet_code="timm")).resnet_code == "timm"
    with pytest.raises(InputError, match=r"resnet_code=timm means nothing without a ResNet, in Ti/16"):
        resolve(NetConfig("Ti/16", resnet_code="timm"))
