"""What a classifier logs of each set, held against hand-computed values."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from datamodules.synthetic import Synthetic
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
    model._trainer = SimpleNamespace(datamodule=None, fast_dev_run=False)
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


def staged(stage: str, further: dict | None = None, **settings: object) -> tuple[Classifier, dict[str, float]]:
    """A model whose scores stand ready for a stage, and what it logs of a set as a whole."""
    model = classifier(num_classes=3, **settings)
    model.net, model.normalise = nn.Identity(), lambda images: images
    logged: dict[str, float] = {}
    model.log = lambda name, value, shown=False, **facts: logged.update({name: (value, shown)})
    data = Synthetic()
    data.further_sets = further or {}
    state = SimpleNamespace(fn=stage)
    model._trainer = SimpleNamespace(
        datamodule=data, callbacks=[], sanity_checking=False, state=state, fast_dev_run=False
    )
    model.ready_scores(stage)
    model._begin_scores("val")
    return model, logged


PREDICTED = torch.eye(3)[[0, 0, 1, 2]] * 4
TRUE = torch.tensor([0, 1, 1, 2])


def test_a_further_set_has_all_scores_under_its_name():
    model, logged = staged("validate", {"v2": [], "real": []})
    model.validation_step((PREDICTED, TRUE), 0)
    model.validation_step((PREDICTED[:3], TRUE[:3]), 0, 1)
    model._log_split_scores("val", "validation")
    assert model.scores["val"]["top1"].compute().item() == 3 / 4
    assert model.scores["val"]["v2"].compute().item() == pytest.approx(2 / 3)
    assert logged["val/macro_f1"][0] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    assert logged["val/v2/macro_f1"][0] == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert not any(name.startswith("val/real/") for name in logged)  # no image of it came
    assert {"top1", "macro_f1", "v2/macro_f1"} <= {*model.score_names}


@pytest.mark.parametrize(("stage", "names"), [("validate", ["member1"]), ("fit", [])])
def test_a_mirrored_view_is_scored_beside_the_net_alone_but_in_a_fit(stage, names):
    model, _ = staged(stage, flip=True)
    assert list(model.member_scores["val"]) == names
    if names:
        model.validation_step((torch.tensor([[4.0, 0.0, 1.0], [0.0, 1.0, 4.0]]), torch.tensor([0, 0])), 0)
        assert model.member_scores["val"]["member1"]["means"]["top1"].compute().item() == 1 / 2
        assert model.answering.names == {"member1": "without flip"}


def test_each_pass_scores_all_that_answers_anew():
    model, _ = staged("validate", {"v2": []}, flip=True)
    member = model.member_scores["val"]["member1"]
    for right in (1, 0):
        model._begin_scores("val")
        labels = torch.tensor([0, 2] if right else [1, 1])
        for number in (0, 1):
            model.validation_step((torch.tensor([[4.0, 0.0, 1.0], [0.0, 1.0, 4.0]]), labels), 0, number)
        model._log_split_scores("val", "validation")
        assert member["means"]["top1"].compute().item() == right and member["means"]["top1"].counted == 2
        assert model.answering.alone["val"]["member1"].scores["top1"] == right
        assert model.answering.alone["val"]["member1"].scores["macro_f1"] == right


@pytest.mark.parametrize(("several", "shown"), [(True, True), (False, False)])
def test_the_bar_shows_micro_f1_where_images_have_several_labels(several, shown):
    model, logged = staged("fit", loss="sigmoid" if several else "softmax")
    labels = F.one_hot(TRUE, 3).float() if several else TRUE
    model.validation_step((PREDICTED, labels), 0)
    model._log_split_scores("val", "validation")
    assert logged["val/micro_f1" if several else "val/macro_f1"][1] is shown
    assert not logged["val/macro_f1"][1]


def test_classes_by_name_are_looked_up_but_in_a_fit():
    model = classifier(num_classes=3)
    for stage, found in (("test", True), ("predict", True), ("fit", False)):
        model.find_shifted(stage, ["cow", "ant"], ["ant", "bee", "cow"], in_any_order=False)
        assert (model.shifted is not None) == found
    model.class_names = ["ant", "bee", "cow"]
    assert model.scored_names("test") == model.class_names
    model.find_shifted("test", ["cow", "ant"], model.class_names, in_any_order=False)
    assert model.scored_names("test") == ["cow", "ant"]


def test_a_broken_image_of_several_labels_counts_nothing_wherever_its_mark_stands():
    model, _ = staged("test", loss="sigmoid")
    labels = torch.cat([F.one_hot(TRUE[:2], 3).float(), torch.full((2, 3), -100.0)])
    model.test_step((PREDICTED, labels), 0)
    assert model.scores["test"]["top1"].compute().item() == 1 / 2 and model.scores["test"]["top1"].counted == 2
