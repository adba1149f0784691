import gzip
from dataclasses import replace

import numpy as np
import pytest
import torch

from datamodules.vtab.arrays import (
    CIFAR100,
    PATCH_CAMELYON,
    SVHN,
    Sprites,
    dsprites,
    smallnorb,
    sprites_of_hdf5,
    sprites_of_npz,
)
from datamodules.vtab.labels import dsprites_location, dsprites_orientation, smallnorb_azimuth, smallnorb_elevation
from vit_lightning.errors import InputError


def read(source, root, split="train"):
    held = source.open(root, split, allow_incomplete=True)
    image = held[len(held) - 1][0]
    assert (image.dtype, image.shape[0]) == (torch.uint8, 3)
    return held


@pytest.mark.parametrize(
    ("task", "source", "counts"),
    [
        ("cifar100", CIFAR100, {"train": 20, "test": 6}),
        ("svhn", SVHN, {"train": 20, "test": 6}),
        ("patch_camelyon", PATCH_CAMELYON, {"train": 12, "validation": 12, "test": 12}),
        ("smallnorb_azimuth", smallnorb(smallnorb_azimuth), {"train": 18, "test": 18}),
    ],
)
def test_each_split_holds_images_of_its_own(publish, task, source, counts):
    root = publish(task)
    held = {split: read(source, root, split) for split in counts}
    assert {split: len(images) for split, images in held.items()} == counts
    assert len({images[0][0].numpy().tobytes() for images in held.values()}) == len(counts)
    for split in counts:
        wrong = {name: count + 1 for name, count in counts.items()}
        with pytest.raises(InputError, match=f" {counts[split]} {split} images where {counts[split] + 1} were publ"):
            replace(source, sizes=wrong).open(root, split)


def test_cifar100(publish):
    held = read(CIFAR100, publish("cifar100"))
    assert held.labels[:3].tolist() == [0, 7, 14]
    assert list(held.keys) == list(range(20))
    assert held[0][0].shape == (3, 32, 32)


def test_svhn_calls_the_digit_0_what_it_is(publish):
    from scipy.io import loadmat

    root = publish("svhn")
    held = read(SVHN, root)
    assert held.labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] * 2
    published = loadmat(root / "train_32x32.mat")["X"]
    assert np.array_equal(held[7][0].numpy(), published[..., 7].transpose(2, 0, 1))


def test_patch_camelyon(publish):
    import h5py

    root = publish("patch_camelyon")
    held = read(PATCH_CAMELYON, root, "validation")
    assert (held.keys[3], held.labels[:4].tolist()) == ("valid_3", [0, 1, 0, 1])
    with h5py.File(root / "camelyonpatch_level_2_split_valid_x.h5") as file:
        assert np.array_equal(held[3][0].numpy(), file["x"][3].transpose(2, 0, 1))


def test_patch_camelyon_needs_as_many_labels_as_images(publish):
    import h5py

    root = publish("patch_camelyon")
    with h5py.File(root / "camelyonpatch_level_2_split_test_y.h5", "w") as file:
        file["y"] = np.zeros((3, 1, 1, 1))
    with pytest.raises(InputError, match=r"test_x.h5 has 12 images, .*test_y.h5 3 labels"):
        PATCH_CAMELYON.open(root, "test")


