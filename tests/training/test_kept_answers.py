"""What scores need of images, put together over processes and within limits."""

import pytest
import torch

from tests.training.test_metrics import of_two_processes
from vit_lightning.training import kept_answers
from vit_lightning.training.kept_answers import Answers, LabelCounts, RankedLabels


def test_answers_of_processes_are_put_together():
    answers, counts = Answers(), LabelCounts()
    answers.update(torch.tensor([2, 1]), torch.tensor([0, 1]), torch.tensor([0.5, 0.7]), torch.tensor([True, False]), 3)
    hot = torch.tensor([[True, False], [True, True]])
    counts.update(hot, torch.tensor([[True, True], [True, True]]), torch.tensor([True, True]))
    pairs, confidence = of_two_processes(answers).compute()
    assert pairs.tolist() == [6, -1] * 2 and confidence.tolist() == pytest.approx([0.5, 0.7] * 2)
    sums, exact, images = of_two_processes(counts).compute()
    assert sums.tolist() == [[4, 2], [4, 4], [4, 2]] and (exact.item(), images.item()) == (2, 4)


@pytest.mark.parametrize(("processes", "is_kept"), [(1, True), (2, False)])
def test_what_all_processes_rank_together_has_a_limit(monkeypatch, processes, is_kept):
    monkeypatch.setattr(kept_answers, "MOST_RANKED", 8)
    monkeypatch.setattr(kept_answers, "_processes", lambda: processes)
    monkeypatch.setattr(kept_answers, "_gathered", lambda own: [own])
    ranked = RankedLabels()
    rows = torch.tensor([[0.1, 0.2], [0.3, 0.4]]), torch.tensor([[True, False], [False, True]])
    for _ in range(2):
        ranked.update(*rows, torch.tensor([True, False]))
    found = ranked.compute()
    assert (found is not None) == is_kept
    if found:
        assert found[0].tolist() == [pytest.approx([0.1, 0.2])] * 2 and found[1].tolist() == [[1, 0]] * 2
    ranked.reset()
    ranked.update(*rows, torch.tensor([True, True]))
    assert ranked.compute() is not None  # 4 numbers, or 8 of both
