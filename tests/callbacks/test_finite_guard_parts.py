"""FiniteGuard without a run: what it names in later epochs, of accumulated batches and without a file."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from tests.callbacks.test_finite_guard import guarded, step
from vit_lightning.callbacks.finite_guard import _keys
from vit_lightning.contracts import RecipeTrained
from vit_lightning.data.sampling import TrainSampler
from vit_lightning.errors import InputError


class Named:
    """Twelve records with names, as a set of images has them."""

    def __init__(self, keys) -> None:
        self.keys = keys

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, draw):
        return draw.index


def loader(keys, size: int = 2) -> DataLoader:
    images = Named(keys)
    return DataLoader(images, batch_size=size, sampler=TrainSampler(images))


@pytest.mark.parametrize("epoch", [0, 3])
def test_records_are_those_of_the_epoch_and_of_all_its_batches(epoch):
    keys = [f"{number}.png" for number in range(12)]
    given = loader(keys)
    order = TrainSampler(range(12))
    order.set_epoch(epoch)
    expected = [keys[draw.index] for draw in order]
    given.sampler.set_epoch(7)
    given.sampler.skip(4, 7)
    trainer = SimpleNamespace(train_dataloader=given, current_epoch=epoch)
    assert _keys(trainer, [0]) == expected[:2]
    assert _keys(trainer, [2, 3]) == expected[4:8]
    assert _keys(trainer, [5]) == expected[10:]
    assert given.sampler.epoch == 7  # the run's own sampler is left as it is


def test_numbers_of_numpy_and_other_keys_are_written_too():
    trainer = SimpleNamespace(train_dataloader=loader(np.arange(12) * 10), current_epoch=0)
    found = _keys(trainer, [0, 1])
    assert json.loads(json.dumps(found)) == found and {number % 10 for number in found} == {0}
    trainer.train_dataloader = loader([(number, "x") for number in range(12)])
    assert all(isinstance(key, str) and key.endswith(", 'x')") for key in _keys(trainer, [0]))


def test_the_order_of_other_loaders_is_not_ours_to_repeat():
    for given in (DataLoader(range(4), batch_size=2), [torch.zeros(2)], None):
        assert _keys(SimpleNamespace(train_dataloader=given, current_epoch=0), [0]) is None


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    guard, trainer, model = guarded(tmp_path, every=1)
    guard.folder = None
    with pytest.raises(InputError, match="at optimiser step 0: the run ends here; lower"):
        step(guard, trainer, model, 0, float("nan"))
    assert list(Path().iterdir()) == []


def test_a_batch_that_only_adds_up_has_no_norms_and_its_step_s_number(tmp_path):
    """Two batches a step: the second makes step 8, the third begins step 9."""
    guard, trainer, model = guarded(tmp_path, every=0, accumulate_grad_batches=2, global_step=8)
    model.weight.grad = torch.tensor([[3.0, 4.0]])
    ended = []
    for number in range(3):
        if number % 2:
            guard.on_before_optimizer_step(trainer, model, None)
            trainer.global_step += 1
        guard.on_train_batch_end(trainer, model, {"loss": torch.tensor(0.5)}, None, number)
        ended.append(guard._unchecked[-1])
    assert [(batch.number, batch.step) for batch in ended] == [(0, 8), (1, 8), (2, 9)]
    assert [None if batch.norms is None else batch.norms.tolist() for batch in ended] == [None, [5.0], None]
    assert [float(batch.loss) for batch in ended] == [1.0, 1.0, 1.0]
    guard._unchecked[-1] = ended[-1]._replace(loss=torch.tensor(float("inf")))
    with pytest.raises(InputError, match="training loss is not finite at optimiser step 9"):
        guard.on_train_epoch_end(trainer, model)
    report = json.loads((tmp_path / "nonfinite.json").read_text())
    assert report["gradient_norms"] == {} and report["devices"][0]["batches"] == [2]


def test_batches_are_looked_at_where_so_many_of_the_epoch_are_done(tmp_path):
    guard, trainer, model = guarded(tmp_path, every=3)
    waiting = []
    for number in range(7):
        step(guard, trainer, model, number, 1.0)
        waiting.append(len(guard._unchecked))
    assert waiting == [1, 2, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("takes", [False, True])
def test_norms_are_those_of_what_is_trained_and_the_model_s_where_it_takes_them(tmp_path, takes):
    model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Linear(1, 1))
    if takes:
        model.__class__ = type("Taking", (torch.nn.Sequential, RecipeTrained), {})
        assert isinstance(model, RecipeTrained)
    model[0].bias.requires_grad = False
    model[0].weight.grad = torch.tensor([[float("nan"), 4.0]])
    model[1].weight.grad = torch.tensor([[-2.0]])
    guard, trainer, _ = guarded(tmp_path, every=1)
    guard.on_train_start(trainer, model)
    guard.on_before_optimizer_step(trainer, model, None)
    if takes:
        assert model.gradient_norms.tolist()[1:] == [2.0, 0.0]
    else:
        assert not hasattr(model, "gradient_norms")
    with pytest.raises(InputError, match="the gradient"):
        guard.on_train_batch_end(trainer, model, {"loss": torch.tensor(0.5)}, None, 0)
    norms = json.loads((tmp_path / "nonfinite.json").read_text())["gradient_norms"]
    assert norms == {"0.weight": "nan", "1.weight": 2.0, "1.bias": 0.0}  # the last has no gradient yet
