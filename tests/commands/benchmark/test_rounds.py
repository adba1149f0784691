import pytest
import torch

from vit_lightning.commands.benchmark import rounds
from vit_lightning.commands.benchmark.results import as_json, comparisons, table
from vit_lightning.commands.benchmark.rounds import BenchmarkRow, BenchmarkTask, alternate, ratio


class Ticks:
    """A clock that steps move."""

    def __init__(self) -> None:
        self.now = 0.0

    def mark(self) -> float:
        return self.now

    def seconds(self, start: float, end: float) -> float:
        return end - start

    def settle(self, mark: float) -> None: ...


def contender(clock: Ticks, name: str, seconds: float, order: list[str]) -> BenchmarkTask:
    def run(steps: int) -> None:
        clock.now += steps * seconds
        order.append(name)

    return BenchmarkTask(BenchmarkRow("train", name, (8, 8), batch=10, flops=6, peak=240.0), lambda: run)


def test_contenders_alternate_and_speeds_are_exact():
    clock, order = Ticks(), []
    tasks = [contender(clock, "a", 0.5, order), contender(clock, "b", 1.0, order)]
    alternate(tasks, clock, rounds=3, seconds=4.0)
    assert order[4:] == list("ababab")
    assert [task.steps for task in tasks] == [8, 4]
    assert tasks[0].row.rounds == [20.0] * 3 and tasks[1].row.rounds == [10.0] * 3
    assert tasks[0].row.mfu == pytest.approx(0.5)
    assert comparisons([task.row for task in tasks]) == ["train      a / b: 2.000 (2.000 to 2.000)"]


def test_the_ratio_is_taken_round_by_round():
    one = BenchmarkRow("train", "a", (8, 8), 1, rounds=[1.0, 4.0, 9.0])
    other = BenchmarkRow("train", "b", (8, 8), 1, rounds=[1.0, 2.0, 3.0])
    assert ratio(one, other) == (2.0, 1.0, 3.0)
    assert ratio(one, BenchmarkRow("train", "c", (8, 8), 1)) is None
    # A machine that slowed down for one of them alone: rounds stay pairs, whatever their order by speed.
    slowed = BenchmarkRow("train", "d", (8, 8), 1, rounds=[4.0, 2.0, 1.0])
    assert ratio(one, slowed) == (2.0, 0.25, 9.0)


def test_a_fit_s_extra_time_is_per_step():
    rows = [
        BenchmarkRow("fit", "a", (8, 8), 10, rounds=[1000.0]),
        BenchmarkRow("fit", "a bare", (8, 8), 10, rounds=[1250.0]),
    ]
    assert comparisons(rows)[1].split() == ["the", "fit", "adds", "2.000", "ms", "to", "a", "step"]


def test_json_holds_medians_and_ratios():
    rows = [BenchmarkRow("train", "a", (8, 8), 1, rounds=[1.0, 2.0, 6.0]), BenchmarkRow("train", "b", (8, 8), 1)]
    content = as_json(rows, {"device": "x"})
    assert content["device"] == "x" and content["ratios"] == []
    assert [row["images_per_s"] for row in content["rows"]] == [2.0, None]


@pytest.mark.parametrize(("step", "steps"), [(0.3, 4), (0.25, 4), (5.0, 1)])
def test_a_turn_lasts_at_least_as_long_as_asked(step, steps):
    clock, order = Ticks(), []
    task = contender(clock, "a", step, order)
    task.warm_up(clock, 1.0)
    assert task.steps == steps and clock.now == pytest.approx((3 + 1) * step)  # three to warm up, one to time
    assert task.time(clock, 2) == pytest.approx(2 * step)
    assert task.time(clock) == pytest.approx(steps * step)


