import hashlib
import pickle

import numpy as np
import pytest
import torch
from torchvision import datasets

from datamodules.cifar import CIFAR10, CIFAR100
from datamodules.reading.published import tfds_order
from vit_lightning.errors import InputError
from vit_lightning.testing import check_datamodule

KINDS = {CIFAR10: ("labels", "label_names"), CIFAR100: ("fine_labels", "fine_label_names")}


def write(path, content) -> str:
    path.write_bytes(pickle.dumps(content))
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


@pytest.fixture(params=KINDS)
def cifar(request, tmp_path, monkeypatch):
    """A small set in the original form: its class, and its pixels as (n, c, y, x)."""
    kind = request.param
    labels, names = KINDS[kind]
    folder = tmp_path / kind.archive.base_folder
    folder.mkdir()
    random = np.random.default_rng(0)
    pixels = {}
    for attribute in ("train_list", "test_list"):
        sums = []
        for name, _ in getattr(kind.archive, attribute):
            pixels[name] = random.integers(0, 256, (60, 3072), dtype=np.uint8)
            sums.append([name, write(folder / name, {"data": pixels[name], labels: [i % 10 for i in range(60)]})])
        monkeypatch.setattr(kind.archive, attribute, sums)
    md5 = write(folder / kind.archive.meta["filename"], {names: list(kind.class_names)})
    monkeypatch.setitem(kind.archive.meta, "md5", md5)
    return kind, {name: rows.reshape(-1, 3, 32, 32) for name, rows in pixels.items()}


def test_contract(cifar, tmp_path):
    check_datamodule(cifar[0](root=tmp_path, batch_size=8))


def test_original_pixels_in_the_original_order(cifar, tmp_path):
    kind, pixels = cifar
    data = kind(root=tmp_path, val_fraction=0.0)
    data.setup("fit")
    assert data.val_set is None
    train = np.concatenate([rows for name, rows in pixels.items() if name not in ("test_batch", "test")])
    test = pixels.get("test_batch", pixels.get("test"))
    for held, expected in ((data.train_set, train), (data.test_set, test)):
        assert len(held) == len(expected)
        for number in (0, 13, len(expected) - 1):
            image, label = held[number]
            assert torch.equal(image, torch.from_numpy(expected[number]))
            assert label == number % 60 % 10


def test_validation_is_the_end_in_tfds_order(cifar, tmp_path):
    data = cifar[0](root=tmp_path, val_fraction=0.1)
    data.setup("fit")
    size = len(data.train_set) + len(data.val_set)
    order = tfds_order("train", range(size))
    assert data.val_set.indices.tolist() == sorted(order[-size // 10 :])
    assert sorted([*data.train_set.indices, *data.val_set.indices]) == list(range(size))


def test_real_sizes_of_the_papers_split():
    assert len(tfds_order("train", range(50_000))[: 50_000 - round(0.02 * 50_000)]) == 49_000  # [:98 %], appendix B.1.1


def test_a_changed_file_is_not_unpickled(cifar, tmp_path):
    kind, pixels = cifar
    name = next(iter(pixels))

    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    (tmp_path / kind.archive.base_folder / name).write_bytes(pickle.dumps(Evil()))
    with pytest.raises(InputError, match="missing or damaged"):
        kind(root=tmp_path).setup("fit")


@pytest.mark.parametrize("kind", KINDS)
def test_missing_set_says_what_is_expected_where(kind, tmp_path):
    with pytest.raises(InputError, match=r"--data.download true") as caught:
        kind(root=tmp_path).setup("fit")
    assert str(tmp_path / kind.archive.base_folder) in str(caught.value)
    for file, _ in kind.archive.test_list:
        assert file in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_facts_need_no_files(kind, tmp_path):
    data = kind(root=tmp_path)
    assert data.num_classes == len(data.class_names) == len(set(data.class_names))
    assert data.class_names == sorted(data.class_names)
    data.prepare_data()
    assert not any(tmp_path.iterdir())


def test_download_happens_in_prepare_data_alone(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(datasets.CIFAR10, "download", lambda self: calls.append(self.root))
    monkeypatch.setattr(datasets.CIFAR10, "_check_integrity", lambda self: False)
    data = CIFAR10(root=tmp_path, download=True)
    with pytest.raises(InputError, match="by hand"):
        data.prepare_data()
    assert calls == [tmp_path] or calls == [str(tmp_path)]
    with pytest.raises(InputError, match="missing or damaged"):
        data.setup("fit")
    assert len(calls) == 1


def test_network_failure_is_one_sentence(monkeypatch, tmp_path):
    def unreachable(self):
        raise OSError("no route to host")

    monkeypatch.setattr(datasets.CIFAR10, "download", unreachable)
    with pytest.raises(InputError, match=r"no route to host.*by hand"):
        CIFAR10(root=tmp_path, download=True).prepare_data()
