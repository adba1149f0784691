"""The points of a figure: what lies on which axis, what is averaged, and in which order it is joined."""

from typing import Any

import pytest

from vit_lightning.commands.sweep.figure import _axis_label, _line, draw, draw_groups, missing_metric
from vit_lightning.commands.sweep.plan import Cell, Figure, SweepPlan
from vit_lightning.commands.sweep.results import SweepRow
from vit_lightning.commands.sweep.task_scores import NetRow, Stat
from vit_lightning.commands.sweep.task_table import TaskTable
from vit_lightning.errors import InputError


class Axes:
    def __init__(self) -> None:
        self.drawn: list[tuple[tuple, dict[str, Any]]] = []

    def errorbar(self, *points: Any, **look: Any) -> None:
        self.drawn.append((points, look))


AXES = {"rate": ["1e-2", "1e-3", "0.1"], "net": ["B/16", "S/16"], "seed": ["0", "1"]}


def rows() -> list[SweepRow]:
    """A row per combination of labels, whose score is ten times the rate, more for the second seed."""
    return [
        SweepRow(
            Cell("p", {"rate": rate, "net": net, "seed": seed}, []),
            {
                "val/top1": 10 * float(rate) + float(seed) + 5 * (net == "S/16"),
                "cost/x": 100 * float(rate) + 2 * int(seed),
            },
            [],
            {},
        )
        for rate in AXES["rate"]
        for net in AXES["net"]
        for seed in AXES["seed"]
    ]


def plan(figure: Figure, **axes: list[str]) -> SweepPlan:
    return SweepPlan("p", AXES | axes, [], [figure], frozenset())


HALF = 0.5**0.5
"""The deviation of two values that differ by one."""


def test_a_point_is_the_mean_over_the_seeds_and_points_are_joined_by_their_number():
    figure, axes = Figure("rate", "val/top1", line="net", spread="seed"), Axes()
    mine = [row for row in rows() if row.cell.labels["net"] == "S/16"]
    _line(axes, figure, plan(figure), mine, 8, "S/16")
    (((x, y), look),) = axes.drawn
    assert x == (0.001, 0.01, 0.1)
    assert y == pytest.approx((5.51, 5.6, 6.5))
    assert look["yerr"] == pytest.approx((HALF,) * 3) and look["xerr"] is None
    assert (look["label"], look["linestyle"], look["marker"], look["color"]) == ("S/16", "-", "s", "#d55e00")


def test_a_metric_on_the_x_axis_has_its_own_deviation():
    figure, axes = Figure("cost/x", "val/top1", line="net", spread="seed"), Axes()
    mine = [row for row in rows() if row.cell.labels["net"] == "B/16"]
    _line(axes, figure, plan(figure), mine, 0, None)
    (((x, y), look),) = axes.drawn
    assert x == pytest.approx((1.1, 2.0, 11.0)) and y == pytest.approx((0.51, 0.6, 1.5))
    assert look["xerr"] == pytest.approx((2 * HALF,) * 3) and look["yerr"] == pytest.approx((HALF,) * 3)


def test_labels_that_are_no_numbers_stand_in_the_plan_s_order_and_are_not_joined():
    figure, axes = Figure("rate", "val/top1", spread="seed"), Axes()
    named = [
        SweepRow(Cell("p", {"rate": rate, "seed": "0"}, []), {"val/top1": value}, [], {})
        for rate, value in (("small", 2.0), ("large", 1.0), ("1", 3.0))
    ]
    _line(
        axes,
        figure,
        SweepPlan("p", {"rate": ["small", "large", "1"], "seed": ["0"]}, [], [], frozenset()),
        named,
        0,
        None,
    )
    (((x, y), look),) = axes.drawn
    assert (x, y, look["linestyle"], look["yerr"]) == (("small", "large", "1"), (2.0, 1.0, 3.0), "none", None)


def test_a_row_without_the_metric_is_no_point():
    figure, axes = Figure("rate", "val/none"), Axes()
    _line(axes, figure, plan(figure), rows(), 0, None)
    assert axes.drawn == []


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("test/top1", "test top-1 accuracy"),
        ("best val/loss", "best validation loss"),
        ("train/loss", "training loss"),
        ("cost/exaflops", "training compute, exaFLOPs"),
        ("perf/mfu", "share of the device's peak (MFU)"),
        ("model.optim.lr", "learning rate"),
        ("data.fraction", "share of the training images"),
        ("data.batch_size", "batch size per device"),
        ("rate", "rate"),
    ],
)
def test_axes_are_labelled_in_words(name, label):
    assert _axis_label(name) == label


