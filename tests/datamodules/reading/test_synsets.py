import json

import numpy as np
import pytest

from datamodules.reading import synsets


@pytest.mark.parametrize(
    ("label_set", "size"),
    [
        ("1k", 1000),
        ("google", 21_843),
        ("fall11", 21_841),
        ("miil-p", 11_221),
        ("miil-p-winter21", 10_450),
        ("a", 200),
        ("r", 200),
    ],
)
def test_sizes(label_set, size):
    ids = synsets.wnids(label_set)
    assert len(set(ids)) == size
    assert ids == sorted(ids)


def test_label_sets_differ_as_reported():
    """Spec data.md: n04399382 is absent from the 21,843 list; two of those never had images (big_transfer#18)."""
    one, google, fall = (set(synsets.wnids(name)) for name in ("1k", "google", "fall11"))
    assert one - google == {"n04399382"}
    assert google - fall == {"n03931044", "n09859684"}
    assert len(one & set(synsets.wnids("miil-p-winter21"))) == 991


def test_names():
    ids = synsets.wnids("1k")
    names = synsets.names(ids)
    assert names[0] == "tench, Tinca tinca"
    assert names[1] == "goldfish, Carassius auratus"
    assert (names[134], names[517]) == ("crane (n02012849)", "crane (n03126707)")
    assert len(set(names)) == 1000
    assert synsets.words("n99999999") == "n99999999"


def test_fingerprint_depends_on_order_and_content():
    ids = synsets.wnids("google")
    prints = {synsets.fingerprint(some) for some in (ids, ids[:-1], ids[::-1])}
    assert len(prints) == 3


@pytest.mark.parametrize(
    ("path", "wnid"),
    [
        ("n01440764", "n01440764"),
        ("n01440764/images", "n01440764"),
        ("fall11_whole.tar/n01440764.tar", "n01440764"),
        ("n01440764.tar", "n01440764"),
        ("", None),
        ("n0144076", None),
        ("ILSVRC2012_img_val.tar", None),
    ],
)
def test_home(path, wnid):
    assert synsets.wnid_in(path) == wnid


def test_ancestry():
    """Dog is a domestic animal and, by another way, a carnivore; both lie below animal and organism."""
    ids = synsets.wnids("google")
    rows = synsets.ancestry(ids)
    number = {wnid: label for label, wnid in enumerate(ids)}
    dog = {ids[label] for label in rows[number["n02084071"]]}
    assert {"n02084071", "n02083346", "n02075296", "n01317541", "n00015388", "n00004475"} <= dog
    assert "n02121808" not in dog  # domestic cat
    assert len(rows) == len(ids)
    assert all(label in row for label, row in enumerate(rows))
    assert max(map(len, rows)) == 16
    small = synsets.ancestry(["n02084071", "n00015388"])
    assert [row.tolist() for row in small] == [[0, 1], [1]]


def test_validation():
    """Spec data.md and case C9: 50,000 lists, 3,163 empty, 9 labels at most; 42,164 hold the original label."""
    labels, real = synsets.validation()
    counts = np.diff(real.ends)
    assert (len(labels), len(real), (counts == 0).sum(), counts.max()) == (50_000, 50_000, 3_163, 9)
    assert sum(label in row for label, row in zip(labels, real, strict=True)) == 42_164
    assert np.bincount(labels).tolist() == [50] * 1000


def test_assets_are_small():
    assert sum(len(path.read_bytes()) for path in synsets.ASSETS.iterdir() if path.is_file()) < 2**20


def test_kits_lists(kit):
    folder = kit / "imagenet-meta"
    files = {
        "1k": "imagenet_synsets",
        "google": "imagenet21k_goog_synsets",
        "fall11": "imagenet22k_synsets",
        "miil-p": "imagenet21k_miil_synsets",
        "miil-p-winter21": "imagenet21k_miil_w21_synsets",
    }
    for label_set, file in files.items():
        assert synsets.wnids(label_set) == (folder / f"{file}.txt").read_text().split()
    ids = synsets.wnids("1k")
    labels, real = synsets.validation()
    assert [ids[label] for label in labels] == (folder / "ILSVRC2012_validation_wnids.txt").read_text().split()
    assert [row.tolist() for row in real] == json.loads((folder / "real.json").read_text())
    classes = json.loads((folder / "imagenet_class_index.json").read_text())
    for label, (wnid, word) in classes.items():
        assert ids[int(label)] == wnid
        assert word.replace("_", " ").lower() in synsets.words(wnid).lower()
    for line in (folder / "imagenet_synset_to_lemma.txt").read_text().splitlines():
        wnid, text = line.split("\t")
        assert synsets.words(wnid) == text


@pytest.mark.parametrize("name", ["a", "r"])
def test_the_classes_of_the_shifted_sets_are_the_published_ones(kit, name):
    ids = synsets.wnids("1k")
    numbers = (kit / f"imagenet-meta/imagenet_{name}_indices.txt").read_text().split()
    assert synsets.wnids(name) == [ids[int(number)] for number in numbers]
