"""Tables by task: means over seeds, averages that lack no task, published rows, splits, and their files."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from vit_lightning.commands.sweep import figure
from vit_lightning.commands.sweep.figure import draw_groups
from vit_lightning.commands.sweep.plan import SweepPlan, read_plan
from vit_lightning.commands.sweep.results import SweepRow
from vit_lightning.commands.sweep.task_files import shown_task_table, write_task_table
from vit_lightning.commands.sweep.task_scores import NetRow, Stat, net_rows, split_facts
from vit_lightning.errors import InputError

PLAN = """
fit: --a 1
over:
  task: {dtd: --b 1, pets: --b 2, dmlab: --b 3}
  net: {small: --c 1, large: --c 2}
  --seed_everything: [0, 1]
then: [test --ckpt_path last]
table: {tasks: task, y: test/top1, groups: {natural: [dtd, pets], structured: [dmlab]}}
"""
SCORES = {"dtd": (0.5, 0.7), "pets": (0.8, 0.8), "dmlab": (0.2, 0.4)}
"""Of the small net, by seed; the large one's are a tenth higher."""


def read(folder: Path, text: str = PLAN) -> SweepPlan:
    (folder / "mine.yaml").write_text(text)
    return read_plan(folder / "mine.yaml", {}, Path("runs"))


def rows(plan: SweepPlan, **scores: tuple[float, ...]) -> list[SweepRow]:
    """Finished runs of the scores that there are."""
    found = []
    for cell in plan.cells:
        values = (scores or SCORES).get(cell.labels["task"], ())
        seed, more = int(cell.labels.get("seed_everything", 0)), 0.1 * (cell.labels.get("net") == "large")
        if seed < len(values):
            found.append(SweepRow(cell, {"test/top1": values[seed] + more, "test/real": 0.25}, [], {}))
    return found


def test_a_net_has_the_mean_of_its_seeds_and_averages_of_whole_groups(tmp_path):
    plan = read(tmp_path)
    small, large = net_rows(plan, rows(plan), tmp_path)
    assert (small.net, small.source, small.missing) == ("small", None, [])
    found = {name: (stat.mean, stat.deviation, stat.runs) for name, stat in small.scores.items()}
    half = 0.02**0.5
    assert found == {
        "dtd": (pytest.approx(0.6), pytest.approx(half), 2),
        "pets": (0.8, 0.0, 2),
        "dmlab": (pytest.approx(0.3), pytest.approx(half), 2),
        "natural": (pytest.approx(0.7), pytest.approx(half / 2), 2),
        "structured": (pytest.approx(0.3), pytest.approx(half), 2),
        "mean": (pytest.approx(1.7 / 3), pytest.approx(2 * half / 3), 2),  # the deviation of the seeds' means
        "mean of groups": (pytest.approx(0.5), pytest.approx(0.75 * half), 2),
    }
    assert large.scores["mean"].mean == pytest.approx(1.7 / 3 + 0.1)


def test_a_missing_task_is_named_and_not_averaged_away(tmp_path):
    plan = read(tmp_path)
    row, *_ = net_rows(plan, rows(plan, dtd=(0.5, 0.7), pets=(0.8,)), tmp_path)
    assert row.missing == ["pets (1 of 2 runs)", "dmlab"]
    assert {name: stat.runs for name, stat in row.scores.items()} == {"dtd": 2, "pets": 1, "natural": 1}
    assert row.scores["natural"].mean == pytest.approx(0.65) and row.scores["natural"].deviation is None


def test_a_task_that_the_plan_leaves_out_is_missing_too(tmp_path):
    plan = read(tmp_path, PLAN.replace(", dmlab: --b 3", ""))
    assert plan.table.labels == ["dtd", "pets", "dmlab"]
    row, *_ = net_rows(plan, rows(plan), tmp_path)
    assert row.missing == ["dmlab"] and set(row.scores) == {"dtd", "pets", "natural"}


FURTHER = PLAN.replace(", groups: {natural: [dtd, pets], structured: [dmlab]}", "").replace(
    "  net: {small: --c 1, large: --c 2}\n", ""
)


