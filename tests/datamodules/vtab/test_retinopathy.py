import io

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.ndimage import gaussian_filter
from torchvision.io import decode_jpeg

from datamodules.vtab.retinopathy import RETINOPATHY, _radius, btgraham
from vit_lightning.data import images
from vit_lightning.data.images import BrokenImage


def eye(height: int, width: int, radius: float) -> torch.Tensor:
    """A disc of smooth random colours on black."""
    noise = np.random.default_rng(0).uniform(0, 255, (3, height, width))
    smooth = gaussian_filter(noise, (0, 4, 4))
    smooth = (smooth - smooth.min()) / (smooth.max() - smooth.min()) * 200 + 55
    y, x = np.ogrid[:height, :width]
    inside = (y - height / 2 + 0.5) ** 2 + (x - width / 2 + 0.5) ** 2 < radius**2
    return torch.from_numpy((smooth * inside).astype(np.uint8))


def test_formula_at_the_final_size():
    """With a radius of 300 nothing is resized, and what remains is four times the difference to the local average."""
    image = eye(620, 640, 300)
    found = btgraham(image).numpy()
    assert found.shape == (3, 540, 540)
    pixels = image.numpy().astype(float)
    blurred = np.round(gaussian_filter(pixels, (0, 10, 10), mode="mirror", truncate=3.0))
    expected = np.clip(4 * pixels - 4 * blurred + 128, 0, 255)
    y, x = np.ogrid[:620, :640]
    expected[:, (y - 310) ** 2 + (x - 320) ** 2 > 270**2] = 128
    difference = np.abs(found - expected[:, 40:580, 50:590])
    assert difference.max() <= 4  # the blur may round the other way
    assert (difference == 0).mean() > 0.999


@pytest.mark.parametrize(("sides", "radius"), [((900, 1000), 420), ((400, 500), 150)])
def test_every_eye_gets_the_same_size(sides, radius):
    shown = btgraham(eye(*sides, radius))
    assert shown.shape == (3, 540, 540)
    assert (shown[:, 0, 0] == 128).all()
    assert shown[:, 270].float().std() > 10


def test_a_wide_crop_of_an_eye_keeps_its_height():
    assert btgraham(eye(300, 620, 300)).shape == (3, 300, 540)


def test_black_images_are_taken_for_an_eye_of_their_height():
    assert (btgraham(torch.zeros(3, 100, 150, dtype=torch.uint8)) == 128).all()


def test_splits(publish):
    root = publish("retinopathy")
    held = {split: RETINOPATHY.open(root, split, True) for split in ("train", "validation", "test")}
    assert held["train"].keys == [f"{number}_{side}" for number in range(6) for side in ("left", "right")]
    assert held["validation"].keys == [f"{number}_left" for number in range(10, 22, 2)]
    assert held["test"].keys == [f"{number}_left" for number in range(11, 22, 2)]
    assert held["test"].labels.tolist() == [number % 5 for number in range(11, 22, 2)]


def test_results_are_kept_where_there_is_a_folder_for_them(publish):
    root = publish("retinopathy")
    (root / "btgraham-300").rmdir()
    with pytest.warns(UserWarning, match="create the folder .*btgraham-300"):
        held = RETINOPATHY.open(root, "train", True)
    before = sorted(root.rglob("*"))
    data, label = held[0]
    assert sorted(root.rglob("*")) == before
    assert decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8)).shape[0] == 3

    (root / "btgraham-300").mkdir()
    held = RETINOPATHY.open(root, "train", True)
    assert held[0] == (data, label)
    (root / "train" / "0_left.jpeg").unlink()
    assert held[0] == (data, label)
    assert [file.name for file in (root / "btgraham-300").iterdir()] == ["train_0_left.jpeg"]


def test_a_broken_photograph_is_named(publish):
    root = publish("retinopathy")
    (root / "train" / "0_right.jpeg").write_bytes(b"<html>")
    held = RETINOPATHY.open(root, "train", True)
    with pytest.raises(BrokenImage, match=r"train/0_right.jpeg"):
        held[1]


@pytest.mark.filterwarnings("ignore:every photograph is processed")
def test_kit_originals(kit):
    root = kit / "vtab-layouts" / "fake-tfds" / "diabetic_retinopathy_detection"
    held = {split: RETINOPATHY.open(root, split, True) for split in ("train", "validation", "test")}
    assert [len(part) for part in held.values()] == [12, 6, 6]
    assert set(np.concatenate([part.labels for part in held.values()])) <= set(range(5))
    for part in held.values():
        shown = images.load(part[0][0], name=part.keys[0])
        assert max(shown.shape[1:]) <= 540


@pytest.mark.parametrize(
    ("row", "radius"),
    [
        ([100] * 100 + [5] * 60 + [0] * 240, 80),  # 15 is more than a tenth of the mean 77.25, and less than a fifth
        ([100] * 100 + [2] * 60 + [0] * 240, 50),
        ([9] * 2 + [0] * 398, 1),
        ([9] + [0] * 399, 2.5),  # half of the height
        ([0] * 400, 2.5),
    ],
)
def test_the_bright_part_of_the_middle_row_is_an_eye_as_wide(row, radius):
    image = torch.full((3, 5, 400), 255, dtype=torch.uint8)
    image[:, 2] = torch.tensor(row, dtype=torch.uint8)
    assert _radius(image) == radius


@pytest.mark.filterwarnings("ignore:every photograph is processed")
def test_results_are_jpegs_of_quality_72(publish):
    """As TensorFlow Datasets keeps them."""
    data, _ = RETINOPATHY.open(publish("retinopathy"), "train", True)[0]
    expected = io.BytesIO()
    Image.new("RGB", (8, 8)).save(expected, "JPEG", quality=72)
    assert Image.open(io.BytesIO(data)).quantization == Image.open(expected).quantization
