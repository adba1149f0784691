"""The recipe that follows the set's size, and the experiment that has it."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from datamodules.synthetic import Synthetic
from vit_lightning.augment import Augment
from vit_lightning.callbacks import HyperRule, hyper_rule
from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.training.optim import Schedule
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


def settled(rule: HyperRule, images: int, stage: str = "fit", **facts) -> tuple[SimpleNamespace, Classifier, Synthetic]:
    """A trainer, a model and data after the rule has settled what they leave open."""
    data = Synthetic(train_size=images, image_size=facts.pop("image_size", 32), augment=facts.pop("augment", Augment()))
    data.setup("fit")
    model = Classifier({"variant": "mu/8"}, schedule=facts.pop("schedule", Schedule()), num_classes=10, image_size=32)
    loop = SimpleNamespace(epoch_loop=SimpleNamespace(max_steps=-1))
    usual = {"max_steps": -1, "max_epochs": -1, "is_global_zero": True}
    trainer = SimpleNamespace(datamodule=data, fit_loop=loop, **usual | facts)
    rule.setup(trainer, model, stage)
    return trainer, model, data


@pytest.mark.parametrize(("images", "steps", "mixup"), [(19_999, 7, 0), (20_000, 70, 0.1), (500_000, 700, 0.1)])
def test_what_is_left_open_follows_the_set(images, steps, mixup):
    trainer, model, data = settled(HyperRule((7, 70, 700)), images)
    assert trainer.fit_loop.epoch_loop.max_steps == steps
    assert model.schedule.warmup_steps == model.hparams["schedule"]["warmup_steps"] == steps // 5
    assert data.augment.mixup == mixup


def test_what_is_given_stays():
    rule, schedule = HyperRule((7, 70, 700)), Schedule(warmup_steps=3)
    for length in ({"max_steps": 9}, {"max_epochs": 2}):
        trainer, model, data = settled(rule, 20_000, schedule=schedule, augment=Augment(mixup_alpha=0.0), **length)
        assert trainer.fit_loop.epoch_loop.max_steps == -1
        assert model.schedule.warmup_steps == 3 and data.augment.mixup == 0
    trainer, model, data = settled(rule, 20_000, stage="validate")
    assert (trainer.fit_loop.epoch_loop.max_steps, model.schedule.warmup_steps, data.augment.mixup) == (-1, 0, 0)


class Sides(list):
    """Images of these heights and widths; where there are none, the image cannot be read."""

    def __getitem__(self, index):
        sides = super().__getitem__(index)
        return (torch.zeros(3, *sides, dtype=torch.uint8) if sides else b""), 0


@pytest.mark.parametrize(
    ("sides", "size", "said"),
    [
        ([(95, 96)], 129, "95x96 pixels, which BiT's rule trains at 128; give --data.image_size 128"),
        ([(96, 96)], 129, None),
        ([(95, 96)], 128, None),
        ([(95, 96)], (160, 128), None),
        ([(10, 900), (10, 10), (300, 400)], 160, "10x900 pixels"),  # the one in the middle, by area
        ([None, (10, 12), None], 160, "10x12 pixels"),
        ([None], 160, None),
        ([(300, 400)] * 16 + [(10, 12)] * 40, 160, None),  # the first sixteen are looked at
    ],
)
def test_a_resolution_too_high_for_the_images_is_said(sides, size, said):
    found = hyper_rule._resolution(Sides(sides), Synthetic(image_size=size))
    assert (found or "").startswith(f"images have about {said}" if said else "") and bool(found) == bool(said)


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
