from hashlib import md5

import pytest
from torchvision import datasets

from datamodules.pets import Pets
from datamodules.reading.published import HeldOutData, Labelled, PublishedSet, own_folder
from datamodules.vtab import VTAB
from vit_lightning.errors import InputError

SET = Labelled(["a", "b"], [0, 1], ["x", "y"])


def original(read, **kwargs) -> PublishedSet:
    return PublishedSet("Toy", "toy/<file>", {"train": 2}, read, **kwargs)


def missing_package(root, split):
    import no_such_package  # noqa: F401


def missing_file(root, split):
    (root / "toy" / "list").read_text()


def cut_short(root, split):
    raise EOFError("ran out of input")


def test_records_lie_beside_each_other():
    assert [SET[i] for i in range(len(SET))] == [("a", 0), ("b", 1)]
    assert original(lambda root, split: SET).open("anywhere", "train") is SET


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (missing_package, r"Toy needs no_such_package: pip install 'vit-lightning\[vtab\]'"),
        (missing_file, r"missing or damaged \(.*toy/list: No such file or directory\): expected toy/<file> under "),
        (cut_short, r"missing or damaged \(ran out of input\)"),
        (lambda root, split: SET.__class__([], [], []), "0 train images where 2 were published"),
        (lambda root, split: Labelled(["a"], [0], ["x"]), r"1 train images .*--data.allow_incomplete true"),
    ],
)
def test_one_sentence_for_what_is_wrong(read, message, tmp_path):
    with pytest.raises(InputError, match=message):
        original(read).open(tmp_path, "train")


def test_a_part_is_accepted_only_when_asked():
    part = Labelled(["a"], [0], ["x"])
    assert original(lambda root, split: part).open("anywhere", "train", allow_incomplete=True) is part


def test_nothing_is_downloaded_unless_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "OxfordIIITPet", lambda root, download: pytest.fail("a download"))
    Pets(root=tmp_path).prepare_data()


def test_download(tmp_path, monkeypatch):
    def offline(root, download):
        raise OSError("no route to host")

    monkeypatch.setattr(datasets, "OxfordIIITPet", offline)
    with pytest.raises(InputError, match=r"could not be downloaded \(no route to host\); put oxford-iiit-pet/"):
        Pets(root=tmp_path, download=True).prepare_data()
    with pytest.raises(InputError, match=r"RESISC45 cannot be downloaded .* put NWPU-RESISC45/"):
        VTAB("resisc45", root=tmp_path, download=True).prepare_data()


def test_a_set_without_any_image_is_never_accepted(tmp_path):
    with pytest.raises(InputError, match="Toy has 0 train images where 2 were published"):
        original(lambda root, split: Labelled([], [], [])).open(tmp_path, "train", allow_incomplete=True)
    more = Labelled(["a", "b", "c"], [0, 1, 0], ["x", "y", "z"])
    with pytest.raises(InputError, match="Toy has 3 train images where 2 were published"):
        original(lambda root, split: more).open(tmp_path, "train")


def test_files_lie_in_the_sets_own_folder_or_loose(tmp_path):
    assert own_folder(tmp_path, "toy") == tmp_path
    (tmp_path / "toy").touch()  # no folder
    assert own_folder(tmp_path, "toy") == tmp_path
    (tmp_path / "toy").unlink()
    (tmp_path / "toy").mkdir()
    assert own_folder(tmp_path, "toy") == tmp_path / "toy"


class Toy(HeldOutData):
    num_classes = 2
    published = PublishedSet(
        "Toy",
        "toy/<file>",
        {"train": 10, "test": 3},
        lambda root, split: Labelled(*zip(*KEYED[split], strict=True)),
    )


KEYED = {
    split: [(f"{split} {n}", n % 2, f"{n}.png") for n in range(count)] for split, count in (("train", 10), ("test", 3))
}


def test_the_last_images_in_the_order_of_their_keys_validate(tmp_path):
    """That is of the hashes of the split's name and the key, in TensorFlow Datasets."""
    data = Toy(root=tmp_path, val_fraction=0.3)
    data.setup("fit")
    order = sorted(range(10), key=lambda n: md5(f"train{n}.png".encode(), usedforsecurity=False).digest())
    assert list(data.val_set.keys) == [f"{n}.png" for n in sorted(order[7:])]
    assert list(data.train_set.keys) == [f"{n}.png" for n in sorted(order[:7])]
    assert [data.test_set[n] for n in range(3)] == [("test 0", 0), ("test 1", 1), ("test 2", 0)]
    assert data.on_error == "fix"
