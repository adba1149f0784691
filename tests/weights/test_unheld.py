"""A layout that cannot hold a net: the sentence names the fields that hinder, and the layouts that hold it."""

import pytest

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report
from vit_lightning.weights.save import save

FIELDS = {"width": 16, "depth": 2, "heads": 2, "mlp": 64}


@pytest.mark.parametrize(
    ("to", "fields", "named", "holders"),
    [
        ("timm", {"representation": 16}, "net.representation=16", "npz or checkpoint"),
        ("timm", {"position": "none"}, "net.position=none", "checkpoint"),
        ("timm", {"pool": "token_and_gap"}, "net.pool=token_and_gap", "checkpoint"),
        ("npz", {"registers": 2}, "net.registers=2", "timm or checkpoint"),
        ("npz", {"layer_scale": 0.1}, "net.layer_scale=0.1", "timm, huggingface or checkpoint"),
        ("huggingface", {"pool": "map"}, "net.pool=map", "npz, timm or checkpoint"),
        ("huggingface", {"swiglu": True}, "net.swiglu=True", "timm or checkpoint"),
        ("torchvision", {"pool": "gap", "gelu": "tanh"}, "net.pool=gap and net.gelu=tanh", "npz, timm or checkpoint"),
    ],
)
def test_field_and_layouts_are_named(tmp_path, to, fields, named, holders):
    net = build(NetConfig("mu/8", **FIELDS | fields), 32, 3)
    with pytest.raises(InputError) as caught:
        save(net, Report("", ""), tmp_path / "x", to)
    assert named in str(caught.value) and f"convert to {holders}" in str(caught.value)
    assert not (tmp_path / "x").exists()
    for holder in holders.replace(" or ", ", ").split(", "):
        save(net, Report("", ""), tmp_path / holder, holder)


def test_a_hybrid_is_named_by_its_stages(tmp_path):
    net = build(NetConfig("R50+Ti/16", width=16, depth=1, heads=2, mlp=32), 32, 2)
    said = r"cannot hold a net with net\.stages=\(3, 4, 9\): convert to npz or checkpoint"
    with pytest.raises(InputError, match=said):
        save(net, Report("", ""), tmp_path / "x", "huggingface")
