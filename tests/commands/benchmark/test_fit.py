"""Windows of a fit in turn with bare steps, on a clock that only steps move."""

from itertools import islice
from types import SimpleNamespace

import pytest

from tests.commands.benchmark.test_rounds import Ticks
from vit_lightning.commands.benchmark import fit as module
from vit_lightning.commands.benchmark.contender import HORIZON
from vit_lightning.commands.benchmark.fit import FitVersusBareSteps, RepeatedBatch, _whole_logs, measure_fit
from vit_lightning.commands.benchmark.rounds import BenchmarkRow


@pytest.mark.parametrize(
    ("steps", "every", "window"), [(0.2, 1, 1), (3.2, 5, 5), (10.0, 5, 10), (10.1, 5, 15), (7.5, 0, 8)]
)
def test_a_window_is_a_whole_number_of_logs(steps, every, window):
    assert _whole_logs(steps, every) == window


def test_a_fit_and_its_bare_steps_take_turns_of_equally_many_steps(monkeypatch):
    """A bare step takes half a second, one of the fit's two: windows of 3 s are 6 steps, or 8 in whole logs of 4."""
    clock, bare_steps = Ticks(), []

    def bare_step(strategy: object, batch: object) -> None:
        clock.now += 0.5
        bare_steps.append(batch)

    monkeypatch.setattr(module, "take_step", bare_step)
    rows = [BenchmarkRow("fit", name, (8, 16), batch=10) for name in ("a", "a bare")]
    said: list[str] = []
    callback = FitVersusBareSteps(*rows, rounds=2, seconds=3.0, report=said.append)
    callback.clock = clock
    trainer = SimpleNamespace(strategy=None, callbacks=[callback], log_every_n_steps=4, should_stop=False)
    steps = 0
    while not trainer.should_stop:
        clock.now += 2.0
        steps += 1
        callback.on_train_batch_end(trainer, SimpleNamespace(), None, "batch", steps)
    assert steps == 3 + 8 + 8  # the first three warm up
    assert bare_steps == ["batch"] * (1 + 8 + 8)
    assert rows[0].rounds == [5.0, 5.0] and rows[1].rounds == [20.0, 20.0]
    assert said[0] == "fit: round 1/2: a 5.0, bare 20.0 images/s"
    assert trainer.callbacks == [callback]


def test_one_batch_comes_again_and_again():
    loader = RepeatedBatch("batch")
    assert list(islice(loader, 3)) == ["batch"] * 3 and len(loader) == HORIZON > 10**8


def test_a_fit_has_the_comparison_among_its_callbacks_and_gives_it_back(monkeypatch):
    fitted: list[tuple] = []
    monkeypatch.setattr(module, "resident_batch", lambda *facts: facts)

    def fit(model: object, loader: RepeatedBatch) -> None:
        fitted.append((model, loader.batch, list(trainer.callbacks)))
        raise KeyboardInterrupt

    trainer = SimpleNamespace(
        callbacks=["own"],
        fit=fit,
        strategy=SimpleNamespace(root_device="device"),
        fit_loop=SimpleNamespace(max_epochs=3, epoch_loop=SimpleNamespace(max_steps=4)),
    )
    rows = [BenchmarkRow("fit", name, (8, 16), batch=10) for name in ("a", "a bare")]
    comparison = FitVersusBareSteps(*rows, rounds=2, seconds=3.0, report=print)
    with pytest.raises(KeyboardInterrupt):
        measure_fit(trainer, "model", comparison)
    assert fitted == [("model", ("model", 10, "device"), ["own", comparison])]
    assert trainer.callbacks == ["own"]
    assert (trainer.fit_loop.max_epochs, trainer.fit_loop.epoch_loop.max_steps) == (-1, HORIZON)
