"""The rows of probes: what the scores of several draws of the images come to."""

import numpy as np
import pytest
import torch

from vit_lightning.commands.probe.methods import Probes, Probing
from vit_lightning.errors import InputError
from vit_lightning.evaluation.accuracy import Accuracy
from vit_lightning.evaluation.features import FeatureSet

ONE = FeatureSet(torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64))


@pytest.mark.parametrize(
    ("scores", "place"),
    [
        ([[0.9, 0.1], [0.5, 0.52], [0.5, 0.52]], 0),  # the second is better in most draws, and worse in the mean
        ([[0.1, 0.9], [0.52, 0.5], [0.52, 0.5]], 1),
        ([[0.2, 0.4], [0.4, 0.2]], 0),  # of equals the least penalty
    ],
)
def test_the_penalty_of_the_best_mean_serves_every_draw(monkeypatch, scores, place):
    drawn = {seed: [Accuracy(value, 0.0) for value in row] for seed, row in enumerate(scores)}
    monkeypatch.setattr(Probing, "_few_shot_scores", lambda self, shots, seed: drawn[seed])
    probes = Probes(("fewshot",), (5,), list(drawn), (2.0, 8.0), (1,), 0.07, False)
    (kind, setting, values, said, _), *others = Probing(probes, ONE, ONE, 2).rows(print)
    assert not others and (kind, setting) == ("few-shot", "5 per class")
    np.testing.assert_allclose([value.top1 for value in values], [row[place] for row in scores])
    assert said == f"l2 {(2, 8)[place]}, the best of 2 on the test images"


SPARSE = {"shots": (2,), "classes": 3, "missing_is_fine": True}


def check(train, test, classes=2, **facts) -> None:
    usual = {"chosen": ("fewshot", "knn", "logistic"), "shots": (1,), "seeds": (None,), "penalties": (1.0,)}
    usual |= {"neighbours": (1,), "temperature": 0.07, "missing_is_fine": False}
    Probes(**usual | facts).check(torch.tensor(train), torch.tensor(test), "test", ["cat", "dog", "fish"][:classes])


@pytest.mark.parametrize(
    ("train", "test", "facts", "said"),
    [
        ([-1, -100], [0, 1], {}, "none of the training images has a label"),
        ([0, 0, 1], [-1], {}, "none of the test images has a label"),
        ([0, 0, 0], [0, 1], {"missing_is_fine": True}, "the training images are of one class alone"),
        ([0, 0, 1], [0, 2], {"classes": 3}, "the training images lack 1 of 3 classes: fish"),
        ([0, 0, 1], [0], {}, "the test images lack 1 of 2 classes: dog"),
        (
            [0, 0, 1],
            [0, 1],
            {"shots": (1, 2)},
            r"--shots 2 is more than the 1 training image of class dog; give --shots \[1\],",
        ),
        ([0, 0, 1], [0, 1], {"shots": (2, 3)}, "of class dog; give --shots of 1, or leave fewshot out"),
        (
            [0, 1, 1],
            [0, 1],
            {"shots": (2,), "classes": 3, "missing_is_fine": True},
            "the 1 training image of class cat",
        ),
        ([0, 1], [0, 1], {}, "no class has two training images"),
        (
            [0, 0, 1, -1],
            [0, 1],
            {"neighbours": (3, 4)},
            r"--neighbours 4 is more than the 3 training .*--neighbours \[3\],",
        ),
    ],
)
def test_images_to_which_a_probe_cannot_be_fitted(train, test, facts, said):
    with pytest.raises(InputError, match=said):
        check(train, test, **facts)


def test_what_suffices_and_what_is_not_chosen():
    check([0, 0, 1, 1], [0, 1], shots=(2,), neighbours=(4,))
    check([0, 0, 1], [0], missing_is_fine=True)
    check([0, 1], [0, 1], chosen=("fewshot", "knn"), neighbours=(2,))
    check([0, 0, 1], [0, 1], chosen=("logistic",), shots=(9,), neighbours=(9,))


def test_every_setting_has_its_row_in_the_order_of_the_table():
    """Two classes that lie apart, and one test image among the other class."""
    train = FeatureSet(torch.tensor([[1.0, 0.1], [1.0, 0.0], [-1.0, 0.1], [-1.0, 0.0]]), torch.tensor([0, 0, 1, 1]))
    test = FeatureSet(torch.tensor([[2.0, 0.0], [-2.0, 0.0], [-1.0, 0.0], [-1.0, 0.1]]), torch.tensor([0, 1, 1, 0]))
    probes = Probes(("knn", "fewshot"), (1, 2), (None, 3), (1e-3,), (1, 3), 0.07, False)
    rows = [row[:4] for row in Probing(probes, train, test, 2).rows(lambda said: None)]
    assert [(kind, setting) for kind, setting, *_ in rows] == [
        ("few-shot", "1 per class"),
        ("few-shot", "2 per class"),
        ("k-NN", "k 1"),
        ("k-NN", "k 3"),
    ]
    both = Accuracy(0.75, 0.75)  # of class 0 one image of two, of class 1 both: of 4 and in the mean of classes alike
    assert [values for _, _, values, _ in rows] == [[both, both], [both, both], [both], [both]]
    assert [said for *_, said in rows] == ["l2 0.001", "l2 0.001", "", ""]
