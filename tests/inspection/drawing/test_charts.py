"""What stands on a chart, read from its marks, not from its pixels."""

import numpy as np
import pytest
import torch

from vit_lightning.inspection.ablation import Lost
from vit_lightning.inspection.artefacts import LEVELS, NormReport
from vit_lightning.inspection.drawing import charts

BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"


def note(figure) -> str:
    return figure._supxlabel.get_text()


def legend(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_distances_have_a_point_per_head_and_a_line_of_their_means():
    found = torch.tensor([[1.0, 5.0, 6.0], [2.0, 8.0, 20.0]])  # 2 layers, 3 heads
    figure = charts.distances(found, 12.345, 1500)
    (axes,) = figure.axes
    assert [points.get_offsets().tolist() for points in axes.collections] == [
        [[0, 1], [1, 2]],
        [[0, 5], [1, 8]],
        [[0, 6], [1, 20]],
    ]
    means, uniform = axes.lines
    assert means.get_ydata().tolist() == [4.0, 10.0] and list(means.get_xdata()) == [0, 1]
    assert list(uniform.get_ydata()) == [12.345, 12.345]
    assert legend(axes) == ["mean of the heads", "uniform attention, 12.3 px"]
    assert note(figure) == "a point is a head; mean of 1,500 images" and axes.get_ylim()[0] == 0


@pytest.mark.parametrize(
    ("size", "rows", "columns", "said"),
    [
        ((2, 3), [0, 1], [0, 1, 2], "learned; 2 x 3 places"),
        ((16, 1), list(range(16)), [0], "learned; 16 x 1 places"),
        ((17, 5), list(range(0, 17, 2)), [0, 2, 4], "learned; every 2. place of 17 x 5"),
        ((3, 33), [0], list(range(0, 33, 3)), "learned; every 3. place of 3 x 33"),
    ],
)
def test_positions_have_a_tile_per_place_and_of_large_grids_some(size, rows, columns, said):
    similarity = torch.rand(*size, *size, generator=torch.Generator().manual_seed(0))
    figure = charts.positions(similarity, "learned")
    tiles = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    expected = [similarity[y, x].numpy() for y in rows for x in columns]
    assert len(tiles) == len(expected) and note(figure) == said
    for axes, wanted in zip(tiles, expected, strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), wanted)
        assert axes.images[0].get_clim() == (-1, 1)
    assert [axes.get_ylabel() for axes in tiles[:: len(columns)]] == [str(y) for y in rows]
    assert [axes.get_xlabel() for axes in tiles[-len(columns) :]] == [str(x) for x in columns]
    assert sum(bool(axes.get_ylabel()) for axes in tiles) == len(rows)
    assert sum(bool(axes.get_xlabel()) for axes in tiles) == len(columns)


def test_filters_stand_seven_in_a_row_with_their_shares():
    tiles = torch.randn(9, 4, 4, 3, generator=torch.Generator().manual_seed(0))
    shares = torch.tensor([0.4, 0.256, *[0.02] * 7])
    axes = charts.filters(tiles, shares, "said").axes
    assert len(axes) == 14 and [bool(each.images) for each in axes] == [True] * 9 + [False] * 5
    titles = [each.get_title() for each in axes]
    assert titles[:3] == ["1: 40.0 %", "2: 25.6 %", "3: 2.0 %"] and titles[9:] == [""] * 5
    np.testing.assert_allclose(axes[1].images[0].get_array(), charts.coloured(tiles[1]), rtol=1e-6)
    assert len(charts.filters(tiles[:3], shares, "said").axes) == 3


def test_a_filter_is_grey_where_it_is_0_and_its_largest_entry_ends_the_scale():
    tile = torch.zeros(1, 2, 3)
    tile[0, 0] = torch.tensor([4.0, -2.0, 0.0])
    np.testing.assert_allclose(charts.coloured(tile), [[[1.0, 0.25, 0.5], [0.5, 0.5, 0.5]]])
    two = torch.tensor([[[3.0, -1.0], [-4.0, 0.0]]])  # two channels: means 1 and -2
    np.testing.assert_allclose(charts.coloured(two), [[0.75, 0.0]])
    assert (charts.coloured(torch.zeros(2, 2, 1)) == 0.5).all()


