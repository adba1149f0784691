import shutil

import numpy as np
import pytest

from datamodules.reading.published import PublishedSet
from datamodules.vtab import folders
from datamodules.vtab.folders import CALTECH101, DTD, EUROSAT, RESISC45, SUN397, clevr
from datamodules.vtab.labels import clevr_count, clevr_distance
from vit_lightning.data import images
from vit_lightning.errors import InputError


def read(source: PublishedSet, root, split="train"):
    held = source.open(root, split, allow_incomplete=True)
    for number in range(0, len(held), 5):
        assert images.load(held[number][0], name=str(held.keys[number])).shape[0] == 3
    return held


def test_caltech101_trains_on_30_of_each_class(publish):
    root = publish("caltech101")
    train, test = read(CALTECH101, root), read(CALTECH101, root, "test")
    # 102 classes with the background, which is the fifth when case is not regarded; Faces is the 38th.
    assert (np.bincount(train.labels).nonzero()[0].tolist(), np.bincount(train.labels).max()) == ([0, 4, 37], 30)
    assert np.bincount(test.labels)[[0, 4, 37]].tolist() == [3, 3, 3]
    assert len({*train.keys, *test.keys}) == 99
    assert "BACKGROUND_Google/image_0001.jpg" in {*train.keys, *test.keys}
    assert read(CALTECH101, root).keys == train.keys


def test_dtd_reads_the_first_partition(publish):
    held = read(DTD, publish("dtd"), "validation")
    assert held.keys[0] == "banded/banded_1000.jpg"
    assert held.labels.tolist() == [0] * 4 + [30] * 4 + [46] * 4


def test_sun397_has_keys_that_start_at_the_root(publish):
    held = read(SUN397, publish("sun397"))
    assert held.keys[0] == "/b/brewery/indoor/sun_train0.jpg"
    assert {folders.names.SUN397[label] for label in held.labels} == {"brewery/indoor"}


@pytest.mark.parametrize(
    ("source", "task", "key", "labels"),
    [
        (EUROSAT, "eurosat", "AnnualCrop_AnnualCrop_1.jpg", [0, 3, 9]),
        (RESISC45, "resisc45", "airplane_airplane_001.jpg", [0, 35, 44]),
    ],
)
def test_a_missing_class_does_not_shift_the_labels(publish, source, task, key, labels):
    held = read(source, publish(task))
    assert held.keys[0] == key
    assert sorted(set(held.labels.tolist())) == labels


def test_a_removed_image_is_an_error(publish, monkeypatch):
    root = publish("eurosat")
    source = PublishedSet("EuroSAT", "", {"train": 24}, EUROSAT.read)
    assert len(source.open(root, "train")) == 24
    (root / "eurosat" / "2750" / "Highway" / "Highway_3.jpg").unlink()
    with pytest.raises(InputError, match="EuroSAT has 23 train images where 24 were published"):
        source.open(root, "train")


def test_clevr(publish):
    root = publish("clevr_count")
    count, distance = read(clevr(clevr_count), root), read(clevr(clevr_distance), root, "validation")
    assert count.labels.tolist() == [number % 8 for number in range(20)]
    assert distance.labels.tolist() == [1, 2, 3, 4, 5] * 4  # nearest at 8.2, 8.7, 9.2, 9.7, 10.2
    assert distance.keys[3] == "CLEVR_val_000003.png"


def test_kit_originals(kit):
    layouts = kit / "vtab-layouts"
    for root in (layouts / "real", layouts / "fake-tfds"):
        for split in ("train", "validation", "test"):
            held = read(DTD, root, split)
            assert [folders.names.DTD[label] for label in held.labels] == [key.partition("/")[0] for key in held.keys]
    assert read(EUROSAT, layouts / "fake-tfds").labels.tolist() == [3, 3, 3]
    desert = read(RESISC45, layouts / "fake-tfds" / "resisc45")
    assert desert.keys == ["desert_desert_570.jpg", "intersection_intersection_172.jpg", "mountain_mountain_473.jpg"]
    assert sorted(set(read(CALTECH101, layouts / "fake-adapted").labels)) == [0, 1, 2, 4]
    assert read(clevr(clevr_count), layouts / "fake-adapted").labels.tolist() == [0, 1, 2, 3, 4]
    assert read(clevr(clevr_distance), layouts / "fake-adapted").labels.tolist() == [0, 0, 2, 4, 5]


def test_kit_sun397(kit, monkeypatch):
    lists = {
        split: (kit / "vtab-layouts" / "fake-tfds" / "sun397" / f"sun397_tfds_{short}.txt").read_text().split()
        for short, split in (("tr", "train"), ("va", "validation"), ("te", "test"))
    }
    monkeypatch.setattr(folders, "sun397_keys", lists.__getitem__)
    for split, keys in lists.items():
        assert read(SUN397, kit / "vtab-layouts" / "fake-adapted", split).keys == keys


def test_kit_real_clevr_image(kit, tmp_path):
    shutil.copytree(kit / "vtab-layouts" / "real" / "clevr", tmp_path / "clevr")
    (tmp_path / "clevr" / "CLEVR_v1.0").chmod(0o755)
    scenes = tmp_path / "clevr" / "CLEVR_v1.0" / "scenes"
    scenes.mkdir()
    scene = '{"image_filename": "CLEVR_val_000013.png", "objects": [{}, {}, {}]}'
    (scenes / "CLEVR_val_scenes.json").write_text(f'{{"scenes": [{scene}]}}')
    assert images.load(read(clevr(clevr_count), tmp_path, "validation")[0][0], name="scene").shape == (3, 320, 480)
