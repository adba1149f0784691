"""The recipe that follows the set's size, and the experiment that has it."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vit_lightning.callbacks import HyperRule
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights.layouts.checkpoint import write
from vit_lightning.weights.report import Report

FOLDER = Path(__file__).parents[2] / "experiments"


@pytest.mark.parametrize(
    ("images", "steps", "warmup"),
    [
        (1, 500, 100),
        (19_999, 500, 100),
        (20_000, 10_000, 500),
        (499_999, 10_000, 500),
        (500_000, 20_000, 500),
        (14_000_000, 20_000, 500),
    ],
)
def test_steps_and_warm_up_are_the_rules(images, steps, warmup):
    """arXiv 1912.11370, section 3.3, and the schedule of its published code."""
    rule = HyperRule()
    assert (rule.steps_for(images), rule.warmup_for(images)) == (steps, warmup)


def test_steps_that_cannot_be():
    with pytest.raises(InputError, match=r"HyperRule's steps are \(0, 1, 2\)"):
        HyperRule((0, 1, 2))


def photographs(folder, side=32, each=6):
    """Pictures of two classes, flat colours with noise."""
    draw = np.random.default_rng(0)
    for split, count in (("train", each), ("val", 2)):
        for name, shade in (("dark", 60), ("light", 190)):
            (folder / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = (shade + draw.integers(-20, 20, (side, side, 3))).astype(np.uint8)
                Image.fromarray(pixels).save(folder / split / name / f"{number}.png")


def weights(folder):
    net = build(NetConfig("mu/8"), 16, 3)
    write(net, Report("", "", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)), folder / "w.ckpt")
    return folder / "w.ckpt"


# A shorter rule takes the place of the file's, in a file behind it.
SHORT = """
trainer:
  callbacks:
    - class_path: vit_lightning.callbacks.HyperRule
      init_args: {steps: [5, 10, 20]}
"""


def test_the_experiment_tunes_any_weights_on_any_folder(app, tmp_path):
    photographs(tmp_path / "photos")
    Path("short.yaml").write_text(SHORT)
    words = ("--data.root", "photos", "--model.weights", weights(tmp_path), "--data.image_size", 16)
    words += ("--data.batch_size", 4, "--trainer.accumulate_grad_batches", 2, "--trainer.accelerator", "cpu")
    done = app("fit", "-c", FOLDER / "finetune_folder.yaml", "-c", "short.yaml", *words)
    assert done.code == 0, done.err
    plan = {line.partition(" ")[0]: line.partition(" ")[2].strip() for line in done.out.splitlines()}
    assert "5 optimiser steps, warm-up 1, then step" in plan["steps"]
    assert plan["images"] == "train 12, val 4"
    assert plan["classes"] == "2: dark, light"
    assert plan["pixels"] == "mean 0.5, 0.5, 0.5, std 0.5, 0.5, 0.5, from the weights"
    assert "warning" not in plan  # 32 pixels are few, but the net takes fewer
    done = app("fit", "-c", FOLDER / "finetune_folder.yaml", "-c", "short.yaml", *words, "--ckpt_path", "last")
    assert "nothing was left to train: the checkpoint has 5 optimiser steps" in done.out
    typed = ("--data.image_size", 136, "--trainer.max_steps", 3, "--model.schedule.warmup_steps", 2)
    done = app("fit", "-c", FOLDER / "finetune_folder.yaml", *words, *typed)
    assert done.code == 0, done.err
    assert "3 optimiser steps, warm-up 2, then step" in done.out
    assert (
        "warning  images have about 32x32 pixels, which BiT's rule trains at 128; give --data.image_size 128"
        in done.out
    )
