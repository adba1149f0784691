"""Images of a table whose labels are hidden."""

from pathlib import Path

import numpy as np
import pytest

from datamodules.reading import listed_images
from datamodules.reading.listed_images import say_hidden, single_labels, unlabelled
from datamodules.reading.shared_sequences import Ragged
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError

TABLE = Path("t.csv")


def test_a_label_a_row_and_those_that_are_hidden():
    assert single_labels(Ragged(np.array([2, 0]), np.array([0, 1, 2])), TABLE, True).tolist() == [2, 0]
    assert single_labels(Ragged(np.array([2, 0]), np.array([0, 1, 1, 2])), TABLE, True).tolist() == [2, IGNORE, 0]
    with pytest.raises(InputError, match=r"t\.csv has no labels, which test needs; predict does without them"):
        single_labels(Ragged(np.array([], int), np.array([0, 0])), TABLE, True)
    say_hidden(2, 2, TABLE, needs_labels=False)


def test_images_without_labels_serve_predict_alone():
    assert unlabelled(["a", "b"], TABLE, False, "labels").labels.tolist() == [IGNORE] * 2
    with pytest.raises(InputError, match=r"t\.csv has no labels, which test needs; predict does without it"):
        unlabelled(["a"], TABLE, True, "labels")


def test_hidden_labels_are_counted_in_a_line(monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(listed_images, "rank_zero_info", said.append)
    single_labels(Ragged(np.array([2, 0]), np.array([0, 1, 1, 2])), Path("a") / TABLE, True)
    say_hidden(0, 3, TABLE, True)
    unlabelled(["a"], TABLE, False, "labels")
    assert said == [
        "1 of the 3 labels in t.csv are hidden: they do not count",
        "t.csv has no labels: its images serve predict alone",
    ]
