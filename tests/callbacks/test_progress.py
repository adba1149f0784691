"""Progress of a run, as plain lines."""

import re


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
