"""The pictures of a page, and the sentences in their place."""

import base64
from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from tests.commands.report.conftest import png
from vit_lightning.commands.report import examples, images
from vit_lightning.commands.report.collect import collect
from vit_lightning.commands.report.pictures import pictures_of

pytest.importorskip("matplotlib")


@pytest.mark.parametrize(("side", "kind"), [(8, "png"), (128, "png"), (129, "webp"), (4000, "webp")])
def test_small_pictures_keep_their_pixels_and_large_ones_are_shrunk(side, kind):
    source = images.shrunk(Image.new("RGB", (side, side // 2), "teal"), 1000)
    assert source.startswith(f"data:image/{kind};base64,") and len(source) < 20_000


def test_figures_of_inspect_are_taken_where_it_has_drawn_them(make_run):
    folder = make_run()
    (folder / "inspection").mkdir()
    for name in ("distance", "rollout", "unknown"):
        (folder / "inspection" / f"{name}.png").write_bytes(png())
    found = pictures_of(collect(folder), with_images=False)
    assert [one.title for one in found.net] == ["Mean attention distance of every head", "Attention rollout"]


def test_a_damaged_figure_is_said_in_a_line(make_run):
    folder = make_run()
    (folder / "inspection").mkdir()
    (folder / "inspection" / "distance.png").write_bytes(png()[:60])
    found = pictures_of(collect(folder), with_images=False)
    assert found.net == [] and found.notes["net"].startswith("They cannot be shown: ValueError: a picture is damaged")


def test_a_net_without_patches_is_said_in_a_line(make_run, monkeypatch):
    monkeypatch.setattr(examples, "net_of", lambda run: SimpleNamespace(net=object()))
    found = pictures_of(collect(make_run(data__class_path="no.such.Data")), with_images=True)
    assert found.notes["net"] == "The net is no ViT: it has no patches to look at."
    assert found.notes["examples"].startswith("They cannot be shown: ") and "no.such.Data" in found.notes["examples"]


def test_the_picture_of_many_classes_is_that_of_the_test(make_run):
    folder = make_run()
    (folder / "test.confusion.png").write_bytes(png(200))
    found = pictures_of(collect(folder), with_images=False)
    assert found.confusion.source.startswith("data:image/webp") and "3 classes" in found.confusion.alt


@pytest.mark.parametrize(
    ("size", "most", "shown"),
    [((8, 4), 50, (48, 24)), ((8, 4), 15, (8, 4)), ((129, 10), 400, (129, 10)), ((4000, 1), 100, (100, 1))],
)
def test_a_picture_is_enlarged_by_whole_pixels_and_keeps_a_pixel_of_a_side(size, most, shown):
    content = base64.b64decode(images.shrunk(Image.new("RGB", size), most).partition(",")[2])
    assert Image.open(BytesIO(content)).size == shown


def test_numbers_are_grey_levels_from_zero_to_one():
    source = images.of_array([[0.0, 1.0], [0.5, float("nan")]], 2)
    pixels = np.asarray(Image.open(BytesIO(base64.b64decode(source.partition(",")[2]))))
    assert pixels[..., 0].tolist() == [[0, 255], [128, 0]]
