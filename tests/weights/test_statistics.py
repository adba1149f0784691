"""Mean and std of nets whose files state none: known for those of DINOv2 alone, and never against what is stated."""

from pathlib import Path

import pytest
import torch

from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report, load_net
from vit_lightning.weights.layouts.facts import IMAGENET
from vit_lightning.weights.save import save

NET = {"patch": 14, "width": 192, "depth": 1, "heads": 3, "mlp": 384, "layer_scale": 1e-5, "gelu": "exact"}
SIZE = 37 * 14
DATA = ("--data", "Synthetic", "--data.image_size", 28, "--data.batch_size", 4, "--data.num_workers", 0)
DATA += ("--data.train_size", 8, "--data.eval_size", 4, "--trainer.accelerator", "cpu")


def bare(folder: Path, size: int = SIZE, to: str = "timm", **fields) -> Path:
    """A file of tensors alone."""
    save(build(NetConfig(**NET | fields), (size, size), 0), Report("", ""), folder / to, to)
    return (folder / to / "model.safetensors").rename(folder / "bare.safetensors")


@pytest.mark.parametrize("to", ["timm", "huggingface"])
@pytest.mark.parametrize("registers", [0, 4])
def test_a_bare_net_of_dinov2_has_imagenets(tmp_path, to, registers):
    _, report = load_net(bare(tmp_path, to=to, registers=registers))
    assert (report.mean, report.std) == IMAGENET
    assert "ImageNet's are assumed, as for every net of DINOv2; --data.mean and --data.std" in str(report)
    report.state_normalisation((0.1,) * 3, None, 3)
    assert (report.mean, report.std) == ((0.1,) * 3, IMAGENET[1])


@pytest.mark.parametrize(
    ("size", "fields"), [(224, {}), (SIZE, {"layer_scale": 0.0}), (592, {"patch": 16}), (SIZE, {"channels": 4})]
)
def test_of_any_other_bare_net_nothing_is_known(tmp_path, size, fields):
    _, report = load_net(bare(tmp_path, size, **fields))
    assert report.mean is None and report.std is None and "DINOv2" not in str(report)


def test_what_a_file_states_is_taken(tmp_path):
    net = build(NetConfig(**NET), (SIZE, SIZE), 0)
    save(net, Report("", "", mean=(0.5,) * 3, std=(0.5,) * 3), tmp_path / "timm", "timm")
    assert load_net(tmp_path / "timm")[1].mean == (0.5,) * 3


def test_flags_beat_what_is_assumed_and_checkpoints_keep_theirs(app, tmp_path):
    fit = ("fit", *DATA, "--model.weights", bare(tmp_path), "--model.weights_head", "reset")
    done = app(*fit, "--trainer.max_steps", 1)
    assert "pixels   mean 0.485, 0.456, 0.406, std 0.229, 0.224, 0.225, from ImageNet's, which are assumed" in done.out
    own = ("--data.mean", "[0.5,0.5,0.5]", "--data.std", "[0.5,0.5,0.5]")
    done = app(*fit, *own, "--trainer.max_steps", 1, "--name", "own")
    assert "pixels   mean 0.5, 0.5, 0.5, std 0.5, 0.5, 0.5, from --data.mean and --data.std" in done.out, done.err
    path = "runs/own/0/checkpoints/last.ckpt"
    assert torch.load(path, weights_only=True)["hyper_parameters"]["mean"] == (0.5,) * 3
    done = app(*fit, "--trainer.max_steps", 2, "--ckpt_path", path, "--model.schedule.allow_horizon_change", "true")
    assert done.code == 0 and "mean 0.5, 0.5, 0.5" in done.out, done.err
    assert load_net(path)[1].mean == (0.5,) * 3


def test_weights_that_state_none_are_named_with_the_flags(app, tmp_path):
    words = (*DATA, "--model.weights", bare(tmp_path, 28), "--model.weights_head", "reset")
    done = app("fit", *words, "--trainer.max_steps", 1)
    assert "the default, since the weights state none; --data.mean and --data.std state others" in done.out, done.err
    done = app("doctor", *words)
    assert "bare.safetensors states neither mean nor std of its images: 0.5 is taken" in done.out
    assert "give --data.mean and --data.std as the net was trained with" in done.out
    stated = ("--data.mean", "[0.4,0.4,0.4]", "--data.std", "[0.2,0.2,0.2]")
    assert "states neither" not in app("doctor", *words, *stated).out
