"""Random states of several processes, and of a run that goes on."""

from types import SimpleNamespace

import torch

from vit_lightning.runs.random_state import RandomState


def drawn(rank: int, state: RandomState) -> list[float]:
    torch.manual_seed(7)
    state.on_train_start(SimpleNamespace(global_rank=rank), None)
    return torch.rand(3).tolist()


def test_processes_of_one_seed_drop_different_units(monkeypatch):
    monkeypatch.setenv("PL_GLOBAL_SEED", "7")
    numbers = [drawn(rank, RandomState()) for rank in (0, 1, 2)]
    assert len(set(map(tuple, numbers))) == 3
    assert numbers[0] == torch.rand(3, generator=torch.Generator().manual_seed(7)).tolist()
    assert drawn(1, RandomState()) == numbers[1]
    monkeypatch.setenv("PL_GLOBAL_SEED", "8")
    assert drawn(1, RandomState()) != numbers[1]


def test_a_restored_state_is_taken_as_it_is():
    state = RandomState()
    torch.manual_seed(3)
    state.load_state_dict(RandomState().state_dict())
    expected = torch.rand(3).tolist()
    assert drawn(0, state) == expected


def test_each_process_takes_its_own_state_and_one_more_begins_as_a_new_one(monkeypatch):
    states = []
    for seed in (1, 2, 3):
        torch.manual_seed(seed)
        states.append({"cpu": torch.get_rng_state()})
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    for rank in range(4):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        state = RandomState()
        state.load_state_dict({"ranks": states})
        numbers = drawn(rank, state)
        if rank < 3:
            assert numbers == torch.rand(3, generator=torch.Generator().manual_seed(rank + 1)).tolist()
        else:
            assert numbers == drawn(3, RandomState())
    assert drawn(1, RandomState()) == drawn(1, state)  # a state is restored once


def test_a_state_is_restored_once_and_a_further_fit_goes_on_with_its_own():
    state = RandomState()
    torch.manual_seed(3)
    state.load_state_dict(RandomState().state_dict())
    first = drawn(0, state)
    assert drawn(0, state) != first
    assert drawn(0, state) == torch.rand(3, generator=torch.Generator().manual_seed(7)).tolist()
