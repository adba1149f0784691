"""Histograms of norms against exact quantiles, and artefacts that are there."""

import pytest
import torch

from vit_lightning.inspection.artefacts import LEVELS, NormHistogram


def test_quantiles_and_shares_are_those_of_all_norms():
    torch.manual_seed(0)
    norms = torch.rand(3, 40, 50) * 10 + 20
    norms[2, :4, :5] = 90  # 20 of 2,000
    norms[1, 0, :12] = 70
    histogram = NormHistogram()
    for part in norms.split(7, dim=1):
        histogram.add(part)
    report = histogram.report()
    exact = norms.flatten(1).quantile(torch.tensor(LEVELS), dim=1).T
    torch.testing.assert_close(report.quantiles.float(), exact, rtol=0.01, atol=0)
    assert report.share == pytest.approx(20 / 2000) and report.shares.tolist() == pytest.approx([0, 0.006, 0.01])
    assert report.threshold == pytest.approx(2 * norms[2].median().item(), rel=0.01)
    assert report.largest == pytest.approx(90 / norms[2].median().item(), rel=0.01) and report.emerges_at == 1


def test_a_net_without_artefacts():
    histogram = NormHistogram()
    histogram.add(torch.rand(2, 3, 10) + 1)
    report = histogram.report()
    assert report.share == 0 and report.emerges_at is None


def test_norms_beyond_the_histogram_count_at_its_ends():
    histogram = NormHistogram()
    histogram.add(torch.tensor([[[0.0, 1.0, 1.0, 1.0, 1e9]]]))
    assert histogram.report().share == pytest.approx(0.2)


def test_the_last_block_speaks_for_the_net_and_each_block_has_its_own_median():
    """The median falls from 64 to 4; half of the last block's two artefacts are there from the second block on."""
    norms = torch.tensor([64.0, 16.0, 4.0])[:, None, None].repeat(1, 2, 10)
    norms[1, 0, 0] = norms[2, 0, :2] = 100
    histogram = NormHistogram()
    histogram.add(norms)
    report = histogram.report()
    assert report.shares.tolist() == pytest.approx([0, 0.05, 0.1]) and report.share == pytest.approx(0.1)
    assert (report.threshold, report.largest) == pytest.approx((8, 25), rel=0.01)
    assert report.emerges_at == 1
    assert histogram.report(factor=30).share == 0 and histogram.report(factor=20).share == pytest.approx(0.1)
    assert histogram.report(factor=20).threshold == pytest.approx(80, rel=0.01)