def test_memory_is_the_peak_above_what_was_there_in_gib(monkeypatch):
    """That of the steps after the first ones, which compile and capture."""
    clock, taken = Ticks(), []
    task = contender(clock, "a", 1.0, taken)
    resets: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: resets.append(len(taken)))
    monkeypatch.setattr(rounds, "held_memory", lambda device: 2**29)
    monkeypatch.setattr(rounds, "peak_memory", lambda device: 2**31 * len(resets))
    task.warm_up(clock, 1.0)
    assert task.row.memory_gib == 1.5
    assert len(resets) == 1 and 0 < resets[0] < len(taken)


def test_speed_is_the_median_and_mfu_its_share_of_the_peak():
    row = BenchmarkRow("train", "a", (8, 16), 4, flops=3, peak=600.0, rounds=[10.0, 70.0, 20.0])
    assert row.images_per_s == 20.0 and row.mfu == pytest.approx(0.1)
    assert BenchmarkRow("train", "a", (8, 16), 4, peak=600.0, rounds=[1.0]).mfu is None
    assert BenchmarkRow("train", "a", (8, 16), 4, flops=3, rounds=[1.0]).mfu is None
    assert BenchmarkRow("train", "a", (8, 16), 4, flops=3, peak=600.0).images_per_s is None


def test_each_measure_is_held_against_its_own_first_row():
    def row(measure: str, net: str, *rounds: float, **facts) -> BenchmarkRow:
        return BenchmarkRow(measure, net, (8, 16), 2, rounds=list(rounds), **facts)

    rows = [
        row("train", "a", 1.0, 6.0, 4.0),
        row("inference", "a", 8.0, 8.0),
        row("train", "b", 2.0, 3.0, 1.0),
        row("train", "c", 1.0, 1.0),
        row("inference", "b", 2.0, 4.0),
        row("inference", "sized", 1.0, largest_batch=7),
    ]
    assert [tuple(pair.values()) for pair in as_json(rows, {})["ratios"]] == [
        ("train", "a", "b", 2.0, 0.5, 4.0),
        ("train", "a", "c", 3.5, 1.0, 6.0),
        ("inference", "a", "b", 3.0, 2.0, 4.0),
    ]
    assert list(as_json(rows, {})["ratios"][0]) == ["measure", "of", "to", "median", "min", "max"]
    assert comparisons(rows)[1] == "train      a / c: 3.500 (1.000 to 6.000)"


def cells(rows: list[BenchmarkRow]) -> list[list[str]]:
    shown = table(rows)
    return [
        [str(column.header) for column in shown.columns],
        *map(list, zip(*(list(column.cells) for column in shown.columns), strict=True)),
    ]


def test_the_table_holds_each_figure_in_its_unit():
    rows = [
        BenchmarkRow("train", "a", (8, 16), 1024, 3, 6e4, 1.234, rounds=[1000.0, 3000.0, 2000.0]),
        BenchmarkRow("inference", "a", (8, 8), 2, rounds=[40.0]),
        BenchmarkRow("fit", "a", (8, 8), 2),
    ]
    assert cells(rows) == [
        ["measure", "net", "size", "batch", "images/s", "min to max", "ms/batch", "MFU", "GiB"],
        ["train", "a", "8x16", "1,024", "2,000.0", "1,000.0 to 3,000.0", "512.00", "10.0%", "1.23"],
        ["inference", "a", "8", "2", "40.0", "", "50.00", "", ""],
    ]


def test_a_table_over_sizes_names_the_largest_batch():
    rows = [
        BenchmarkRow("inference", "a", (8, 8), 4, rounds=[40.0], largest_batch=1024, note="(cap)"),
        BenchmarkRow("inference", "b", (8, 8), 0, largest_batch=0),
    ]
    assert cells(rows) == [
        ["measure", "net", "size", "batch", "largest", "images/s", "ms/batch", "MFU", "GiB"],
        ["inference", "a", "8", "4", "1,024 (cap)", "40.0", "100.00", "", ""],
        ["inference", "b", "8", "0", "0", "none fits", "", "", ""],
    ]
