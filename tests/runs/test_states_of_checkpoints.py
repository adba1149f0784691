"""Each part of a checkpoint's structure by itself: what passes, and what is called damage."""

from pathlib import Path

import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.runs.checkpoint_structure import check_state, check_structure

PROGRESS = {"epoch_progress": {}, "epoch_loop.batch_progress": {}, "epoch_loop.state_dict": {}}
OPTIMISER = {"state": {}, "param_groups": [{"params": [0], "lr": 0.5}]}
STATE = {"loops": {"fit_loop": PROGRESS}, "optimizer_states": [OPTIMISER], "lr_schedulers": [], "callbacks": {}}
PLACE = Path("x.ckpt")


def refused(change: dict, is_ours: bool = True, is_sharded: bool = False) -> str:
    with pytest.raises(InputError) as told:
        check_state(PLACE, STATE | change, is_ours, is_sharded)
    return str(told.value)


def test_a_whole_state_passes():
    check_state(PLACE, STATE, is_ours=True, is_sharded=False)
    check_state(PLACE, STATE | {"optimizer_states": [OPTIMISER, OPTIMISER]}, is_ours=True, is_sharded=False)
    check_state(PLACE, STATE | {"optimizer_states": []}, is_ours=False, is_sharded=False)


@pytest.mark.parametrize("name", PROGRESS)
def test_progress_is_said_by_each_of_its_parts(name):
    without = {key: value for key, value in PROGRESS.items() if key != name}
    for progress in (without, without | {name: 3}):
        assert "its loops do not say how far its run came" in refused({"loops": {"fit_loop": progress}})


@pytest.mark.parametrize("loops", [{}, {"fit_loop": None}, {"fit_loop": 3}, {"fit_loop": [PROGRESS]}])
def test_loops_without_that_of_a_fit_are_damage(loops):
    assert "its loops do not say how far its run came" in refused({"loops": loops})


@pytest.mark.parametrize(
    "states",
    [
        [],
        [3],
        [{}],
        [{"param_groups": {}}],
        [{"param_groups": []}],
        [{"param_groups": [3]}],
        [{"param_groups": [{"lr": 1}]}],
        [{"param_groups": [{"params": []}]}],
        [OPTIMISER, {"param_groups": []}],
    ],
)
def test_states_of_no_optimiser_are_damage(states):
    assert "its optimizer_states are those of no optimiser" in refused({"optimizer_states": states})
    check_state(PLACE, STATE | {"optimizer_states": states}, is_ours=True, is_sharded=True)  # they lie elsewhere


@pytest.mark.parametrize(
    ("name", "value"), [("loops", []), ("optimizer_states", {}), ("lr_schedulers", {}), ("callbacks", [])]
)
def test_each_part_has_its_type_and_none_lacks(name, value):
    assert refused({name: value}) == f"x.ckpt is damaged: its {name} is {value!r}; give another checkpoint"
    lacking = {key: held for key, held in STATE.items() if key != name}
    with pytest.raises(InputError, match=rf"^x\.ckpt is damaged: it lacks its {name}; give another checkpoint$"):
        check_state(PLACE, lacking, is_ours=True, is_sharded=False)
    if name == "optimizer_states":
        check_state(PLACE, lacking, is_ours=True, is_sharded=True)


def test_loops_alone_are_weights():
    for held in ({}, {"loops": STATE["loops"]}):
        with pytest.raises(InputError, match=r"x\.ckpt holds weights only, .* give --model\.weights x\.ckpt in its pl"):
            check_state(PLACE, held | {"state_dict": {}}, is_ours=True, is_sharded=False)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epoch": True}, "its epoch is True"),
        ({"global_step": 1.0}, "its global_step is 1.0"),
        ({"callbacks": []}, r"its callbacks is \[\]"),
        ({"hyper_parameters": None}, "its hyper_parameters is None"),
        ({"pytorch-lightning_version": "two"}, "its pytorch-lightning_version is 'two'"),
        ({"pytorch-lightning_version": 2}, "its pytorch-lightning_version is 2"),
        ({"state_dict": 3}, "its state_dict is 3"),
        ({"state_dict": {"a": 3}}, "a in its state_dict is no tensor but 3"),
        ({"state_dict": {3: torch.ones(1)}}, "3 in its state_dict is no tensor but tensor"),
        ({"current_model_state": {"a": 3}}, "a in its current_model_state is no tensor but 3"),
        ({"current_model_state": {"b": torch.ones(1)}}, "its state_dict and current_model_state differ in a, b"),
        ({}, None),
        ({"current_model_state": {"a": torch.zeros(1)}}, None),
        ({"current_model_state": {}}, None),
        ({"pytorch-lightning_version": "2.6.0.post1", "epoch": 3, "global_step": 0}, None),
    ],
)
def test_what_every_verb_needs(change, said):
    content = {"state_dict": {"a": torch.ones(1)}} | change
    if said is None:
        check_structure(PLACE, content)
    else:
        with pytest.raises(InputError, match=rf"^x\.ckpt is damaged: {said}"):
            check_structure(PLACE, content)
