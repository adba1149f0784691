import json

import pytest
from torchvision import datasets

from datamodules.pets import NAMES, PETS, Pets
from datamodules.vtab.tasks import tfds_order
from vit_lightning.data import images
from vit_lightning.errors import InputError
from vit_lightning.testing import check_datamodule


def test_contract(publish):
    check_datamodule(Pets(root=publish("pets"), image_size=8, batch_size=4, allow_incomplete=True))


def test_dev_split_is_the_end_of_the_order_of_tfds(publish):
    data = Pets(root=publish("pets"), allow_incomplete=True)
    data.setup("fit")
    whole = PETS.open(data.root, "train", allow_incomplete=True)
    order = [whole.keys[number] for number in tfds_order("train", whole.keys)]
    assert sorted(data.val_set.keys) == sorted(order[18:])  # 10 % of 20
    assert sorted(data.train_set.keys) == sorted(order[:18])
    assert all(NAMES[label] == key.rpartition("_")[0] for key, label in zip(whole.keys, whole.labels, strict=True))


def test_all_of_train_without_a_dev_split(publish):
    data = Pets(root=publish("pets"), val_fraction=0.0, allow_incomplete=True)
    data.setup("fit")
    assert (len(data.train_set), data.val_set) == (20, None)


@pytest.mark.parametrize("incomplete", [False, True])
def test_missing(tmp_path, incomplete):
    with pytest.raises(InputError, match=r"Oxford-IIIT Pet .*oxford-iiit-pet/\{images.*--data.root"):
        Pets(root=tmp_path, allow_incomplete=incomplete).setup("fit")


def test_too_few_images_are_an_error(publish):
    with pytest.raises(InputError, match="20 train images where 3680 were published"):
        Pets(root=publish("pets")).setup("fit")


def test_kit(kit):
    data = Pets(root=kit / "vtab-layouts" / "real", allow_incomplete=True)
    data.setup("fit")
    assert (len(data.train_set), len(data.val_set), len(data.test_set)) == (43, 5, 25)
    shapes = []
    for held in (data.train_set, data.val_set, data.test_set):
        for key, (file, label) in zip(held.keys, held, strict=True):
            assert data.class_names[label] == key.rpartition("_")[0]
            shapes.append(images.load(file, name=key).shape[0])
    assert shapes == [3] * 73  # one of them is a PNG with transparency


def test_published_lists(kit, tmp_path):
    """The official lists give the published sizes and breeds, so that the dev split is 368 of 3,680."""
    members = json.loads((kit / "vtab-meta" / "oxford-iiit-pet-lists" / "membership.json").read_text())
    folder = tmp_path / "oxford-iiit-pet" / "annotations"
    folder.mkdir(parents=True)
    for split, rows in members.items():
        (folder / f"{split}.txt").write_text("".join(f"{name[:-4]} {label + 1} 1 1\n" for name, label in rows))
    data = Pets(root=tmp_path)
    data.setup("fit")
    assert (len(data.train_set), len(data.val_set), len(data.test_set)) == (3312, 368, 3669)
    breeds = {
        (key.rpartition("_")[0], NAMES[label])
        for key, (_, label) in zip(data.test_set.keys, data.test_set, strict=True)
    }
    assert breeds == {(name, name) for name in NAMES}


def test_the_set_is_the_published_one_and_may_be_fetched(monkeypatch, tmp_path):
    asked: list[tuple] = []
    monkeypatch.setattr(datasets, "OxfordIIITPet", lambda *words, **facts: asked.append((*words, facts)))
    PETS.download(tmp_path)
    assert asked == [(tmp_path, {"download": True})]
    assert PETS.sizes == {"train": 3680, "test": 3669}
