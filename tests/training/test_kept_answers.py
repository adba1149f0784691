"""What scores need of images, put together over processes and within limits."""

import pytest
import torch

from tests.training.test_metrics import of_two_processes
from vit_lightning.training import kept_answers
from vit_lightning.training.kept_answers import Answers, LabelCounts, RankedLabels


def test_answers_of_processes_are_put_together():
    answers, counts = Answers(), LabelCounts()
    answers.update(torch.tensor([2, 1]), torch.tensor([0, 1]), torch.tensor([0.5, 0.7]), torch.tensor([True, False]), 3)
    shares = torch.tensor([[0.75, 0.25], [0.75, 0.75]])
    counts.update(shares, 0.5, torch.tensor([[True, True], [True, True]]), torch.tensor([True, True]))
    pairs, confidence = of_two_processes(answers).compute()
    assert pairs.tolist() == [6, -1] * 2 and confidence.tolist() == pytest.approx([0.5, 0.7] * 2)
    sums, exact, images, gaps = of_two_processes(counts).compute()
    assert (gaps.sum(0) / kept_answers.PARTS_OF_ONE).tolist() == [2 * 0.5, 2 * 1.0] and gaps[11, 0] == gaps.sum(0)[0]
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


def test_answers_of_batches_and_of_processes_stand_one_after_another():
    """Of three classes; the second process has other images, and each has two batches."""
    parts = []
    for turn in range(2):
        answers = Answers()
        labels, said = torch.tensor([[2, 1], [0, 1]])[turn], torch.tensor([[1, 2], [2, 0]])[turn]
        answers.update(labels, said, torch.tensor([0.5, 0.75]) + turn / 8, torch.tensor([True, True]), 3)
        answers.update(torch.tensor([turn]), torch.tensor([2]), torch.tensor([0.25]), torch.tensor([not turn]), 3)
        parts.append(answers)
    first, second = parts
    assert first.compute()[0].tolist() == [7, 5, 2] and second.compute()[0].tolist() == [2, 3, -1]
    both = Answers()
    both.update(torch.tensor([2]), torch.tensor([1]), torch.tensor([0.5]), torch.tensor([True]), 3)
    both.distributed_available_fn = lambda: True
    both.dist_sync_fn = lambda own, group=None: [own, own + 1]
    pairs, confidence = both.compute()
    assert pairs.tolist() == [7, 8] and confidence.tolist() == [0.5, 1.5] and both.classes == 3


@pytest.mark.parametrize("classes", [1, 3, 16, 35])
def test_scores_of_processes_are_put_together_in_their_order_whatever_the_number_of_classes(monkeypatch, classes):
    """The second process has the scores of the first and 1,000 more, and labels that are the other way round."""
    monkeypatch.setattr(kept_answers, "_processes", lambda: 2)
    asked = []

    def gathered(own):
        asked.append(own.shape)
        if own.ndim == 0:
            return [own, own]
        return [own, own + 1000 if own.dtype == torch.float32 else 1 - own]

    monkeypatch.setattr(kept_answers, "_gathered", gathered)
    ranked, scores = RankedLabels(), torch.arange(4.0 * classes).reshape(4, classes)
    labels = scores % 2 == 0
    ranked.update(scores[:3], labels[:3], torch.tensor([True, False, True]))
    ranked.update(scores[3:], labels[3:], torch.tensor([True]))
    kept = [0, 2, 3]
    found = ranked.compute()
    assert torch.equal(found[0], torch.cat([scores[kept], scores[kept] + 1000]))
    assert torch.equal(found[1].bool(), torch.cat([labels[kept], ~labels[kept]]))
    assert len(asked) == 1 + 2 * min(classes, 16)


def test_a_ranking_that_another_process_leaves_out_is_left_out_here(monkeypatch):
    monkeypatch.setattr(kept_answers, "_gathered", lambda own: [own, torch.ones_like(own)])
    ranked = RankedLabels()
    ranked.update(torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool), torch.tensor([True]))
    assert ranked.compute() is None


def test_records_that_were_dealt_out_in_turns_come_back_in_their_order(monkeypatch):
    """Of seven records the second process has the odd ones, and a padding."""
    monkeypatch.setattr(kept_answers, "_processes", lambda: 2)
    assert kept_answers.in_order(torch.tensor([0, 2, 4, 6, 1, 3, 5, -1])).tolist() == [0, 1, 2, 3, 4, 5, 6, -1]


def test_counts_of_several_labels_are_summed_over_batches_by_class():
    counts = LabelCounts()
    said = torch.tensor([[0.9, 0.1, 0.1], [0.9, 0.9, 0.1], [0.1, 0.1, 0.9]])
    true = torch.tensor([[True, False, False], [True, False, True], [False, True, True]])
    for rows in (slice(0, 2), slice(2, 3)):
        counts.update(said[rows], 0.5, true[rows], torch.ones(3, dtype=torch.bool)[rows])
    counts.update(said[:1], 0.5, true[:1], torch.tensor([False]))  # padding, and all right
    sums, exact, images, _ = counts.compute()
    assert sums.tolist() == [[2, 0, 1], [2, 1, 2], [2, 1, 1]] and (exact.item(), images.item()) == (1, 3)
    counts.reset()
    counts.update(said[2:], 0.5, true[2:], torch.tensor([True]))
    assert counts.compute()[0].tolist() == [[0, 0, 1], [0, 1, 1], [0, 0, 1]]


def test_the_gaps_of_a_label_are_summed_by_the_bin_of_its_probability_over_batches():
    """Of 15 bins, 0.2 closes the third and 0.21 lies in the fourth; the third image is padding."""
    counts = LabelCounts()
    probabilities = torch.tensor([[0.2, 0.95], [0.21, 0.95], [0.2, 0.0], [0.19, 0.0]])
    labels = torch.tensor([[True, True], [False, False], [True, True], [False, False]])
    valid = torch.tensor([True, True, False, True])
    for rows in (slice(0, 1), slice(1, 4)):
        counts.update(probabilities[rows], 0.5, labels[rows], valid[rows])
    gaps = counts.compute()[3] / kept_answers.PARTS_OF_ONE
    expected = torch.zeros(15, 2)
    expected[2, 0], expected[3, 0] = (1 - 0.2) + (0 - 0.19), -0.21
    expected[14, 1], expected[0, 1] = (1 - 0.95) - 0.95, 0
    assert torch.allclose(gaps.float(), expected, atol=1e-6)
