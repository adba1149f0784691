"""What was measured, as a table, as sentences and as JSON; and the order of what is measured."""

import io
import json
import signal
from types import SimpleNamespace

import pytest
from lightning.pytorch.trainer.states import TrainerStatus
from rich.console import Console

from vit_lightning.commands.benchmark import loaders, results
from vit_lightning.commands.benchmark import measurements as module
from vit_lightning.commands.benchmark.measurements import Measurements
from vit_lightning.commands.benchmark.rounds import BenchmarkRow, BenchmarkTask, alternate
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.errors import InputError


def row(measure: str, net: str, *rounds: float, size: tuple[int, int] = (8, 8), **facts) -> BenchmarkRow:
    return BenchmarkRow(measure, net, size, facts.pop("batch", 1000), rounds=list(rounds), **facts)


def cells(rows: list[BenchmarkRow]) -> dict[str, list[str]]:
    return {column.header: list(column.cells) for column in results.table(rows).columns}


def test_a_table_of_what_was_measured_in_turn():
    found = cells(
        [
            row("train", "a", 1000.0, 4000.0, 2000.0, flops=10, peak=40_000.0, memory_gib=1.5),
            row("fit", "b", 500.0, size=(8, 12)),
            row("data", "c"),
        ]
    )
    assert found == {
        "measure": ["train", "fit"],  # what has no figure is left out
        "net": ["a", "b"],
        "size": ["8", "8x12"],
        "batch": ["1,000", "1,000"],
        "images/s": ["2,000.0", "500.0"],
        "min to max": ["1,000.0 to 4,000.0", ""],
        "ms/batch": ["500.00", "2,000.00"],
        "MFU": ["50.0%", ""],
        "GiB": ["1.50", ""],
    }


def test_a_table_of_the_largest_batches():
    found = cells(
        [
            row("inference", "a", 2000.0, largest_batch=4096, note="(cap)"),
            row("inference", "b", batch=0, largest_batch=0),
        ]
    )
    assert found["largest"] == ["4,096 (cap)", "0"] and found["images/s"] == ["2,000.0", "none fits"]
    assert found["batch"] == ["1,000", "0"] and found["ms/batch"] == ["500.00", ""] and "min to max" not in found


def test_the_first_of_a_measure_is_compared_with_each_other_one():
    rows = [
        row("train", "a", 4.0),
        row("train", "b", 2.0),
        row("fit", "c", 100.0, batch=10),
        row("train", "d", 8.0),
        row("fit", "c bare", 200.0, batch=10),
        row("inference", "e", 1.0, largest_batch=3),
        row("inference", "f", 1.0),
        row("train", "g"),
    ]
    assert results.comparisons(rows) == [
        "train      a / b: 2.000 (2.000 to 2.000)",
        "train      a / d: 0.500 (0.500 to 0.500)",
        "fit        c / c bare: 0.500 (0.500 to 0.500)",
        "           the fit adds 50.000 ms to a step",
    ]
    content = results.as_json(rows, {"device": "x"})
    assert content["ratios"][0] == {"measure": "train", "of": "a", "to": "b", "median": 2.0, "min": 2.0, "max": 2.0}
    assert [(each["of"], each["to"]) for each in content["ratios"]] == [("a", "b"), ("a", "d"), ("c", "c bare")]
    first = content["rows"][0]
    assert (
        content["device"] == "x" and first["images_per_s"] == 4.0 and first["mfu"] is None and first["rounds"] == [4.0]
    )
    assert len(content["rows"]) == 8 and content["rows"][5]["largest_batch"] == 3


def test_of_nothing_nothing_is_shown():
    console = Console(width=200, file=io.StringIO())
    results.show([row("train", "a")], console)
    assert console.file.getvalue() == ""
    results.show([row("train", "a", 4.0), row("train", "b", 2.0)], console)
    assert "a / b: 2.000 (2.000 to 2.000)" in console.file.getvalue()


def test_the_models_own_net_is_warmed_up_last_and_timed_first():
    said: list[str] = []

    class Clock:
        now = 0.0

        def mark(self) -> float:
            return self.now

        def seconds(self, start: float, end: float) -> float:
            return end - start

        def settle(self, mark: float) -> None: ...

    clock = Clock()

    def task(name: str) -> BenchmarkTask:
        def run(steps: int) -> None:
            clock.now += steps

        return BenchmarkTask(row("train", name, batch=3), lambda: run)

    tasks = [task("own"), task("peer")]
    alternate(tasks, clock, 2, 4.0, said.append)
    assert said == [
        *("train: warming up peer", "train: warming up own"),
        *(f"train: round {number}/2: own 3.0, peer 3.0 images/s" for number in (1, 2)),
    ]


