"""Curves as SVG."""

import base64
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.commands.report.conftest import write_csv
from vit_lightning.commands.report.collect import METRICS, collect
from vit_lightning.commands.report.curves import MOST_POINTS, THEME, draw_run, draw_runs, panels, thinned

pytest.importorskip("matplotlib")


def test_a_long_line_keeps_its_mean_and_its_end():
    points = [(step, float(step)) for step in range(10_001)]
    found = thinned(points)
    assert len(found) == MOST_POINTS and found[-1] == points[-1]
    assert np.mean([value for _, value in found[:-1]]) == pytest.approx(5000, rel=0.01)
    assert [step for step, _ in found] == sorted({step for step, _ in found})
    assert thinned(points[:MOST_POINTS]) == points[:MOST_POINTS]


def test_what_is_left_of_a_line_are_means_of_equal_stretches_before_its_end():
    assert thinned([(step, step * 10.0) for step in (0, 2, 4, 6, 100)], 3) == [(1, 10.0), (5, 50.0), (100, 1000.0)]


def test_metrics_stand_with_those_of_their_unit(make_run):
    run = collect(make_run())
    run.curves |= {"val/top5": [(1, 0.9)], "val/real/loss": [(1, 0.5)], "perf/mfu": [(1, 0.4)], "train/odd": [(1, 3.0)]}
    found = {panel.title: panel.metrics for panel in panels([run])}
    assert found["Loss"] == ("train/loss", "val/loss", "val/real/loss")
    assert found["Validation scores"] == ("val/top1", "val/top5")
    assert found["Share of the device's peak (MFU)"] == ("perf/mfu",)
    assert "train/odd" not in {metric for metrics in found.values() for metric in metrics}


def test_a_figure_is_svg_whose_colours_follow_the_theme(make_run):
    runs = [collect(make_run(f"pets/{number}")) for number in range(2)]
    pictures = draw_runs(runs, ["_a < b", "$c$"])
    head, _, content = pictures[0].source.partition(",")
    text = base64.b64decode(content).decode()
    assert head == "data:image/svg+xml;base64" and not any(colour in text for colour in THEME)
    assert "@media (prefers-color-scheme:dark)" in text and "stroke: var(--a)" in text and "stroke: var(--b)" in text
    assert text.count("--ink:") == 2
    words = " ".join(ElementTree.fromstring(text).itertext())
    assert "_a < b" in words and "$c$" in words and "optimiser step" in words
    assert pictures[0].title == "Training loss"


def test_runs_beyond_the_colours_have_other_dashes(make_run):
    runs = [collect(make_run(f"pets/{number}")) for number in range(8)]
    text = base64.b64decode(draw_runs(runs, [run.name for run in runs])[0].source.partition(",")[2]).decode()
    assert text.count("stroke-dasharray") >= 2


def test_many_runs_have_one_small_figure(make_run):
    run = collect(make_run())
    run.curves = {"train/loss": [(step, 1 / (step + 1)) for step in range(2000)]}
    names = [f"run <{number}>" for number in range(100)]
    (picture,) = draw_runs([run] * 100, names)
    text = base64.b64decode(picture.source.partition(",")[2]).decode()
    assert len(text) < 300_000 and "and 84 more" in text and "run &lt;15&gt;" in text and "run &lt;16&gt;" not in text
    assert picture.alt.endswith("; and 92 more lines.")


def test_what_is_too_large_to_draw_is_no_point(make_run):
    folder = make_run()
    rows = [[1e308, 9e99, 0], [-1e308, -9e99, 10**15], ["nan", 5e-324, 10**16]]
    write_csv(folder / METRICS, [["train/loss", "lr", "step"], *rows])
    (picture,) = draw_runs([collect(folder)], ["run"])
    assert picture.title == "Learning rate"


@pytest.mark.parametrize("steps", [(2,), (1, 2), (0, 1, 2)])
def test_ticks_of_a_short_run_are_different_whole_steps(make_run, steps):
    run = collect(make_run())
    run.curves = {"val/top1": [(step, 0.5 + step / 10) for step in steps]}
    (picture,) = draw_run(run)
    drawn = ElementTree.fromstring(base64.b64decode(picture.source.partition(",")[2]))
    ticks = [comment.strip() for comment in _texts(drawn) if comment.strip().isdigit()]
    assert len(set(ticks)) == len(ticks) and {str(step + 1) for step in steps} <= set(ticks)


def _texts(drawn: ElementTree.Element) -> list[str]:
    return [text for text in drawn.itertext() if text.strip()]


def test_curves_of_a_further_set_have_its_name(make_run):
    run = collect(make_run())
    run.curves = {name: [(1, 0.5)] for name in ("train/loss", "val/loss", "val/night/loss", "val/real/loss")}
    (picture,) = draw_run(run)
    words = " ".join(ElementTree.fromstring(base64.b64decode(picture.source.partition(",")[2])).itertext())
    for name in ("validation loss", "validation on night loss", "validation on ReaL labels loss"):
        assert name in words
