"""Which images FewShot draws, and how the scores of several shots and draws become figures."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from datamodules.digits import Digits
from vit_lightning.callbacks import FewShot, few_shot
from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError
from vit_lightning.evaluation import fewshot
from vit_lightning.evaluation.features import FeatureSet

LABELS = np.arange(30) % 3


class Own(Digits):
    """Thirty images of three classes, with the numbers of their places."""

    def __init__(self, labels=LABELS, classes: int = 3) -> None:
        super().__init__(image_size=8)
        self.train_set = Images(labels)
        self.val_set, self.classes = Images(LABELS), classes

    @property
    def num_classes(self) -> int:
        return self.classes

    @property
    def class_names(self) -> list[str]:
        return ["ant", "bee", "cow"]


class Images:
    def __init__(self, labels) -> None:
        self.labels = np.asarray(labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int):
        return f"image {number}", int(self.labels[number])


def model() -> Classifier:
    return Classifier({"variant": "mu/8"}, num_classes=3, image_size=8)


def made(data: Own, **settings: object) -> FewShot:
    callback = FewShot(**settings)
    callback.setup(SimpleNamespace(datamodule=data), model(), "fit")
    return callback


def test_each_draw_is_that_of_its_shots_and_seed_among_the_images_that_are_read():
    callback = made(Own(), shots=[4, 1, 4], seeds=3)
    assert callback.shots == [1, 4] and callback.score_names == ["fewshot1", "fewshot4"]
    read = [callback._images[place][0] for place in range(len(callback._images))]
    drawn = {key: [read[place] for place in places] for key, places in callback._chosen.items()}
    assert drawn == {
        (shots, seed): [f"image {number}" for number in fewshot.select(LABELS, 3, shots, seed)]
        for shots in (1, 4)
        for seed in range(3)
    }
    assert len(set(read)) == len(read) and set(read) == {name for names in drawn.values() for name in names}


def test_another_fit_has_loaders_of_its_own():
    callback = made(Own())
    callback._loaders = ("of", "an earlier fit")
    callback.setup(SimpleNamespace(datamodule=Own()), model(), "validate")
    assert callback._loaders is not None  # another verb draws nothing
    callback.setup(SimpleNamespace(datamodule=Own()), model(), "fit")
    assert callback._loaders is None


@pytest.mark.parametrize(("shots", "enough"), [(4, True), (5, False)])
def test_the_class_with_the_fewest_images_decides_and_is_named(shots, enough):
    labels = [0] * 6 + [1] * 4 + [2] * 5 + [-100] * 9
    if enough:
        assert len(made(Own(labels), shots=[shots])._images) == 12
        return
    with pytest.raises(InputError, match="shots 5 are more than the 4 training images of class bee"):
        made(Own(labels), shots=[1, shots])


def test_data_of_several_labels_or_without_validation_images_are_refused():
    for data in (Own(np.eye(3)), Own()):
        if data.train_set.labels.ndim == 1:
            data.val_set = Images([])
        with pytest.raises(InputError, match="FewShot needs training images whose labels are known at once"):
            made(data)


def test_each_figure_is_the_mean_over_its_own_draws(monkeypatch):
    scores = {(1, 0): 0.25, (1, 1): 0.75, (4, 0): 0.5, (4, 1): 1.0}
    callback = made(Own(), shots=[4, 1], seeds=2)
    found = FeatureSet(torch.zeros(30, 2), torch.arange(30) % 3)
    asked = []

    def features(trainer, net, loader) -> FeatureSet:
        asked.append(loader)
        return found

    monkeypatch.setattr(few_shot, "_features", features)
    monkeypatch.setattr(callback, "_score", lambda train, val, shots, seed, classes: scores[shots, seed])
    net, logged = model(), {}
    monkeypatch.setattr(net, "log", lambda name, value, **how: logged.update({name: float(value)}))
    callback._loaders = ("training", "validation")
    trainer = SimpleNamespace(state=SimpleNamespace(fn="fit"), sanity_checking=False, datamodule=Own())
    trainer.strategy = SimpleNamespace(broadcast=lambda value: value)
    callback.on_validation_epoch_end(trainer, net)
    assert logged == {"val/fewshot1": 0.5, "val/fewshot4": 0.75} and asked == ["training", "validation"]
    for facts in ({"sanity_checking": True}, {"state": SimpleNamespace(fn="validate")}):
        callback.on_validation_epoch_end(SimpleNamespace(**vars(trainer) | facts), net)
    assert len(asked) == 2


def test_a_score_is_of_the_training_images_that_were_drawn_under_its_penalty(monkeypatch):
    solved = []

    def solve(features, labels, classes, l2):
        solved.append((features[:, 0].tolist(), labels.tolist(), classes, l2))
        return SimpleNamespace(top1=lambda features, labels: float(labels.sum()))

    monkeypatch.setattr(fewshot, "solve", solve)
    callback = FewShot([2], l2=8.0)
    callback._chosen = {(2, 1): np.array([4, 0, 3])}
    train = FeatureSet(torch.arange(5.0)[:, None], torch.tensor([7, 8, 9, -101, 5]))
    assert callback._score(train, FeatureSet(torch.zeros(2, 1), torch.tensor([3, 4])), 2, 1, 11) == 7
    assert solved == [([4.0, 0.0], [5, 7], 11, 8.0)]
