"""What a classifier logs of each set, held against hand-computed values."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from vit_lightning.classifier import Classifier
from vit_lightning.training.metrics import WeightedMean


def classifier(**settings) -> Classifier:
    model = Classifier(**{"net": {"variant": "mu/8"}, "num_classes": 4, "image_size": 16} | settings)
    model.log = lambda *args, **kwargs: None
    return model


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.tensor([[2.0, 0.5, -1.0, 0.0], [0.0, 3.0, 1.0, -2.0], [1.0, 0.0, 0.0, 4.0]])


def test_metrics_skip_padding_and_are_exact(logits):
    model = classifier()
    model.net = nn.Identity()
    model.normalise = lambda images: images
    model._evaluate("val", logits, torch.tensor([0, 2, -100]))
    model._evaluate("val", logits[:1], torch.tensor([1]))
    scores = model.scores["val"]
    log_p = logits.log_softmax(-1)
    assert scores["loss"].compute().item() == pytest.approx(-(log_p[0, 0] + log_p[1, 2] + log_p[0, 1]).item() / 3)
    assert scores["top1"].compute().item() == pytest.approx(1 / 3)
    assert scores["top5"].compute().item() == 1.0


def test_metrics_of_images_with_several_labels(logits):
    model = classifier(loss="sigmoid")
    model.net = nn.Identity()
    model.normalise = lambda images: images
    labels = torch.tensor([[1.0, 0, 0, 1], [1, 0, 1, 0], [-100, -100, -100, -100]])
    model._evaluate("test", logits, labels)
    assert model.scores["test"]["top1"].compute().item() == 0.5


def test_predictions_are_probabilities(logits):
    model = classifier(loss="sigmoid")
    model.net, model.normalise = nn.Identity(), lambda images: images
    torch.testing.assert_close(model.predict_step((logits, None), 0), 1 / (1 + (-logits).exp()))


RANKS = torch.tensor([[0.0, 3.0, 6.0, 1.0, 5.0, 2.0, 4.0]])
"""From the best: the classes 2, 4, 6, 1, 5; then 3 and 0."""


def evaluated(*batches: tuple, split: str = "val", **settings: object) -> tuple[Classifier, list[tuple]]:
    model = classifier(num_classes=7, **settings)
    model.net, model.normalise = nn.Identity(), lambda images: images
    logged: list[tuple] = []
    model.log = lambda name, metric, shown, **facts: logged.append((name, shown, tuple(facts.items())))
    model._trainer = SimpleNamespace(datamodule=None)
    model.setup("fit")
    model.further_sets = ["real", "v2"]
    for scores in model.scores.values():
        scores.update({name: WeightedMean() for name in model.further_sets})
    for batch in batches:
        getattr(model, {"val": "validation_step", "test": "test_step"}[split])(batch[:2], 0, *batch[2:])
    return model, logged


@pytest.mark.parametrize("split", ["val", "test"])
@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_top5_counts_the_five_best_and_top1_the_best(split, loss):
    labels = torch.tensor([2, 5, 3, 0, 4, -100])
    model, logged = evaluated((RANKS.expand(6, -1), labels), split=split, loss=loss)
    scores = model.scores[split]
    assert scores["top1"].compute().item() == pytest.approx(1 / 5)
    assert scores["top5"].compute().item() == pytest.approx(3 / 5)
    if loss == "softmax":
        losses = -RANKS.log_softmax(-1)[0][labels[:5]]
    else:
        targets = F.one_hot(labels[:5], 7).float()
        losses = F.binary_cross_entropy_with_logits(RANKS.expand(5, -1), targets, reduction="none").sum(-1)
    assert scores["loss"].compute().item() == pytest.approx(losses.mean().item(), rel=1e-5)
    facts = (("on_step", False), ("on_epoch", True), ("add_dataloader_idx", False))
    assert logged == [(f"{split}/{name}", name == "top1", facts) for name in ("loss", "top1", "top5")]
    other = model.scores["test" if split == "val" else "val"]
    assert not any(score.update_called for score in other.values())


def test_of_several_classes_one_hit_is_enough():
    labels = torch.tensor(
        [[0, 0, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0, 0], [1, 0, 0, 0, 0, 1, 0], [0.5, 0, 0.5, 0, 0, 0, 0]]
    )
    model, _ = evaluated((RANKS.expand(4, -1), labels.float()), loss="sigmoid")
    assert model.scores["val"]["top1"].compute().item() == 1 / 4
    assert model.scores["val"]["top5"].compute().item() == 2 / 4


@pytest.mark.parametrize(("number", "name"), [(1, "real"), (2, "v2")])
def test_each_further_set_has_its_own_score(number, name):
    """Several labels may be right, as of ReaL; an image without one counts nothing."""
    labels = torch.full((3, 7), 0.0)
    labels[0, [2, 3]], labels[1, 3], labels[2] = 1, 1, -100
    model, logged = evaluated((RANKS.expand(3, -1), labels, number))
    assert model.scores["val"][name].compute().item() == 1 / 2
    called = {each for each, score in model.scores["val"].items() if score.update_called}
    assert called == {name} and [entry[0] for entry in logged] == [f"val/{name}"]


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_a_prediction_of_no_number_is_told(loss):
    model = classifier(num_classes=7, loss=loss)
    model.net, model.normalise = nn.Identity(), lambda images: images
    bad = RANKS.clone()
    bad[0, 3] = torch.inf
    found = model.predict_step((torch.cat([RANKS, bad]), None), 0)
    expected = RANKS.exp() / RANKS.exp().sum() if loss == "softmax" else 1 / (1 + (-RANKS).exp())
    torch.testing.assert_close(found[:1], expected)
    assert found[1, 3].isnan()
