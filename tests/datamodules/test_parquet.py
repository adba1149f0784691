import builtins
import io
import json
import pickle
import sys

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from datamodules.cifar import CIFAR10
from datamodules.parquet import Parquet
from vit_lightning.augment import Augment
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError
from vit_lightning.testing import check_datamodule


def picture(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (shade, shade, shade)).save(buffer, "PNG")
    return buffer.getvalue()


def write(path, labels, names=None, group=3, first=0, as_struct=True, image="image", label="label"):
    data = [picture(first + number) for number in range(len(labels))]
    column = pa.array([{"bytes": item, "path": None} for item in data]) if as_struct else pa.array(data)
    table = pa.table({image: column, label: pa.array(labels)})
    if names:
        info = {"info": {"features": {label: {"names": names, "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, path, row_group_size=group)


def module(root, **options) -> Parquet:
    return Parquet(root=root, image_size=8, batch_size=2, num_workers=0, augment=Augment(crop="none"), **options)


def ready(root, **options) -> Parquet:
    data = module(root, **options)
    data.setup("fit")
    return data


def shades(loader) -> list[int]:
    return [int(image[0, 0, 0]) for images, _ in loader for image in images]


def test_contract(tmp_path):
    write(tmp_path / "train-00000-of-00002.parquet", [0, 1] * 5, ["cat", "dog"])
    write(tmp_path / "train-00001-of-00002.parquet", [1, 0] * 5, ["cat", "dog"], first=10)
    write(tmp_path / "test.parquet", [0, 1, 1], ["cat", "dog"])
    check_datamodule(module(tmp_path, val_fraction=0.2))


@pytest.mark.parametrize("as_struct", [True, False])
def test_rows_in_order_across_files_and_groups(tmp_path, as_struct):
    write(tmp_path / "data/train.parquet", [0, 1])
    write(tmp_path / "data/validation-0.parquet", [0, 1, 0, 1], group=3, as_struct=as_struct)
    write(tmp_path / "data/validation-1.parquet", [1] * 5, group=2, first=4, as_struct=as_struct)
    data = ready(tmp_path)
    assert shades(data.val_dataloader()) == list(range(9))
    assert data.val_set.labels.tolist() == [0, 1, 0, 1, 1, 1, 1, 1, 1]
    assert data.test_set is None
    assert [data.val_set[index][1] for index in (8, 0, 1)] == [1, 0, 1]


def test_few_groups_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("datamodules.reading.parquet_rows.CACHE_BYTES", 0)
    write(tmp_path / "train.parquet", [0] * 12, group=2)
    data = ready(tmp_path, val_fraction=0.0)
    for index in (0, 11, 5, 0, 7):
        data.train_set[index]
        assert len(data.train_set.cache) == 1
    assert pickle.loads(pickle.dumps(data.train_set)).cache == {}


def test_class_names(tmp_path):
    write(tmp_path / "train.parquet", [0, 2])
    assert module(tmp_path).class_names == ["0", "1", "2"]
    write(tmp_path / "train.parquet", [0, 1], ["cat", "dog", "owl"])
    assert module(tmp_path).class_names == ["cat", "dog", "owl"]
    write(tmp_path / "train.parquet", ["owl", "cat", "owl"])
    write(tmp_path / "val.parquet", ["owl"])
    data = ready(tmp_path)
    assert data.class_names == ["cat", "owl"]
    assert data.train_set.labels.tolist() == [1, 0, 1]
    assert data.val_set.labels.tolist() == [1]
    write(tmp_path / "val.parquet", ["dog"])
    with pytest.raises(InputError, match="label 'dog', which train lacks"):
        ready(tmp_path)


def test_other_columns(tmp_path):
    write(tmp_path / "train.parquet", [0, 1, 0], image="img", label="fine_label")
    data = ready(tmp_path, image_column="img", label_column="fine_label", val_fraction=0.0)
    assert data.train_set.labels.tolist() == [0, 1, 0]
    assert module(tmp_path).num_classes == 2  # no other column can be meant
    write(tmp_path / "train.parquet", [0, 1, 0], image="photo", label="kind")
    with pytest.raises(InputError, match=r"no column 'image' but photo, kind; give --data.image_column"):
        module(tmp_path).num_classes  # noqa: B018
    assert ready(tmp_path, image_column="photo", label_column="kind").num_classes == 2


def test_wrong_labels(tmp_path):
    write(tmp_path / "train.parquet", [0, 1, 7], ["cat", "dog"])
    write(tmp_path / "test.parquet", [-1, -1, 0])
    with pytest.raises(InputError, match=r"train\.parquet has in row 3 the label 7, outside its 2 classes"):
        ready(tmp_path, val_fraction=0.0)
    write(tmp_path / "train.parquet", [0, 1, 1])
    data = ready(tmp_path, val_fraction=0.0)
    assert data.test_set.labels.tolist() == [IGNORE, IGNORE, 0]
    write(tmp_path / "train.parquet", [0, None])
    with pytest.raises(InputError, match="no label in its column 'label' in 1 row, the first is row"):
        ready(tmp_path)


def test_a_broken_image_is_named_by_its_file_and_row(tmp_path):
    for number in range(2):
        write(tmp_path / f"train-{number}.parquet", [0, 1, 0], first=3 * number)
    whole = ready(tmp_path, val_fraction=0.0).train_set
    names = [f"train-{file}.parquet:{row}" for file in range(2) for row in range(3)]
    assert list(whole.keys) == names and whole.keys[-1] == names[-1]
    table = parquet.read_table(tmp_path / "train-1.parquet")
    broken = table.set_column(0, "image", pa.array([b"junk"] * 3, pa.binary()))
    parquet.write_table(broken, tmp_path / "train-1.parquet")
    with pytest.raises(BrokenImage, match=r"training image train-1\.parquet:[012]: not an image of a known format"):
        list(ready(tmp_path, val_fraction=0.0, in_memory=False).train_dataloader())


def test_row_without_bytes(tmp_path):
    rows = [{"bytes": None, "path": "elsewhere.jpg"}]
    parquet.write_table(
        pa.table({"image": pa.array(rows, pa.struct({"bytes": pa.binary(), "path": pa.string()})), "label": [0]}),
        tmp_path / "train.parquet",
    )
    with pytest.raises(BrokenImage, match=r"train.parquet:0: No such file as elsewhere\.jpg in .*; no image is there"):
        ready(tmp_path, val_fraction=0.0).train_set[0]


def test_missing_files_show_the_layout(tmp_path):
    with pytest.raises(InputError, match=r"train\*\.parquet.*--data.root"):
        module(tmp_path).num_classes  # noqa: B018


def test_missing_pyarrow_names_the_extra(tmp_path, monkeypatch):
    write(tmp_path / "train.parquet", [0])
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InputError, match=r"pip install 'vit-lightning\[parquet\]'"):
        module(tmp_path).num_classes  # noqa: B018


def test_kits_cifar10(kit):
    data = Parquet(root=kit / "cifar10", image_size=32, num_workers=0, val_fraction=0.02)
    assert data.class_names == CIFAR10.class_names
    data.setup("fit")
    assert (len(data.train_set), len(data.val_set), len(data.test_set)) == (49_000, 1_000, 10_000)
    images, labels = next(iter(data.train_dataloader()))
    assert images.shape == (128, 3, 32, 32)
    assert np.bincount(labels, minlength=10).min() > 2
    assert data.test_set.labels.tolist()[:10] == sorted(data.test_set.labels.tolist()[:10])


def test_doctor_looks_at_what_a_damaged_file_leaves(app, tmp_path):
    write(tmp_path / "train.parquet", [0, 1, 2, 0])
    write(tmp_path / "val.parquet", [0, 1, 2])
    (tmp_path / "val.parquet").write_bytes((tmp_path / "val.parquet").read_bytes()[:-40])
    words = ("--data", "Parquet", "--data.root", tmp_path, "--data.image_size", 8, "--data.batch_size", 2)
    words += ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data.num_workers", 0)
    done = app("doctor", *words)
    assert done.code == 1 and "val.parquet cannot be read" in done.out
    assert "looked at 4 of 4 training images" in done.out
    done = app("fit", *words)
    assert done.code == 1 and "val.parquet cannot be read" in done.err and "Traceback" not in done.err


def write_paths(path, paths, as_struct):
    images = pa.array([{"bytes": None, "path": item} for item in paths] if as_struct else paths)
    if as_struct:
        images = images.cast(pa.struct({"bytes": pa.binary(), "path": pa.string()}))
    parquet.write_table(pa.table({"image": images, "label": pa.array([0] * len(paths))}), path)


@pytest.mark.parametrize("as_struct", [True, False])
def test_paths_start_from_the_tables_folder_or_from_root(tmp_path, monkeypatch, as_struct):
    for place, shade in (("data/a.png", 1), ("b.png", 2), ("data/deep/c.png", 3)):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(picture(shade))
    write_paths(tmp_path / "data/train.parquet", ["a.png", "b.png", "deep\\c.png", "deep/d.png"], as_struct)
    monkeypatch.chdir(tmp_path.parent)
    images = ready(tmp_path, val_fraction=0.0).train_set
    assert [images[row][0].read_bytes() for row in range(3)] == [picture(shade) for shade in (1, 2, 3)]
    with pytest.raises(BrokenImage, match=r"train\.parquet:3: No such file as deep/d\.png .* nearest .*deep/c\.png"):
        images[3]


@pytest.mark.parametrize("place", ["", "data", "default", "plain_text"])
def test_a_folder_per_split_as_the_hub_converts(tmp_path, place):
    for number, split in enumerate(("train", "validation", "test")):
        write(tmp_path / place / split / "0000.parquet", [0, 1, 1], ["cat", "dog"], first=3 * number)
    data = ready(tmp_path)
    assert [len(images) for images in (data.train_set, data.val_set, data.test_set)] == [3, 3, 3]
    assert list(data.val_set.keys) == ["0000.parquet:0", "0000.parquet:1", "0000.parquet:2"]


def test_several_configs_and_files_that_are_no_split_are_named(tmp_path):
    for config in ("coarse", "fine"):
        write(tmp_path / config / "train/0000.parquet", [0, 1])
    with pytest.raises(InputError, match=r"several data sets \(coarse, fine\); give --data\.root .*coarse"):
        module(tmp_path).num_classes  # noqa: B018
    write(tmp_path / "fine/holdout.parquet", [0, 1])
    assert "holdout.parquet, which is no split" in ready(tmp_path / "fine").notices[0]
    write(tmp_path / "fine/train-1.parquet", [0, 1])
    with pytest.raises(InputError, match=r"are both named as train data are; keep one"):
        ready(tmp_path / "fine")


def test_lists_of_labels(tmp_path):
    names = ["cat", "dog", "owl"]
    write(tmp_path / "train.parquet", [[0], [2, 1], [], [1]], names)
    write(tmp_path / "val.parquet", [[1, 2]], names[::-1])
    write(tmp_path / "test.parquet", [["owl", "cat"]])
    data = ready(tmp_path, multi_label=True)
    assert [data.train_set[row][1].tolist() for row in range(4)] == [[1, 0, 0], [0, 1, 1], [0, 0, 0], [0, 1, 0]]
    assert data.val_set[0][1].tolist() == [1, 1, 0]
    assert data.test_set[0][1].tolist() == [1, 0, 1]
    check_datamodule(module(tmp_path, multi_label=True))


def test_only_one_column_can_be_meant(tmp_path, caplog):
    write(tmp_path / "train.parquet", [0, 1], image="img", label="labels")
    with caplog.at_level("INFO"):
        assert module(tmp_path).num_classes == 2
    assert "train.parquet has the column labels, which is taken for --data.label_column" in caplog.text
    table = parquet.read_table(tmp_path / "train.parquet")
    parquet.write_table(table.append_column("fine_label", table["labels"]), tmp_path / "train.parquet")
    with pytest.raises(InputError, match=r"has the columns labels and fine_label; give --data\.label_column labels"):
        module(tmp_path).num_classes  # noqa: B018


def test_test_images_without_labels_serve_predict_alone(tmp_path):
    write(tmp_path / "train.parquet", [0, 1])
    write(tmp_path / "test.parquet", [0, 1])
    parquet.write_table(parquet.read_table(tmp_path / "test.parquet").drop_columns("label"), tmp_path / "test.parquet")
    data = ready(tmp_path)
    assert data.test_set.labels.tolist() == [IGNORE, IGNORE]
    with pytest.raises(InputError, match=r"test\.parquet has no column 'label', which test needs"):
        data.setup("test")


def test_what_save_to_disk_wrote_needs_its_library(tmp_path, monkeypatch):
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train"]}')
    with pytest.raises(InputError, match=r"train/state\.json is missing, which .*dataset_dict\.json needs"):
        module(tmp_path).num_classes  # noqa: B018
    (tmp_path / "train").mkdir()
    (tmp_path / "train/state.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"written by save_to_disk .*pip install 'vit-lightning\[arrow\]'"):
        module(tmp_path).num_classes  # noqa: B018


def test_two_splits_of_the_hub_are_not_mixed(tmp_path):
    write(tmp_path / "train-00000-of-00001.parquet", [0, 1])
    write(tmp_path / "extra-00000-of-00001.parquet", [0, 1])
    data = ready(tmp_path, val_fraction=0.0)
    assert len(data.train_set) == 2 and "extra-00000-of-00001.parquet, which is no split" in data.notices[0]
    write(tmp_path / "holdout/0000.parquet", [0, 1])
    assert "extra-00000-of-00001.parquet, which is no split and is left out (2 such)" in ready(tmp_path).notices[0]
    write(tmp_path / "train_noisy-00000-of-00001.parquet", [1, 0])
    with pytest.raises(InputError, match=r"train-00000.* and .*train_noisy-00000.* are both named as train data are"):
        ready(tmp_path)


def test_other_data_need_no_training_files(tmp_path):
    """Their classes are those of the test files, which a trained net looks up by name."""
    write(tmp_path / "test.parquet", [1, 0, 1], ["dog", "cat"])
    data = module(tmp_path)
    data.setup("test")
    assert data.class_names == ["dog", "cat"] and data.test_set.labels.tolist() == [1, 0, 1] and data.train_set is None
    with pytest.raises(InputError, match=r"holds no train\*\.parquet"):
        ready(tmp_path)
