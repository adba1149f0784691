"""The precision of a run that names none: by device and checkpoint."""

import pytest
import torch
from lightning.pytorch.plugins import MixedPrecision

from vit_lightning.cli.arithmetic import default_precision

TRAINED = {"precision": "16-mixed"}
OLD = {"precision": ""}


@pytest.fixture(params=[True, False], ids=["bf16", "no bf16"])
def gpu(request, monkeypatch):
    """A GPU, with bf16 or without."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: request.param)
    before = torch.get_float32_matmul_precision()
    yield request.param
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("verb", ["fit", "benchmark", "doctor", "plan"])
@pytest.mark.parametrize("accelerator", ["auto", "gpu", "cuda"])
def test_a_new_fit_takes_bf16_on_gpus_that_have_it(gpu, verb, accelerator):
    assert default_precision(verb, {"accelerator": accelerator}, {}) == ("bf16-mixed" if gpu else None)
    assert torch.get_float32_matmul_precision() == "high"


@pytest.mark.parametrize("verb", ["fit", "validate", "test", "predict"])
def test_a_checkpoint_keeps_its_precision(gpu, verb):
    assert default_precision(verb, {"accelerator": "auto"}, TRAINED) == "16-mixed"
    assert default_precision(verb, {"accelerator": "auto"}, OLD) is None  # Lightning's, as it was trained


def test_weights_from_elsewhere_are_scored_in_fp32(gpu):
    assert default_precision("test", {"accelerator": "auto"}, {}) is None


@pytest.mark.parametrize(
    "trainer",
    [
        {"precision": "32-true"},
        {"plugins": [MixedPrecision("bf16-mixed", "cuda")]},
        {"plugins": "lightning.pytorch.plugins.HalfPrecision"},
        {"accelerator": "cpu"},
        {"accelerator": "tpu"},
    ],
    ids=["given", "plugin", "plugin's name", "cpu", "tpu"],
)
def test_what_is_given_stays(gpu, trainer):
    assert default_precision("fit", {"accelerator": "auto"} | trainer, {}) is None


def test_a_run_goes_on_in_its_precision_on_a_cpu_and_is_scored_in_fp32(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    trained = {"precision": "bf16-mixed"}
    assert default_precision("fit", {"accelerator": "auto"}, {}) is None
    assert default_precision("fit", {"accelerator": "auto"}, trained) == "bf16-mixed"
    assert default_precision("test", {"accelerator": "auto"}, trained) is None
    assert default_precision("fit", {"accelerator": "auto"}, TRAINED) is None


def test_nvidias_variable_keeps_fp32(gpu, monkeypatch):
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    default_precision("fit", {"accelerator": "auto"}, {})
    assert torch.get_float32_matmul_precision() == "highest"


def test_less_than_tf32_stays_as_it_was_asked_for(gpu):
    torch.set_float32_matmul_precision("medium")
    default_precision("fit", {"accelerator": "auto"}, {})
    assert torch.get_float32_matmul_precision() == "medium"
