"""A sharded checkpoint, written as Lightning's strategy writes one, is read as a file of a single process would be."""

import os

import pytest
import torch
import torch.distributed.checkpoint as dcp

from vit_lightning.errors import InputError
from vit_lightning.runs import sharded
from vit_lightning.runs.checkpoint_names import is_sharded

TRAINED = {"net.w": torch.arange(6.0).reshape(2, 3), "net.b": torch.ones(2, dtype=torch.bfloat16)}
AVERAGED = {name: tensor * 2 for name, tensor in TRAINED.items()}
FACTS = {"global_step": 7, "hyper_parameters": {"loss": "softmax"}, "loops": {"x": [1]}}


def optimizer(number: int) -> dict:
    state = {name: {"step": torch.tensor(float(number)), "m": tensor + number} for name, tensor in TRAINED.items()}
    return {"state": state, "param_groups": [{"params": ["net.b"], "lr": 0.5}, {"params": ["net.w"], "lr": 0.25}]}


@pytest.fixture(params=[False, True], ids=["trained alone", "with an average"])
def written(request, tmp_path):
    """The folder, and whether an average stands beside what was trained."""
    tensors = AVERAGED | {"current_model_state": TRAINED} if request.param else TRAINED
    content = {"state_dict": tensors, **{f"optimizer_{number}": optimizer(number) for number in (1, 0)}}
    dcp.save(content, checkpoint_id=tmp_path, no_dist=True)
    torch.save(FACTS, tmp_path / "meta.pt")
    assert is_sharded(tmp_path)
    return tmp_path, request.param


def equal(found: dict, expected: dict) -> bool:
    same = all(torch.equal(found[name], expected[name]) and found[name].dtype == expected[name].dtype for name in found)
    return found.keys() == expected.keys() and same


def test_weights_are_whole_and_those_that_were_trained_lie_beside_an_average(written):
    path, averaged = written
    found = sharded.read_weights(path)
    assert found.keys() == ({"state_dict", "current_model_state"} if averaged else {"state_dict"})
    assert equal(found["state_dict"], AVERAGED if averaged else TRAINED)
    assert not averaged or equal(found["current_model_state"], TRAINED)


def test_shapes_and_types_are_known_without_numbers(written):
    found = sharded.read_shapes(written[0])
    assert found.keys() == TRAINED.keys() and all(tensor.is_meta for tensor in found.values())
    assert all((found[name].shape, found[name].dtype) == (one.shape, one.dtype) for name, one in TRAINED.items())


def test_a_run_is_read_with_its_facts_and_its_optimisers_in_their_order(written):
    path, averaged = written
    found = sharded.read_sharded_run(path)
    assert found.keys() == FACTS.keys() | {"state_dict", "optimizer_states"} | (
        {"current_model_state"} if averaged else set()
    )
    assert {name: found[name] for name in FACTS} == FACTS == sharded.read_facts(path)
    assert [states["state"][0]["step"].item() for states in found["optimizer_states"]] == [0, 1]
    for number, states in enumerate(found["optimizer_states"]):
        assert states["param_groups"] == [{"params": [0], "lr": 0.5}, {"params": [1], "lr": 0.25}]
        assert torch.equal(states["state"][1]["m"], TRAINED["net.w"] + number)


@pytest.mark.parametrize("in_file", [True, False])
def test_both_nets_are_filled_from_a_folder_or_a_file(tmp_path, in_file):
    path = tmp_path / "x"
    if in_file:
        torch.save({"state_dict": AVERAGED, "current_model_state": TRAINED}, path)
    else:
        dcp.save({"state_dict": AVERAGED | {"current_model_state": TRAINED}}, checkpoint_id=path, no_dist=True)
        torch.save(FACTS, path / "meta.pt")
    nets = [{name: torch.zeros_like(tensor) for name, tensor in TRAINED.items()} for _ in range(2)]
    sharded.read_into(path, *nets)
    assert equal(nets[0], AVERAGED) and equal(nets[1], TRAINED)


def test_what_waits_is_no_part_of_a_checkpoint(written):
    os.mkfifo(written[0] / "fifo")
    with pytest.raises(InputError, match="fifo is a FIFO"):
        sharded.read_facts(written[0])
