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

SHOTS = ["fewshot1", "fewshot5", "fewshot10", "fewshot25"]


def test_a_metric_is_found_by_its_last_part():
    assert score_of("val/top1") is score_of("best val/top1") is score_of("top1")
    assert score_of("train/loss").better == "min" and score_of("test/objectnet").better == "max"
    assert score_of("val/own") is None and score_of("lr") is None


def test_labels_are_unique_and_main_metrics_are_scores():
    assert len({score.label for score in SCORES.values()}) == len(SCORES)
    assert all(score_of(name).name == name for name in SCORES)
    assert all(metric.startswith(METRICS) and score_of(metric) for metric in MAIN_METRICS)


def test_all_but_losses_are_percentages_and_errors_are_best_when_least():
    assert {name for name, score in SCORES.items() if score.is_share} == SCORES.keys() - {"loss"}
    assert {name for name, score in SCORES.items() if score.better == "min"} == {"loss", "ece"}


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


def test_the_table_says_of_each_score_what_is_best_and_what_it_needs():
    assert {name: (score.better, score.needs) for name, score in SCORES.items()} == {
        "loss": ("min", "targets"),
        "top1": ("max", "labels"),
        "top5": ("max", "labels"),
        "mean_class_accuracy": ("max", "one label"),
        "macro_f1": ("max", "one label"),
        "ece": ("min", "one label"),
        "map_macro": ("max", "several labels"),
        "map_micro": ("max", "several labels"),
        "micro_f1": ("max", "several labels"),
        "exact_match": ("max", "several labels"),
        "mean_auroc": ("max", "one label"),
        "real": ("max", "further set"),
        "v2": ("max", "further set"),
        "objectnet": ("max", "further set"),
        "a": ("max", "further set"),
        "r": ("max", "further set"),
        "sketch": ("max", "further set"),
        "w": ("max", "further set"),
        **dict.fromkeys(SHOTS, ("max", "features")),
    }
    assert list(SCORES)[:3] == ["loss", "top1", "top5"]
    further = ["real", "v2", "objectnet", "a", "r", "sketch", "w"]
    assert list(SCORES)[-len(further) - len(SHOTS) :] == [*further, *SHOTS]
    assert [score.name for score in scores_with("further set")] == further


def test_tables_begin_with_what_was_tested_and_end_with_what_it_cost():
    assert METRICS == ("test/", "val/", "best val/", "train/", "perf/", "cost/")


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("split", ["val/", "test/", "best val/", ""])
def test_the_best_of_every_score_is_that_of_the_table(name, split):
    assert best_value(f"{split}{name}", [0.5, 0.25, 0.75]) == (0.25 if name in ("loss", "ece") else 0.75)


def test_scores_suit_images_of_one_label_or_of_several_and_rankings_are_costly():
    one = ["mean_class_accuracy", "macro_f1", "ece", "mean_auroc"]
    assert [name for name, score in SCORES.items() if score.suits(False)] == one
    several = ["macro_f1", "ece", "map_macro", "map_micro", "micro_f1", "exact_match", "mean_auroc"]
    assert [name for name, score in SCORES.items() if score.suits(True)] == several
    assert {name for name, score in SCORES.items() if not score.is_cheap} == {"map_macro", "map_micro", "mean_auroc"}
