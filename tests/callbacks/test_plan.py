"""What the plan says of a run's recipe."""

import pytest
import torch
from torch import nn

from vit_lightning.models import NetConfig, build
from vit_lightning.training.optim import Optim, decay_line, kind_of

TINY = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data", "Synthetic")
SMALL = ("--data.train_size", 32, "--data.eval_size", 8, "--data.batch_size", 16, "--data.num_workers", 0)
FIT = ("fit", *TINY, *SMALL)
NET = build(NetConfig("mu/8", registers=2, layer_scale=0.1), image_size=16, num_classes=3)


def line(out: str, word: str) -> str | None:
    return next((text.partition(" ")[2].strip() for text in out.splitlines() if text.startswith(word)), None)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("patches.proj.weight", "kernels"),
        ("blocks.0.mlp.up.weight", "kernels"),
        ("blocks.0.mlp.up.bias", "biases"),
        ("blocks.0.norm1.weight", "norms"),
        ("norm.bias", "biases"),
        ("blocks.0.scale1", "layer scales"),
        ("class_token", "tokens"),
        ("registers", "tokens"),
        ("position.table", "positions"),
    ],
)
def test_kinds(name, kind):
    assert kind_of(name, dict(NET.named_parameters())[name]) == kind


def test_the_decay_groups_add_up():
    text = decay_line(Optim(name="adamw", weight_decay=0.1, layer_decay=0.5).build(NET))
    kernels = [parameter for parameter in NET.parameters() if parameter.ndim == 2]
    others = [parameter for parameter in NET.parameters() if parameter.ndim != 2]
    count = [(len(some), sum(parameter.numel() for parameter in some)) for some in (kernels, others)]
    assert text == (
        f"0.1 on kernels ({count[0][0]} tensors, {count[0][1]:,} parameters); 0 on biases, layer scales, norms, "
        f"positions, tokens ({count[1][0]} tensors, {count[1][1]:,} parameters)"
    )
    everything = sum(parameter.numel() for parameter in NET.parameters())
    assert f"{everything:,} parameters)" in decay_line(Optim(weight_decay=0.3).build(NET))
    assert decay_line(torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=1)) is None


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


SEVERAL = """
import torch
from vit_lightning.data import ImageDataModule


class Several(ImageDataModule):
    num_classes = 3

    def __init__(self, label: list[float], **kwargs):
        super().__init__(**kwargs)
        self.label = label

    def setup(self, stage):
        self.train_set = [(torch.zeros(3, 16, 16, dtype=torch.uint8), torch.tensor(self.label))] * 8
"""


@pytest.mark.parametrize(
    ("label", "words", "warned"),
    [
        ("[1, 1, 0]", (), True),
        ("[1, 1, 0]", ("--data.augment.mixup_alpha", 0.2), True),
        ("[0, 0, 0]", (), True),
        ("[1, 1, 0]", ("--model.loss", "sigmoid"), False),
        ("[0.3, 0.7, 0]", (), False),  # one class, of which a teacher is not sure
    ],
)
def test_softmax_over_several_classes_is_a_warning(app, tmp_path, monkeypatch, label, words, warned):
    (tmp_path / "several.py").write_text(SEVERAL)
    monkeypatch.syspath_prepend(str(tmp_path))
    data = ("--data", "several.Several", "--data.label", label, "--data.image_size", 16, "--data.batch_size", 4)
    done = app("fit", *TINY[:4], *data, "--data.num_workers", 0, *words, "--trainer.fast_dev_run", "true")
    assert done.code == 0, done.err
    assert ("give --model.loss sigmoid" in (line(done.out, "warning") or "")) == warned


def test_mixed_labels_of_one_class_are_no_warning(app):
    for name in ("mixup_alpha", "cutmix_alpha"):
        done = app(*FIT, f"--data.augment.{name}", 1, "--trainer.fast_dev_run", "true")
        assert done.code == 0 and line(done.out, "warning") is None, done.err
