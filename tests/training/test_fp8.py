"""Training in fp8: refused where it cannot be done or does not pay, and its state saved and restored."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning.pytorch.strategies import ModelParallelStrategy, SingleDeviceStrategy
from torch import Tensor

from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, assemble, resolve
from vit_lightning.training import fp8
from vit_lightning.training.fp8 import Fp8Training

SMOKE = str(Path(__file__).parents[2] / "experiments" / "smoke.yaml")
FITS = {"variant": "L/16", "depth": 3}


def test_fp8_needs_a_gpu(app):
    run = app("fit", "-c", SMOKE, "--model.fp8", "true")
    assert run.code == 1
    assert "--model.fp8 true needs a GPU that multiplies in fp8 (compute capability 8.9 or later, such as" in run.err
    assert "drop it" in run.err and "Traceback" not in run.err


class Owner(SimpleNamespace):
    """A model as far as the decision asks, on a GPU of the given capability."""

    def __init__(self, net: dict[str, Any], precision: str, strategy: object, **settings: Any) -> None:
        config = resolve(NetConfig(**net))
        with torch.device("meta"):
            made = assemble(config, (32, 32), 3)
        defaults = {"compile": False, "freeze_trunk": False}
        trainer = SimpleNamespace(precision=precision, strategy=strategy)
        super().__init__(net=made, config=config, trainer=trainer, hparams=Settings(defaults | settings))
        self.device = torch.device("cuda")


class Settings(dict):
    """Items that are attributes too, as a model's hyper-parameters."""

    __getattr__ = dict.__getitem__


@pytest.mark.parametrize(
    ("net", "settings", "said"),
    [
        ({}, {}, ""),
        ({"variant": "B/16"}, {}, "a width of 1024 or more, below which it is no faster (768 here)"),
        ({"mlp": 4090}, {}, "a width and an MLP that 16 divides (1024 and 4090 here)"),
        ({"depth": 2}, {}, "three blocks or more (2 here)"),
        ({"dropout": 0.1}, {}, "--model.net.dropout 0 (0.1 here)"),
        ({"position": "relative"}, {}, "heads and parts that the fast path knows"),
        ({"variant": "R50x1"}, {}, "a plain vision transformer"),
        ({}, {"precision": "16-mixed"}, "--trainer.precision bf16-mixed"),
        ({}, {"strategy": ModelParallelStrategy()}, "one device, or a replica on each (--trainer.strategy ddp)"),
        ({}, {"compile": True}, "a net that is not compiled"),
        ({}, {"freeze_trunk": True}, "a trunk that trains as a whole"),
        ({}, {"bias_only": True}, "a trunk that trains as a whole"),
        ({}, {"lora": {"rank": 8}}, "a trunk that trains as a whole"),
        ({}, {"capability": (8, 0)}, "a GPU that multiplies in fp8 (compute capability 8.9 or later, such as an H100)"),
    ],
)
def test_what_fp8_does_not_suit_is_refused_before_the_first_step(net, settings, said, monkeypatch):
    capability = settings.pop("capability", (9, 0))
    usual = {"precision": "bf16-mixed", "strategy": SingleDeviceStrategy()} | settings
    owner = Owner(({} if "R50" in str(net) else FITS) | net, **usual)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
    monkeypatch.setattr(fp8, "empty_tokens", lambda device: SimpleNamespace(is_cuda=True, dtype=torch.bfloat16))
    assert fp8.lacks(owner) == ([said] if said else [])
    if said:
        with pytest.raises(InputError) as refused:
            Fp8Training(owner).begin()
        assert str(refused.value) == f"--model.fp8 true needs {said}; drop it"


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a fit on the CPU keep factors, which follow from its images."""
    plain = Classifier.batch_loss

    def loss(self: Classifier, images: Tensor, labels: Tensor) -> Tensor:
        self.net.fp8.advance()
        self.net.fp8.amax.copy_(images.float().mean((1, 2, 3))[:12])
        return plain(self, images, labels)

    monkeypatch.setattr(fp8, "lacks", lambda model: [])
    monkeypatch.setattr(Classifier, "batch_loss", loss)


def test_a_resumed_run_has_the_factors_of_one_that_was_never_stopped(app, monkeypatch):
    small(monkeypatch)
    words = ("fit", "-c", SMOKE, "--model.net.depth", 3, "--model.fp8", "true", "--trainer.callbacks", "null")
    words += ("--data.train_size", 512, "--trainer.max_epochs", 1, "--last.every_n_steps", 5)
    whole = app(*words)
    assert whole.code == 0, whole.err
    checkpoints = Path("runs/smoke/0/checkpoints")
    expected = torch.load(checkpoints / "last.ckpt", weights_only=True)
    assert [{name: tuple(each.shape) for name, each in state.items()} for state in expected["fp8"]] == [
        {"history": (16, 12), "amax": (12,)}
    ]
    assert expected["fp8"][0]["history"].any() and not any("fp8" in name for name in expected["state_dict"])
    middle = torch.load(checkpoints / "previous.ckpt", weights_only=True)
    assert 0 < middle["global_step"] < expected["global_step"]
    again = app(*words, "--ckpt_path", checkpoints / "previous.ckpt")
    assert again.code == 0, again.err
    found = torch.load(checkpoints / "last.ckpt", weights_only=True)
    assert found["global_step"] == expected["global_step"]
    assert all(torch.equal(found["fp8"][0][name], each) for name, each in expected["fp8"][0].items())


def test_each_process_gets_its_own_factors_back(monkeypatch):
    monkeypatch.setattr(fp8, "lacks", lambda model: [])
    owner = Owner(FITS, "bf16-mixed", SingleDeviceStrategy())
    owner.device, ranks = torch.device("cpu"), []
    for rank in range(2):
        owner.global_rank = rank
        training = Fp8Training(owner)
        training.begin()
        owner.net.fp8.amax.fill_(rank + 1)
        checkpoint: dict[str, Any] = {}
        training.store(checkpoint)
        ranks += checkpoint["fp8"]
    for rank, expected in ((0, 1), (1, 2), (2, 1)):  # what has joined begins as the first one
        owner.global_rank = rank
        training = Fp8Training(owner)
        training.restore({"fp8": ranks})
        training.begin()
        assert (owner.net.fp8.amax == expected).all()
    with pytest.raises(InputError, match="fp8 factors of another net"):
        training.restore({"fp8": [{"history": torch.zeros(16, 24), "amax": torch.zeros(24)}]})
    training.restore({})
    training.begin()
    assert not owner.net.fp8.amax.any()


def test_kept_factors_serve_the_fit_that_begins_next_alone(monkeypatch):
    monkeypatch.setattr(fp8, "lacks", lambda model: [])
    owner = Owner(FITS, "bf16-mixed", SingleDeviceStrategy())
    owner.device, owner.global_rank = torch.device("cpu"), 0
    training, checkpoint = Fp8Training(owner), {}
    training.store(checkpoint)
    assert checkpoint == {}  # no fit has begun
    training.begin()
    owner.net.fp8.amax.fill_(3)
    training.store(checkpoint)
    training.restore(checkpoint)
    training.begin()
    assert (owner.net.fp8.amax == 3).all()
    training.begin()
    assert not owner.net.fp8.amax.any()
