import ast
import inspect
import re
from dataclasses import asdict, fields
from itertools import pairwise

import pytest

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build, resolve
from vit_lightning.models.config import grid_of, patches_kept
from vit_lightning.models.variants import VARIANTS


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_resolves_completely_and_once(variant):
    config = resolve(NetConfig(variant))
    assert None not in asdict(config).values()
    assert resolve(config) == config
    assert config.variant == variant


def test_given_fields_win_over_the_variant():
    config = resolve(NetConfig("B/16", patch=8, depth=3, pool="gap", channels=1))
    assert (config.patch, config.stride, config.depth, config.width, config.pool, config.channels) == (
        8,
        8,
        3,
        768,
        "gap",
        1,
    )


def test_any_patch_goes_with_any_size():
    assert resolve(NetConfig("So400m/28")).patch == 28
    assert resolve(NetConfig("g-opt/14")).width == 1536


@pytest.mark.parametrize(
    ("variant", "suggestion"),
    [
        ("B16", "B/16"),
        ("b/16", "B/16"),
        ("ViT-L/16", "L/16"),
        ("R50+B16", "R50+B/16"),
        ("mu4", "mu/4?"),
        ("ti-4", "Ti/4?"),
        ("G_14", "G/14?"),
        ("R50x5x", "R50x"),
        ("B/0", "B/"),
        ("R51x1", "R"),
    ],
)
def test_an_unknown_variant_suggests_a_close_one(variant, suggestion):
    with pytest.raises(InputError, match=f"{re.escape(repr(variant))}.*did you mean {re.escape(suggestion)}"):
        resolve(NetConfig(variant))


def test_nonsense_gets_examples():
    with pytest.raises(InputError, match="choose for example"):
        resolve(NetConfig("qqqqqq"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"heads": 5}, "5 heads do not divide a width of 768"),
        ({"heads": 0}, "net.heads is 0"),
        ({"stride": 17}, "stride is 17.*1 to 16"),
        ({"attention": "axial"}, "net.pool=gap"),
        ({"attention": "axial", "pool": "gap", "registers": 2}, "2 registers.*net.registers=0"),
        ({"position": "sincos_2d", "width": 6, "heads": 1}, "divisible by 4, got 6"),
        ({"position": "learned_2d", "width": 5, "heads": 1}, "divisible by 2, got 5"),
        ({"dropout": 1.5}, "dropout is 1.5"),
        ({"stochastic_depth": -0.1}, "stochastic_depth is -0.1"),
        ({"patch_dropout": 1}, "patch_dropout is 1"),
        ({"patch_dropout": 0.5, "position": "relative"}, "position=relative needs every patch"),
        ({"patch_dropout": 0.5, "position_at": "every_layer_shared"}, "position_at=every_layer_shared needs"),
        ({"patch_dropout": 0.5, "pool": "gap", "attention": "axial"}, "attention=axial needs"),
        ({"pool": "mean"}, "'mean'.*token, gap, map"),
    ],
)
def test_fields_that_contradict_each_other_are_one_clear_error(given, message):
    with pytest.raises(InputError, match=message) as error:
        build(NetConfig("B/16", **given), 224, 10)
    assert str(error.value).count("\n") == 0


@pytest.mark.parametrize(
    ("variant", "given", "message"),
    [
        ("R50x0.3", {}, "32 groups do not divide the 19 channels"),
        ("R50x1", {"stages": ()}, "at least one stage"),
        ("R50x1", {"stages": (2, 0)}, r"stages=\(2, 0\)"),
    ],
)
def test_an_impossible_resnet_is_one_clear_error(variant, given, message):
    with pytest.raises(InputError, match=message):
        resolve(NetConfig(variant, **given))


def test_a_resnet_refuses_transformer_fields():
    with pytest.raises(InputError, match=r"net\.registers=4 means nothing in R50x1"):
        resolve(NetConfig("R50x1", registers=4))
    said = r"net\.position=sincos_2d, net\.heads=4, net\.mlp=128 mean nothing in R50x1: leave them out, or begin"
    with pytest.raises(InputError, match=said):
        resolve(NetConfig("R50x1", heads=4, mlp=128, position="sincos_2d"))


def test_every_field_is_documented():
    body = ast.parse(inspect.getsource(NetConfig)).body[0].body
    documented = [
        a.target.id
        for a, b in pairwise(body)
        if isinstance(a, ast.AnnAssign) and isinstance(b, ast.Expr) and isinstance(b.value, ast.Constant)
    ]
    assert documented == [field.name for field in fields(NetConfig)]


@pytest.mark.parametrize(("share", "patches", "kept"), [(0.4, 16, 10), (0.3, 16, 11), (0.9, 3, 1), (0.0, 49, 49)])
def test_patches_are_kept_to_the_nearest_number_and_never_none(share, patches, kept):
    """9.6, 11.2 and 0.3 of them."""
    assert patches_kept(resolve(NetConfig("Ti/4", patch_dropout=share)), patches) == kept


@pytest.mark.parametrize(
    ("fields", "size", "fit", "cropped"),
    [
        ({}, 23, 16, 1),
        ({}, 24, 32, 1),  # as near to both
        ({}, 40, 48, 2),
        ({}, 15, 16, None),
        ({"stride": 8}, 27, 24, 2),
        ({"stride": 8}, 28, 32, 2),
        ({"stages": (1,), "patch": 4}, 20, 16, 1),
        ({"stages": (1,), "patch": 4}, 25, 32, 1),
    ],
)
def test_the_nearest_size_that_a_patch_divides_is_advised(fields, size, fit, cropped):
    with pytest.raises(InputError, match=rf"do not divide the image size {size}\b.* for example {fit}\b") as caught:
        grid_of(resolve(NetConfig("Ti/16", **fields)), (fit, size))
    assert ("crop_to_patch" in str(caught.value)) == (cropped is not None)
    if cropped is not None:
        assert grid_of(resolve(NetConfig("Ti/16", **fields, crop_to_patch=True)), (fit, size))[1] == cropped
