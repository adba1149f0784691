"""Images that were trained on do not validate, told by names, of which a checkpoint keeps those of least hashes."""

import numpy as np
import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.training import seen_set
from vit_lightning.training.seen_labels import _check_apart
from vit_lightning.training.seen_set import SeenSet, hash_of


class Named:
    """Images that are in memory, of names and labels."""

    def __init__(self, names: list[str], labels: list[int] | None = None) -> None:
        self.keys = names
        self.labels = np.array(labels or [0] * len(names))

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.zeros(1, 2, 2), int(self.labels[index])


def by_hash(*names: str) -> list[str]:
    return sorted(names, key=lambda name: hash_of(name.encode()))


def then(train: list[str], val: list[str] | None = None) -> dict:
    kept = {"train_set": SeenSet.of(Named(train)).kept()}
    return kept if val is None else kept | {"val_set": SeenSet.of(Named(val)).kept()}


def check(before: dict, train: list[str], val: list[str]) -> None:
    _check_apart(before, SeenSet.of(Named(train)), SeenSet.of(Named(val)))


def test_an_image_that_moved_is_named_with_how_many():
    before = then(["a", "b", "c", "d"], ["x", "y"])
    check(before, ["a", "b", "c", "d"], ["x", "y"])
    check(before, ["a", "c"], ["x", "y", "z"])
    with pytest.raises(InputError, match=r"^b is a validation image, and was trained on .* \(1 such\)"):
        check(before, ["a", "c", "d"], ["x", "b", "y"])
    with pytest.raises(InputError, match=r"^d is a validation image, .* \(2 such\)"):
        check(before, ["a", "c"], ["x", "d", "b"])  # the first in the order of the set


def test_what_still_trains_or_validated_before_has_not_moved():
    check(then(["a", "b"], ["x"]), ["a", "b"], ["x", "b"])
    check(then(["a", "b"], ["x", "b"]), ["a"], ["x", "b"])
    with pytest.raises(InputError, match=r"^b is a validation image"):
        check(then(["a", "b"]), ["a"], ["x", "b"])  # nobody knows what validated


def test_of_large_sets_only_what_surely_did_not_validate_is_refused(monkeypatch):
    """Of the validation images four are kept, of the least hashes: one between them is new, one beyond may be old."""
    monkeypatch.setattr(seen_set, "SAMPLE", 4)
    names = by_hash(*(f"{number}.png" for number in range(40)))
    trained = names[0::10]  # of hashes 0, 10, 20 and 30
    validated = [name for name in names[1:25:2] if name not in trained]  # 1, 3, 5 and 7 are kept
    before = then(trained, validated)
    assert len(before["val_set"]["names"]) == 4 < before["val_set"]["images"]
    with pytest.raises(InputError, match=rf"^{names[0]} is a validation image"):
        check(before, trained[1:], [*validated, names[0]])
    check(before, trained[:1], [*validated, names[10], names[20], names[30]])
    whole = then(trained, validated[:4])
    with pytest.raises(InputError, match=r"\(3 such\)"):  # all that validated are kept
        check(whole, trained[:1], [*validated, names[10], names[20], names[30]])


class Nameless(Named):
    """Images of no names, in an order that says which is which."""

    def __init__(self, labels: list[int]) -> None:
        super().__init__(list(range(len(labels))), labels)


def test_sets_without_names_have_changed_places_where_their_labels_say_so():
    one, other = [0, 1, 1], [1, 0, 0]
    before = {name: SeenSet.of(Nameless(labels)).kept() for name, labels in (("train_set", one), ("val_set", other))}

    def held(train: list[int], val: list[int]) -> None:
        _check_apart(before, SeenSet.of(Nameless(train)), SeenSet.of(Nameless(val)))

    held(one, other)
    held(other, other)
    with pytest.raises(InputError, match="validation images are those that were trained on before"):
        held(other, one)
    alike = {name: SeenSet.of(Nameless(one)).kept() for name in ("train_set", "val_set")}
    _check_apart(alike, SeenSet.of(Nameless(one)), SeenSet.of(Nameless(one)))
