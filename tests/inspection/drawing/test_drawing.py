"""Figures become files, whatever names stand on them, and show what they are given."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.errors import InputError
from vit_lightning.inspection.ablation import Lost
from vit_lightning.inspection.artefacts import NormHistogram
from vit_lightning.inspection.drawing import charts, photographs, style
from vit_lightning.inspection.drawing.photographs import Photograph, as_picture, stretched

HOSTILE = ["$\\frac{1}{", "<b>&amp;\x07</b>", "鳥.jpg", "x\udcff.jpg", "n" * 400]


def photograph(name="1.jpg", grey=False, size=(24, 36)):
    rng = np.random.default_rng(0)
    maps = {name: rng.random((4, 6)) for name in ("rollout", "norms", "norms_with_registers", "gradient_relevance")}
    maps |= {
        "gradient_free_relevance": rng.normal(size=(4, 6)),
        "heads_0": rng.random((3, 4, 6)),
        "pca": rng.random((4, 6, 3)),
    }
    return Photograph(name, rng.random(size if grey else (*size, 3)), maps, name)


def drawn(figure, place):
    paths = style.save(figure, place, ("png", "svg"))
    ElementTree.parse(paths[1])
    with Image.open(paths[0]) as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_can_stand_on_a_figure(tmp_path, name):
    shown = [photograph(name)]
    picture = drawn(photographs.relevances(shown), tmp_path / "a")
    assert picture.std() > 10 and not list(tmp_path.glob(".*"))
    places = np.random.default_rng(0).random((6, 2))
    drawn(charts.embedding(places, "pca", np.array([0, 0, 1, 1, -1, 5]), [name, "b"]), tmp_path / "b")


@pytest.mark.parametrize("count", [1, 2, 5])
def test_sheets_of_any_number_of_images(tmp_path, count):
    shown = [photograph(str(number), grey=number % 2 == 1) for number in range(count)]
    for figure in (
        photographs.rollouts(shown),
        photographs.components(shown, [0.5, 0.2, 0.1]),
        photographs.remedies(shown, 0.4),
        photographs.heads(shown[0], 0, [0, 2], "the class token"),
    ):
        assert drawn(figure, tmp_path / "a").std() > 5


def test_the_same_figure_gives_the_same_bytes(tmp_path):
    files = []
    for name in "ab":
        figure = charts.distances(torch.rand(3, 2, generator=torch.Generator().manual_seed(0)), 10.0, 5)
        files.append([path.read_bytes() for path in style.save(figure, tmp_path / name, ("png", "svg"))])
    assert files[0] == files[1]


def test_charts_of_small_and_large_nets(tmp_path):
    drawn(charts.positions(torch.rand(40, 3, 40, 3), "learned"), tmp_path / "a")
    drawn(charts.positions(torch.rand(1, 1, 1, 1), "learned"), tmp_path / "a")
    drawn(charts.filters(torch.randn(3, 4, 4, 2), torch.ones(3) / 3, "few"), tmp_path / "a")
    lost = Lost(torch.rand(2, 3), None)
    drawn(charts.lost_heads({"mean": lost, "shuffle": lost}, 4), tmp_path / "a")
    line = Lost(torch.zeros(2), None)
    drawn(charts.lost_tokens({"mean": {"patches": line}, "shuffle": {"patches": line}}, 4), tmp_path / "a")
    histogram = NormHistogram()
    histogram.add(torch.rand(2, 3, 9) + 1)
    drawn(charts.norms(histogram.report(), 3), tmp_path / "a")
    drawn(charts.embedding(np.random.default_rng(0).random((5, 2)), "tsne", None, []), tmp_path / "a")


def test_a_map_is_as_large_as_its_image_and_one_patch_does_not_hide_the_others():
    values = np.arange(64.0).reshape(8, 8)
    values[0, 0] = 1e6
    large = stretched(values, (32, 64, 3))
    assert large.shape == (32, 64) and large.min() >= 0 and large.max() <= 1 and large[-8:].mean() > 0.8
    assert stretched(np.zeros((2, 2)), (8, 8)).max() == 0


@pytest.mark.parametrize(("channels", "shape"), [(1, (4, 5)), (2, (4, 5)), (3, (4, 5, 3)), (4, (4, 5, 3)), (7, (4, 5))])
def test_images_of_any_channels_are_pictures(channels, shape):
    bytes_ = torch.full((channels, 4, 5), 255, dtype=torch.uint8)
    assert as_picture(bytes_).shape == shape and as_picture(bytes_).max() == 1
    assert as_picture(torch.full((channels, 4, 5), 0.5)).max() == 0.5


def test_without_matplotlib_one_sentence_names_the_extra(monkeypatch):
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r'figures need matplotlib: pip install "vit-lightning\[figures\]"'):
        charts.distances(torch.rand(1, 1), 1.0, 1)


def test_pixels_are_those_of_the_file(tmp_path):
    figure = charts.distances(torch.rand(3, 2), 10.0, 5)
    np.testing.assert_array_equal(style.pixels(figure), drawn(figure, tmp_path / "a"))
