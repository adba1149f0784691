"""Few-shot least squares: the reference outputs, an independent float64 computation, and the choice of images."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vit_lightning.errors import InputError
from vit_lightning.evaluation import fewshot


def made(n: int, d: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    labels = np.arange(n) % k
    return (chance.normal(size=(n, d)) + chance.normal(size=(k, d))[labels]).astype(np.float32), labels


def normal_equations(features, labels, k, l2):
    """The spec's formula for n >= d + 1, of numpy's solver and of float64 alone."""
    features = features.astype(np.float64)
    mean, std = features.mean(0), features.std(0) + 1e-5
    x = np.hstack([(features - mean) / std, np.full((len(features), 1), 100.0)])
    y = 2 * np.eye(k)[labels] - 1
    return mean, std, np.linalg.solve(x.T @ x + l2 * np.eye(x.shape[1]), x.T @ y)


@pytest.mark.parametrize("case", ["G1_fewshot_40x16", "G2_fewshot_200x16"])
def test_reference_outputs(golden, case):
    given_, expected = (np.load(golden / case / name) for name in ("input.npz", "expected.npz"))
    tolerance = json.loads((golden / case / "case.json").read_text())["tolerance"]["solve_in_float64"]
    found = fewshot.solve(given_["train_features"], given_["train_labels"], 5)
    np.testing.assert_allclose(found.mean, expected["mean"], rtol=1e-5)
    np.testing.assert_allclose(found.std, expected["std_plus_eps"], rtol=1e-5)
    assert np.abs(found.weights.numpy() - expected["weights"]).max() <= tolerance["weights"]
    scores = found.scores(given_["test_features"])
    assert np.abs(scores.numpy() - expected["scores"]).max() <= tolerance["scores"]
    np.testing.assert_array_equal(scores.argmax(1), expected["predictions"])
    assert found.top1(given_["test_features"], given_["test_labels"]) == pytest.approx(float(expected["accuracy"]))


@pytest.mark.parametrize("n", [6, 16, 17, 18, 90])
@pytest.mark.parametrize("l2", [1024.0, 2.0**-10, 2.0**19])
def test_both_branches_are_the_same_formula(n, l2):
    """Fewer images than features (and the constant) take the other side of the identity."""
    features, labels = made(n, 16, 3)
    mean, std, weights = normal_equations(features, labels, 3, l2)
    found = fewshot.solve(features, labels, 3, l2)
    assert found.weights.dtype == torch.float64 and found.weights.shape == (17, 3)
    np.testing.assert_allclose(found.mean, mean, atol=1e-12)
    np.testing.assert_allclose(found.std, std, atol=1e-12)
    np.testing.assert_allclose(found.weights, weights, atol=1e-7)


def test_a_grid_of_penalties_is_that_of_single_ones():
    features, labels = made(40, 8, 4)
    for found, l2 in zip(fewshot.solutions(features, labels, 4, fewshot.ORIGINAL_L2), fewshot.ORIGINAL_L2, strict=True):
        assert found.l2 == l2
        np.testing.assert_allclose(found.weights, fewshot.solve(features, labels, 4, l2).weights, atol=1e-12)
    assert len(fewshot.ORIGINAL_L2) == 30 and fewshot.ORIGINAL_L2[0] == 2**-10 and fewshot.ORIGINAL_L2[-1] == 2**19


def test_scores_in_parts_are_those_of_the_whole(monkeypatch):
    features, labels = made(50, 8, 5)
    found = fewshot.solve(features, labels, 5)
    whole = float((found.scores(features).argmax(1).numpy() == labels).mean())
    monkeypatch.setattr("vit_lightning.evaluation.arrays.AT_ONCE", 35)
    assert found.top1(features, labels) == pytest.approx(whole)


def test_a_class_without_images_is_never_best():
    features, labels = made(30, 8, 3)
    found = fewshot.solve(features, labels, 5)
    assert found.weights.shape == (9, 5) and int(found.scores(features).argmax(1).max()) < 3


def drawn_as_published(labels, k, shots, seed):
    """Step 3 of big_vision's evaluators/fewshot_lsr.py, in plain loops."""
    chance = np.random.default_rng(seed)
    orders = [chance.permutation([i for i, label in enumerate(labels) if label == c]) for c in range(k)]
    return np.concatenate([order[:shots] for order in orders])