def test_the_peers_loaders_need_timm_and_files_in_colour(monkeypatch):
    image = SimpleNamespace(train_set=[(b"x", 0)], pixel_form=PixelForm())
    monkeypatch.setattr(loaders, "find_spec", lambda name: object())
    loaders.check_peers(image)
    with pytest.raises(InputError, match=r"the other loaders give 8-bit RGB; drop --compare_loaders"):
        loaders.check_peers(SimpleNamespace(train_set=[(b"x", 0)], pixel_form=PixelForm(channels=1)))
    monkeypatch.setattr(loaders, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"timm's loader needs timm: pip install"):
        loaders.check_peers(image)


# How far a measurement went ------------------------------------------------------------------------------------------


def measured(monkeypatch, rows: list[BenchmarkRow], status=TrainerStatus.RUNNING) -> Measurements:
    found = object.__new__(Measurements)
    found.rows, found.model = rows, None
    found.trainer = SimpleNamespace(state=SimpleNamespace(status=status))
    monkeypatch.setattr(module, "_facts", lambda trainer, model: {"device": "x"})
    return found


@pytest.mark.parametrize(
    ("end", "status", "code", "ended"),
    [
        (None, TrainerStatus.RUNNING, None, True),
        (KeyboardInterrupt, TrainerStatus.RUNNING, 130, False),
        (SystemExit, TrainerStatus.INTERRUPTED, 130, False),
        (signal.SIGTERM, TrainerStatus.RUNNING, 143, False),
    ],
)
@pytest.mark.parametrize("rows", [[], [row("train", "a", 4.0)]])
def test_what_was_measured_is_kept_however_it_ends(monkeypatch, tmp_path, capsys, end, status, code, ended, rows):
    before = signal.getsignal(signal.SIGTERM)
    found = measured(monkeypatch, rows, status)

    def run() -> None:
        with found.reported(tmp_path / "x.json"):
            if end is signal.SIGTERM:
                signal.raise_signal(signal.SIGTERM)
            elif end is not None:
                raise end

    if code is None:
        run()
    else:
        with pytest.raises(SystemExit) as left:
            run()
        assert left.value.code == code
        until = "the figures are those until then" if rows else "nothing was measured until then"
        assert capsys.readouterr().err == f"interrupted: {until}\n"
    content = json.loads((tmp_path / "x.json").read_text())
    assert (content["ended"], content["device"], len(content["rows"])) == (ended, "x", len(rows))
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("error", [InputError("x"), SystemExit(3)])
def test_another_end_goes_on_with_what_was_measured_kept(monkeypatch, tmp_path, error):
    found = measured(monkeypatch, [row("train", "a", 4.0)])
    with pytest.raises(type(error)) as told, found.reported(tmp_path / "x.json"):
        raise error
    assert told.value is error and json.loads((tmp_path / "x.json").read_text())["ended"] is False


@pytest.mark.parametrize(("rows", "drawn"), [([row("inference", "a", 4.0)], True), ([], False)])
def test_sizes_are_drawn_and_kept_as_they_come(monkeypatch, tmp_path, capsys, rows, drawn):
    found = measured(monkeypatch, rows)
    found.cap, found.seconds, called = 9, 2.0, []

    def sweep(*words) -> None:
        assert words[:5] == (found.trainer, ["model"], 9, 2.0, rows)
        words[5]("one size")
        raise InputError("stopped")

    monkeypatch.setattr(module.input_sizes, "sweep", sweep)
    monkeypatch.setattr(module.input_sizes, "draw", lambda *words: called.append(words))
    for figure in (tmp_path / "x.svg", None):
        with pytest.raises(InputError, match="stopped"):
            found.sizes(["model"], tmp_path / "x.json", figure)
    assert called == [(rows, tmp_path / "x.svg")] * drawn
    assert json.loads((tmp_path / "x.json").read_text())["ended"] is False and "one size" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["train", "inference", "fit", "data"])
def test_one_measure_is_taken_and_memory_given_back(monkeypatch, what):
    found, called = measured(monkeypatch, []), []
    monkeypatch.setattr(module, "free_memory", lambda: called.append("free"))
    for name in ("_steps", "_fit", "_data"):
        setattr(found, name, lambda *words, name=name: called.append((name, *words)))
    found.measure(what, ["peer"], "loaders", "auto")
    words = {"fit": ("_fit", "auto"), "data": ("_data", "loaders")}.get(what, ("_steps", what, ["peer"], "auto"))
    assert called == [words, "free"]


def test_a_row_is_the_sum_of_what_its_net_does(monkeypatch):
    found = measured(monkeypatch, [])
    found.model = SimpleNamespace(hparams=SimpleNamespace(image_size=(8, 12)))
    made = found._row("train", "a", 7)
    assert found.rows == [made] and (made.measure, made.net, made.image_size, made.batch) == ("train", "a", (8, 12), 7)
    assert made.rounds == []
