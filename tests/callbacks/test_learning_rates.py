"""The learning rate's name does not depend on the optimiser's groups."""

import csv
from pathlib import Path
from types import SimpleNamespace

import pytest

from vit_lightning.callbacks.learning_rates import LearningRates

WORDS = ("fit", "--data", "Synthetic", "--data.train_size", 32, "--data.eval_size", 8, "--data.num_workers", 0)
WORDS += (
    "--data.image_size",
    16,
    "--data.batch_size",
    8,
    "--model.net.variant",
    "mu/8",
    "--trainer.accelerator",
    "cpu",
)
WORDS += ("--trainer.log_every_n_steps", 1, "--model.schedule.warmup_steps", 2, "--model.optim.name", "adamw")


def logged(column: str) -> list[tuple[int, float]]:
    with Path("runs/default/0/metrics.csv").open(newline="") as file:
        return [(int(row["step"]), float(row[column])) for row in csv.DictReader(file) if row.get(column)]


@pytest.mark.parametrize("groups", [(), ("--model.optim.layer_decay", 0.5)])
def test_one_rate_always_and_the_groups_beside_it(app, groups):
    done = app(*WORDS, *groups, "--model.optim.lr", 0.01)
    assert done.code == 0, done.err
    assert [step for step, _ in logged("lr")] == [0, 1, 2, 3]
    assert [rate for _, rate in logged("lr")][:3] == pytest.approx([0, 0.005, 0.01])
    lowest = [rate for _, rate in logged("lr/layer0_decay")]
    assert (
        lowest[:3] == pytest.approx([0, 0.005 * 0.5**2, 0.01 * 0.5**2]) if groups else lowest[1] == pytest.approx(0.005)
    )


def test_one_group_has_no_columns_of_its_own(app):
    done = app(*WORDS, "--model.optim.decay_on", "all")
    assert done.code == 0, done.err
    assert len(logged("lr")) == 4
    assert "lr/" not in Path("runs/default/0/metrics.csv").read_text()


def test_rates_stand_in_the_rows_of_the_losses_that_they_gave(app):
    done = app(*WORDS, "--trainer.log_every_n_steps", 2, "--model.optim.lr", 0.01)
    assert done.code == 0, done.err
    assert [step for step, _ in logged("lr")] == [step for step, _ in logged("train/loss")] == [1, 3]
    assert logged("lr")[0][1] == pytest.approx(0.005)  # half of the warm-up of two steps


class Kept:
    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []

    def log_metrics(self, figures: dict[str, float], step: int) -> None:
        self.rows.append((step, figures))


def trainer_of(*optimizers: list[dict], every: int = 3) -> SimpleNamespace:
    made = [SimpleNamespace(param_groups=groups) for groups in optimizers]
    return SimpleNamespace(
        global_step=0, log_every_n_steps=every, optimizers=made, loggers=[Kept(), Kept()], callback_metrics={}
    )


def test_every_third_step_logs_the_greatest_rate_and_each_group_once():
    trainer = trainer_of([{"lr": 0.25, "name": "layer0"}, {"lr": 0.5}], [{"lr": 0.125, "name": "muon"}])
    callback = LearningRates()
    for step in (0, 1, 2, 2, 3, 4, 5):  # two batches of step 2 accumulate
        trainer.global_step = step
        callback.on_train_batch_start(trainer, None, None, 0)
    figures = {"lr": 0.5, "lr/layer0": 0.25, "lr/1": 0.5, "lr/muon": 0.125}
    assert trainer.loggers[0].rows == trainer.loggers[1].rows == [(2, figures), (5, figures)]
    assert {name: float(value) for name, value in trainer.callback_metrics.items()} == figures
    callback.on_train_start(trainer, None)  # another fit may begin at the same step
    callback.on_train_batch_start(trainer, None, None, 0)
    assert len(trainer.loggers[0].rows) == 3


@pytest.mark.parametrize("trainer", [trainer_of([{"lr": 0.5}], every=0), trainer_of(every=1)], ids=["never", "none"])
def test_nothing_to_log_is_not_logged(trainer):
    LearningRates().on_train_batch_start(trainer, None, None, 0)
    assert trainer.loggers[0].rows == [] and trainer.callback_metrics == {}
