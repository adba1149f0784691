"""Accuracy over images and over classes, against scikit-learn's."""

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from vit_lightning.commands.probe.methods import Probes, Probing
from vit_lightning.evaluation import fewshot, knn, logistic
from vit_lightning.evaluation.accuracy import accuracy
from vit_lightning.evaluation.features import FeatureSet


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
@pytest.mark.parametrize("seed", range(4))
def test_both_are_scikit_learns(seed):
    """Of classes of many and of few images, one of none, and one that is never right."""
    chance = np.random.default_rng(seed)
    labels = chance.choice(6, 200, p=(0.6, 0.2, 0.1, 0.05, 0.05, 0.0))
    predicted = np.where(chance.random(200) < 0.6, labels, chance.integers(0, 6, 200))
    predicted[labels == 3] = 5
    found = accuracy(torch.from_numpy(predicted), labels, 6)
    assert found.top1 == pytest.approx(accuracy_score(labels, predicted))
    assert found.mean_class == pytest.approx(balanced_accuracy_score(labels, predicted))


def test_a_large_class_outweighs_a_small_one_over_images_alone():
    found = accuracy(torch.tensor([0, 0, 0, 0]), torch.tensor([0, 0, 0, 1]), 2)
    assert found == (0.75, 0.5)


def test_every_probe_is_scored_both_ways():
    """Three classes of unlike size, whose features overlap."""
    chance = np.random.default_rng(0)
    labels = {"train": np.repeat([0, 1, 2], [30, 12, 6]), "test": np.repeat([0, 1, 2], [40, 9, 5])}
    features = {name: chance.normal(size=(len(each), 4)) + 0.8 * np.eye(3, 4)[each] for name, each in labels.items()}
    train, test = (FeatureSet(torch.tensor(features[name]).float(), torch.tensor(labels[name])) for name in labels)
    probes = Probes(("fewshot", "knn", "logistic"), (5,), (0, 1), (1024.0,), (3,), 0.07, False)
    found = {kind: values for kind, _, values, *_ in Probing(probes, train, test, 3).rows(lambda said: None)}
    chosen = [fewshot.select(train.labels, 3, 5, seed) for seed in (0, 1)]
    answers = {
        "few-shot": [
            fewshot.solve(train.features[rows], train.labels[rows], 3).scores(test.features).argmax(1)
            for rows in chosen
        ],
        "k-NN": [knn.predict(train.features, train.labels, test.features, 3, (3,))[0]],
        "logistic": [logistic.fit_chosen(train.features, train.labels, 3).scores(test.features).argmax(1)],
    }
    wanted = labels["test"]
    expected = {
        kind: [(accuracy_score(wanted, each), balanced_accuracy_score(wanted, each)) for each in rows]
        for kind, rows in answers.items()
    }
    assert found.keys() == expected.keys()
    for kind, values in found.items():
        np.testing.assert_allclose(values, expected[kind])
        assert all(abs(one.top1 - one.mean_class) > 1e-3 for one in values)
