"""Nearest neighbours, against a plain computation and scikit-learn's."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from vit_lightning.errors import InputError
from vit_lightning.evaluation import knn


def made(seed: int = 0, m: int = 60, n: int = 25, d: int = 6, k: int = 4):
    chance = np.random.default_rng(seed)
    centres, labels = chance.normal(size=(k, d)), np.arange(m) % k
    train = centres[labels] + chance.normal(size=(m, d))
    return train.astype(np.float32), labels, (chance.normal(size=(n, d)) + centres[np.arange(n) % k]).astype(np.float32)


def test_votes_are_dinos():
    train, labels, asked = made()
    found = knn.predict(train, labels, asked, 4, (1, 10, 60))
    a, b = (each.astype(np.float64) / np.linalg.norm(each, axis=1, keepdims=True) for each in (train, asked))
    for row, k in zip(found.numpy(), (1, 10, 60), strict=True):
        for predicted, cosines in zip(row, b @ a.T, strict=True):
            nearest = np.argsort(-cosines)[:k]
            votes = np.bincount(labels[nearest], np.exp(cosines[nearest] / 0.07), minlength=4)
            assert predicted == votes.argmax()


@pytest.mark.parametrize("k", [1, 5, 20])
def test_as_scikit_learn(k):
    train, labels, asked = made(seed=k)
    theirs = KNeighborsClassifier(
        k, metric="cosine", algorithm="brute", weights=lambda distances: np.exp((1 - distances) / 0.07)
    ).fit(train.astype(np.float64), labels)
    np.testing.assert_array_equal(
        knn.predict(train, labels, asked, 4, (k,))[0], theirs.predict(asked.astype(np.float64))
    )


def test_parts_are_the_whole(monkeypatch):
    data = made()
    whole = knn.predict(*data, 4, (10, 20))
    monkeypatch.setattr("vit_lightning.evaluation.arrays.AT_ONCE", 150)
    np.testing.assert_array_equal(knn.predict(*data, 4, (10, 20)), whole)


def test_a_tiny_temperature_is_the_nearest_neighbour():
    train, labels, asked = made()
    nearest = knn.predict(train, labels, asked, 4, (1,))
    np.testing.assert_array_equal(knn.predict(train, labels, asked, 4, (50,), temperature=1e-6), nearest)


@pytest.mark.parametrize(
    ("k", "temperature", "said"), [((0,), 0.07, "from 1 to the 60"), ((10, 61), 0.07, "60"), ((1,), 0.0, "above 0")]
)
def test_what_cannot_be(k, temperature, said):
    with pytest.raises(InputError, match=said):
        knn.predict(*made(), 4, k, temperature)


def test_each_k_has_its_row_in_the_order_in_which_it_was_asked_for():
    data = made()
    alone = {k: knn.predict(*data, 4, (k,))[0].tolist() for k in (1, 20, 60)}
    found = knn.predict(*data, 4, (20, 60, 1))
    assert found.tolist() == [alone[20], alone[60], alone[1]] and alone[1] != alone[60]


def test_of_equal_votes_the_lowest_class_wins():
    train = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], np.float32)
    asked = np.array([[1.0, 1.0], [-1.0, 1.0]], np.float32) / 2**0.5
    assert knn.predict(train, np.array([2, 1, 0]), asked, 3, (2,)).tolist() == [[1, 0]]
