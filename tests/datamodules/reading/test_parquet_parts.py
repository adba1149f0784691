"""Patients in two splits of Parquet files, and test images that are training images encoded again, are said."""

import io

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from datamodules.parquet import Parquet
from vit_lightning.errors import InputError


def smooth(seed: int, quality: int = 90, size: int = 64) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).resize((size, size), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def write(place, split, seeds, names=None, quality=90, size=64, **columns) -> None:
    named = names or [f"photo_{seed}.jpg" for seed in seeds]
    rows = [{"bytes": smooth(seed, quality, size), "path": name} for seed, name in zip(seeds, named, strict=True)]
    labels = ["ab"[seed % 2] for seed in seeds]
    parquet.write_table(pa.table({"image": rows, "label": labels, **columns}), place / f"{split}.parquet")


def ready(place, stage="fit", **options) -> Parquet:
    data = Parquet(root=place, image_size=8, num_workers=0, **options)
    data.setup(stage)
    return data


@pytest.mark.parametrize("how", [{"quality": 40}, {"size": 48}])
@pytest.mark.parametrize("split", ["val", "test"])
def test_training_images_that_were_encoded_again(tmp_path, how, split):
    write(tmp_path, "train", range(20))
    write(tmp_path, split, range(5, 15), **how)
    said = rf"{split}\.parquet:0 is a \w+ image and train\.parquet:5 one that trains: they have one name and look alike"
    with pytest.raises(InputError, match=f"{said}, as may 10 pairs among 10 .*; leave the rows out of one of"):
        ready(tmp_path)
    (tmp_path / "train.parquet").unlink()  # as the sentence says
    ready(tmp_path, "validate" if split == "val" else "test")


def test_a_few_copies_are_said(tmp_path):
    write(tmp_path, "train", range(20))
    write(tmp_path, "test", [3, *range(30, 50)], quality=40)
    (said,) = ready(tmp_path).notices
    assert said.startswith("test.parquet:0 is a test image and train.parquet:3 one that trains: they have one name")


def test_names_in_a_column_beside_the_bytes(tmp_path):
    nothing, names = [None] * 10, [f"IMG_{number}.jpg" for number in range(2093, 2103)]
    write(tmp_path, "train", range(10), nothing, file_name=names)
    write(tmp_path, "test", range(10), nothing, quality=40, file_name=names)
    with pytest.raises(InputError, match=r"test\.parquet:0 .* train\.parquet:0 one that trains"):
        ready(tmp_path)


@pytest.mark.parametrize("names", [[f"{number:04d}.jpg" for number in range(10)], ["image.jpg"] * 10, [None] * 10])
def test_other_pictures_may_have_the_names_of_training_images(tmp_path, names):
    write(tmp_path, "train", range(10), names)
    write(tmp_path, "val", range(20, 30), names)
    write(tmp_path, "test", range(30, 40), names)
    data = ready(tmp_path)
    assert (len(data.train_set), len(data.val_set), len(data.test_set)) == (10, 10, 10) and not data.notices


def test_pictures_of_one_colour_are_no_copies(tmp_path):
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "PNG")
    for split, labels in (("train", ["a", "b"]), ("test", ["b", "b"])):
        rows = [{"bytes": buffer.getvalue() + bytes(n), "path": f"{n}.png"} for n in (len(split), len(labels))]
        parquet.write_table(pa.table({"image": rows, "label": labels}), tmp_path / f"{split}.parquet")
    assert not ready(tmp_path).notices


def test_a_patient_in_two_files(tmp_path):
    write(tmp_path, "train", range(8), patient=[0, 0, 1, 1, 2, 2, 3, 3])
    write(tmp_path, "val", range(20, 24), patient=[3.0, 3.0, 9.0, 9.0])
    write(tmp_path, "test", range(30, 32), patient=[7, 8])
    assert ready(tmp_path).notices == [
        f"{tmp_path}/train.parquet has the column patient, 1 value of which has training and validation images, such "
        "as '3'; write all rows of one to the files of one split"
    ]
    assert not ready(tmp_path, "test").notices


def test_a_lesion_in_two_splits_of_a_column_or_that_are_drawn(tmp_path):
    lesions = [f"HAM_{number // 4}" for number in range(40)]
    write(tmp_path, "train", range(40), lesion_id=lesions, subset=["train"] * 30 + ["test"] * 10)
    said = [text.split(", such")[0] for text in ready(tmp_path, split_column="subset", val_fraction=0.0).notices]
    column = f"{tmp_path}/train.parquet has the column lesion_id,"
    assert said == [f"{column} 1 value of which has training and test images"]
    write(tmp_path, "train", range(40), lesion_id=lesions)
    data = ready(tmp_path)
    held = {lesions[number] for number in data.val_set.indices} & {lesions[number] for number in data.train_set.indices}
    assert [text.split(", such")[0] for text in data.notices] == [
        f"{column} {len(held)} values of which have training and validation images"
    ]


@pytest.mark.parametrize("column", ["patient", "lesion_id", "localization"])
def test_columns_that_group_nothing(tmp_path, column):
    write(tmp_path, "train", range(20), **{column: [f"p{number}" for number in range(20)]})
    assert not ready(tmp_path).notices


def test_more_copies_than_are_looked_at(tmp_path):
    names = [f"{first}{second}.jpg" for first in "abcdefgh" for second in "vwxyz"]  # no counts
    write(tmp_path, "train", range(40), names)
    write(tmp_path, "test", range(40), names, quality=40)
    with pytest.raises(InputError, match=r"they have one name and look alike, as may 40 pairs among 40 "):
        ready(tmp_path)
