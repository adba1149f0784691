"""Progress of a run, as plain lines."""

import re
from types import SimpleNamespace

import pytest
import torch

from vit_lightning.callbacks import progress as module
from vit_lightning.callbacks.progress import PlainProgress


def test_lines_count_the_batches_of_each_epoch(app, monkeypatch):
    monkeypatch.setattr("vit_lightning.callbacks.progress.PlainProgress.__init__.__defaults__", (0.0,))
    data = ("--data", "Synthetic", "--data.train_size", 32, "--data.eval_size", 8, "--data.num_workers", 0)
    net = (
        "--data.image_size",
        16,
        "--data.batch_size",
        8,
        "--model.net.variant",
        "mu/8",
        "--trainer.accelerator",
        "cpu",
    )
    done = app("fit", *data, *net, "--trainer.max_epochs", -1, "--trainer.max_steps", 6)
    assert done.code == 0, done.err
    assert re.findall(r"batch (\S+),", done.out) == ["1/4", "2/4", "3/4", "4/4", "1/2", "2/2"]


def test_a_score_stands_beside_the_epoch_that_it_is_of_alone(app):
    data = ("--data", "Synthetic", "--data.train_size", 16, "--data.eval_size", 8, "--data.num_workers", 0)
    net = (
        "--data.image_size",
        16,
        "--data.batch_size",
        8,
        "--model.net.variant",
        "mu/8",
        "--trainer.accelerator",
        "cpu",
    )
    done = app("fit", *data, *net, "--trainer.max_epochs", 4, "--trainer.check_val_every_n_epoch", 2)
    assert done.code == 0, done.err
    lines = [line for line in done.out.splitlines() if line.startswith("epoch ")]
    assert ["val/top1" in line for line in lines] == [False, True, False, True]


def progress_of_scores() -> PlainProgress:
    progress = PlainProgress(30.0)
    progress.get_metrics = lambda trainer, model: {
        "v_num": "0",
        "train/loss": torch.tensor(0.123456),
        "val/top1": torch.tensor(0.5),
    }
    return progress


@pytest.mark.parametrize(
    ("facts", "batch", "where"),
    [
        ({}, 0, "batch 1/10"),
        ({"max_steps": 20, "global_step": 19, "accumulate_grad_batches": 3}, 4, "batch 5/8"),  # one step is left
        ({"max_steps": 20, "global_step": 10, "accumulate_grad_batches": 3}, 4, "batch 5/10"),
        ({"max_steps": 0, "global_step": 0}, 4, "batch 5/5"),
    ],
)
def test_a_line_within_an_epoch_counts_the_batches_that_will_be(monkeypatch, capsys, facts, batch, where):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    usual = {"max_steps": -1, "global_step": 7, "accumulate_grad_batches": 1, "num_training_batches": 10}
    trainer = SimpleNamespace(**usual | {"max_epochs": 4, "current_epoch": 1, "sanity_checking": False} | facts)
    progress = progress_of_scores()
    progress.on_train_start(trainer, None)
    for later, said in ((29.9, ""), (30.0, f"epoch 2/4 {where}, step {trainer.global_step} train/loss 0.1235\n")):
        now[0] = 100.0 + later
        progress.on_train_batch_end(trainer, None, None, None, batch)
        assert capsys.readouterr().out == said
    now[0] += 29.9
    progress.on_train_batch_end(trainer, None, None, None, batch)
    assert capsys.readouterr().out == ""


def test_scores_are_shown_in_the_epoch_that_they_are_of(capsys):
    trainer = SimpleNamespace(max_epochs=-1, current_epoch=2, global_step=9, sanity_checking=True)
    progress = progress_of_scores()
    progress.on_validation_end(trainer, None)
    progress.on_train_epoch_end(trainer, None)
    trainer.sanity_checking = False
    progress.on_validation_end(trainer, None)
    progress.on_train_epoch_end(trainer, None)
    trainer.current_epoch = 3
    progress.on_train_epoch_end(trainer, None)
    assert capsys.readouterr().out.splitlines() == [
        "epoch 3 done, step 9 train/loss 0.1235",
        "epoch 3 done, step 9 train/loss 0.1235 val/top1 0.5",
        "epoch 4 done, step 9 train/loss 0.1235",
    ]
    progress.disable()
    progress.on_train_epoch_end(trainer, None)
    assert capsys.readouterr().out == ""
    progress.enable()
    progress.on_train_epoch_end(trainer, None)
    assert capsys.readouterr().out
