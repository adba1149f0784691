"""Mean probabilities as logits, against plain means."""

import pytest
import torch

from vit_lightning.evaluation.ensembles import mean_logits


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("are_independent", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_probabilities_of_the_mean_are_the_means(count, are_independent, dtype):
    answers = [torch.randn(4, 3, generator=torch.Generator().manual_seed(seed)).to(dtype) for seed in range(count)]
    turn = torch.sigmoid if are_independent else lambda logits: logits.softmax(-1)
    expected = torch.stack([turn(each.double()) for each in answers]).mean(0)
    found = mean_logits(answers, are_independent)
    assert found.dtype == torch.float32
    torch.testing.assert_close(turn(found.double()), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("are_independent", [True, False])
def test_logits_far_from_0_stay_finite(are_independent):
    answers = [torch.tensor([[200.0, -200.0]]), torch.tensor([[190.0, -190.0]])]
    found = mean_logits(answers, are_independent)
    assert found.isfinite().all() and found[0, 0] > 100 + found[0, 1]


def test_logits_of_softmax_are_log_probabilities():
    assert mean_logits([torch.zeros(1, 4)] * 3, False).tolist() == [pytest.approx([-1.3862944] * 4)]
