"""The table that is read in both directions."""

from types import SimpleNamespace

import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.weights.archive import Stored
from vit_lightning.weights.layouts.tensor_mapping import (
    CONCATENATE,
    PATCHES,
    TensorMapping,
    axes,
    blocks_in,
    fill_biases,
    pair,
    rename,
    shape_of,
    to_ours,
    to_theirs,
    with_class_row,
)

CONFIG = SimpleNamespace(heads=2, patch=3)


def stored(**tensors: torch.Tensor) -> dict[str, Stored]:
    return {name: Stored(tuple(tensor.shape), lambda tensor=tensor: tensor) for name, tensor in tensors.items()}


def numbers(*shape: int) -> torch.Tensor:
    return torch.arange(float(torch.tensor(shape).prod())).reshape(shape)


def test_queries_keys_and_values_are_laid_one_after_the_other():
    parts = {name: numbers(4, 5) + 100 * place for place, name in enumerate("qkv")}
    mapping = TensorMapping("a", ("q", "k", "v"), CONCATENATE)
    found = to_ours(mapping, stored(**parts))
    assert torch.equal(found, torch.cat([parts[name] for name in "qkv"]))
    assert shape_of(mapping, stored(**parts)) == (12, 5)
    again = to_theirs([mapping], {"a": found}, CONFIG, "x")
    assert again.keys() == parts.keys() and all(torch.equal(again[name], parts[name]) for name in parts)


def test_a_kernel_becomes_the_matrix_of_a_patch_row_by_row_and_channel_last():
    kernel = numbers(4, 2, 3, 3)
    mapping = TensorMapping("a", ("w",), PATCHES)
    found = to_ours(mapping, stored(w=kernel))
    for d in range(4):
        expected = [kernel[d, c, p, q].item() for p in range(3) for q in range(3) for c in range(2)]
        assert found[d].tolist() == expected
    assert torch.equal(to_theirs([mapping], {"a": found}, CONFIG, "x")["w"], kernel)
    assert shape_of(mapping, stored(w=kernel)) == (4, 18)


def test_a_layer_has_a_weight_and_a_bias():
    assert pair("a", "b", "x -> y", "z") == [
        TensorMapping("a.weight", ("b.weight",), "x -> y"),
        TensorMapping("a.bias", ("b.bias",), "z"),
    ]
    assert pair("a", ("b", "c"))[1] == TensorMapping("a.bias", ("b.bias", "c.bias"))


def test_what_a_layout_lacks_is_named():
    with pytest.raises(InputError, match="The layout of x has no place for b"):
        to_theirs([TensorMapping("a", ("w",))], {"a": numbers(2), "b": numbers(2)}, CONFIG, "x")
    with pytest.raises(InputError, match="are not those of the layout"):
        shape_of(TensorMapping("a", ("q", "k"), CONCATENATE), stored(q=numbers(2, 3), k=numbers(3, 2)))
    with pytest.raises(InputError, match="are not those of the layout"):
        shape_of(TensorMapping("a", ("w",), PATCHES), stored(w=numbers(2, 3)))


def test_axes_have_the_names_of_their_places():
    found = stored(w=numbers(2, 3, 4))
    assert axes(found, "w", "d c p") == {"d": 2, "c": 3, "p": 4}
    with pytest.raises(InputError, match="The file lacks the tensor v"):
        axes(found, "v", "d")
    with pytest.raises(InputError, match=r"w has the shape \(2, 3, 4\), which does not have the layout's axes \(d c\)"):
        axes(found, "w", "d c")


def test_blocks_are_counted_by_their_largest_number():
    names = [f"blocks.{number}.{part}" for number in (9, 10, 2, 11, *range(9)) for part in "ab"]
    assert blocks_in(names, r"blocks\.(\d+)\.") == 12
    assert blocks_in(["head"], r"blocks\.(\d+)\.") == 0
    with pytest.raises(InputError, match="The file counts 8 blocks, but holds 1 tensors"):
        blocks_in(["blocks.7.a"], r"blocks\.(\d+)\.")


def test_two_tensors_of_one_meaning_are_refused():
    found = stored(a1=numbers(1), b2=numbers(2))
    assert {name: tensor.shape for name, tensor in rename(found, str.upper).items()} == {"A1": (1,), "B2": (2,)}
    with pytest.raises(InputError, match="Two tensors of the file have the same meaning"):
        rename(found, lambda name: "x")


def test_a_class_token_without_a_position_has_the_position_zero():
    table = numbers(1, 4, 3) + 1
    found = with_class_row(stored(t=table)["t"])
    assert found.shape == (1, 5, 3)
    assert torch.equal(found.read()[:, 1:], table) and not found.read()[:, 0].any()


def test_biases_are_filled_in_where_none_is_there():
    found = stored(w=numbers(2))
    assert fill_biases(found, {"a": 3, "b": 2}) == ["no a in the file: zeros, which change nothing"]
    assert found["a"].shape == (3,) and found["b"].read().tolist() == [0, 0]
    assert fill_biases(found, {"a": 3, "c": 2}) == [] and "c" not in found
