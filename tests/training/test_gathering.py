"""Columns of several processes in the order of the images."""

from types import SimpleNamespace

import torch

from vit_lightning.training.gathering import gathered


def test_one_process_keeps_its_columns_as_they_are():
    columns = torch.tensor([3, 1]), torch.tensor([[0.5], [0.25]])
    found = gathered(SimpleNamespace(world_size=1), *columns)
    assert len(found) == 2 and all(ours is theirs for ours, theirs in zip(found, columns, strict=True))


def test_records_that_were_dealt_out_in_turns_come_in_the_order_of_the_data():
    """Of three processes with two records each this one has the records 0 and 3, the others one and two more."""
    strategy = SimpleNamespace(all_gather=lambda own: torch.stack([own, own + 1, own + 2]))
    numbers, features = torch.tensor([0, 3]), torch.tensor([[0, 10, 20], [3, 13, 23]])
    found = gathered(SimpleNamespace(world_size=3, strategy=strategy), numbers, features)
    assert found[0].tolist() == [0, 1, 2, 3, 4, 5]
    assert found[1].tolist() == [[number, number + 10, number + 20] for number in range(6)]
