import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from vit_lightning.compute.cost import macs, parameters, training_flops
from vit_lightning.models import NetConfig, build, resolve

# Columns: 1000 classes at 224, 384 and 512 (518 for /14); 21843 classes without and with the tanh layer (of size
# width), 1000 and 18291 with it; backbone only.
PARAMETERS = """
Ti/16 5717416 5790376 5876392 9740115 9777171 5754472 9091635 5524416
S/32 22878952 22915432 22958440 30903507 31051347 23026792 29683827 22493952
S/16 22050664 22196584 22368616 30075219 30223059 22198504 28855539 21665664
B/32 88224232 88297192 88383208 104252499 104843091 88814824 102111603 87455232
B/16 86567656 86859496 87203560 102595923 103186515 87158248 100455027 85798656
B/8 86576872 87744232 89120488 102605139 103195731 87167464 100464243 85807872
L/32 306535400 306632680 306747368 327899475 328949075 307585000 325308275 305510400
L/16 304326632 304715752 305174504 325690707 326740307 305376232 323099507 303301632
H/14 632045800 632651240 633470440 658745683 660385363 633685480 655835251 630764800
"""

# 1000 classes at 224, 384 and 512 (392 and 518 for /14), in 10^9.
MACS = """
Ti/16 1.254 4.682 10.434
S/32 1.143 3.443 6.368
S/16 4.599 15.490 31.749
B/32 4.409 13.044 23.650
B/16 17.564 55.484 107.028
B/8 78.148 294.045 657.971
L/32 15.378 45.276 81.664
L/16 61.555 191.066 361.986
H/14 167.295 544.952 1016.717
"""

# 1000 classes at 224 and 384; 21843 classes without and with the tanh layer.
HYBRID_PARAMETERS = """
R+Ti/16 6337704 6355944 10360403
R26+S/32 36431912 36468392 44456467 44604307
R26+B/32 101383976 101456936 117412243 118002835
R50+B/16 98659112 98950952 114687379 115277971
R50+L/32 328994856 329092136 350358931 351408531
"""

# 1000 and 21843 classes.
RESNET_PARAMETERS = """
R50x1 25549352 68256659
R50x2 97988712 183382483
R50x3 217319080 345399315
R101x1 44541480 87248787
R101x3 387934888 516015123
R152x1 60185128 102892435
R152x2 236335208 321728979
R152x4 936533224 1107299923
R200x3 568633000 696713235
"""

# 1000 classes at 224 and 384, in 10^9.
HYBRID_MACS = """
R+Ti/16 0.434 1.327
R26+S/32 3.464 10.264
R26+B/32 6.711 19.808
R50+B/32 8.458 24.941
R50+B/16 21.535 67.156
R50+L/32 19.413 57.136
R50+L/16 65.539 202.775
R50x1 4.089
R50x2 16.117
R50x3 36.082
R101x1 7.801
R101x3 69.492
R152x1 11.514
R152x2 45.814
R152x4 182.777
R200x3 134.347
"""


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def with_hidden(variant: str) -> NetConfig:
    return NetConfig(variant, representation=resolve(NetConfig(variant)).width)


@pytest.mark.parametrize("row", rows(PARAMETERS), ids=lambda row: row[0])
def test_parameters_of_the_class_token_nets(row):
    variant, *expected = row
    plain, hidden = NetConfig(variant, crop_to_patch=True), with_hidden(variant)
    assert [
        parameters(plain, 224, 1000),
        parameters(plain, 384, 1000),
        parameters(plain, 518 if variant == "H/14" else 512, 1000),
        parameters(plain, 224, 21843),
        parameters(hidden, 224, 21843),
        parameters(hidden, 224, 1000),
        parameters(hidden, 224, 18291),
        parameters(plain, 224, 0),
    ] == [int(number) for number in expected]


@pytest.mark.parametrize(
    ("variant", "expected"), [("S/16", 22_049_896), ("S/32", 22_878_184), ("B/16", 86_566_120), ("B/32", 88_222_696)]
)
def test_parameters_of_pooled_nets(variant, expected):
    assert parameters(NetConfig(variant, pool="gap"), 224, 1000) == expected


@pytest.mark.parametrize(("variant", "expected"), [("g/14", 1_011_199_616), ("G/14", 1_842_772_352)])
def test_parameters_of_pooled_giants_without_head(variant, expected):
    assert parameters(NetConfig(variant, pool="gap"), 224, 0) == expected


@pytest.mark.parametrize("row", rows(HYBRID_PARAMETERS), ids=lambda row: row[0])
def test_parameters_of_the_hybrids(row):
    variant, *expected = row
    plain = NetConfig(variant)
    counts = [parameters(plain, 224, 1000), parameters(plain, 384, 1000), parameters(plain, 224, 21843)]
    counts += [parameters(with_hidden(variant), 224, 21843)]
    assert counts[: len(expected)] == [int(number) for number in expected]


@pytest.mark.parametrize("row", rows(RESNET_PARAMETERS), ids=lambda row: row[0])
def test_parameters_of_the_resnets(row):
    variant, *expected = row
    assert [parameters(NetConfig(variant), 224, classes) for classes in (1000, 21843)] == [int(n) for n in expected]


@pytest.mark.parametrize("row", rows(HYBRID_MACS), ids=lambda row: row[0])
def test_macs_of_hybrids_and_resnets_to_the_printed_digit(row):
    variant, *expected = row
    assert [f"{macs(NetConfig(variant), size, 1000) / 1e9:.3f}" for size in (224, 384)][: len(expected)] == expected