def test_what_nobody_logged_is_named_x_or_y():
    for figure, said in (
        (Figure("rate", "val/top2"), "no run has logged val/top2; did you mean val/top1?"),
        (Figure("cost/y", "val/top1"), "no run has logged cost/y; did you mean cost/x?"),
    ):
        assert missing_metric(figure, plan(figure), rows()) == f"figure of plan p: {said}"
    assert missing_metric(Figure("rate", "val/top1"), plan(Figure("rate", "val/top1")), rows()) is None


def test_a_drawing_has_a_line_per_label_with_its_scales_and_shares(tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib.figure")
    kept, whole = [], matplotlib.Figure.savefig
    monkeypatch.setattr(
        matplotlib.Figure, "savefig", lambda self, *words, **facts: kept.append(self) or whole(self, *words, **facts)
    )
    figure = Figure("rate", "val/top1", line="net", spread="seed", xscale="log", title="rates")
    draw(figure, plan(figure), rows(), tmp_path / "x.svg")
    (axes,) = kept[0].get_axes()
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_title()) == ("log", "linear", "rates")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == AXES["net"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == AXES["rate"]
    assert axes.get_xticks().tolist() == [0.01, 0.001, 0.1]
    assert "%" in axes.yaxis.get_major_formatter()(0.5)
    before = (tmp_path / "x.svg").read_bytes()
    draw(figure, plan(figure), rows(), tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_bytes() == before
    with pytest.raises(InputError, match="no run has logged val/top2"):
        draw(Figure("rate", "val/top2"), plan(figure), rows(), tmp_path / "x.svg")


def test_published_scores_stand_beside_ours_over_the_same_compute(tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib.figure")
    kept, whole = [], matplotlib.Figure.savefig
    monkeypatch.setattr(
        matplotlib.Figure, "savefig", lambda self, *words, **facts: kept.append(self) or whole(self, *words, **facts)
    )
    figure = Figure("cost/exaflops", "test/top1", xscale="log", published="compute/cifar10")
    ours = [SweepRow(Cell("p", {}, []), {"cost/exaflops": 0.001, "test/top1": 0.78}, [], {})]
    draw(figure, SweepPlan("p", {}, [], [figure], frozenset()), ours, tmp_path / "x.svg")
    (axes,) = kept[0].get_axes()
    drawn = {line.get_label(): line.get_xydata().tolist() for line in axes.get_lines() if line.get_label()[0] != "_"}
    assert [55, 0.9861] in drawn["ViT (arXiv 2010.11929, table 6)"]
    assert [text.get_text() for text in axes.get_legend().get_texts()].count("ours") == 1
    assert axes.get_xlim()[0] < 0.001 and axes.get_xlim()[1] > 4262


@pytest.fixture
def drawings(monkeypatch):
    """The drawings that are saved, as they are."""
    matplotlib = pytest.importorskip("matplotlib.figure")
    kept = []
    monkeypatch.setattr(matplotlib.Figure, "savefig", lambda self, file, **facts: kept.append(self))
    return kept


def test_a_net_without_one_average_has_bars_at_the_others(tmp_path, drawings):
    table = TaskTable("task", "test/top1", ["a", "b"], groups={"one": ["a"], "two": ["b"]})
    nets = [
        NetRow("ours", None, {"one": Stat(0.5), "two": Stat(0.25, 0.125)}),
        NetRow("theirs", "their table", {"two": Stat(0.75)}),
        NetRow("none", None, {"a": Stat(0.875)}),
    ]
    said = draw_groups(SweepPlan("p", {}, [], [], frozenset(), table=table), nets, tmp_path / "x.svg")
    assert said == f"figure   {tmp_path / 'x.svg'}"
    (axes,) = drawings[0].get_axes()
    bars = {(round(bar.get_x() + bar.get_width() / 2, 3), bar.get_height()) for bar in axes.patches}
    assert bars == {(-0.2, 0.5), (0.8, 0.25), (1.2, 0.75)}
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ours", "theirs (their table)"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["one", "two"]
