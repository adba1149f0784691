import pytest

from vit_lightning.commands.benchmark.results import as_json, comparisons
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
