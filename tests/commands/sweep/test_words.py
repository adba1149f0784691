"""Words of a plan, shards of its runs, and the cells of its tables, one by one."""

import pytest

from vit_lightning.commands.sweep import words
from vit_lightning.commands.sweep.plan import Cell, SweepPlan
from vit_lightning.commands.sweep.results import SweepRow
from vit_lightning.commands.sweep.shards import dealt, picked, shard_of
from vit_lightning.commands.sweep.task_files import _grid, _lines, _percent, _split, write_task_table
from vit_lightning.commands.sweep.task_scores import NetRow, Stat, net_rows, split_facts
from vit_lightning.commands.sweep.task_table import TaskTable
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ({"a": "--x 1 --y '2 3'", "b": ""}, {"a": ["--x", "1", "--y", "2 3"], "b": []}),
        ({"a": {"low": "--x 1", "high": ""}}, {"a": {"low": ["--x", "1"], "high": []}}),
    ],
)
def test_labels_with_their_words(labels, found):
    assert words.axis_of("net", labels) == found


def test_values_of_a_flag():
    assert words.axis_of("--x", ["1", "a b", "[2,3]"]) == {
        "1": ["--x", "1"],
        "a b": ["--x", "a b"],
        "[2,3]": ["--x", "[2,3]"],
    }


AXES = {"net": {"a": [], "b": []}, "size": {"a": [], "b": [], "c": []}, "rate": {"x": [], "y": []}}


@pytest.mark.parametrize(
    ("labels", "axis"), [(["a", "b"], "net"), (["b", "a"], "net"), (["c", "b", "a"], "size"), (["x", "y"], "rate")]
)
def test_the_axis_that_words_follow(labels, axis):
    assert words.axis_followed("where", labels, AXES) == axis


@pytest.mark.parametrize(
    ("labels", "axes", "said"),
    [
        (
            ["a", "b"],
            {"n": {"a": [], "b": []}, "m": {"b": [], "a": []}},
            "where: n and m have the same labels; give one",
        ),
        (["q"], AXES, "where: no other axis has the labels q"),
        (["q"], {}, "where: no other axis has the labels q"),
        (["x", "z"], AXES, r"where: the axis rate has no label z; did you mean y\? \(it has x, y\)|no label z"),
        (["x"], AXES, "where: y of the axis rate is missing; '' adds no words there"),
        (["a", "c"], AXES, "where: b of the axis size is missing"),
    ],
)
def test_words_that_follow_no_axis(labels, axes, said):
    with pytest.raises(InputError, match=said):
        words.axis_followed("where", labels, axes)


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("test --ckpt_path last", True),
        ("validate --x 1 --ckpt_path=best", True),
        ("predict --ckpt_path a/b", True),
        ("test --ckpt_path x.ckpt", True),
        ("test --ckpt_path nowhere --ckpt_path last", True),  # the last one wins
        ("test --ckpt_path last --ckpt_path nowhere", False),
        ("test --ckpt_path", False),
        ("test", False),
        ("fit --ckpt_path last", False),
        ("", False),
    ],
)
def test_what_follows_a_fit(text, fine):
    if fine:
        assert words.then_of(text) == text.split()
    else:
        with pytest.raises(InputError, match=r"^then: "):
            words.then_of(text)


@pytest.mark.parametrize("flag", ["--ckpt_path", "--trainer.default_root_dir", "--trainer.logger"])
def test_flags_that_a_sweep_gives_itself(flag):
    for text in (f"--x 1 {flag} y", f"{flag}=y"):
        with pytest.raises(InputError, match=f"^fit: leave out {flag}: a sweep "):
            words.flags_of("fit", text)
    assert words.flags_of("fit", f"{flag}s y") == [f"{flag}s", "y"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"a": 1, "x": 2}, r"it has the unknown key 'x' .*\(known: a, b\)|it has the unknown key 'x'"),
        ({"b": 1}, "it lacks a"),
        ({"a": ""}, "it lacks a"),
        ({"a": 1, "b": 2}, None),
        ({"a": 1}, None),
    ],
)
def test_keys(content, said):
    if said is None:
        words.check_keys(content, ("a", "b"), ("a",), "it")
    else:
        with pytest.raises(InputError, match=said):
            words.check_keys(content, ("a", "b"), ("a",), "it")


