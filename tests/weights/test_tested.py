"""The scores of a run's test are those of a checkpoint where it is as it was then."""

import json
from pathlib import Path

import pytest
import torch

from vit_lightning.runs.checkpoint_names import fingerprint
from vit_lightning.weights.tested import scores_of_test

SCORES = {"test/top1": 0.8, "test/loss": 0.5}


@pytest.fixture
def checkpoint(tmp_path) -> Path:
    path = tmp_path / "0/checkpoints/best.ckpt"
    path.parent.mkdir(parents=True)
    torch.save({"weight": torch.ones(9)}, path)
    return path


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ({"scores": SCORES}, SCORES),
        ({"scores": SCORES, "flip": True, "without flip": {"test/top1": 0.7}}, {"test/top1": 0.7}),
        ({"scores": SCORES, "flip": True}, {}),
        ({"scores": {"test/top1": 0.8, "a": "b", "c": True, "d": float("nan")}}, {"test/top1": 0.8}),
        ({"scores": [1]}, {}),
        ({}, {}),
    ],
)
def test_scores_are_of_the_net_alone(checkpoint, facts, found):
    assert scores_of_test(checkpoint) == {}
    file = checkpoint.parents[1] / "test.json"
    file.write_text(json.dumps(facts | {"fingerprint": fingerprint(checkpoint)}))
    assert scores_of_test(checkpoint) == found
    file.write_text(json.dumps(facts))
    assert scores_of_test(checkpoint) == {}


def test_another_state_has_no_scores(checkpoint):
    facts = {"scores": SCORES, "fingerprint": fingerprint(checkpoint)}
    (checkpoint.parents[1] / "test.json").write_text(json.dumps(facts))
    assert scores_of_test(checkpoint) == SCORES
    torch.save({"weight": torch.zeros(9)}, checkpoint)
    assert scores_of_test(checkpoint) == {}
    (checkpoint.parents[1] / "test.json").write_text("{")
    assert scores_of_test(checkpoint) == {} == scores_of_test(checkpoint.with_name("gone.ckpt"))
