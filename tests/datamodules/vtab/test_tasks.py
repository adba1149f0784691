import csv
import hashlib
import json
import shutil
from inspect import getclosurevars

import numpy as np
import pytest

from datamodules.vtab import labels
from datamodules.vtab.folders import clevr, sun397_keys
from datamodules.vtab.labels import clevr_count, dsprites_location, dsprites_orientation
from datamodules.vtab.tasks import TASKS, part_of, split_of, tfds_order

# Group, classes, split and place of the first validation record, split, place and number of the test records:
# those of google-research/task_adaptation, and the protocol's own integer rule.
PAPER = {
    "caltech101": ("natural", 102, "train", 2754, "test", 0, 6084),
    "cifar100": ("natural", 100, "train", 45000, "test", 0, 10000),
    "dtd": ("natural", 47, "validation", 0, "test", 0, 1880),
    "flowers102": ("natural", 102, "validation", 0, "test", 0, 6149),
    "pets": ("natural", 37, "train", 2944, "test", 0, 3669),
    "sun397": ("natural", 397, "validation", 0, "test", 0, 21750),
    "svhn": ("natural", 10, "train", 65931, "test", 0, 26032),
    "patch_camelyon": ("specialised", 2, "validation", 0, "test", 0, 32768),
    "eurosat": ("specialised", 10, "train", 16200, "train", 21600, 5400),
    "resisc45": ("specialised", 45, "train", 18900, "train", 25200, 6300),
    "retinopathy": ("specialised", 5, "validation", 0, "test", 0, 42670),
    "clevr_count": ("structured", 8, "train", 63000, "validation", 0, 15000),
    "clevr_distance": ("structured", 6, "train", 63000, "validation", 0, 15000),
    "dmlab": ("structured", 6, "validation", 0, "test", 0, 22735),
    "kitti_distance": ("structured", 4, "validation", 0, "test", 0, 711),
    "dsprites_location": ("structured", 16, "train", 589824, "train", 663552, 73728),
    "dsprites_orientation": ("structured", 16, "train", 589824, "train", 663552, 73728),
    "smallnorb_azimuth": ("structured", 18, "test", 0, "test", 12150, 12150),
    "smallnorb_elevation": ("structured", 9, "test", 0, "test", 12150, 12150),
}
# Images to train on with the whole of VTAB.
FULL = {"caltech101": 3060, "cifar100": 50000, "pets": 3680, "svhn": 73257, "eurosat": 21600, "clevr_count": 70000}


def places(task, part: str) -> np.ndarray:
    """Places of a part's records in the order of their split, for a set of the published size."""
    return part_of(part, np.arange(task.source.sizes[split_of(part)]))


def test_there_are_7_natural_4_specialised_and_8_structured_tasks():
    assert list(TASKS) == list(PAPER)
    assert [
        sum(task.group == group for task in TASKS.values()) for group in ("natural", "specialised", "structured")
    ] == [7, 4, 8]


@pytest.mark.parametrize("name", PAPER)
def test_splits_are_the_paper_s(name):
    task = TASKS[name]
    val, test = places(task, task.val), places(task, task.test)
    found = (task.group, len(task.names), split_of(task.val), val[0], split_of(task.test), test[0], len(test))
    assert found == PAPER[name]
    assert split_of(task.train) == "train"
    assert places(task, task.train)[0] == 0
    assert len(places(task, task.train)) >= 800
    assert len(val) >= 200
    if split_of(task.val) == "train":
        assert places(task, task.train)[-1] + 1 == val[0]
    if name in FULL:
        assert len(places(task, task.train)) + len(val) == FULL[name]


def test_part_of():
    order = np.arange(7)[::-1]
    assert part_of("train", order).tolist() == order.tolist()
    assert part_of("train[50%:]", order).tolist() == [3, 2, 1, 0]
    assert part_of("train[:50%]", order).tolist() == [6, 5, 4]
    assert part_of("train[20%:60%]", order).tolist() == [5, 4, 3]


def test_tfds_order_of_public_cifar10():
    """The first records of the CIFAR-10 that TensorFlow Datasets publishes."""
    assert tfds_order("train", range(50_000))[:5].tolist() == [16399, 1680, 47917, 17307, 27051]


