"""Averages over a benchmark's tasks, and the published figures that stand beside one's own."""

import pytest

from datamodules.vtab.tasks import TASKS
from vit_lightning.errors import InputError
from vit_lightning.evaluation.averages import averages
from vit_lightning.evaluation.published import FOLDER, published

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
    with pytest.raises(InputError, match=r"no published figures are called vtb; did you mean vtab\? \(there are tr"):
        published("vtb")
