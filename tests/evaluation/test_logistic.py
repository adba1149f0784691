"""Logistic regression, against scikit-learn's on the same features."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from tests.probe_speed import made
from vit_lightning.errors import InputError
from vit_lightning.evaluation import arrays, logistic


@pytest.fixture(scope="module")
def digits():
    features, labels = load_digits(return_X_y=True)
    return features[:1200], labels[:1200], features[1200:], labels[1200:]


def standardised(train, *others):
    mean, std = train.mean(0), train.std(0)
    return [(each - mean) / np.where(std > 0, std, 1) for each in (train, *others)]


@pytest.mark.parametrize("strength", [1e-4, 1e-2, 1.0, 100.0])
def test_one_strength_is_scikit_learns(digits, strength):
    train, labels, test, wanted = digits
    ours = logistic.fit(train, labels, 10, strength)
    x, asked = standardised(train, test)
    theirs = LogisticRegression(C=strength, max_iter=5000, tol=1e-8).fit(x, labels)
    probabilities = ours.scores(test).softmax(1).numpy()
    if strength <= 1:  # without a prior, images that no line parts are of any confidence
        np.testing.assert_allclose(probabilities, theirs.predict_proba(asked), atol=0.01)
    assert abs(ours.top1(test, wanted) - theirs.score(asked, wanted)) <= 0.002


def test_what_is_chosen_is_within_a_fifth_of_a_point_of_scikit_learns(digits):
    """The same held-out images and strengths, each of them fitted by scikit-learn."""
    train, labels, test, wanted = digits
    ours = logistic.fit_chosen(train, labels, 10)
    stay, out = (numbers.numpy() for numbers in logistic.hold_out(labels))
    x, held = standardised(train[stay], train[out])
    strengths = sorted({*logistic.STRENGTHS, ours.strength})
    scores = [LogisticRegression(C=c, max_iter=2000).fit(x, labels[stay]).score(held, labels[out]) for c in strengths]
    x, asked = standardised(train, test)
    theirs = LogisticRegression(C=strengths[int(np.argmax(scores))], max_iter=2000).fit(x, labels)
    assert abs(ours.top1(test, wanted) - theirs.score(asked, wanted)) <= 0.002


def test_the_last_fit_is_to_all_images_and_by_their_own_statistics(digits):
    train, labels, *_ = digits
    train, labels = train[:300], labels[:300]
    found = logistic.fit_chosen(train, labels, 10)
    whole = logistic.fit(train, labels, 10, found.strength)
    torch.testing.assert_close(found.standard.mean, whole.standard.mean)
    torch.testing.assert_close(found.standard.std, whole.standard.std)
    torch.testing.assert_close(found.weights, whole.weights, atol=1e-2, rtol=0)


def test_a_start_elsewhere_ends_at_the_same_place(digits):
    train, labels, *_ = digits
    standard = logistic.Standard.of(torch.as_tensor(train))
    problem = logistic.Problem(standard(torch.as_tensor(train)), torch.as_tensor(labels), 10)
    cold = problem.solve(0.1)
    warm = problem.solve(0.1, problem.solve(10.0))
    torch.testing.assert_close(cold.weights, warm.weights, atol=2e-3, rtol=0)


def test_two_classes_and_a_class_without_images():
    chance = np.random.default_rng(0)
    labels = np.arange(60) % 2
    features = chance.normal(size=(60, 3)) + 3 * labels[:, None]
    found = logistic.fit_chosen(features, labels, 4)
    assert found.weights.shape == (3, 4) and found.top1(features, labels) > 0.9
    assert int(found.scores(features).argmax(1).max()) == 1


def test_constant_features_do_no_harm():
    labels = np.arange(40) % 2
    features = np.stack([labels.astype(float), np.full(40, 7.0)], axis=1)
    assert logistic.fit(features, labels, 2).top1(features, labels) == 1


@pytest.mark.parametrize("counts", [[10, 10], [1, 10], [2, 3], [1, 2], [100, 7, 1]])
def test_held_out_images_are_a_share_of_every_class(counts):
    labels = np.repeat(np.arange(len(counts)), counts)
    stay, out = (numbers.numpy() for numbers in logistic.hold_out(labels, 0.2))
    assert sorted([*stay.tolist(), *out.tolist()]) == list(range(len(labels)))
    held = np.bincount(labels[out], minlength=len(counts)).tolist()
    assert held == [0 if count == 1 else max(1, round(0.2 * count)) for count in counts]


def test_nothing_to_choose_by():
    with pytest.raises(InputError, match="no class has two of them"):
        logistic.fit_chosen(np.eye(3), np.arange(3), 3)


@pytest.mark.parametrize("strength", [0.0, -1.0, np.nan, np.inf])
def test_strengths_that_cannot_be(strength):
    with pytest.raises(InputError, match="expected a number above 0"):
        logistic.fit(np.eye(4), np.arange(4) % 2, 2, strength)


def test_progress_names_every_strength(digits):
    train, labels, *_ = digits
    said: list[str] = []
    found = logistic.fit_chosen(train[:200], labels[:200], 10, report=said.append)
    assert found.chosen_by == logistic.LEAST_LOSS
    assert said[0].startswith("C 1e-06: ") and all(" held-out images, loss " in line for line in said)
    assert sum(line.startswith(f"C {found.strength:.3g}:") for line in said) == 1


def test_scores_that_do_not_change_at_first_end_no_search():
    """Where the prior rules, all C put the same class first."""
    chance = np.random.default_rng(0)
    labels = np.arange(600) % 20
    shared = 6 * chance.normal(size=(600, 2)) @ chance.normal(size=(2, 30))  # which tells nothing of the class
    features = chance.normal(size=(20, 30))[labels] + chance.normal(size=(600, 30)) + shared
    said: list[str] = []
    found = logistic.fit_chosen(features, labels, 20, report=said.append)
    scores = {line.partition(":")[0]: line.partition(": ")[2].partition(", loss")[0] for line in said}
    assert scores["C 1e-06"] == scores["C 1e-05"] and "C 0.1" in scores
    assert float(scores[f"C {found.strength:.3g}"].split()[0]) > float(scores["C 1e-06"].split()[0]) + 5


def test_of_equal_scores_the_least_strength_is_chosen():
    """Classes that lie far apart: every C but the least ones is right on all held-out images."""
    chance = np.random.default_rng(0)
    labels = np.arange(90) % 3
    features = chance.normal(size=(90, 4)) + 20 * np.eye(3, 4)[labels]
    said: list[str] = []
    found = logistic.fit_chosen(features, labels, 3, report=said.append)
    scores = {float(line.split()[1][:-1]): float(line.split()[2]) for line in said}
    best = [strength for strength, score in scores.items() if score == 100]
    assert len(best) > 2 and found.strength == pytest.approx(min(best), rel=0.01)
    assert found.chosen_by == logistic.RIGHT_ON_ALL


@pytest.mark.parametrize(
    ("trials", "images", "chosen"),
    [
        ({0.1: (0.60, 1.0), 1.0: (0.63, 1.2), 10.0: (0.62, 1.1)}, 200, 0.1),  # a standard error is 3.4 points
        ({0.1: (0.60, 1.0), 1.0: (0.63, 1.2), 10.0: (0.62, 1.1)}, 20_000, 1.0),  # 0.3 points
        ({10.0: (0.5, 1.0), 1.0: (0.5, 1.0)}, 100, 1.0),
        ({1.0: (1.0, 0.2), 10.0: (1.0, 0.1), 0.1: (0.99, 0.3)}, 100, 1.0),
        ({1.0: (0.0, 9.0), 10.0: (0.0, 8.0)}, 100, 10.0),
    ],
)
def test_of_scores_that_chance_may_tell_apart_the_loss_decides(trials, images, chosen):
    tried = {strength: logistic.Trial(None, *judged) for strength, judged in trials.items()}
    assert logistic.best_strength(tried, images) == chosen


def test_the_objective_is_evaluated_seldom(monkeypatch):
    """What time the choice and the last fit take: torch's L-BFGS asked 200 times for these features."""
    monkeypatch.setattr(logistic, "WORK", 0)
    asked: list[int] = []
    loss = logistic.Problem._loss

    def counted(self, weights, bias):
        asked.append(len(self.x))
        return loss(self, weights, bias)

    monkeypatch.setattr(logistic.Problem, "_loss", counted)
    train = made(1600, 40, 48, 1)
    assert logistic.fit_chosen(train.features, train.labels, 40).strength == pytest.approx(10**-1.5)
    assert len(asked) < 130


