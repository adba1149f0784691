"""What kept features are known by."""

from types import SimpleNamespace

import torch

from vit_lightning.classifier import Classifier
from vit_lightning.commands.probe.extraction import FrozenNet
from vit_lightning.evaluation.features import net_digest


def digest(**settings) -> str:
    torch.manual_seed(0)
    model = Classifier(net={"variant": "mu/8"}, num_classes=3, image_size=16, **settings)
    frozen = SimpleNamespace(model=model, data=SimpleNamespace(data=SimpleNamespace(size=(16, 16))))
    frozen.trainer = SimpleNamespace(precision="32-true")
    return net_digest(model.net, FrozenNet._facts(frozen))


def test_the_scale_of_low_rank_updates_tells_nets_apart():
    digests = [digest(lora={"rank": 2, "alpha": alpha}) for alpha in (4.0, 8.0, 8.0)]
    assert digests[1] == digests[2] and len({*digests, digest()}) == 3
