"""A set as a checkpoint keeps it: which images, which names and which content stand for it."""

import numpy as np
import pytest

from vit_lightning.data.subsets import Subset
from vit_lightning.training import seen_set
from vit_lightning.training.seen_set import SeenSet, hash_of


class Images:
    """Encoded images with labels and names."""

    def __init__(self, labels, keys=None, contents=None, **facts) -> None:
        self.labels = np.asarray(labels)
        self.contents = contents or [f"image {number}".encode() for number in range(len(labels))]
        vars(self).update(facts)
        if keys is not None:
            self.keys = keys

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int):
        return self.contents[index], int(self.labels[index])


class Names(list):
    """Names that say something of themselves."""


def seen(*words, **facts) -> SeenSet:
    found = SeenSet.of(Images(*words, **facts))
    assert found is not None
    return found


def name_of(text: str) -> int:
    return hash_of(text.encode())


def test_a_set_without_images_or_labels_is_not_seen():
    class Bare:
        def __len__(self) -> int:
            return 2

    assert SeenSet.of(None) is None and SeenSet.of(Images([])) is None and SeenSet.of(Bare()) is None


def test_names_are_hashes_of_the_last_parts_of_whole_paths():
    one = seen([0, 1, 2], ["/a/b/c.png", "x/y/z.png", "w.png"])
    assert one.names.tolist() == [name_of(name) for name in ("b/c.png", "x/y/z.png", "w.png")]
    assert one.file_names.tolist() == [name_of(name) for name in ("c.png", "z.png", "w.png")]


@pytest.mark.parametrize("keys", [None, [5, 6]])
def test_numbers_are_no_names(keys):
    one = seen([0, 1], keys)
    assert one.names is None and one.file_names is None and one.contents == {}
    assert one.kept()["names"] is None and one.kept()["all_names"] == ""
    assert one.sample.tolist() == [0, 1]


def test_a_list_of_shares_has_no_digest_and_each_row_a_number_of_its_own():
    """Cut to whole numbers, all of them would be alike."""
    one, other = (seen(rows) for rows in ([[0.25, 0.75], [0.5, 0.5]], [[0.75, 0.25], [0.5, 0.5]]))
    assert one.kept()["all_labels"] == other.kept()["all_labels"] == ""
    before, after = (each.kept()["labels"].tolist() for each in (one, other))
    assert before[0] != after[0] and before[1] == after[1]
    assert seen([0, 1]).kept()["all_labels"] != seen([1, 0]).kept()["all_labels"] != ""


def test_names_are_looked_at_up_to_a_number_of_images(monkeypatch):
    monkeypatch.setattr(seen_set, "MOST_NAMED", 2)
    assert seen([0, 1], ["a", "b"]).names is not None
    assert seen([0, 1, 2], ["a", "b", "c"]).names is None


def test_what_names_say_holds_in_a_part_of_a_set_too():
    keys = Names(["a", "b", "c"])
    assert not seen([0, 1, 2], keys).is_known_by_content
    keys.lie_in_records = True
    assert seen([0, 1, 2], keys).names is None and seen([0, 1, 2], keys).is_known_by_content
    part = SeenSet.of(Images([0, 1], Subset(keys, np.array([0, 2]))))
    assert part.names_lie_in_records and part.is_known_by_content and not part.is_in_any_order
    rows = Names([0, 1])
    rows.are_row_numbers = True
    assert seen([0, 1], rows).is_in_any_order and seen([0, 1], rows).is_known_by_content
    keys = Names(["a", "b"])
    keys.are_row_numbers = True
    assert not seen([0, 1], keys).is_known_by_content  # names tell one from another


