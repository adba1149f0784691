"""The augmentation's flags, through the whole command line."""

from pathlib import Path

import pytest

SMOKE = Path(__file__).parents[2] / "experiments/smoke.yaml"
SHORT = (
    "--model.schedule.warmup_steps",
    1,
    "--trainer.max_epochs",
    1,
    "--trainer.limit_train_batches",
    2,
    "--trainer.callbacks",
    "[]",
)
SETTINGS = ("--data.num_workers", 0, "--data.train_size", 64, "--data.eval_size", 8)


@pytest.mark.parametrize(
    "flags",
    [
        ("--data.augment.preset", "strong2", "--data.augment.cutmix_alpha", 1.0),
        ("--data.augment.rand_augment", "[1, 7.5]", "--data.augment.erasing", 0.5, "--data.augment_on_device", "false"),
        ("--data.augment.trivial_augment", "true"),
    ],
    ids=lambda flags: flags[0].rpartition(".")[2],
)
def test_flags_train(app, flags):
    done = app("fit", "-c", SMOKE, *SHORT, *SETTINGS, *flags)
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--data.augment.preset", "medium3"), ("medium3", "medium2")),
        (("--data.augment.rand_augment", "[2, 99]"), ("rand_augment", "99", "0 to 30")),
        (("--data.augment.rand_augment", "2"), ("rand_augment", "2")),
        (("--data.augment.erasing", 2), ("erasing", "2", "0 to 1")),
        (("--data.augment.mixup_alpha", -1), ("mixup_alpha", "-1")),
        (("--data.augment.unmixed", "0.5"), ("unmixed 0.5 does nothing", "mixup_alpha")),
        (("--data.augment.preset", "light1", "--data.augment.trivial_augment", "true"), ("trivial_augment", "[0, 0]")),
    ],
)
def test_wrong_values_are_one_clear_line(app, flags, words):
    done = app("fit", "-c", SMOKE, *SHORT, *flags)
    last = done.err.strip().splitlines()[-1]
    assert done.code == 1
    assert all(word in last for word in words), last
    assert "Traceback" not in done.err
