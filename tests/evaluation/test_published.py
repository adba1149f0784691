"""Averages over a benchmark's tasks, and the published figures that stand beside one's own."""

import pytest

from datamodules.vtab.tasks import TASKS
from vit_lightning.errors import InputError
from vit_lightning.evaluation import published as module
from vit_lightning.evaluation.averages import averages
from vit_lightning.evaluation.published import FOLDER, published, published_lines

GROUPS: dict[str, list[str]] = {}
for task in TASKS.values():
    GROUPS.setdefault(task.group, []).append(task.name)


def test_the_groups_of_vtab_have_7_4_and_8_tasks():
    assert {group: len(tasks) for group, tasks in GROUPS.items()} == {"natural": 7, "specialised": 4, "structured": 8}


@pytest.mark.parametrize(
    ("net", "mean", "groups"),
    [
        ("ViT-H/14, JFT-300M", 77.63, (86.69, 87.00, 65.03)),
        ("ViT-L/16, JFT-300M", 76.29, (85.56, 86.72, 62.96)),
        ("ViT-L/16, ImageNet-21k", 72.71, (83.27, 84.65, 57.50)),
    ],
)
def test_the_means_of_the_papers_table_9_come_from_its_rows(net, mean, groups):
    (row,) = (row for row in published("vtab") if row.net == net)
    found = averages(row.scores, GROUPS)
    assert round(100 * found["mean"], 2) == mean
    assert [round(100 * found[group], 2) for group in GROUPS] == pytest.approx(groups, abs=0.011)
    assert found["mean of groups"] == pytest.approx(sum(found[group] for group in GROUPS) / 3)
    assert 100 * abs(found["mean of groups"] - found["mean"]) > 1.9


def test_an_average_lacks_no_task():
    scores = dict.fromkeys((task for tasks in GROUPS.values() for task in tasks), 0.5)
    assert averages(scores, GROUPS) == dict.fromkeys((*GROUPS, "mean", "mean of groups"), 0.5)
    del scores["dmlab"]
    assert averages(scores, GROUPS) == {"natural": 0.5, "specialised": 0.5}
    assert averages({}, GROUPS) == averages(scores, {}) == averages(scores, {"none": []}) == {}


def test_groups_of_unequal_size_have_two_means():
    assert averages({"a": 1.0, "b": 0.0, "c": 0.0, "z": 9.0}, {"few": ["a"], "more": ["b", "c"]}) == {
        "few": 1.0,
        "more": 0.0,
        "mean": pytest.approx(1 / 3),
        "mean of groups": 0.5,
    }


def test_published_figures_are_shares_with_their_source():
    rows = {(row.net, row.source): row for row in published("transfer")}
    row = rows["ViT-L/16, ImageNet-21k", "arXiv 2010.11929, table 2"]
    assert row.scores["pets"] == pytest.approx(0.9467) and row.deviations["pets"] == pytest.approx(0.0015)
    assert row.scores["vtab"] == pytest.approx(0.7272)
    row = rows["ViT-B/16, ImageNet-21k", "arXiv 2010.11929, table 5"]
    assert row.scores["cifar10"] == pytest.approx(0.9895) and not row.deviations
    assert len(rows) == 5 + 14
    for path in FOLDER.glob("*.csv"):
        for row in published(path.stem):
            assert row.source and all(0.2 < score < 1 for score in row.scores.values())


def test_vtab_rows_name_its_tasks_or_an_average():
    tasks = [task for tasks in GROUPS.values() for task in tasks]
    for row in published("vtab"):
        assert sorted(row.scores) == sorted(tasks) or set(row.scores) == {"mean of groups"}


def test_figures_that_nobody_published_are_told():
    with pytest.raises(
        InputError, match=r"no published figures are called vtb; did you mean vtab\? \(there are compute, tr"
    ):
        published("vtb")


def test_the_average_of_five_sets_is_that_of_table_7():
    """Its column of Adam: R50x1 89.33, R152x2 94.01."""
    resnets = next(line for line in published_lines("compute", "average", "exaflops") if line.name == "ResNet")
    scores = dict(zip(resnets.x, resnets.y, strict=True))
    assert round(100 * scores[50], 2) == 89.33 and round(100 * scores[563], 2) == 94.01


def test_the_points_of_figure_5_are_7_resnets_6_vits_and_5_hybrids_in_order_of_compute():
    lines = {line.name: line for line in published_lines("compute", "cifar10", "exaflops")}
    assert {name: len(line.x) for name, line in lines.items()} == {"ResNet": 7, "ViT": 6, "hybrid": 5}
    assert lines["ViT"].x == (55, 196, 224, 783, 1567, 4262)
    assert lines["ViT"].y == pytest.approx((0.9861, 0.9919, 0.9900, 0.9938, 0.9938, 0.9950))
    assert {line.source for line in lines.values()} == {"arXiv 2010.11929, table 6"}


def test_the_points_of_figure_3_stand_over_the_images_of_pre_training():
    lines = {line.name: line for line in published_lines("transfer", "imagenet", "images")}
    assert lines["ViT-L/16"].x == (1281167, 14e6, 303e6)
    assert lines["ViT-L/16"].y == pytest.approx((0.7653, 0.8515, 0.8712))
    assert lines["ViT-H/14"].x == (14e6, 303e6)


@pytest.mark.parametrize(
    ("benchmark", "task", "x", "said"),
    [
        ("computes", "cifar10", "exaflops", r"no published figures are called computes; did you mean compute\?"),
        ("compute", "cifar", "exaflops", r"no task cifar; did you mean cifar10\? \(of imagenet, .*average\)"),
        ("compute", "cifar10", "images", "compute: they do not stand over images"),
    ],
)
def test_lines_that_are_not_published_are_named(benchmark, task, x, said):
    with pytest.raises(InputError, match=said):
        published_lines(benchmark, task, x)


def test_a_net_without_one_of_the_five_sets_has_no_average(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    rows = [f"{net},s,a,{task},50,,{x}" for net, x in (("one", 2), ("two", 1)) for task in module.AVERAGED]
    (tmp_path / "own.csv").write_text("\n".join(["net,source,line,task,percent,deviation,exaflops", *rows[:-1]]))
    (line,) = published_lines("own", module.AVERAGE, "exaflops")
    assert (line.x, line.y) == ((2.0,), (0.5,))
    (line,) = published_lines("own", module.AVERAGED[0], "exaflops")
    assert line.x == (1.0, 2.0)
