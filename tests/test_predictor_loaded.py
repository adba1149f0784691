"""A model whose class is imported already is taken from its checkpoint, with what its own code computes."""

import pytest
import torch

from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig
from vit_lightning.predictor import Predictor


class Tilted(Classifier):
    """Answers with the classes in the reverse order."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(images).flip(-1)


class Further(Tilted):
    """A subclass of a subclass."""


def saved(path, kind, named=None):
    torch.manual_seed(0)
    model = kind(NetConfig("mu/8"), num_classes=3, image_size=16)
    torch.nn.init.normal_(model.net.head.weight)
    facts = {"hyper_parameters": dict(model.hparams), "pytorch-lightning_version": "2.6.0"}
    facts |= {"model": named or f"{__name__}.{kind.__qualname__}"}
    torch.save({"state_dict": model.state_dict()} | facts, path)
    return model.eval()


@pytest.mark.parametrize("kind", [Tilted, Further])
def test_an_imported_class_is_taken_with_its_code(tmp_path, kind):
    model, image = saved(tmp_path / "own.ckpt", kind), torch.rand(3, 16, 16)
    taken, given = Predictor(tmp_path / "own.ckpt", device="cpu"), Predictor(model, device="cpu")
    bare = Predictor(model, device="cpu")
    bare._forward = None
    assert taken(image) == pytest.approx(given(image))
    assert taken(image) != pytest.approx(bare(image))


def test_what_is_stated_of_the_net_does_not_reach_other_code(tmp_path):
    saved(tmp_path / "own.ckpt", Tilted)
    with pytest.raises(InputError, match="whose code Predictor does not run"):
        Predictor(tmp_path / "own.ckpt", image_size=32)


def test_a_class_of_the_same_name_elsewhere_is_another(tmp_path):
    saved(tmp_path / "own.ckpt", Tilted, "elsewhere.Tilted")
    with pytest.raises(InputError, match=r"elsewhere\.Tilted, whose code Predictor does not run: import that class"):
        Predictor(tmp_path / "own.ckpt")
