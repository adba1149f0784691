"""In which order C is tried, where that ends, and which images are held out, with answers set by hand."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.evaluation import logistic
from vit_lightning.evaluation.logistic import LEAST_LOSS, RIGHT_ON_ALL, fit_chosen, hold_out

FEATURES = np.arange(200.0).reshape(100, 2)
LABELS = np.arange(100) % 2
"""Of either class ten images are held out."""


@dataclass(frozen=True)
class Answer:
    strength: float
    judged_as: tuple[float, float]
    chosen_by: str = ""

    def with_standard(self, standard: object) -> "Answer":
        return self

    def judged(self, asked: torch.Tensor, wanted: torch.Tensor) -> tuple[float, float]:
        assert len(asked) == len(wanted) == 20
        return self.judged_as


@pytest.fixture
def ladder(monkeypatch):
    """Fit with the answers of a table; what was chosen, and each fit: its C, that it began with, and its images."""

    def run(answers: dict[float, tuple[float, float]], strengths: list[float]):
        fits: list[tuple] = []

        class Problem:
            def __init__(self, x: torch.Tensor, labels: torch.Tensor, num_classes: int) -> None:
                self.images = len(x)

            def solve(self, strength: float, start, steps: int, settled: float) -> Answer:
                fits.append((round(strength, 6), start and round(start.strength, 6), self.images, settled))
                known = [value for key, value in answers.items() if abs(key - strength) < 1e-6]
                return Answer(strength, known[0] if known else (0.0, 99.0))

        monkeypatch.setattr(logistic, "Problem", Problem)
        found = fit_chosen(FEATURES, LABELS, 2, strengths=strengths)
        return found, fits

    return run


POWERS = [10.0**power for power in range(-3, 4)]


def tried(fits: list[tuple]) -> list[float]:
    return [strength for strength, _, images, _ in fits if images == 80]


def test_two_steps_that_better_nothing_end_the_rise(ladder):
    """The score rises to 0.6 at 0.1, and the loss falls to 2: after 1 and 10 no greater C is tried."""
    answers = {0.001: (0.5, 3.0), 0.01: (0.55, 2.5), 0.1: (0.6, 2.0), 1.0: (0.6, 2.0), 10.0: (0.55, 2.4)}
    found, fits = ladder(answers, POWERS)
    assert tried(fits) == [0.001, 0.01, 0.1, 1.0, 10.0, 0.031623, 0.316228]
    assert (found.strength, found.chosen_by) == (0.1, LEAST_LOSS)


@pytest.mark.parametrize("better", [(0.65, 9.0), (0.4, 1.9)])
def test_a_better_score_or_a_smaller_loss_lets_it_go_on(ladder, better):
    """The third step behind the best is better in one of both: patience begins anew."""
    answers = {0.001: (0.5, 3.0), 0.01: (0.6, 2.0), 0.1: (0.55, 2.1), 1.0: better, 10.0: (0.55, 2.3), 100.0: (0.5, 2.5)}
    _, fits = ladder(answers, POWERS)
    assert tried(fits)[:6] == [0.001, 0.01, 0.1, 1.0, 10.0, 100.0] and 1000.0 not in tried(fits)


def test_what_was_best_once_stays_the_measure(ladder):
    """The loss falls to 1 at first; 2.1 and 2.0 behind it are no better, though each is less than the one before."""
    answers = {0.001: (0.6, 1.0), 0.01: (0.55, 2.1), 0.1: (0.56, 2.0), 1.0: (0.57, 1.9)}
    _, fits = ladder(answers, POWERS)
    assert [strength for strength in tried(fits) if strength in POWERS] == [0.001, 0.01, 0.1]


def test_a_clear_fall_behind_a_clear_rise_ends_it_at_once(ladder):
    """Of 20 images a standard error is 0.09 at 0.8."""
    answers = {0.001: (0.5, 3.0), 0.01: (0.8, 2.0), 0.1: (0.7, 1.5), 1.0: (0.9, 1.0)}
    assert 1.0 not in tried(ladder(answers, POWERS)[1])
    assert 1.0 in tried(ladder(answers | {0.1: (0.72, 1.5)}, POWERS)[1])  # not clear
    assert 1.0 in tried(ladder(answers | {0.001: (0.75, 3.0)}, POWERS)[1])  # it has not risen clearly


@pytest.mark.parametrize(("best", "between"), [(0.01, [0.031623]), (0.1, [0.031623, 0.316228]), (1.0, [0.316228])])
def test_then_come_those_halfway_to_both_neighbours(ladder, best, between):
    answers = dict.fromkeys((0.01, 0.1, 1.0), (0.5, 2.0)) | {best: (0.5, 1.0)}
    found, fits = ladder(answers, [1.0, 0.01, 0.1, 0.1])
    assert tried(fits) == [0.01, 0.1, 1.0, *between] and found.strength == best
    assert all(start == best for strength, start, *_ in fits if strength in between)


def test_each_fit_begins_where_the_one_before_ended_and_the_last_is_of_all_images(ladder):
    answers = {0.01: (0.5, 3.0), 0.1: (0.6, 2.0), 1.0: (0.7, 1.0), 0.316228: (0.9, 0.5)}
    found, fits = ladder(answers, [0.01, 0.1, 1.0])
    choice = logistic.SETTLED_FOR_CHOICE
    assert fits == [
        (0.01, None, 80, choice),
        (0.1, 0.01, 80, choice),
        (1.0, 0.1, 80, choice),
        (0.316228, 1.0, 80, choice),
        (0.316228, 0.316228, 100, logistic.SETTLED_ENOUGH),
    ]
    assert found.chosen_by == LEAST_LOSS
    right, _ = ladder({0.01: (1.0, 3.0), 0.1: (1.0, 2.0)}, [0.01, 0.1])
    assert right.chosen_by == RIGHT_ON_ALL and right.strength == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("counts", "share", "held"),
    [
        ([10, 5, 4, 2, 1], 0.2, [2, 1, 1, 1, 0]),
        ([13, 12, 3], 0.2, [3, 2, 1]),  # 2.6 and 2.4
        ([4, 2], 1.0, [3, 1]),  # one stays
        ([4, 2], 0.01, [1, 1]),
    ],
)
def test_of_every_class_a_share_is_held_out_and_one_stays(counts, share, held):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    stay, out = hold_out(labels, share)
    assert np.bincount(labels[out], minlength=len(counts)).tolist() == held
    assert sorted([*stay.tolist(), *out.tolist()]) == list(range(len(labels)))
    assert stay.tolist() == sorted(stay.tolist()) and out.tolist() == sorted(out.tolist())


def test_the_seed_tells_which_and_is_0_by_itself():
    labels = np.arange(200) % 4
    found = {seed: hold_out(labels, 0.2, seed)[1].tolist() for seed in (0, 1)}
    assert hold_out(labels)[1].tolist() == found[0] != found[1] and len(found[0]) == 40
    with pytest.raises(InputError, match="no class has two of them"):
        hold_out(np.arange(5))
