"""Case C14: whatever a run trains in, its checkpoint has the same keys and fits every other."""

from functools import partialmethod
from pathlib import Path

import pytest
import torch
from torch import nn

from vit_lightning.classifier import Classifier
from vit_lightning.weights import load_net

FIT = ("fit", "--data", "Synthetic", "--data.train_size", 16, "--data.eval_size", 8, "--data.batch_size", 8)
FIT += ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data.num_workers", 0, "--data.root", ".")
WAYS = {
    "fp32": (),
    "bf16-mixed": ("--trainer.precision", "bf16-mixed"),
    "bf16-true": ("--trainer.precision", "bf16-true"),
    "recomputed": ("--model.recompute", "true"),
    "compiled": ("--model.compile", "true"),
}


@pytest.fixture
def trained(app, monkeypatch):
    """A checkpoint of each way."""
    # Inductor would spend a minute on compiling; what happens to the keys does not depend on the backend.
    monkeypatch.setattr(nn.Module, "compile", partialmethod(nn.Module.compile, backend="eager"))
    checkpoints = {}
    for way, flags in WAYS.items():
        Path(f"{way}.yaml").write_text("{}\n")
        done = app(*FIT, *flags, "-c", f"{way}.yaml")
        assert done.code == 0, done.err
        checkpoints[way] = Path(f"runs/{way}/0/checkpoints/last.ckpt")
    return checkpoints


@pytest.mark.parametrize("flags", [("--data.augment.mixup_alpha", 0.2), ("--data.augment.cutmix_alpha", 1)])
def test_mixed_images_are_trained_on_in_bf16_alone(app, flags):
    done = app(*FIT, "--trainer.precision", "bf16-true", *flags, "--trainer.max_steps", 2)
    assert done.code == 0, done.err


@pytest.mark.parametrize("images", [torch.uint8, torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_normalised_images_are_of_the_nets_precision(images, precision):
    model = Classifier(net={"variant": "mu/8"}, num_classes=2, image_size=8, mean=[0.5] * 3, std=[0.25] * 3)
    model.to(precision)
    pixels = torch.full((2, 3, 8, 8), 255 if images == torch.uint8 else 1, dtype=images)
    found = model.normalise(pixels)
    assert found.dtype == precision and torch.equal(found, torch.full_like(found, 2))


def test_case_c14_every_checkpoint_fits_every_other(app, trained):
    content = {way: torch.load(path, weights_only=True) for way, path in trained.items()}
    keys = content["fp32"]["state_dict"].keys()
    assert not any("_orig_mod" in key for key in keys)
    for way in WAYS:
        assert content[way]["state_dict"].keys() == keys
        load_net(trained[way])
        model = Classifier(**content[way]["hyper_parameters"] | {"compile": False})
        model.configure_model()
        for other in WAYS:
            model.load_state_dict(content[other]["state_dict"], strict=True)
    for way in ("fp32", "bf16-mixed", "bf16-true"):
        assert "MixedPrecision" not in content[way]  # under which a GradScaler's state would stand
    dtypes = {way: {tensor.dtype for tensor in content[way]["state_dict"].values()} for way in WAYS}
    assert {way for way in WAYS if dtypes[way] != {torch.float32}} == {"bf16-true"}
    for way in ("bf16-true", "compiled"):
        data = ("--data", "Synthetic", "--data.eval_size", 8, "--data.num_workers", 0)
        done = app("validate", *data, "--ckpt_path", trained[way], "--trainer.accelerator", "cpu")
        assert done.code == 0, done.err
