"""Tensors fitted to another grid, patch or number of channels; each against sums written out here."""

import itertools

import pytest
import torch
from torch.nn.functional import interpolate

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights.resize import LEAVE_OUT, Resizer, of_grey, with_channels, with_patch

TINY = {"width": 16, "depth": 1, "heads": 2, "mlp": 24, "patch": 4}


def tiny(image_size=(8, 12), **fields):
    return build(NetConfig("Ti/16", **TINY | fields), image_size, 3)


def along(values: list[float], length: int) -> list[float]:
    """Linear interpolation whose ends stay."""
    places = [place * (len(values) - 1) / (length - 1) for place in range(length)]
    return [values[int(p)] + (p - int(p)) * (values[min(int(p) + 1, len(values) - 1)] - values[int(p)]) for p in places]


def test_what_fits_is_left_as_it_is():
    net = tiny()
    resizer = Resizer(net, tiny(), "bilinear")
    for name, tensor in net.state_dict().items():
        found, how = resizer(name, tensor)
        assert how == "" and torch.equal(found, tensor)


@pytest.mark.parametrize("fields", [{}, {"class_token": False, "pool": "gap"}, {"registers": 2}], ids=str)
def test_positions_are_interpolated_over_rows_and_columns_and_the_class_token_s_stays(fields):
    """A table whose value is row + 10 * column stays such a table, in smaller steps."""
    own, net = tiny((8, 12), **fields), tiny((12, 20), **fields)
    prefix = own.position.table.shape[1] - 6
    value = torch.tensor([row + 10.0 * column for row in range(2) for column in range(3)])
    table = torch.cat([torch.full((prefix,), -7.0), value])[None, :, None].expand(1, -1, 16)
    found, how = Resizer(own, net, "bilinear")("position.table", table)
    expected = [row / 2 + 10 * column / 2 for row in range(3) for column in range(5)]
    assert how == "2x3 -> 3x5 patches, bilinear" and found.shape == net.position.table.shape
    assert found[0, :, 3].tolist() == pytest.approx([-7.0] * prefix + expected, abs=1e-5)
    assert torch.equal(found[..., 0], found[..., 15])


def test_the_way_to_another_grid_may_be_chosen():
    own, net = tiny((16, 16)), tiny((24, 24))
    table = torch.randn(1, 17, 16, generator=torch.Generator().manual_seed(0))
    (one, said), (other, also) = (Resizer(own, net, mode)("position.table", table) for mode in ("bilinear", "bicubic"))
    assert said.endswith("bilinear") and also.endswith("bicubic") and not torch.allclose(one, other, atol=0.1)
    grid = table[:, 1:].reshape(4, 4, 16).permute(2, 0, 1)[None]
    cubic = interpolate(grid, size=(6, 6), mode="bicubic", antialias=True)[0].permute(1, 2, 0).reshape(36, 16)
    assert torch.allclose(other[0, 1:], cubic, atol=1e-6) and torch.equal(other[0, 0], table[0, 0])


@pytest.mark.parametrize("kind", ["rows", "columns"])
def test_rows_and_columns_have_lengths_of_their_own(kind):
    own, net = tiny((8, 12), position="learned_2d"), tiny((20, 28), position="learned_2d")
    old, new = (2, 5) if kind == "rows" else (3, 7)
    values = torch.randn(old, getattr(own.position, kind).shape[1], generator=torch.Generator().manual_seed(1))
    found, how = Resizer(own, net, "bilinear")(f"position.{kind}", values)
    assert how == "2x3 -> 5x7 patches, bilinear" and found.shape == (new, values.shape[1])
    for channel in range(values.shape[1]):
        assert found[:, channel].tolist() == pytest.approx(along(values[:, channel].tolist(), new), abs=1e-5)


def test_relative_positions_belong_to_their_grid():
    own, net = tiny((8, 12), position="relative"), tiny((12, 8), position="relative")
    name = next(name for name in own.state_dict() if ".position." in f".{name}")
    said = r"for 2x3 patches cannot be fitted to 3x2: set image_size to \(8, 12\)"
    with pytest.raises(InputError, match=said):
        Resizer(own, net, "bilinear")(name, own.state_dict()[name])


# First layer ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"patch": 2},
            r"net\.patch=4, but the net has 2: set it to 4, or let --model\.weights_adapt true .*, or leave",
        ),
        (
            {"channels": 1},
            r"net\.channels=3, but the net has 1: set --data\.channels \(or .*\) to 3, or let .* layer\.$",
        ),
    ],
)
def test_the_first_layer_is_fitted_on_request_only(fields, said):
    own, net = tiny(), tiny(**fields)
    with pytest.raises(InputError, match=said) as told:
        Resizer(own, net, "bilinear")("patches.proj.weight", own.patches.proj.weight)
    assert (LEAVE_OUT in str(told.value)) == ("patch" in fields)


