"""Features in the making: whole images stay, a width is kept, and one process writes."""

import numpy as np
import pytest

from vit_lightning.callbacks import feature_files
from vit_lightning.callbacks.feature_files import FeaturePart
from vit_lightning.errors import InputError


def numbers(images: int) -> np.ndarray:
    return np.random.default_rng(0).random((images, 3), dtype=np.float32)


@pytest.mark.parametrize("cut", range(0, 37, 5))
def test_a_cut_image_is_dropped_and_no_other(tmp_path, cut):
    path = tmp_path / "f.part"
    part = FeaturePart(path)
    part.add(numbers(3))
    part.close()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - cut)
    whole = max(0, 3 - -(-cut // 12))
    part = FeaturePart(path)
    assert part.images == whole
    part.keep(whole)
    part.add(numbers(4)[whole:])
    part.finish(tmp_path / "f.npz", list("abcd"))
    assert np.array_equal(np.load(tmp_path / "f.npz")["features"], np.vstack([numbers(3)[:whole], numbers(4)[whole:]]))


def test_a_file_has_one_writer(tmp_path):
    part = FeaturePart(tmp_path / "f.part")
    with pytest.raises(InputError, match="another predict is writing"):
        FeaturePart(tmp_path / "f.part")
    part.close()
    assert not (tmp_path / "f.part").exists()


@pytest.mark.parametrize("images", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_every_image_keeps_its_name_however_many_are_written_at_once(tmp_path, monkeypatch, ending, images):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(feature_files, "ROWS_AT_ONCE", 2)
    part, path = FeaturePart(tmp_path / "f.part"), tmp_path / f"f.{ending}"
    part.add(numbers(images))
    part.finish(path, [f"{number}.png" for number in range(images + 1)])
    found = np.load(path) if ending == "npz" else parquet.read_table(path).to_pydict()
    names = found["keys" if ending == "npz" else "key"]
    assert list(names) == [f"{number}.png" for number in range(images)]
    assert np.array_equal(np.array(found["features"], np.float32), numbers(images))


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_features_of_many_blocks_keep_their_images_and_a_rest_is_dropped(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(feature_files, "ROWS_AT_ONCE", 2)
    path = tmp_path / "x.part"
    part = FeaturePart(path)
    assert (part.images, part.width) == (0, 0)
    part.add(np.arange(9.0).reshape(3, 3))
    part.close()
    with path.open("ab") as file:
        file.write(b"\0" * 7)  # a row that a stop has cut
    part = FeaturePart(path)
    assert (part.images, part.width) == (3, 3)
    part.keep(2)
    part.add(np.arange(90.0, 99.0).reshape(3, 3))
    part.finish(tmp_path / f"f.{ending}", ["a", "b", "c\udcff", "d", "e", "left out"])
    expected = [[0, 1, 2], [3, 4, 5], [90, 91, 92], [93, 94, 95], [96, 97, 98]]
    if ending == "npz":
        with np.load(tmp_path / "f.npz") as found:
            keys, rows = found["keys"].tolist(), found["features"].tolist()
    else:
        table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "f.parquet").to_pydict()
        keys, rows = table["key"], table["features"]
    assert rows == expected and keys == ["a", "b", "c\udcff" if ending == "npz" else "c\\xff", "d", "e"]
    assert [one.name for one in tmp_path.iterdir()] == [f"f.{ending}"]


def test_what_keeps_nothing_begins_anew_with_any_width_or_leaves_no_file(tmp_path):
    path = tmp_path / "x.part"
    for width in (3, 2):
        part = FeaturePart(path)
        part.keep(0)
        part.add(np.ones((1, width)))
        assert (part.width, part.images) == (width, 1)
        part.close()
    part = FeaturePart(path)
    part.keep(0)
    part.close()
    assert not path.exists()
