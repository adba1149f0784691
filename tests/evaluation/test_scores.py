"""The table of scores."""

import pytest

from vit_lightning.evaluation.scores import (
    MAIN_METRICS,
    METRICS,
    SCORES,
    best_value,
    score_of,
    scores_with,
)


def test_a_metric_is_found_by_its_last_part():
    assert score_of("val/top1") is score_of("best val/top1") is score_of("top1")
    assert score_of("train/loss").better == "min" and score_of("test/objectnet").better == "max"
    assert score_of("val/own") is None and score_of("lr") is None


def test_labels_are_unique_and_main_metrics_are_scores():
    assert len({score.label for score in SCORES.values()}) == len(SCORES)
    assert all(score_of(name).name == name for name in SCORES)
    assert all(metric.startswith(METRICS) and score_of(metric) for metric in MAIN_METRICS)


def test_all_but_losses_are_shares_of_the_images():
    assert {name for name, score in SCORES.items() if score.is_share} == SCORES.keys() - {"loss"}
    assert all((score.better == "max") == score.is_share for score in SCORES.values())


def test_what_was_tested_says_most_of_a_run_and_a_loss_least():
    assert MAIN_METRICS == ("test/top1", "val/top1", "val/loss")


def test_the_best_value_follows_the_direction():
    values = [0.2, 0.1, 0.3]
    assert best_value("val/loss", values) == best_value("val/own_loss", values) == 0.1
    assert best_value("val/top1", values) == best_value("val/own", values) == 0.3


@pytest.mark.parametrize(
    ("needs", "names"), [((), ()), (("targets",), ("loss",)), (("targets", "labels"), ("loss", "top1", "top5"))]
)
def test_scores_are_chosen_by_what_the_data_hold(needs, names):
    assert tuple(score.name for score in scores_with(*needs)) == names