def test_dsprites_npz(publish):
    root = publish("dsprites_location")
    archive = np.load(next(root.glob("*.npz")))
    location, orientation = read(dsprites(dsprites_location), root), read(dsprites(dsprites_orientation), root)
    assert location.labels[:32].tolist() == [number // 2 for number in range(32)]
    assert orientation.labels.tolist() == [int(number / 2.5) for number in range(40)]
    for number in (0, 39):
        assert np.array_equal(location[number][0].numpy(), np.stack([archive["imgs"][number] * 255] * 3))


def test_dsprites_hdf5_is_the_same(publish):
    import h5py

    root = publish("dsprites_location")
    npz = next(root.glob("*.npz"))
    expected = read(dsprites(dsprites_location), root)
    with h5py.File(npz.with_suffix(".hdf5"), "w") as file:
        file["imgs"], file["latents/classes"] = np.load(npz)["imgs"], np.load(npz)["latents_classes"]
    npz.unlink()
    found = read(dsprites(dsprites_location), root)
    assert torch.equal(found[17][0], expected[17][0])
    assert np.array_equal(found.labels, expected.labels)


@pytest.mark.parametrize("count", [8192, 8193])
def test_all_sprites_are_read_piece_by_piece(tmp_path, count):
    """A piece has 8,192; of these, the last and the first of each piece differ from all others."""
    marked = np.zeros((count, 64, 64), np.uint8)
    marks = sorted({0, 8190, 8191, 8192, count - 1} & set(range(count)))
    for place, number in enumerate(marks):
        marked[number, place, 3] = 1
    np.savez(tmp_path / "sprites.npz", imgs=marked)
    for blocks in (sprites_of_npz(tmp_path / "sprites.npz"), sprites_of_hdf5(marked)):
        sprites = Sprites(blocks)
        assert len(sprites.bits) == count
        for place, number in enumerate(marks):
            assert sprites[number].nonzero().tolist() == [[channel, place, 3] for channel in range(3)]


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"<html>"])
def test_damaged_dsprites(publish, damage):
    root = publish("dsprites_location")
    npz = next(root.glob("*.npz"))
    npz.write_bytes(damage(npz.read_bytes()))
    with pytest.raises(InputError, match="dSprites is missing or damaged"):
        dsprites(dsprites_location).open(root, "train")


def test_smallnorb_shows_the_first_camera(publish):
    root = publish("smallnorb_azimuth")
    azimuth, elevation = read(smallnorb(smallnorb_azimuth), root), read(smallnorb(smallnorb_elevation), root, "test")
    assert azimuth.labels.tolist() == list(range(18))
    assert elevation.labels.tolist() == list(range(9)) * 2
    data = (root / "smallnorb-5x46789x9x18x6x2x96x96-training-dat.mat").read_bytes()[24:]  # after six words
    pairs = np.frombuffer(data, dtype=np.uint8).reshape(18, 2, 96, 96)
    assert np.array_equal(azimuth[5][0].numpy(), np.stack([pairs[5, 0]] * 3))


@pytest.mark.parametrize(
    ("damage", "message"),
    [(gzip.compress, "unpack it if it is a .gz"), (lambda data: data[:-1], "bytes instead of"), (lambda data: b"", "")],
)
def test_damaged_smallnorb(publish, damage, message):
    root = publish("smallnorb_azimuth")
    file = root / "smallnorb-5x46789x9x18x6x2x96x96-training-dat.mat"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(InputError, match=f"smallNORB is missing or damaged .*{message}"):
        smallnorb(smallnorb_azimuth).open(root, "train")


def test_a_folder_of_its_own_serves_as_well(publish):
    root = publish("smallnorb_azimuth")
    (root / "smallnorb").mkdir()
    for file in root.glob("*.mat"):
        file.rename(root / "smallnorb" / file.name)
    assert len(read(smallnorb(smallnorb_azimuth), root)) == 18


def test_kit_originals(kit, monkeypatch):
    monkeypatch.setattr("torchvision.datasets.svhn.check_integrity", lambda *args: True)  # TFDS's file is a fake
    fake = kit / "vtab-layouts" / "fake-tfds"
    for split, count in (("train", 3), ("test", 2)):
        held = read(SVHN, fake / "svhn_cropped", split)
        assert len(held) >= count
        assert set(held.labels) <= set(range(10))
    for split, count in (("train", 5), ("validation", 3), ("test", 4)):
        assert len(read(PATCH_CAMELYON, fake / "patch_camelyon", split)) == count
    for label, classes in ((dsprites_location, 16), (dsprites_orientation, 16)):
        assert set(read(dsprites(label), fake).labels) <= set(range(classes))
    for label, classes in ((smallnorb_azimuth, 18), (smallnorb_elevation, 9)):
        for split in ("train", "test"):
            held = read(smallnorb(label), fake, split)
            assert len(held) == 5
            assert set(held.labels) <= set(range(classes))