@pytest.mark.parametrize(
    ("fields", "how"),
    [
        ({"patch": 2}, "patch 4 -> 2"),
        ({"channels": 5}, "channels 3 -> 5"),
        ({"patch": 2, "channels": 2}, "patch 4 -> 2, channels 3 -> 2"),
    ],
)
def test_the_first_layer_s_kernel_is_refitted_channel_by_channel(fields, how):
    own, net = tiny(), tiny(**fields)
    weight = torch.randn(16, 48, generator=torch.Generator().manual_seed(2))
    found, said = Resizer(own, net, "bilinear", adapt=True)("patches.proj.weight", weight)
    kernel = weight.reshape(16, 4, 4, 3).permute(0, 3, 1, 2)
    kernel = with_patch(kernel, 2) if "patch" in fields else kernel
    kernel = with_channels(kernel, fields["channels"]) if "channels" in fields else kernel
    assert said == how and torch.allclose(found, kernel.permute(0, 2, 3, 1).reshape(16, -1), atol=1e-6)


def test_more_channels_take_the_kernel_s_in_turn_and_keep_its_sum():
    kernel = torch.randn(2, 3, 2, 2, generator=torch.Generator().manual_seed(3))
    for channels in (2, 4, 7):
        found = with_channels(kernel, channels)
        for d, c in itertools.product(range(2), range(channels)):
            torch.testing.assert_close(found[d, c], kernel[d, c % 3] * 3 / channels)
    assert torch.allclose(with_channels(kernel, 1), kernel.sum(1, keepdim=True))


@pytest.mark.parametrize("given", [True, False], ids=["stated", "unknown"])
def test_a_grey_image_is_answered_as_the_same_one_in_colours(given):
    """The kernel takes the sum of the channels, and the bias what their means differ by."""
    mean, std = ((0.5, 0.4, 0.3), (0.2, 0.25, 0.3)) if given else ((0.5,) * 3, (0.5,) * 3)
    own, net = tiny(), tiny(channels=1)
    resizer = Resizer(own, net, "bilinear", True, mean if given else None, std if given else None)
    weight, bias = torch.randn(16, 48, generator=torch.Generator().manual_seed(4)), torch.arange(16.0)
    kernel, how = resizer("patches.proj.weight", weight)
    shifted, said = resizer("patches.proj.bias", bias)
    assert (how, said) == ("channels 3 -> 1", "") and torch.equal(bias, torch.arange(16.0))
    pixels = torch.rand(4, 4, generator=torch.Generator().manual_seed(5))
    colours = torch.stack([(pixels - m) / s for m, s in zip(mean, std, strict=True)], dim=-1).flatten()
    grey = ((pixels - sum(mean) / 3) / (sum(std) / 3)).flatten()
    assert torch.allclose(kernel @ grey + shifted, weight @ colours + bias, atol=1e-4)


def test_the_bias_moves_for_grey_alone():
    own, bias = tiny(), torch.arange(16.0)
    for net in (tiny(), tiny(channels=2), tiny(patch=2)):
        resizer = Resizer(own, net, "bilinear", True, (0.5, 0.4, 0.3), (0.2, 0.25, 0.3))
        resizer("patches.proj.weight", torch.ones(16, 48))
        assert torch.equal(resizer("patches.proj.bias", bias)[0], bias)


def test_grey_takes_the_sum_over_channels_each_by_its_own_deviation():
    kernel = torch.tensor([[[[2.0]], [[3.0]]]])
    grey, shift = of_grey(kernel, torch.tensor([0.5, 0.1]), torch.tensor([0.5, 0.25]))
    assert grey.item() == pytest.approx((2 / 0.5 + 3 / 0.25) * 0.375)
    assert shift.item() == pytest.approx(2 / 0.5 * (0.3 - 0.5) + 3 / 0.25 * (0.3 - 0.1))


@pytest.mark.parametrize(("old", "new"), [(2, 4), (3, 5)])
def test_a_larger_patch_answers_to_an_enlarged_image_as_the_smaller_to_the_image(old, new):
    generator = torch.Generator().manual_seed(6)
    kernel, image = torch.randn(3, 2, old, old, generator=generator), torch.randn(1, 2, old, old, generator=generator)
    enlarged = interpolate(image, size=(new, new), mode="bilinear", align_corners=False)
    expected = (kernel * image).sum((1, 2, 3))
    assert torch.allclose((with_patch(kernel, new) * enlarged).sum((1, 2, 3)), expected, atol=1e-4)


def test_other_tensors_of_another_shape_are_refused():
    own, net = tiny(), tiny(mlp=32)
    name = next(name for name, tensor in own.state_dict().items() if 24 in tensor.shape)
    with pytest.raises(InputError, match=rf"^{name} is \(.*24.*\) in the weights, but \(.*32.*\) in the net: set the"):
        Resizer(own, net, "bilinear", adapt=True)(name, own.state_dict()[name])
