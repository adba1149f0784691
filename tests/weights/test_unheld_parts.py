"""Which fields hinder a layout, tried on layouts made by hand that hold what they are said to hold."""

import pytest

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import unheld as module
from vit_lightning.weights.unheld import unheld


@pytest.fixture
def layouts(monkeypatch):
    """Let layouts refuse small nets; `refuses` says by layout whether one with these fields is refused."""

    def make(**refuses):
        module._plain.cache_clear()

        def save(net, report, path, to) -> float:
            if to in refuses and refuses[to](net.config):
                raise InputError("no place")
            return 0.0

        return save

    yield make
    module._plain.cache_clear()


def net(**fields):
    return build(NetConfig("mu/8", width=16, depth=2, heads=2, mlp=64, **fields), 32, 3)


def test_a_net_that_is_held_is_no_matter(layouts):
    assert unheld(net(registers=2), "timm", layouts()) is None
    assert unheld(net(dropout=0.5), "timm", layouts(timm=lambda config: config.dropout > 0)) is None


def test_each_field_that_hinders_is_named_and_no_other(layouts):
    save = layouts(
        timm=lambda config: config.registers > 0 or config.layer_scale > 0,
        npz=lambda config: config.registers > 0,
        torchvision=lambda config: config.swiglu,
    )
    given = net(registers=2, layer_scale=0.25, swiglu=True)
    assert unheld(given, "timm", save) == (
        "The layout of timm cannot hold a net with net.layer_scale=0.25 and net.registers=2: convert to huggingface or "
        "checkpoint."
    )
    everywhere = layouts(**dict.fromkeys(module.NAMED, lambda config: config.registers > 0))
    assert unheld(net(registers=2), "npz", everywhere).endswith(": convert to checkpoint, which holds any.")


def test_a_field_that_a_pooling_asks_for_does_not_hinder(layouts):
    """A layout that holds a norm behind the pooling of nets that take a mean, and of no other."""
    save = layouts(timm=lambda config: config.norm_after_pool and config.pool != "gap")
    assert unheld(net(pool="gap", norm_after_pool=True), "timm", save) is None
    alone = layouts(timm=lambda config: config.norm_after_pool)
    said = unheld(net(pool="gap", norm_after_pool=True), "timm", alone)
    assert "a net with net.norm_after_pool=True: convert to npz, huggingface, torchvision or checkpoint" in said


def test_a_token_that_goes_with_its_pooling_is_not_named_beside_it(layouts):
    save = layouts(timm=lambda config: config.pool != "token" or not config.class_token)
    said = unheld(net(pool="gap"), "timm", save)
    assert "a net with net.pool=gap: convert" in said and "class_token" not in said


def test_a_layout_whose_plain_net_has_the_exact_gelu_names_the_other(layouts):
    save = layouts(torchvision=lambda config: config.gelu == "tanh")
    assert unheld(net(gelu="exact"), "torchvision", save) is None
    assert "net.gelu=tanh: convert to npz, timm, huggingface or" in unheld(net(gelu="tanh"), "torchvision", save)


@pytest.mark.parametrize(
    ("to", "code", "said"),
    [
        ("huggingface", "official", "net.stages=(0,): convert to npz or checkpoint"),
        ("torchvision", "timm", "net.stages=(0,): convert to timm or checkpoint"),
        ("npz", "official", None),
        ("timm", "timm", None),
    ],
)
def test_a_hybrid_is_held_by_the_layout_of_its_code(layouts, to, code, said):
    given = build(NetConfig("Ti/1", width=16, depth=1, heads=2, mlp=32, stages=(0,), resnet_code=code), 16, 2)
    found = unheld(given, to, layouts())
    assert found is None if said is None else said in found