def test_further_columns_come_from_another_metric_and_another_plan(tmp_path):
    plan = read(
        tmp_path, FURTHER.replace("y: test/top1", "y: test/top1, also: {real: dtd test/real}, plans: {vtab: v}")
    )
    row, *_ = net_rows(plan, rows(plan), tmp_path)
    assert row.net == "mine" and row.scores["real"] == Stat(0.25, 0.0, 2)
    assert row.missing == ["vtab (by the plan v)"] and "mean" not in row.scores
    other = {"net": "v", "source": None, "scores": {"mean": {"mean": 0.5, "deviation": 0.1, "runs": 3}}}
    published = {"net": "v", "source": "x", "scores": {"mean": {"mean": 0.9, "deviation": None, "runs": None}}}
    (tmp_path / "v.table.json").write_text(json.dumps({"rows": [other, published]}))
    row, *_ = net_rows(plan, rows(plan), tmp_path)
    assert row.scores["vtab"] == Stat(0.5, 0.1, 3) and row.missing == []
    (tmp_path / "v.table.json").write_text(json.dumps({"rows": [other | {"scores": {}}]}))
    assert net_rows(plan, rows(plan), tmp_path)[0].missing == ["vtab (by the plan v)"]
    (tmp_path / "v.table.json").write_text("[")
    with pytest.raises(InputError, match=r"v.table.json is no table of a plan; remove it, and run its sweep again"):
        net_rows(plan, rows(plan), tmp_path)


def test_published_rows_follow_with_their_source(tmp_path):
    plan = read(tmp_path, PLAN.replace("{tasks: task,", "{published: vtab, tasks: task,"))
    found = net_rows(plan, rows(plan), tmp_path)
    assert [row.source is None for row in found] == [True] * 2 + [False] * 6
    assert found[2].source == "arXiv 2010.11929, table 9" and found[2].scores["dtd"] == Stat(pytest.approx(0.752))
    assert found[2].scores["natural"].mean == pytest.approx((0.752 + 0.972) / 2)  # of this plan's groups
    assert found[-1].scores == {"mean of groups": Stat(pytest.approx(0.752))}


def test_the_files_hold_every_row_and_what_is_missing(tmp_path):
    plan = read(tmp_path, PLAN.replace("{tasks: task,", "{published: vtab, tasks: task,"))
    nets = net_rows(plan, rows(plan, dtd=(0.5, 0.7), pets=(0.8, 0.8)), tmp_path)
    absent = {"images": 1000, "sha256": "ab" * 32, "absent_classes": ["a", "b"]}
    splits = {"dtd": {"train": absent, "val": absent | {"absent_classes": []}, "test": None}}
    write_task_table(plan, nets, splits, tmp_path)
    with (tmp_path / "mine.table.csv").open() as file:
        first, *others = csv.DictReader(file)
    assert first["net"] == "small" and first["missing"] == "dmlab" and first["mean"] == ""
    assert (first["dtd"], first["dtd sd"], first["natural"]) == ("0.6", "0.141421", "0.7")
    assert others[1]["source"] == "arXiv 2010.11929, table 9" and others[1]["dtd sd"] == ""
    content = json.loads((tmp_path / "mine.table.json").read_text())
    assert content["columns"] == ["dtd", "pets", "dmlab", "natural", "structured", "mean", "mean of groups"]
    assert content["rows"][0]["scores"]["dtd"]["runs"] == 2 and content["splits"] == splits
    text = (tmp_path / "mine.table.md").read_text()
    assert "| small | 60.00 ± 14.14 | 80.00 ± 0.00 | - | 70.00 ± 7.07 | - | - | - |" in text
    assert "**Missing for small:** dmlab." in text
    assert "| dtd | train | 1,000 | abababababababab | 2: a, b |" in text
    assert "| dtd | val | 1,000 | abababababababab | none |" in text
    assert "| dtd | test | differs among the runs |  |  |" in text
    shown = shown_task_table(plan, nets)
    assert next(iter(shown.columns[1].cells)) == "60.00 ± 14.14"


def test_the_longer_side_goes_downwards(tmp_path):
    plan = read(tmp_path)
    shown = shown_task_table(plan, net_rows(plan, rows(plan), tmp_path))
    assert [column.header for column in shown.columns] == ["", "small", "large"]
    assert list(shown.columns[0].cells) == ["dtd", "pets", "dmlab", "natural", "structured", "mean", "mean of groups"]


def test_splits_are_those_of_the_runs(tmp_path):
    plan = read(tmp_path)
    found = rows(plan)
    facts: dict[str, Any] = {"images": 3, "sha256": "a", "absent_classes": None}
    for row in found:
        other = row.cell.labels["task"] == "pets" and row.cell.labels["seed_everything"] == "1"
        folder = tmp_path / row.cell.place / "tuned" / "0"
        folder.mkdir(parents=True)
        (folder / "splits.json").write_text(json.dumps({"train": facts | {"images": 4} if other else facts}))
    splits = split_facts(plan, [], found, tmp_path)
    assert splits == {"dtd": {"train": facts}, "pets": {"train": None}, "dmlab": {"train": facts}}
    assert split_facts(plan, [], found, tmp_path / "none") == {"dtd": {}, "pets": {}, "dmlab": {}}


