"""What is measured beside what, and where it says that it was."""

from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Callback

from vit_lightning.classifier import Classifier
from vit_lightning.commands.benchmark import measurements as module
from vit_lightning.commands.benchmark.measurements import Checkpoint, Measurements, Require, place_of
from vit_lightning.commands.benchmark.verb import CAPS, MEASURES, _chosen, _names, _numbers, benchmark
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig


def trainer(device: str = "cpu") -> SimpleNamespace:
    return SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device(device)), precision="bf16-mixed")


def measured(device: str = "cpu", **facts: object) -> Measurements:
    net = NetConfig("mu/8", channels=2, dropout=0.25, stochastic_depth=0.5, depth=3)
    usual = {"num_classes": 3, "image_size": 16, "optim": {"name": "adamw", "lr": 0.5, "weight_decay": 0.125}}
    return Measurements(trainer(device), Classifier(net, **usual | facts), None, 4, 2, 1.0)


def test_numbers_stay_small_and_the_rest_of_the_recipe_stays():
    """At other rates a product would take other power."""
    optim = measured().model.optim
    assert (optim.lr, optim.name, optim.weight_decay) == (1e-5, "adamw", 0.125)


@pytest.mark.parametrize(("own", "asked", "compiled"), [(True, None, True), (False, None, False), (True, False, False)])
def test_a_peer_is_what_its_name_says_with_the_model_s_channels_and_dropout(own, asked, compiled):
    peer = measured(compile=own, fp8=True).peer("Ti/16", asked)
    assert (peer.config.variant, peer.config.depth, peer.config.channels) == ("Ti/16", 12, 2)
    assert (peer.config.dropout, peer.config.stochastic_depth) == (0.25, 0.5)
    assert (peer.hparams.compile, peer.hparams.cuda_graph, peer.hparams.fp8) == (compiled, False, False)
    assert peer.optim.lr == 1e-5 and peer.hparams.image_size == 16


@pytest.mark.parametrize(
    ("device", "compiled", "modes"),
    [("cuda", True, (None, "reduce-overhead")), ("cuda", False, (None,)), ("cpu", True, (None,))],
)
def test_a_compiled_peer_on_a_gpu_is_measured_in_both_modes(device, compiled, modes):
    found = measured(device)
    assert found._modes(found.peer("Ti/16", compiled)) == modes


def test_the_place_names_device_and_memory(monkeypatch):
    assert place_of(trainer()) == "this cpu"
    monkeypatch.setattr(module, "device_name", lambda device: "NVIDIA X")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=24 * 2**30))
    assert place_of(trainer("cuda")) == "the NVIDIA X (24 GiB)"


def test_figures_come_with_what_they_stood_on():
    facts = module._facts(trainer(), measured(compile=True).model)
    assert (facts["device"], facts["precision"], facts["compile"]) == ("cpu", "bf16-mixed", True)
    assert (facts["torch"], facts["threads"]) == (torch.__version__, torch.get_num_threads())


def test_words_in_brackets_or_without():
    assert MEASURES == ("train", "inference", "fit", "data") and CAPS == {"cuda": 16384, "cpu": 64}
    assert _chosen("measure", "[fit, train]", MEASURES) == ["fit", "train"]
    assert _numbers("sizes", "[64,32,64]") == [64, 32] and _numbers("sizes", "1000000") == [10**6]
    for wrong in ("0", "1000001", "[64,]", "a"):
        with pytest.raises(InputError, match="expected numbers from 1 to 1000000"):
            _numbers("sizes", wrong)
    assert _names(None, "mu/8") == ["mu/8"] and _names("[B/16, R50x1,B/16]", "x") == ["B/16", "R50x1"]
    # The paper's Figure 12.
    assert _names("figure12", "x") == ["R50x1", "R50x2", "B/32", "L/32", "B/16", "L/16", "H/14", "R152x4"]


def test_several_devices_are_not_measured_as_one():
    with pytest.raises(InputError, match=r"benchmark measures one device, not 2; give --trainer.devices 1"):
        benchmark(SimpleNamespace(world_size=2), measured().model, None)
    with pytest.raises(InputError, match="benchmark measures models that know their net"):
        benchmark(SimpleNamespace(world_size=1), torch.nn.Linear(1, 1), None)


@pytest.mark.parametrize(("auto", "batch"), [(False, 6), (True, 24)])
def test_a_fit_is_measured_without_what_saves_and_with_what_fit_has(monkeypatch, auto, batch):
    class Saves(Checkpoint): ...

    class Demands(Require):
        def __init__(self) -> None: ...

    found, called = measured(), []
    found.data, found.rows, own = SimpleNamespace(batch_size=6), [], Callback()
    found.trainer.callbacks = [Saves(), own, Demands()]
    monkeypatch.setattr(found, "_largest", lambda what, model: 24 if what == "train" else 0, raising=False)
    monkeypatch.setattr(module, "measure_fit", lambda trainer, model, turns: called.append((model, turns)))
    found._fit(auto)
    kept, *added = found.trainer.callbacks
    assert kept is own and [type(each).__name__ for each in added] == [
        "FiniteGuard",
        "Throughput",
        "LearningRateMonitor",
    ]
    assert [type(each).__name__ for each in found.trainer.loggers] == ["MetricsCSV", "TensorBoard"]
    assert [(row.measure, row.net, row.batch) for row in found.rows] == [
        ("fit", "mu/8", batch),
        ("fit", "mu/8 bare", batch),
    ]
    assert called[0][0] is not found.model and called[0][0].config == found.model.config
