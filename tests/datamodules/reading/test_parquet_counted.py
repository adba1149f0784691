"""Pictures of a camera that stands still, counted anew in each file, are no copies of each other."""

import io

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from datamodules.parquet import Parquet
from datamodules.reading.parquet_parts import _counted_names
from vit_lightning.errors import InputError


def jig(seed: int) -> bytes:
    """One scene with a little noise of its own."""
    scene = np.linspace(0, 230, 32 * 32 * 3).reshape(32, 32, 3)
    noisy = scene + np.random.default_rng(seed).integers(0, 5, scene.shape)
    buffer = io.BytesIO()
    Image.fromarray(noisy.astype(np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def fit(place, **splits: list[str]) -> list[str]:
    for place_of, (split, names) in enumerate(splits.items()):
        rows = [{"bytes": jig(100 * place_of + row), "path": name} for row, name in enumerate(names)]
        labels = ["ab"[row % 2] for row in range(len(names))]
        parquet.write_table(pa.table({"image": rows, "label": labels}), place / f"{split}.parquet")
    data = Parquet(root=place, image_size=8, num_workers=0)
    data.setup("fit")
    return data.notices


@pytest.mark.parametrize("form", ["{:03d}.png", "good/{}.png", "frame_{:04d}_left.png"])
@pytest.mark.parametrize("numbers", [range(12), range(1, 13), range(0, 120, 10)])
def test_names_counted_anew_are_said_alone(tmp_path, form, numbers):
    (said,) = fit(tmp_path, train=[form.format(n) for n in numbers], test=[form.format(n) for n in numbers[:6]])
    assert said.startswith("test.parquet:0 is a test image and train.parquet:0 one that trains: they have one name")
    assert said.endswith(
        "as may 6 pairs among 6 test images; leave the rows out of one of the files, unless each counts its own images"
    )


@pytest.mark.parametrize("names", [[f"IMG_{n}.png" for n in range(2093, 2103)], [f"{n:08x}ab.png" for n in range(10)]])
def test_names_of_their_own_are_an_error_with_a_way_out(tmp_path, names):
    names = [name.replace("0000000", "deadbee") for name in names]
    with pytest.raises(InputError, match="if they are other pictures, give them other names in one of the files"):
        fit(tmp_path, train=names, test=names[2:7])
    assert not fit(tmp_path, train=names, test=[f"t_{name}" for name in names[2:7]])


@pytest.mark.parametrize(
    ("numbers", "are_counted"),
    [
        ([0, 1, 2, 3], True),
        ([1, 2, 4], True),
        ([0, 10, 20], True),
        ([5, 6, 7, 8], False),
        ([0, 40, 97, 231], False),
        ([2093, 2094], False),
    ],
)
def test_what_counts_images(numbers, are_counted):
    names = {f"a/{number:05d}.jpg" for number in numbers}
    assert _counted_names({*names, "b/cat.jpg"}) == (names if are_counted else set())