def test_the_validation_images_are_those_that_chose(tmp_path):
    """With nothing held out, ImageNet's runs would validate on the official images, which are tested."""
    choose = "choose: {by: val/top1, over: {--rate: [1, 2]}}\nover:"
    plan = read(tmp_path, PLAN.replace("over:", choose, 1))
    first, second = plan.choice.plan.cells[0], plan.cells[0]
    for cell, images in (
        (first, {"train": 90, "val": 10, "test": 50}),
        (second, {"train": 100, "val": 50, "test": 50}),
    ):
        folder = tmp_path / cell.place / "tuned" / "0"
        folder.mkdir(parents=True)
        (folder / "splits.json").write_text(json.dumps({split: {"images": n} for split, n in images.items()}))
    splits = split_facts(plan, [SweepRow(first, {}, [], {})], [SweepRow(second, {}, [], {})], tmp_path)
    assert {name: facts["images"] for name, facts in splits["dtd"].items()} == {
        "choose": 90,
        "val": 10,
        "test": 50,
        "train": 100,
    }


def test_bars_stand_in_groups_with_a_bar_per_net(tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib.figure")
    kept, whole = [], matplotlib.Figure.savefig
    monkeypatch.setattr(
        matplotlib.Figure, "savefig", lambda self, *words, **facts: kept.append(self) or whole(self, *words, **facts)
    )
    plan = read(tmp_path)
    nets = net_rows(plan, rows(plan), tmp_path)
    assert draw_groups(plan, nets, tmp_path / "x.svg") == f"figure   {tmp_path / 'x.svg'}"
    (axes,) = kept[0].get_axes()
    assert [text.get_text() for text in axes.get_xticklabels()] == ["natural", "structured", "mean", "mean of groups"]
    heights = [[bar.get_height() for bar in bars] for bars in axes.containers if hasattr(bars, "patches")]
    assert heights[0] == pytest.approx([0.7, 0.3, 1.7 / 3, 0.5])
    assert "<svg" in (tmp_path / "x.svg").read_text()


def test_bars_that_cannot_be_drawn_are_a_line(tmp_path, monkeypatch):
    plan = read(tmp_path)
    bare = NetRow("x", None, {"dtd": Stat(0.5)})
    said = "figure   left out: no net has a score for all tasks of a group"
    assert draw_groups(plan, [bare], tmp_path / "x.svg") == said
    monkeypatch.setattr(figure, "find_spec", lambda name: None)
    said = 'figure   left out: it needs matplotlib: pip install "vit-lightning[figures]"'
    assert draw_groups(plan, net_rows(plan, rows(plan), tmp_path), tmp_path / "x.svg") == said
    assert draw_groups(read(tmp_path, FURTHER), [bare], tmp_path / "x.svg") is None
    assert not (tmp_path / "x.svg").exists()


BAD = {
    "text": ("task", "table must hold a mapping such as {tasks: task, y: test/top1}, not str"),
    "key": ("{task: task, y: test/top1}", "table has the unknown key 'task'; did you mean tasks?"),
    "axis": ("{tasks: tsk, y: test/top1}", r"table: tasks tsk is no axis; did you mean task\?"),
    "metric": ("{tasks: task, y: test/loss}", "table: test/loss is no share of images, such as test/top1"),
    "also": ("{tasks: task, y: test/top1, also: {real: dtt test/real}}", "expected a task and a metric, .* mean dtd"),
    "also metric": ("{tasks: task, y: test/top1, also: {real: dtd test/loss}}", "test/loss is no share of images"),
    "groups": ("{tasks: task, y: test/top1, groups: [dtd]}", "table, groups: expected a mapping of names, not list"),
    "ungrouped": ("{tasks: task, y: test/top1, groups: {a: [dtd, pets]}}", "the task dmlab is in no group"),
    "twice": ("{tasks: task, y: test/top1, groups: {a: [dtd], b: [dtd]}}", "dtd stands in two groups"),
    "published": ("{tasks: task, y: test/top1, published: vtb}", "no published figures are called vtb; did you mean"),
}


@pytest.mark.parametrize(("table", "sentence"), BAD.values(), ids=BAD)
def test_what_is_no_table_is_told_in_a_sentence(tmp_path, table, sentence):
    with pytest.raises(InputError, match=sentence) as told:
        read(tmp_path, PLAN[: PLAN.index("table:")] + f"table: {table}\n")
    assert "\n" not in str(told.value) and "mine.yaml" in str(told.value)


def test_a_score_of_the_test_set_needs_a_test(tmp_path):
    with pytest.raises(InputError, match="table: test/top1 needs a line such as `test --ckpt_path last` under then"):
        read(tmp_path, PLAN.replace("[test --ckpt_path last]", "[validate --ckpt_path last]"))
