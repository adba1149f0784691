"""WeightedMean against arithmetic."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics import Metric

from vit_lightning.errors import InputError
from vit_lightning.training.metrics import WeightedMean, check_scores


@given(st.lists(st.tuples(st.integers(-100, 100), st.sampled_from([0, 1])), min_size=1, max_size=30), st.integers(1, 7))
def test_batches_of_any_size_give_the_mean_of_what_counts(records, size):
    metric = WeightedMean()
    for start in range(0, len(records), size):
        values, weights = zip(*records[start : start + size], strict=True)
        metric.update(torch.tensor(values).float(), torch.tensor(weights).float())
    kept = [value for value, weight in records if weight]
    if kept:
        assert metric.compute().item() == pytest.approx(sum(kept) / len(kept), abs=1e-4)
    else:
        assert metric.compute().isnan()


def test_what_counts_nothing_may_be_anything():
    metric = WeightedMean()
    metric.update(torch.tensor([1.0, float("nan"), float("inf")]), torch.tensor([1.0, 0.0, 0.0]))
    assert metric.compute() == 1


def of_two_processes(metric: Metric) -> Metric:
    """Let a metric compute as if a second process had seen the same."""
    metric.distributed_available_fn = lambda: True
    metric.dist_sync_fn = lambda own, group=None: [own, own]
    return metric


def test_means_of_processes_are_put_together():
    metric = WeightedMean()
    metric.update(torch.tensor([1.0, 4.0]), torch.tensor([1.0, 2.0]))
    assert of_two_processes(metric).compute().item() == 3
    assert metric.counted == 6


def score(*values: float, weight: float = 1.0) -> WeightedMean:
    metric = WeightedMean()
    if values:
        metric.update(torch.tensor(values), torch.full((len(values),), weight))
    return metric


def test_scores_that_count_all_images_say_nothing():
    assert check_scores({"val/loss": score(1.0, 2.0), "val/top1": score(1.0, 0.0)}, "validation", 2) is None
    assert check_scores({"val/loss": score(1.0, 2.0)}, "validation", None) is None
    assert check_scores({"val/loss": score()}, "validation", 2) is None  # no batch came


def test_a_set_of_which_some_images_have_a_label_is_counted():
    said = check_scores({"val/loss": score(1.0, 2.0)}, "validation", 5)
    assert said == "2 of 5 validation images have a label; the others count nothing"
    assert check_scores({"val/loss": score(1.0, 2.0)}, "validation", 5, whole=False) is None


@pytest.mark.parametrize(("images", "of"), [(None, ""), (4, " of the 4")])
def test_a_set_without_a_label_is_refused_once_it_is_whole(images, of):
    scores = {"test/loss": score(1.0, weight=0.0)}
    with pytest.raises(InputError, match=f"^none{of} test images has a label, so that there is nothing to score"):
        check_scores(scores, "test", images)
    assert check_scores(scores, "test", images, whole=False) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("whole", [True, False])
def test_the_first_score_that_is_no_number_is_named(value, whole):
    scores = {"val/top1": score(1.0), "val/loss": score(1.0, value)}
    with pytest.raises(InputError, match=f"^val/loss is {value}: the net's outputs are not finite"):
        check_scores(scores, "validation", 2, whole)