def test_names_of_their_own_win_in_a_part_of_a_set_too():
    keys = Names(["0", "1", "2"])
    keys.own_names = lambda: ["a", "b", "c"]
    assert seen([0, 1, 2], keys).names.tolist() == [name_of(name) for name in "abc"]
    part = SeenSet.of(Images([0, 2], Subset(keys, np.array([2, 0]))))
    assert part.names.tolist() == [name_of("c"), name_of("a")]
    keys.own_names = lambda: None
    assert seen([0, 1, 2], keys).names is None
    assert SeenSet.of(Images([0, 2], Subset(keys, np.array([2, 0])))).names is None


def test_the_sample_is_of_names_that_stand_once_in_whatever_order(monkeypatch):
    monkeypatch.setattr(seen_set, "SAMPLE", 3)
    keys = ["a", "b", "twice", "c", "d", "twice"]
    one, other = seen(range(6), keys), seen(range(5, -1, -1), keys[::-1])
    assert len(one.sample) == 3 and not {2, 5} & set(one.sample.tolist())
    assert one.names[one.sample].tolist() == other.names[other.sample].tolist()
    assert one.labels(one.sample).tolist() == other.labels(other.sample).tolist()
    assert seen(range(7)).sample.tolist() == [0, 3, 6]


def test_places_of_names_that_are_here_once():
    one = seen(range(4), ["b", "twice", "a", "twice"])
    asked = np.array([name_of(name) for name in ("a", "twice", "gone", "b", "zz")])
    assert one.places_of(asked).tolist() == [2, -1, -1, 0, -1]


def test_content_is_that_of_files_and_of_encoded_images(tmp_path):
    (tmp_path / "a").write_bytes(b"first")
    contents = [tmp_path / "a", b"second", np.zeros(3), tmp_path / "gone"]
    one = seen(range(4), ["a", "b", "c", "d"], contents)
    assert one.contents == {name_of("a"): hash_of(b"first"), name_of("b"): hash_of(b"second")}
    assert [one.content(place) for place in range(4)] == [hash_of(b"first"), hash_of(b"second"), None, None]
    assert (one.content_of(name_of("b")), one.content_of(name_of("gone"))) == (hash_of(b"second"), None)
    assert [one.file(place) for place in range(4)] == [tmp_path / "a", None, None, tmp_path / "gone"]
    assert one.file(9) is None and one.content(9) is None
    assert seen(range(4), ["a", "b", "c", "d"], contents, blocks=np.zeros(4)).contents == {}


def test_only_some_files_are_opened(monkeypatch):
    monkeypatch.setattr(seen_set, "OPENED", 2)
    assert len(seen(range(4), ["a", "b", "c", "d"]).contents) == 2


def test_a_digest_follows_every_name_and_label_and_their_order():
    kept = [seen(labels, list(keys)).kept() for labels, keys in (([0, 1], "ab"), ([1, 0], "ab"), ([0, 1], "ba"))]
    one, labels, names = kept
    assert one["all_labels"] != labels["all_labels"] and one["all_names"] == labels["all_names"]
    assert one["all_names"] != names["all_names"] and one["all_labels"] == names["all_labels"]
    assert one["images"] == 2
    assert seen(np.array([0, 1], np.int32), ["a", "b"]).kept()["all_labels"] == one["all_labels"]


def test_a_label_of_several_classes_is_a_number_that_knows_each_of_them():
    class Several:
        def __init__(self, *vectors) -> None:
            self.vectors = vectors

        def __len__(self) -> int:
            return len(self.vectors)

        def label_at(self, index: int):
            return self.vectors[index]

    one = SeenSet.of(Several([0.0, 1.0], [1.0, 0.0], [0.0, 1.0], 7))
    first, second, third, plain = one.labels(np.arange(4)).tolist()
    assert first == third != second and plain == 7
    part = SeenSet.of(Subset(Several([0.0, 1.0], [1.0, 0.0]), np.array([1])))
    assert part.labels(np.arange(1)).tolist() == [second] and part.kept()["all_labels"] == ""
    assert SeenSet.of(Subset(type("Bare", (), {"__len__": lambda self: 2})(), np.array([1]))) is None
