"""The runs of a plan are dealt to the jobs of an array."""

import pytest

from vit_lightning.commands.sweep.plan import Cell, SweepPlan
from vit_lightning.commands.sweep.shards import dealt, picked, shard_of
from vit_lightning.errors import InputError

AXES = {"rate": ["1", "2", "3"], "seed": ["0", "1"]}


def plan(name: str = "p") -> SweepPlan:
    cells = [Cell(name, {"rate": rate, "seed": seed}, []) for rate in AXES["rate"] for seed in AXES["seed"]]
    return SweepPlan(name, AXES, cells, [], frozenset())


def test_each_run_is_in_one_part_and_parts_differ_by_one_at_most():
    for parts in range(1, 8):
        shares = [dealt([plan()], part, parts) for part in range(1, parts + 1)]
        assert sorted(place for share in shares for place in share) == sorted(cell.place for cell in plan().cells)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert dealt([plan()], 2, 4) == {plan().cells[1].place, plan().cells[5].place}


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/4/2", "-1/4", "a/b", "1/0", ""])
def test_a_part_is_a_number_of_as_many(text):
    assert shard_of("4/4") == (4, 4) and shard_of("1/4") == (1, 4)
    with pytest.raises(InputError, match="expected i/n with i from 1 to n, such as 1/4"):
        shard_of(text)


def test_picked_runs_have_all_labels_that_are_named():
    cells = [cell for cell in plan().cells if cell.labels["rate"] in "13" and cell.labels["seed"] == "1"]
    assert picked([plan()], ["rate=1,3", "seed=1"]) == {cell.place for cell in cells}
    assert picked([plan()], []) == {cell.place for cell in plan().cells}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("rates=1", "--only rates=1: expected AXIS=LABEL,LABEL of rate, seed; did you mean rate"),
        ("rate", "--only rate: expected AXIS=LABEL,LABEL"),
        ("rate=1,4", "--only rate=1,4: the axis rate has no label 4"),
    ],
)
def test_what_no_plan_has_is_named(word, said):
    with pytest.raises(InputError) as told:
        picked([plan()], [word])
    assert str(told.value).startswith(said)