def kit_rows(kit, name: str) -> dict[str, list[dict[str, str]]]:
    with (kit / "vtab-meta" / "vtab1k" / f"{name}.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    return {split: [row for row in rows if row["split"] == split] for split in ("train800", "val200")}


def cifar100_keys(kit, root, split):
    return range(50_000), None


def flowers_keys(kit, root, split):
    shutil.copytree(kit / "vtab-layouts" / "real" / "flowers-102", root / "flowers-102", dirs_exist_ok=True)
    (root / "flowers-102").chmod(0o755)
    (root / "flowers-102" / "jpg").mkdir(exist_ok=True)
    held = TASKS["flowers102"].source.open(root, split)
    return held.keys, held.labels


def pets_keys(kit, root, split):
    rows = json.loads((kit / "vtab-meta" / "oxford-iiit-pet-lists" / "membership.json").read_text())["trainval"]
    (root / "oxford-iiit-pet" / "annotations").mkdir(parents=True)
    lists = root / "oxford-iiit-pet" / "annotations" / "trainval.txt"
    lists.write_text("".join(f"{name[:-4]} {label + 1} 1 1\n" for name, label in rows))
    held = TASKS["pets"].source.open(root, split)
    return held.keys, held.labels


def clevr_keys(kit, root, split):
    scenes = root / "clevr" / "CLEVR_v1.0" / "scenes"
    scenes.mkdir(parents=True)
    content = [{"image_filename": f"CLEVR_train_{number:06d}.png", "objects": [{}] * 3} for number in range(70_000)]
    (scenes / "CLEVR_train_scenes.json").write_text(json.dumps({"scenes": content}))
    return clevr(clevr_count).open(root, split).keys, None


def eurosat_keys(kit, root, split):
    counts = (3000, 3000, 3000, 2500, 2500, 2000, 2500, 3000, 2500, 3000)
    pairs = [(label, number) for label, count in enumerate(counts) for number in range(1, count + 1)]
    names = TASKS["eurosat"].names
    return [f"{names[label]}_{names[label]}_{number}.jpg" for label, number in pairs], [label for label, _ in pairs]


def dsprites_keys(kit, root, split):
    return range(737_280), None


@pytest.mark.parametrize(
    ("task", "name", "keys_of"),
    [
        ("cifar100", "cifar100", cifar100_keys),
        ("flowers102", "oxford_flowers102", flowers_keys),
        ("pets", "oxford_iiit_pet", pets_keys),
        ("clevr_count", "clevr", clevr_keys),
        ("eurosat", "eurosat", eurosat_keys),
        ("dsprites_location", "dsprites", dsprites_keys),
    ],
)
def test_vtab_1k_is_the_kit_s(kit, tmp_path, task, name, keys_of):
    """One rule, which serves all tasks, gives the keys and the order of the kit's lists."""
    row, rows = TASKS[task], kit_rows(kit, name)
    found = {split: keys_of(kit, tmp_path, split) for split in {split_of(row.train), split_of(row.val)}}
    for part, expected, count in ((row.train, rows["train800"], 800), (row.val, rows["val200"], 200)):
        keys, labels = found[split_of(part)]
        chosen = part_of(part, tfds_order(split_of(part), keys))[:count]
        assert [str(keys[number]) for number in chosen] == [line["key"] for line in expected]
        if labels is not None:
            assert [labels[number] for number in chosen] == [int(line["label"]) for line in expected]


def test_dsprites_labels_are_the_kit_s(kit):
    """The latents of a row follow from its number."""
    rows = [row for split in kit_rows(kit, "dsprites").values() for row in split]
    numbers = np.array([int(row["key"]) for row in rows])
    latents = np.stack([0 * numbers, numbers // 245760, numbers // 40960 % 6, numbers // 1024 % 40, numbers // 32 % 32,
                        numbers % 32], axis=1)  # fmt: skip
    for label, column in ((dsprites_location, "label_location_16"), (dsprites_orientation, "label_orientation_16")):
        assert label(latents).tolist() == [int(row[column]) for row in rows]


def test_sun397_lists_are_those_of_tfds(kit):
    for short, split in (("tr", "train"), ("va", "validation"), ("te", "test")):
        published = (kit / "vtab-meta" / "sun397" / f"sun397_tfds_{short}.txt").read_text().split()
        assert sun397_keys(split) == published
    names = (kit / "vtab-meta" / "sun397" / "sun397_labels.txt").read_text().split()
    assert [f"/{name[0]}/{name}" for name in TASKS["sun397"].names] == names


def test_sun397_lists_as_shipped():
    keys = [sun397_keys(split) for split in ("train", "validation", "test")]
    assert [len(part) for part in keys] == list(TASKS["sun397"].source.sizes.values())
    assert len(set().union(*keys)) == 108_753
    digest = hashlib.sha256("\n".join(key for part in keys for key in part).encode()).hexdigest()
    assert digest == "bf0d672624ff09fe4f4a8bc22b4a550154ea5bd4d38f98dd85051f8602db3c6b"


def test_class_names_are_those_of_tfds(kit):
    names = (kit / "vtab-meta" / "caltech101_labels.txt").read_text().split()
    assert [name.lower() for name in TASKS["caltech101"].names] == names


def test_names_differ_within_each_task():
    for task in TASKS.values():
        assert len(set(task.names)) == len(task.names)


def test_training_neither_crops_nor_mirrors_where_that_changes_the_class():
    assert {name for name, task in TASKS.items() if not task.crop} == {
        *("clevr_count", "clevr_distance", "dmlab", "kitti_distance", "dsprites_location"),
    }
    assert {name for name, task in TASKS.items() if not task.flip} == {
        *("dsprites_location", "dsprites_orientation", "smallnorb_azimuth"),
    }


@pytest.mark.parametrize(
    ("name", "classes", "label"),
    [("smallnorb_azimuth", 18, labels.smallnorb_azimuth), ("smallnorb_elevation", 9, labels.smallnorb_elevation)],
)
def test_labels_of_small_norb_are_those_of_their_task(name, classes, label):
    assert len(TASKS[name].names) == classes
    assert getclosurevars(TASKS[name].source.read).nonlocals["label"] is label