def test_norms_have_a_line_per_quantile_and_the_limit_at_the_last_block():
    quantiles = torch.arange(1.0, 1 + 3 * len(LEVELS)).reshape(3, -1)  # 1 to 6, 7 to 12, 13 to 18
    report = NormReport(quantiles, 32.0, 0.0125, torch.tensor([0.0, 0.0, 0.0125]), 7.891)
    figure = charts.norms(report, 1200)
    (axes,) = figure.axes
    median, most, limit = axes.lines
    assert median.get_ydata().tolist() == [3, 9, 15] and most.get_ydata().tolist() == [6, 12, 18]
    assert list(limit.get_xdata()) == [2] and limit.get_ydata() == [32.0]
    wide, narrow = (set(map(tuple, band.get_paths()[0].vertices.tolist())) for band in axes.collections)
    assert wide == {(x, float(y)) for x, pair in enumerate([(1, 5), (7, 11), (13, 17)]) for y in pair}
    assert narrow == {(x, float(y)) for x, pair in enumerate([(2, 4), (8, 10), (14, 16)]) for y in pair}
    assert note(figure) == (
        "1.25 % of the patches of 1,200 images are artefacts; the largest norm is 7.89 x the median"
    )
    assert legend(axes) == ["5 to 95 %", "25 to 75 %", "median", "99.9 %", "artefacts lie above"]
    assert axes.get_yscale() == "log"


def test_both_replacements_of_heads_share_one_scale():
    one, other = torch.tensor([[0.1, 0.3, 0.2], [0.0, 0.1, 0.1]]), torch.tensor([[0.5, 0.1, 0.8], [0.2, 0.1, 0.4]])
    figure = charts.lost_heads({"mean": Lost(one, None), "shuffle": Lost(other, None)}, 1000)
    first, second = figure.axes[:2]
    for axes, values in ((first, one), (second, other)):
        np.testing.assert_array_equal(axes.images[0].get_array(), values)
        assert axes.images[0].get_clim() == pytest.approx((0, 0.8)) and axes.images[0].origin == "lower"
    assert [axes.get_title() for axes in (first, second)] == ["replaced by the mean", "of another image"]
    assert (first.get_xlabel(), first.get_ylabel()) == ("head", "layer")
    assert note(figure) == "mean of 1,000 images; 0: the features stay the same"
    nothing = charts.lost_heads({"mean": Lost(torch.zeros(2, 3), None)}, 4)
    assert nothing.axes[0].images[0].get_clim() == (0, 1)


def test_a_line_per_kind_of_token_and_replacement():
    lost = {
        by: {
            kind: Lost(torch.tensor([at, at + 0.1, at + 0.2]), None)
            for kind, at in (("class token", first), ("patches", first + 1))
        }
        for by, first in (("mean", 1.0), ("shuffle", 3.0))
    }
    (axes,) = charts.lost_tokens(lost, 4).axes
    assert [(line.get_label(), line.get_linestyle(), line.get_color()) for line in axes.lines] == [
        ("class token, replaced by the mean", "-", BLUE),
        ("patches, replaced by the mean", "-", ORANGE),
        ("class token, of another image", "--", BLUE),
        ("patches, of another image", "--", ORANGE),
    ]
    assert [line.get_ydata()[0] for line in axes.lines] == [1, 2, 3, 4] and axes.get_ylim()[0] == 0
    assert axes.lines[3].get_ydata().tolist() == pytest.approx([4.0, 4.1, 4.2])


def test_classes_of_a_map_are_named_by_how_many_images_they_have():
    places = np.arange(16.0).reshape(8, 2)
    labels = np.array([2, 0, 2, 7, 2, 0, -1, 7])  # 2 three times, 0 and 7 twice each, one unknown
    figure = charts.embedding(places, "pca", labels, ["cat", "dog", "owl"])
    (axes,) = figure.axes
    assert [points.get_offsets().tolist() for points in axes.collections] == [
        places[chosen].tolist() for chosen in ([6], [0, 2, 4], [1, 5], [3, 7])
    ]
    assert legend(axes) == ["owl", "cat", "7"]  # a class without a name has its number
    assert note(figure) == "8 images" and (axes.get_xlabel(), axes.get_ylabel()) == ("component 1", "component 2")
    assert "PCA" in figure._suptitle.get_text() and axes.get_legend().get_title().get_text() == ""


@pytest.mark.parametrize("labels", [None, np.full(1200, -1)])
def test_a_map_without_classes_says_so(labels):
    figure = charts.embedding(np.zeros((1200, 2)), "tsne", labels, ["cat"])
    (axes,) = figure.axes
    assert note(figure) == "1,200 images, whose classes are not known" and axes.get_legend() is None
    assert len(axes.collections) == 1 and len(axes.collections[0].get_offsets()) == 1200 and axes.get_xlabel() == ""


@pytest.mark.parametrize(
    ("classes", "colours", "named", "more"), [(14, 14, 14, ""), (23, 20, 14, "and 9 more classes")]
)
def test_a_legend_names_the_first_classes_and_counts_the_others(classes, colours, named, more):
    labels = np.repeat(np.arange(classes), 2)
    figure = charts.embedding(np.zeros((len(labels), 2)), "umap", labels, [f"class {n}" for n in range(classes)])
    (axes,) = figure.axes
    assert legend(axes) == [f"class {n}" for n in range(14)]
    assert axes.get_legend().get_title().get_text() == more
    assert len({tuple(points.get_facecolor()[0]) for points in axes.collections[1:]}) == colours