def test_the_last_fit_answers_as_one_that_goes_on_to_the_end():
    train, test = made(2000, 40, 48, 1), made(4000, 40, 48, 2)
    found = logistic.fit_chosen(train.features, train.labels, 40)
    whole = logistic.fit(train.features, train.labels, 40, found.strength)
    assert abs(found.top1(test.features, test.labels) - whole.top1(test.features, test.labels)) <= 0.002
    ours, theirs = (each.scores(test.features).argmax(1) for each in (found, whole))
    assert float((ours != theirs).float().mean()) <= 0.005


def test_classes_that_overlap_score_within_a_tenth_of_a_point_of_scikit_learns():
    """Features as ImageNet's are made of in `tests.probe_speed`, of fewer classes."""
    train, test = made(1500, 30, 32, 1), made(3000, 30, 32, 2)
    found = logistic.fit_chosen(train.features, train.labels, 30)
    x, asked = standardised(train.features.numpy(), test.features.numpy())
    theirs = LogisticRegression(C=found.strength, max_iter=5000, tol=1e-6).fit(x, train.labels)
    assert abs(found.top1(test.features, test.labels) - theirs.score(asked, test.labels)) <= 0.001


def test_loss_and_gradients_are_those_of_all_parts(digits, monkeypatch):
    train, labels, *_ = digits
    monkeypatch.setattr(arrays, "AT_ONCE", 10 * 7)  # seven images of ten classes at once
    x = torch.as_tensor(standardised(train)[0]).float()[:50]
    own, labels = logistic.Problem.__new__(logistic.Problem), torch.as_tensor(labels[:50])
    own.x, own.labels, own.num_classes = x, labels, 10
    weights = torch.randn(x.shape[1], 10, generator=torch.Generator().manual_seed(0)).requires_grad_()
    bias = torch.linspace(-1, 1, 10).requires_grad_()
    wanted = torch.nn.functional.cross_entropy(x @ weights + bias, labels)
    wanted.backward()
    with torch.no_grad():
        loss, gradient, bias_gradient = own._loss(weights.detach(), bias.detach())
    torch.testing.assert_close(loss.float(), wanted.detach())
    torch.testing.assert_close(gradient, weights.grad)
    torch.testing.assert_close(bias_gradient, bias.grad)
