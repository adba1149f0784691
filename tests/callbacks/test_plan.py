"""What the plan says of a run's recipe and data."""

from pathlib import Path
from types import SimpleNamespace

import torch

from vit_lightning.callbacks.plan import RunPlan
from vit_lightning.callbacks.plan_data import _few_images
from vit_lightning.classifier import Classifier
from vit_lightning.models import NetConfig

TINY = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data", "Synthetic")
SMALL = ("--data.train_size", 32, "--data.eval_size", 8, "--data.batch_size", 16, "--data.num_workers", 0)
FIT = ("fit", *TINY, *SMALL)


def line(out: str, word: str) -> str | None:
    return next((text.partition(" ")[2].strip() for text in out.splitlines() if text.startswith(word)), None)


def test_the_plan_is_kept_and_a_resumed_run_adds_its_own(app):
    done = app(*FIT, "--trainer.max_epochs", 1)
    assert done.code == 0, done.err
    kept = Path("runs/default/0/plan.txt")
    first = kept.read_text()
    assert first in done.out and first.startswith("net      mu/8, ") and "\nsteps    1 epoch of 2 batches" in first
    longer = ("--ckpt_path", "last", "--trainer.max_epochs", 2, "--model.schedule.allow_horizon_change", "true")
    again = app(*FIT, *longer)
    assert again.code == 0, again.err
    second = kept.read_text().removeprefix(first + "\n")
    assert "\nsteps    2 epochs of 2 batches" in second
    assert second.splitlines()[-1].endswith("last.ckpt at step 2, in epoch 2") and second.startswith("net ")
    refused = app(*FIT, "--data.batch_size", 64)
    assert refused.code == 1 and not Path("runs/default/1").exists()
    assert app(*FIT, "--trainer.fast_dev_run", "true").code == 0
    assert [str(path) for path in Path().rglob("plan.txt")] == [str(kept)]


def test_a_plan_of_names_that_are_not_utf8_is_kept(tmp_path):
    plan = RunPlan(tmp_path, keep=True)
    plan.lines = ["classes  2: \udcff, b"]
    for _ in range(2):  # once alone
        plan.on_train_batch_start(None, None, None, 0)
    assert (tmp_path / "plan.txt").read_bytes() == b"classes  2: \xff, b\n"


def test_the_plan_names_device_loss_and_decay(app):
    done = app(*FIT, "--model.label_smoothing", 0.1, "--model.optim.name", "adamw", "--model.optim.weight_decay", 0.05)
    assert done.code == 0, done.err
    assert line(done.out, "device") == "cpu, precision 32-true"
    assert line(done.out, "loss") == "softmax cross-entropy, label smoothing 0.1"
    assert line(done.out, "decay").startswith("0.05 on kernels (")
    assert line(done.out, "warning") is None


def test_masked_patches_say_what_they_predict(app):
    done = app(*FIT, "--model", "MaskedPatch", "--model.target", "pixels", "--trainer.fast_dev_run", "true")
    assert done.code == 0, done.err
    assert line(done.out, "loss") == "mean squared error of pixels"


def test_the_plan_names_the_run_folder_beside_a_logger_of_one_s_own(app):
    done = app(*FIT, "--trainer.logger", "CSVLogger", "--trainer.logger.save_dir", "elsewhere")
    assert done.code == 0, done.err
    assert line(done.out, "run").endswith("runs/default/0")


def test_the_plan_names_images_classes_and_normalisation(app):
    done = app(*FIT)
    assert done.code == 0, done.err
    assert line(done.out, "images") == "train 32, val 8, test 8"
    classes = line(done.out, "classes")
    assert classes.startswith("10: stripes at 0 degrees, stripes at 18 degrees, ") and classes.endswith(" and 2 more")
    assert line(done.out, "pixels") == "mean 0.5, 0.5, 0.5, std 0.5, 0.5, 0.5, from the default"
    given = ("--data.mean", "[0.1,0.2,0.3]", "--data.std", "[0.4,0.5,0.6]", "--trainer.max_epochs", 2)
    done = app(*FIT, *given)
    assert line(done.out, "pixels") == "mean 0.1, 0.2, 0.3, std 0.4, 0.5, 0.6, from --data.mean and --data.std"


def test_few_images_for_a_large_net_from_scratch_are_warned_about():
    """Without training it: the sentence needs the numbers alone."""
    net = torch.nn.Linear(1, 1)
    net.weight = torch.nn.Parameter(torch.empty(86_000_000, 1, device="meta"))
    model = Classifier(NetConfig("B/16"))
    model.net = net
    images = SimpleNamespace(dataset=range(450))
    said = _few_images(SimpleNamespace(train_dataloader=images, ckpt_path=None), model)
    assert said.startswith("450 images are few for B/16 from scratch; begin with --model.weights (")
    images.dataset = range(1_281_167)
    assert _few_images(SimpleNamespace(train_dataloader=images, ckpt_path=None), model) is None
    images.dataset = range(450)
    assert _few_images(SimpleNamespace(train_dataloader=images, ckpt_path="last.ckpt"), model) is None
    model.weights = "w.npz"
    assert _few_images(SimpleNamespace(train_dataloader=images, ckpt_path=None), model) is None
