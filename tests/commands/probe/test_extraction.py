"""What kept features are known by."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from datamodules.reading.image_files import ImageFiles
from datamodules.synthetic import Synthetic
from vit_lightning.classifier import Classifier
from vit_lightning.commands.probe.extraction import FrozenNet, ProbeData, file_stamps, looked_at
from vit_lightning.data.subsets import Subset
from vit_lightning.evaluation.features import net_digest


def digest(**settings) -> str:
    torch.manual_seed(0)
    model = Classifier(net={"variant": "mu/8"}, num_classes=3, image_size=16, **settings)
    frozen = SimpleNamespace(model=model, data=SimpleNamespace(data=SimpleNamespace(size=(16, 16))))
    frozen.trainer = SimpleNamespace(precision="32-true")
    return net_digest(model.net, FrozenNet._facts(frozen))


def test_the_scale_of_low_rank_updates_tells_nets_apart():
    digests = [digest(lora={"rank": 2, "alpha": alpha}) for alpha in (4.0, 8.0, 8.0)]
    assert digests[1] == digests[2] and len({*digests, digest()}) == 3


def of_set(kind: type[Synthetic] = Synthetic, image_size: int = 8, num_classes: int = 3, **facts: object) -> str:
    data = kind(train_size=4, image_size=image_size, num_classes=num_classes)
    data.setup("fit")
    for name, value in facts.items():
        setattr(data, name, value)
    probed = ProbeData(data, lambda *labels: None)
    probed.sets = {"training": data.train_set}
    return probed.digest("training")


def test_how_a_set_is_seen_and_what_is_called_otherwise_tell_it_from_others():
    """Of a damaged image, part of it or nothing is seen, and none of those that are looked at need be damaged."""
    facts = [{"on_error": "skip"}, {"on_error": "fix"}, {"on_error": "raise"}, {"root": Path("elsewhere")}]
    facts += [{"image_size": 16}, {"num_classes": 2}, {"kind": type("Another", (Synthetic,), {})}]
    facts += [{"kind": type("Named", (Synthetic,), {"class_names": names})} for names in (list("abc"), list("bac"))]
    found = [of_set(**each) for each in facts]
    assert len(set(found)) == len(found) and found == [of_set(**each) for each in facts]


@pytest.fixture
def files(tmp_path):
    names = [f"{number:03}.png" for number in range(50)]
    for name in names:
        (tmp_path / name).write_bytes(b"one")
    return ImageFiles(tmp_path, names, [number // 5 for number in range(50)])


@pytest.mark.parametrize("change", ["content", "time", "removed"])
def test_one_changed_file_of_many_is_seen(files, change):
    images = Subset(files, np.arange(10, 50))
    before = file_stamps(images)
    assert len(before) == 40 and file_stamps(images) == before
    path = files.root / "013.png"
    state = path.stat()
    if change == "removed":
        path.unlink()
    elif change == "time":  # as much as before, and other pixels
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    else:
        path.write_bytes(b"three")
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    pairs = zip(before, file_stamps(images), strict=True)
    assert [number for number, (old, new) in enumerate(pairs) if old != new] == [3]


def test_files_are_spread_over_a_large_set(files, monkeypatch):
    monkeypatch.setattr("vit_lightning.commands.probe.extraction.FILES_LOOKED_AT", 7)
    assert len(file_stamps(files)) == 7


def test_images_that_are_no_files_have_no_stamps():
    assert file_stamps([(torch.zeros(3, 2, 2), 0)] * 3) == []


def test_pixels_of_every_class_are_looked_at(files):
    assert set(range(0, 50, 5)) <= set(looked_at(files)) and len(looked_at(files)) <= 16 + 10
    rare = ImageFiles(files.root, files.keys, [0] * 47 + [1, 2, 1])
    assert {0, 47, 48} <= set(looked_at(rare))


def test_precision_and_size_tell_features_apart():
    made = Classifier(net={"variant": "mu/8"}, num_classes=3, image_size=16)
    digests = set()
    for precision, size in (("32-true", (16, 16)), ("bf16-mixed", (16, 16)), ("32-true", (16, 24))):
        frozen = SimpleNamespace(model=made, data=SimpleNamespace(data=SimpleNamespace(size=size)))
        frozen.trainer = SimpleNamespace(precision=precision)
        digests.add(net_digest(made.net, FrozenNet._facts(frozen)))
    assert len(digests) == 3


def test_files_that_changed_are_another_set(monkeypatch):
    """Also where none of those whose pixels are looked at did."""
    stamps = [[(1, 1), (2, 2)], [(1, 1), (2, 3)], [(1, 1), (2, 2)]]
    found = []
    for one in stamps:
        monkeypatch.setattr("vit_lightning.commands.probe.extraction.file_stamps", lambda images, one=one: one)
        found.append(of_set())
    assert found[0] == found[2] != found[1]
