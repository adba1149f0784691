"""WeightedMean against arithmetic."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vit_lightning.training.metrics import WeightedMean


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