# Shards --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "found"), [("1/4", (1, 4)), ("4/4", (4, 4)), ("10/12", (10, 12))])
def test_a_shard(text, found):
    assert shard_of(text) == found


@pytest.mark.parametrize("text", ["0/4", "5/4", "1/0", "0/0", "1", "a/b", "1/4 ", "-1/4", "1/4/5"])
def test_no_shard(text):
    with pytest.raises(InputError, match=f"^--shard {text}: expected i/n with i from 1 to n"):
        shard_of(text)


def plan(name: str, **axes: list[str]) -> SweepPlan:
    points = [{}]
    for axis, labels in axes.items():
        points = [point | {axis: label} for point in points for label in labels]
    return SweepPlan(name, axes, [Cell(name, point, [["fit"]]) for point in points], [], frozenset())


def test_runs_are_dealt_one_by_one_over_all_plans():
    plans = [plan("p", s=["0", "1", "2"]), plan("q", s=["0", "1"])]
    assert [sorted(dealt(plans, part, 2)) for part in (1, 2)] == [["p/s=0", "p/s=2", "q/s=1"], ["p/s=1", "q/s=0"]]
    assert dealt(plans, 7, 7) == set()


def test_runs_of_some_labels():
    plans = [plan("p", s=["0", "1"], net=["a", "b"]), plan("q", s=["1", "2"])]
    assert picked(plans, ["s=1,2", "--net=a"]) == {"p/s=1,net=a", "q/s=1", "q/s=2"}
    assert picked(plans, ["net=b"]) == {"p/s=0,net=b", "p/s=1,net=b", "q/s=1", "q/s=2"}
    assert len(picked(plans, [])) == 6
    with pytest.raises(InputError, match=r"--only t=1: expected AXIS=LABEL,LABEL of s, net"):
        picked(plans, ["t=1"])


# Tables --------------------------------------------------------------------------------------------------------------


def tabled(spread: str | None = "seed_everything", **table) -> SweepPlan:
    usual = {"tasks": "task", "y": "test/top1", "labels": ["dtd", "pets"]}
    axes = {"task": ["dtd", "pets"]} | ({"seed_everything": ["0", "1"]} if spread else {})
    made = plan("mine", **axes)
    return SweepPlan(made.name, made.axes, made.cells, [], frozenset(), table=TaskTable(**usual | table))


def test_the_longer_side_of_a_table_goes_down_and_signs_of_tables_are_kept():
    three = [NetRow(name, None, {"dtd": Stat(0.5)}) for name in ("a", "b", "c")]
    assert _grid(tabled(), three) == [
        ["", "dtd", "pets"],
        ["a", "50.00", "-"],
        ["b", "50.00", "-"],
        ["c", "50.00", "-"],
    ]
    assert _grid(tabled(), three[:2]) == [["", "dtd", "pets"], ["a", "50.00", "-"], ["b", "50.00", "-"]]
    assert _grid(tabled(), three[:1]) == [["", "a"], ["dtd", "50.00"], ["pets", "-"]]
    cited = NetRow("x", "table 9", {"dtd": Stat(0.123456, 0.01)})
    assert _grid(tabled(), [cited])[:2] == [["", "x (table 9)"], ["dtd", "12.35 ± 1.00"]]
    assert _lines([["a|b", "c"], ["1", "2"]]) == "| a\\|b | c |\n| --- | --- |\n| 1 | 2 |"
    assert _percent(Stat(1.0, 0.0)) == "100.00 ± 0.00" and _percent(None) == "-"
    assert _split({"images": 1234, "sha256": "f" * 64, "absent_classes": None}) == ["1,234", "f" * 16, "not known"]


