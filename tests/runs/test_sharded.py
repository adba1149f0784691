"""An optimiser's state that was kept by the names of parameters."""

import pytest

from vit_lightning.runs.sharded import _by_number


@pytest.mark.parametrize("as_dict", [False, True])
def test_parameters_get_their_numbers_in_the_order_of_the_groups(as_dict):
    """Twelve groups, which a dictionary holds in any order."""
    groups = [{"params": [f"b{number}", f"a{number}"], "lr": number} for number in range(12)]
    stored = {number: groups[number] for number in (3, 11, 0, 7, 1, 10, 2, 4, 9, 5, 8, 6)} if as_dict else groups
    state = {name: {"step": index} for index, name in enumerate(["b0", "a0", "b2", "a11"])}
    found = _by_number({"state": state, "param_groups": stored})
    assert found["param_groups"] == [{"params": [2 * n, 2 * n + 1], "lr": n} for n in range(12)]
    assert found["state"] == {0: {"step": 0}, 1: {"step": 1}, 4: {"step": 2}, 23: {"step": 3}}
