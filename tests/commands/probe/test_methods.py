"""The rows of probes: what the scores of several draws of the images come to."""

import numpy as np
import pytest
import torch

from vit_lightning.commands.probe.methods import Probes, Probing
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
    drawn = dict(enumerate(scores))
    monkeypatch.setattr(Probing, "_few_shot_scores", lambda self, shots, seed: drawn[seed])
    probes = Probes(("fewshot",), (5,), list(drawn), (2.0, 8.0), (1,), 0.07, False)
    (kind, setting, values, said, _), *others = Probing(probes, ONE, ONE, 2).rows(print)
    assert not others and (kind, setting) == ("few-shot", "5 per class")
    np.testing.assert_allclose(values, [row[place] for row in scores])
    assert said == f"l2 {(2, 8)[place]}, the best of 2 on the test images"
