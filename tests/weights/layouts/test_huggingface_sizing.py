"""transformers' image processor brings images to size as our evaluation does, whole or cropped."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.augment import Augment
from vit_lightning.augment.per_image import eval_transform
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights.layouts import huggingface
from vit_lightning.weights.report import Report

FIELDS = {"width": 16, "depth": 1, "heads": 2, "mlp": 32}


def pixels(height: int, width: int) -> torch.Tensor:
    """A smooth picture uint8 `c y x`, on which a row or column more shifts values a little."""
    y, x = (2 * np.pi * place / side for place, side in zip(np.mgrid[:height, :width], (height, width), strict=True))
    waves = [np.sin(y + x), np.cos(y), np.sin(x - y)]
    return torch.from_numpy(np.stack([np.round(127 + 120 * wave) for wave in waves]).astype(np.uint8))


@pytest.mark.parametrize(
    ("evaluation", "kind"),
    [
        (Augment(), "ViTImageProcessor"),
        (Augment(evaluation="center"), "BitImageProcessor"),
        (Augment(evaluation="center", zoom=1.0), "BitImageProcessor"),
        (Augment(evaluation="center", zoom=1.33), "BitImageProcessor"),
    ],
)
@pytest.mark.parametrize("sides", [(64, 64), (120, 60), (50, 100), (24, 24)])
def test_the_processor_shows_what_evaluation_shows(tmp_path, evaluation, kind, sides):
    assert (apart(tmp_path, evaluation, kind, sides) < 3 / 255 / 0.5).all()


def test_a_longer_side_is_a_pixel_off_at_most(tmp_path):
    """90 pixels here, and 89 there, of which the middle begins a pixel earlier; the whole would be a quarter off."""
    off = apart(tmp_path, Augment(evaluation="center"), "BitImageProcessor", (96, 60))
    assert 0.01 < off.mean() < 2 * np.pi / 89


def apart(folder: Path, evaluation: Augment, kind: str, sides: tuple[int, int]) -> torch.Tensor:
    """How far transformers' pixels are from ours."""
    transformers = pytest.importorskip("transformers")
    net = build(NetConfig("Ti/8", **FIELDS), 48, 2)
    report = Report("", "", mean=(0.2, 0.3, 0.4), std=(0.5, 0.6, 0.7), evaluation=evaluation)
    huggingface.write(net, report, folder / "x")
    assert json.loads((folder / "x" / "preprocessor_config.json").read_text())["image_processor_type"] == kind
    image = pixels(*sides)
    picture = Image.fromarray(image.permute(1, 2, 0).numpy())
    theirs = transformers.AutoImageProcessor.from_pretrained(folder / "x")([picture], return_tensors="pt")
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in ([0.2, 0.3, 0.4], [0.5, 0.6, 0.7]))
    ours = (eval_transform(evaluation, (48, 48))(image) / 255 - mean) / std
    return (theirs["pixel_values"][0] - ours).abs()


def test_a_crop_that_is_not_square_is_refused(tmp_path):
    net = build(NetConfig("Ti/8", **FIELDS), (32, 16), 2)
    with pytest.raises(InputError, match=r"transformers has no crop of 32x16 pixels .*: convert to timm or checkpoint"):
        huggingface.write(net, Report("", "", evaluation=Augment(evaluation="center")), tmp_path / "x")
    huggingface.write(net, Report("", ""), tmp_path / "x")