@given(st.integers(2, 6), st.integers(0, 5), st.lists(st.integers(0, 5), min_size=60, max_size=90))
def test_images_are_drawn_as_published_and_nested(k, seed, labels):
    labels = np.array([label % k for label in labels] + [label for label in range(k) for _ in range(5)])
    before: set[int] = set()
    for shots in range(1, 6):
        chosen = fewshot.select(labels, k, shots, seed)
        np.testing.assert_array_equal(chosen, drawn_as_published(labels, k, shots, seed))
        assert sorted(labels[chosen]) == sorted(list(range(k)) * shots)
        assert before < set(chosen.tolist())
        before = set(chosen.tolist())


def test_seeds_differ_and_no_seed_takes_the_first_images():
    labels = np.arange(200) % 4
    chosen = [fewshot.select(labels, 4, 5, seed).tolist() for seed in (0, 1, 2, 0)]
    assert chosen[0] == chosen[3] and chosen[0] != chosen[1] != chosen[2]
    assert fewshot.select(labels, 4, 2, None).tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


def test_unlabelled_images_are_not_drawn():
    labels = np.array([-100, 0, -101, 1, 0, 1, -1])
    assert sorted(fewshot.select(labels, 2, 2, 0).tolist()) == [1, 3, 4, 5]


def test_more_shots_than_images():
    with pytest.raises(InputError, match="3 shots are more than the 2 training images of class 1"):
        fewshot.select(np.array([0, 0, 0, 1, 1]), 2, 3)


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        ([[0.1, 0.3, 0.2]], 1),
        ([[0.1, 0.3, 0.2], [0.1, 0.2, 0.9], [0.1, 0.2, 0.9]], 2),
        ([[0.5, 0.5, 0.2]], 0),  # of equals the least penalty
        ([[0.9, 0.5, 0.5], [0.1, 0.6, 0.2]], 1),  # mean ranks 1, 0.75, 1.25 from the top
        # Equals share the mean of their ranks, not the best of them, nor the worst.
        ([[0.9, 0.8, 0.8], [0.7, 0.8, 0.8]], 0),  # 1, 1, 1
        ([[0.5, 0.9, 0.9], [0.9, 0.7, 0.8]], 2),  # 1, 1.25, 0.75
    ],
)
def test_the_penalty_has_the_best_mean_rank(rows, place):
    assert fewshot.choose_l2(rows) == place


@pytest.mark.parametrize(
    ("features", "labels", "l2", "said"),
    [
        (np.zeros((0, 3)), np.zeros(0, int), 1.0, "no training images"),
        (np.full((2, 3), np.nan), np.array([0, 1]), 1.0, "features of 2 of 2 images are not finite"),
        (np.zeros((2, 3)), np.array([0, 1]), 0.0, "l2 is 0.0; expected a number above 0"),
        (np.zeros((2, 3)), np.array([[0, 1], [1, 0]]), 1.0, "expected a class per image"),
        (np.zeros(3), np.array([0, 1, 1]), 1.0, r"shape \(3,\)"),
        (np.zeros((2, 3)), np.array([0, 2]), 1.0, "label 2, outside the 2 classes"),
        (np.zeros((2, 3)), np.array([0, -1]), 1.0, "label -1, outside the 2 classes"),
        (np.zeros((2, 3)), np.array([0]), 1.0, "2 images have features, but 1 a label"),
    ],
)
def test_what_cannot_be_solved(features, labels, l2, said):
    with pytest.raises(InputError, match=said):
        fewshot.solve(features, labels, 2, l2)
