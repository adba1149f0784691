"""Checkpoints with low-rank updates, read as plain nets."""

import pytest
import torch

from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError
from vit_lightning.weights import load_net

FIELDS = {"variant": "Ti/16", "patch": 4, "width": 16, "depth": 2, "heads": 2, "mlp": 24}
LAYER = "net.blocks.1.mlp.up"


@pytest.fixture
def tuned(randomise):
    model = Classifier(FIELDS, num_classes=3, image_size=(8, 12), lora={"rank": 2, "alpha": 6.0})
    randomise(model.net)
    return model


def content(model: Classifier) -> dict:
    return {"state_dict": model.state_dict(), "hyper_parameters": dict(model.hparams)}


def test_updates_are_merged(tuned, tmp_path):
    torch.save(content(tuned), tmp_path / "tuned.ckpt")
    net, report = load_net(tmp_path / "tuned.ckpt")
    assert "low-rank updates are merged into 6 kernels" in str(report)
    assert not any(".lora." in name for name in net.state_dict())
    layer = tuned.net.blocks[1].mlp.up
    expected = layer.weight.double() + 3 * layer.lora.b.double() @ layer.lora.a.double()
    torch.testing.assert_close(net.blocks[1].mlp.up.weight, expected.float())
    images = torch.rand(2, 3, 8, 12)
    with torch.no_grad():
        torch.testing.assert_close(net(images), tuned.net(images), atol=1e-6, rtol=1e-5)


def test_they_begin_another_fit(tuned, tmp_path):
    """Merged, beside new updates."""
    torch.save(content(tuned), tmp_path / "tuned.ckpt")
    again = Classifier(weights=str(tmp_path / "tuned.ckpt"), num_classes=3, image_size=(8, 12), lora={"rank": 4})
    images = torch.rand(2, 3, 8, 12)
    with torch.no_grad():
        torch.testing.assert_close(again.net(images), tuned.net(images), atol=1e-6, rtol=1e-5)
    assert again.net.blocks[0].mlp.up.lora.a.shape == (4, 16)


def lose(state: dict, part: str) -> None:
    del state[f"{LAYER}.{part}"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda state, facts: lose(state, "lora.a"),
        lambda state, facts: lose(state, "lora.b"),
        lambda state, facts: lose(state, "weight"),
        lambda state, facts: state.update({f"{LAYER}.lora.a": torch.zeros(3, 16)}),
        lambda state, facts: state.update({f"{LAYER}.lora.a": torch.zeros(2, 15)}),
        lambda state, facts: state.update({f"{LAYER}.lora.b": torch.zeros(2)}),
        lambda state, facts: state.update({f"{LAYER}.lora.a": torch.zeros(2, 16, dtype=torch.int64)}),
        lambda state, facts: state.update(
            {f"{LAYER}.lora.a": torch.zeros(0, 16), f"{LAYER}.lora.b": torch.zeros(24, 0)}
        ),
        lambda state, facts: facts.pop("lora"),
        lambda state, facts: facts["lora"].update(alpha=float("nan")),
    ],
)
def test_factors_that_do_not_belong_together_are_refused(tuned, tmp_path, damage):
    whole = content(tuned)
    whole["hyper_parameters"]["lora"] = dict(whole["hyper_parameters"]["lora"])
    damage(whole["state_dict"], whole["hyper_parameters"])
    torch.save(whole, tmp_path / "damaged.ckpt")
    with pytest.raises(InputError, match=r"damaged.*mlp.up.weight and the factors|damaged.*qkv.weight and the factors"):
        load_net(tmp_path / "damaged.ckpt")