def test_files_of_a_table_name_settings_and_cells_of_a_spreadsheet(tmp_path):
    row = NetRow("=net", None, {"dtd": Stat(0.5, 0.1, 2)}, ["pets"], {"dtd": {"rate": "0.1", "steps": "5"}})
    write_task_table(tabled(), [row, NetRow("other", "@src", {})], {}, tmp_path)
    lines = (tmp_path / "mine.table.csv").read_text().splitlines()
    assert lines == ["net,source,dtd,dtd sd,pets,pets sd,missing", "'=net,,0.5,0.1,,,pets", "other,'@src,,,,,"]
    text = (tmp_path / "mine.table.md").read_text()
    assert text.startswith("# mine\n\n`test/top1` in %; ± is the standard deviation over runs.\n\n|")
    head = "| net | task | rate | steps |\n| --- | --- | --- | --- |"
    assert f"## Chosen on held-out images\n\n{head}\n| =net | dtd | 0.1 | 5 |" in text
    assert "## Splits" not in text and "Missing for other" not in text


def finished(made: SweepPlan, **metrics: float) -> list[SweepRow]:
    return [
        SweepRow(
            cell,
            {name: value + int(cell.labels.get("seed_everything", 0)) / 10 for name, value in metrics.items()},
            [],
            {},
        )
        for cell in made.cells
    ]


def test_a_row_without_seeds_is_one_run_each(tmp_path):
    made = tabled(None, groups={"all": ["dtd", "pets"]})
    (row,) = net_rows(made, finished(made, **{"test/top1": 0.5}), tmp_path)
    assert (row.net, row.missing) == ("mine", [])
    assert row.scores["dtd"] == Stat(0.5, None, 1) and row.scores["mean"] == Stat(0.5, None, 1)
    made = tabled(also={"real": ("pets", "test/real"), "again": ("dtd", "test/real")})
    rows = finished(made, **{"test/top1": 0.5})
    for found in rows:
        if found.cell.labels["task"] == "pets":
            found.metrics["test/real"] = 0.25
    (row,) = net_rows(made, rows, tmp_path)
    assert row.scores["real"] == Stat(0.25, 0.0, 2) and row.missing == ["again"] and "mean" not in row.scores


def test_splits_of_both_stages_are_told_apart(tmp_path):
    made = tabled(None)
    first = [SweepRow(Cell("mine.choose", cell.labels, cell.lines), {}, [], {}) for cell in made.cells]
    for row, images in zip([*first, *finished(made)], (3, 4, 5, 6), strict=True):
        folder = tmp_path / row.cell.place / "x" / "0"
        folder.mkdir(parents=True)
        (folder / "splits.json").write_text(f'{{"train": {images}, "val": 1}}')
    assert split_facts(made, first, finished(made), tmp_path) == {
        "dtd": {"choose": 3, "val": 1, "train": 5},
        "pets": {"choose": 4, "val": 1, "train": 6},
    }
    (tmp_path / "mine/task=dtd/x/0/splits.json").write_text("[")
    with pytest.raises(
        InputError, match=r"splits\.json is not readable; remove it, and the table leaves out its splits"
    ):
        split_facts(made, first, finished(made), tmp_path)


def test_the_table_of_another_plan_by_its_only_row(tmp_path):
    made = tabled(None, plans={"vtab": "v"})
    score = '{"mean": {"mean": 0.5, "deviation": null, "runs": 1}}'
    for rows, found in (
        (f'[{{"net": "x", "source": null, "scores": {score}}}]', Stat(0.5, None, 1)),
        (
            f'[{{"net": "x", "source": null, "scores": {score}}}, {{"net": "y", "source": null, "scores": {score}}}]',
            None,
        ),
        (f'[{{"net": "mine", "source": "z", "scores": {score}}}]', None),
    ):
        (tmp_path / "v.table.json").write_text(f'{{"rows": {rows}}}')
        (row,) = net_rows(made, finished(made, **{"test/top1": 0.5}), tmp_path)
        assert row.scores.get("vtab") == found
