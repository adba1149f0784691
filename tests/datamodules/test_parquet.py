import builtins
import io
import json
import pickle

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
    write(tmp_path / "test.parquet", [0, 1, 1])
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
    with pytest.raises(InputError, match=r"no column 'image' but img, fine_label; give --data.image_column"):
        module(tmp_path).num_classes  # noqa: B018


def test_wrong_labels(tmp_path):
    write(tmp_path / "train.parquet", [0, 1, 7], ["cat", "dog"])
    write(tmp_path / "test.parquet", [-1, -1, 0])
    data = ready(tmp_path, val_fraction=0.0)
    with pytest.raises(InputError, match=r"training image train\.parquet:2 has label 7, outside the 2 classes"):
        data.train_dataloader()
    assert data.test_set.labels.tolist() == [IGNORE, IGNORE, 0]
    write(tmp_path / "train.parquet", [0, None])
    with pytest.raises(InputError, match="1 rows without a label"):
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
    with pytest.raises(BrokenImage, match=r"train.parquet:0: the column 'image' holds no bytes"):
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
