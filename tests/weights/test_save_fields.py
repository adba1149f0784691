"""Whether a net is refused hangs on what the layout can say, and not on how large its outputs happen to be."""

import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights.report import Report
from vit_lightning.weights.save import save

TINY = {"variant": "Ti/4", "width": 64, "depth": 1, "heads": 1, "mlp": 24}


@pytest.mark.parametrize("size", [1e-4, 0.02, 1.0])
def test_an_activation_that_the_layout_cannot_say_is_refused_whatever_the_weights(tmp_path, size):
    torch.manual_seed(0)
    net = build(NetConfig(**TINY, gelu="exact", norm_eps=1e-12), 8, 3)
    for weight in net.parameters():
        torch.nn.init.normal_(weight, std=size)
    said = "net.gelu=exact, where readers take tanh"
    with pytest.raises(InputError, match=said) as told:
        save(net, Report("", ""), tmp_path / "w.npz", "npz")
    assert "net.norm_eps=1e-12, where readers take 1e-06" in str(told.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("to", "gelu"), [("npz", "tanh"), ("timm", "exact"), ("timm", "tanh")])
def test_an_epsilon_that_is_rounding_is_named_with_what_readers_take(tmp_path, to, gelu):
    torch.manual_seed(0)
    net, report = build(NetConfig(**TINY, gelu=gelu, norm_eps=1e-12), 8, 3), Report("", "")
    for weight in net.parameters():
        torch.nn.init.normal_(weight)
    assert save(net, report, tmp_path / f"w{'.npz' * (to == 'npz')}", to) < 1e-5
    (note,) = report.notes
    assert note.startswith(f"{to} cannot hold net.norm_eps=1e-12: its readers take 1e-06, which changes outputs by ")


def test_what_a_layout_holds_is_not_named(tmp_path):
    torch.manual_seed(0)
    net, report = build(NetConfig(**TINY, gelu="tanh", norm_eps=1e-6), 8, 3), Report("", "")
    torch.nn.init.normal_(net.head.weight)
    assert save(net, report, tmp_path / "w.npz", "npz") == 0
    assert report.notes == []