@pytest.mark.parametrize("row", rows(MACS), ids=lambda row: row[0])
def test_macs_to_the_printed_digit(row):
    variant, *expected = row
    sizes = (224, 392, 518) if variant == "H/14" else (224, 384, 512)
    assert [f"{macs(NetConfig(variant), size, 1000) / 1e9:.3f}" for size in sizes] == expected


@pytest.mark.parametrize(("variant", "expected"), [("g/14", "267.0"), ("G/14", "483.7")])
def test_macs_of_the_giants(variant, expected):
    assert f"{macs(NetConfig(variant), 224, 1000) / 1e9:.1f}" == expected


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"pool": "map", "registers": 3, "representation": 20},
        {"pool": "map", "swiglu": True},
        {"pool": "token_and_gap", "swiglu": True, "representation": 20},
        {"pool": "gap", "attention": "axial"},
        {"pool": "gap", "attention": "axial", "swiglu": True},
        {"pool": "gap", "attention": "axial", "position": "relative"},
        {"position": "relative", "channels": 5},
        {"stride": 2},
    ],
    ids=str,
)
def test_macs_equal_what_torch_counts(fields):
    fields = {"variant": "Ti/4", "width": 32, "heads": 4, "depth": 3, "mlp": 48} | fields
    assert torch_flops(NetConfig(**fields), (16, 24)) == 2 * macs(NetConfig(**fields), (16, 24), 10)


@pytest.mark.parametrize("variant", ["R+Ti/16", "R50+B/16", "R26+S/32", "R50x1", "R26x0.5"])
def test_macs_of_convolutions_equal_what_torch_counts(variant):
    assert torch_flops(NetConfig(variant), (64, 96)) == 2 * macs(NetConfig(variant), (64, 96), 10)
    if variant != "R+Ti/16":
        assert torch_flops(NetConfig(variant), (67, 93)) == 2 * macs(NetConfig(variant), (67, 93), 10)


def torch_flops(config: NetConfig, size: tuple[int, int], training: bool = False) -> int:
    with torch.device("meta"):
        net = build(config, size, 10).train(training)
        images = torch.empty(1, net.config.channels, *size)
    if hasattr(net, "encode"):  # the count is of every token of the last block, of which the net may need one alone
        encode = net.encode
        net.encode = lambda patches, first_token_only=False: encode(patches)
    with FlopCounterMode(display=False) as counter:
        net(images)
    return counter.get_total_flops()


@pytest.mark.parametrize("representation", [0, 48])
def test_training_costs_three_forward_passes_or_one_and_the_head_s_gradient(representation):
    config = NetConfig("Ti/16", representation=representation)
    forward = 2 * macs(config, 224, 10)
    head = 2 * (representation or 192) * 10
    assert training_flops(config, 224, 10) == 3 * forward
    assert training_flops(config, 224, 10, frozen_trunk=True) == forward + head
    assert training_flops(config, 224, 10, bias_only=True) == 2 * forward


def test_a_head_that_reads_token_and_mean_has_both_their_widths():
    config = NetConfig("Ti/16", pool="token_and_gap")
    forward = 2 * macs(config, 224, 10)
    assert training_flops(config, 224, 10, frozen_trunk=True) - forward == 2 * 2 * 192 * 10
    assert macs(config, 224, 10) - macs(NetConfig("Ti/16", pool="gap", class_token=True), 224, 10) == 192 * 10


def test_a_net_of_no_classes_computes_every_token_in_training_too():
    config = NetConfig("Ti/16", patch_dropout=0.5)
    assert training_flops(config, 224, 0, computed=True) == training_flops(config, 224, 0)
    assert training_flops(config, 224, 9, computed=True) < training_flops(config, 224, 9)
    assert macs(config, 224, 9) > macs(config, 224, 9, training=True)


@pytest.mark.parametrize("fields", [{}, {"pool": "map"}, {"stages": (0,)}], ids=str)
def test_patches_left_out_cost_no_training(fields):
    fields = {"variant": "Ti/4", "width": 32, "heads": 4, "depth": 3, "mlp": 48, "patch_dropout": 0.4} | fields
    config = NetConfig(**fields)
    assert 3 * torch_flops(config, (64, 96), training=True) == training_flops(config, (64, 96), 10)
    assert macs(config, (64, 96), 10) == macs(NetConfig(**fields | {"patch_dropout": 0.0}), (64, 96), 10)


def test_a_timm_net_with_batch_norm_is_counted_at_one_last_place():
    pytest.importorskip("timm")
    assert macs(NetConfig("timm/resnet10t"), 32, 10) > 0


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"registers": 2},
        {"swiglu": True},
        {"patch_dropout": 0.4},
        {"pool": "gap"},
        {"pool": "gap", "attention": "axial"},
        {"position": "relative"},
        {"representation": 20},
    ],
    ids=str,
)
def test_what_is_computed_is_what_torch_counts(fields):
    """Of the last block a classifier computes what the class token needs; the paper counts all of it."""
    config = NetConfig(**{"variant": "Ti/4", "width": 32, "heads": 4, "depth": 3, "mlp": 48} | fields)
    training = "patch_dropout" in fields
    with torch.device("meta"):
        net = build(config, (16, 24), 10).train(training)
        images = torch.empty(1, 3, 16, 24)
    with FlopCounterMode(display=False) as counter:
        net(images)
    assert counter.get_total_flops() == 2 * macs(config, (16, 24), 10, training, computed=True)
    assert 3 * counter.get_total_flops() == training_flops(config, (16, 24), 10, computed=True) or not training


def test_masked_patches_need_every_token():
    assert macs(NetConfig("B/16"), 224, 0, computed=True) == macs(NetConfig("B/16"), 224, 0)
    assert macs(NetConfig("B/16"), 224, 1000) / macs(NetConfig("B/16"), 224, 1000, computed=True) > 1.06
