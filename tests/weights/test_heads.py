"""The head of a net that weights fill: what is left to the net, what is said of it, and which heads are empty."""

import pytest
import torch
from torch import nn

from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report
from vit_lightning.weights.heads import is_empty, leave_head, note_empty_head
from vit_lightning.weights.layouts.tensor_mapping import TensorMapping

FIELDS = {"width": 16, "depth": 1, "heads": 2, "mlp": 24}
RESET = "the head is reset"


def left(own: NetConfig, wanted: dict, held: list[str] | None = None, classes: int = 3):
    """What of a net's tensors, wanted and held, is left after its head was reset."""
    net = build(own, 8, classes)
    held = list(net.state_dict()) if held is None else held
    table, report = {name: TensorMapping(name, (name,)) for name in held}, Report("", "", class_names=["a"])
    leave_head(wanted, table, net, report)
    assert report.class_names == []
    return set(wanted), set(table), report


def test_both_tensors_of_a_head_are_left_to_the_net_and_said_on_both_sides():
    net = build(NetConfig("Ti/4", **FIELDS), 8, 5)
    wanted, held, report = left(NetConfig("Ti/4", **FIELDS), dict(net.state_dict()))
    head = {"head.weight", "head.bias"}
    assert wanted == held == set(net.state_dict()) - head
    assert report.dropped == report.missing == dict.fromkeys(head, RESET)


def test_a_hidden_layer_goes_unless_both_have_the_same():
    hidden = NetConfig("Ti/4", **FIELDS, representation=7)
    layer = {"representation.weight", "representation.bias"}
    same = dict(build(hidden, 8, 5).state_dict())
    wanted, held, report = left(hidden, same)
    assert layer <= wanted and layer <= held and set(report.dropped) == {"head.weight", "head.bias"}
    larger = dict(build(NetConfig("Ti/4", **FIELDS, representation=9), 8, 5).state_dict())
    wanted, held, report = left(hidden, larger)
    assert not layer & wanted and layer <= set(report.dropped) and layer <= set(report.missing)
    none = dict(build(NetConfig("Ti/4", **FIELDS), 8, 5).state_dict())
    wanted, held, report = left(hidden, none)
    assert not layer & held and layer <= set(report.dropped) and not layer & set(report.missing)


def test_a_pooling_that_only_the_new_net_has_begins_anew():
    token, pooled = NetConfig("Ti/4", **FIELDS), NetConfig("Ti/4", **FIELDS, pool="map")
    names = {name for name in build(pooled, 8, 3).state_dict() if name.startswith("pool.")}
    wanted, held, report = left(token, dict(build(pooled, 8, 3).state_dict()))
    assert names and not names & wanted and names <= set(report.missing) and not names & set(report.dropped)
    assert "norm.weight" in held and "blocks.0.norm1.weight" in wanted


def test_a_file_without_a_head_drops_nothing():
    net = build(NetConfig("Ti/4", **FIELDS), 8, 5)
    bare = [name for name in net.state_dict() if not name.startswith("head.")]
    _, held, report = left(NetConfig("Ti/4", **FIELDS), dict(net.state_dict()), bare, classes=0)
    assert report.dropped == {} and set(report.missing) == {"head.weight", "head.bias"} and held == set(bare)


@pytest.mark.parametrize(
    ("head", "empty"),
    [(nn.Linear(2, 3), False), (nn.Identity(), False), (nn.Embedding(2, 2), False), (nn.Linear(2, 1), None)],
)
def test_a_head_whose_weights_are_all_zero_is_empty(head, empty):
    if empty is None:
        nn.init.zeros_(head.weight)
        nn.init.ones_(head.bias)
        assert is_empty(head)
        head.weight.data[0, 1] = 1e-9
    assert not is_empty(head)


@pytest.mark.parametrize(("classes", "filled", "noted"), [(3, False, True), (3, True, False), (0, False, False)])
def test_an_empty_head_of_a_file_is_noted_beside_what_is_missing(classes, filled, noted):
    net, report = build(NetConfig("Ti/4", **FIELDS), 8, classes), Report("", "", missing={"x": "y"})
    if filled:
        torch.nn.init.ones_(net.head.weight)
    note_empty_head(net, report)
    said = dict.fromkeys(("head.weight", "head.bias"), "not released: zeros") if noted else {}
    assert report.missing == {"x": "y"} | said
