import hashlib

import pytest
import torch
from PIL import Image

from datamodules.vtab import VTAB
from datamodules.vtab.tasks import TASKS
from vit_lightning.augment import Augment
from vit_lightning.errors import InputError
from vit_lightning.testing import check_datamodule

NO_FLIP = {"dsprites_location", "dsprites_orientation", "smallnorb_azimuth"}
NO_CROP = {"clevr_count", "clevr_distance", "dmlab", "kitti_distance", "dsprites_location"}


@pytest.mark.parametrize("task", TASKS)
def test_contract(publish, task):
    data = VTAB(task, split="train800", root=publish(task), image_size=8, batch_size=4, allow_incomplete=True)
    check_datamodule(data)
    assert data.val_set is not None
    assert data.test_set is not None


@pytest.mark.parametrize("task", TASKS)
def test_missing_files_are_told_with_the_layout(tmp_path, task):
    with pytest.raises(InputError, match=r"expected .* under .*--data\."):
        VTAB(task, root=tmp_path).setup("fit")


def test_unknown_task():
    with pytest.raises(InputError, match=r"did you mean cifar100\?"):
        VTAB("cifar10")
    with pytest.raises(InputError, match="expected one of caltech101, cifar100"):
        VTAB("xyz")


@pytest.fixture
def dtd(tmp_path):
    """The lists of a DTD of the published size, without its images, and its keys in TFDS's order."""
    keys = {}
    for split, short in (("train", "train"), ("validation", "val"), ("test", "test")):
        names = TASKS["dtd"].names
        keys[split] = [f"{name}/{name}_{split}{number:02d}.jpg" for name in names for number in range(40)]
        file = tmp_path / "dtd" / "dtd" / "labels" / f"{short}1.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(keys[split]))
        keys[split].sort(key=lambda key, split=split: hashlib.md5(f"{split}{key}".encode()).hexdigest())
    return tmp_path, keys


def test_vtab_1k(dtd):
    root, keys = dtd
    data = VTAB("dtd", split="train800", root=root)
    data.setup("fit")
    assert list(data.train_set.keys) == keys["train"][:800]
    assert list(data.val_set.keys) == keys["validation"][:200]
    assert list(data.test_set.keys) == keys["test"]
    assert (data.num_classes, data.class_names[1]) == (47, "blotchy")

    data = VTAB("dtd", root=root)
    data.setup("fit")
    assert list(data.train_set.keys) == keys["train"][:800] + keys["validation"][:200]
    assert data.val_set is None
    assert list(data.test_set.keys) == keys["test"]
    for number in (0, 799, 800, 999):
        file, label = data.train_set[number]
        assert file.endswith(data.train_set.keys[number])
        assert (
            label
            == data.train_set.labels[number]
            == TASKS["dtd"].names.index(data.train_set.keys[number].split("/")[0])
        )


def test_full(dtd):
    root, keys = dtd
    data = VTAB("dtd", split="full", root=root)
    data.setup("fit")
    assert list(data.train_set.keys) == keys["train"] + keys["validation"]
    assert data.val_set is None


def test_validation_and_test_cut_from_train_do_not_overlap(publish):
    data = VTAB("eurosat", split="train800", root=publish("eurosat"), allow_incomplete=True)
    data.setup("fit")
    parts = [list(held.keys) for held in (data.train_set, data.val_set, data.test_set)]
    assert [len(part) for part in parts] == [14, 5, 5]  # 24 images, 60 % and 80 % rounded down
    assert len({key for part in parts for key in part}) == 24


@pytest.mark.parametrize("task", TASKS)
def test_images_are_varied_as_the_paper_allows(task):
    data = VTAB(task, image_size=24)
    image = torch.zeros(3, 40, 40, dtype=torch.uint8)
    image[:, :, 20:] = 255
    image[:, :20] //= 2
    varied = []
    for seed in range(30):
        torch.manual_seed(seed)
        varied.append(data.train_transform()(image))
    whole = data.eval_transform()(image)
    mirrored = [view[:, :, 0].sum() > view[:, :, -1].sum() for view in varied]
    assert any(mirrored) != (task in NO_FLIP)
    assert all(any(torch.equal(view, side) for side in (whole, whole.flip(-1))) for view in varied) == (task in NO_CROP)


def test_flip_can_be_turned_off_everywhere():
    data = VTAB("dtd", image_size=24, augment=Augment(crop="none", flip=False))
    image = torch.randint(256, (3, 24, 24), dtype=torch.uint8)
    assert all(torch.equal(data.train_transform()(image), image) for _ in range(20))


@pytest.fixture
def shared_copy(tmp_path):
    """The layout of the widely shared copy of VTAB-1k, for CLEVR's distances."""
    for split, count in (("train800", 800), ("val200", 200), ("train800val200", 1000), ("test", 15_000)):
        files = [f"images/{split}/{number:06d}.jpg" for number in range(count)]
        (tmp_path / "clevr_dist" / "images" / split).mkdir(parents=True)
        (tmp_path / "clevr_dist" / f"{split}.txt").write_text("".join(f"{f} {i % 6}\n" for i, f in enumerate(files)))
        for file in files[:12]:
            Image.new("RGB", (16, 12)).save(tmp_path / "clevr_dist" / file)
    return tmp_path


def test_shared_copy(shared_copy):
    data = VTAB("clevr_distance", root=shared_copy)
    data.setup("fit")
    assert (len(data.train_set), data.val_set, len(data.test_set)) == (1000, None, 15_000)
    assert data.train_set[7] == (shared_copy / "clevr_dist" / "images" / "train800val200" / "000007.jpg", 1)

    data = VTAB("clevr_distance", split="train800", root=shared_copy)
    data.setup("fit")
    assert (len(data.train_set), len(data.val_set), len(data.test_set)) == (800, 200, 15_000)
    with pytest.raises(InputError, match=r"--data.split full needs CLEVR in its original form"):
        VTAB("clevr_distance", split="full", root=shared_copy).setup("fit")


def test_contract_of_the_shared_copy(shared_copy):
    for split in ("train800", "val200", "test"):
        file = shared_copy / "clevr_dist" / f"{split}.txt"
        file.write_text("".join(file.read_text().splitlines(keepends=True)[:12]))
    with pytest.raises(InputError, match="has 12 train800 images where 800 were published"):
        VTAB("clevr_distance", split="train800", root=shared_copy).setup("fit")
    check_datamodule(
        VTAB("clevr_distance", "train800", root=shared_copy, image_size=8, batch_size=4, allow_incomplete=True)
    )


@pytest.mark.parametrize("task", TASKS)
def test_lists_and_arrays_must_be_regular_files(publish, task):
    root = publish(task)
    pictures = (".jpg", ".jpeg", ".png")
    lists = [file for file in sorted(root.rglob("*")) if file.is_file() and file.suffix not in pictures]
    for file in lists:
        file.rename(root / "away")
        file.symlink_to("/dev/null")  # a FIFO, if opened, would never let this test end
        with pytest.raises(InputError, match=rf"{file.name}(: it)? is a device, not a regular file"):
            VTAB(task, split="train800", root=root, allow_incomplete=True).setup("fit")
        file.unlink()
        (root / "away").rename(file)
