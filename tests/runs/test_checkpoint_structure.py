"""Damaged checkpoints: one check for every verb, before anything is built."""

from pathlib import Path

import pytest
import torch

from vit_lightning.classifier import Classifier
from vit_lightning.cli.exceptions import explain
from vit_lightning.cli.precedence import read_facts
from vit_lightning.errors import InputError
from vit_lightning.weights import load_net

WHOLE = Path(__file__).parents[1] / "assets/version_0_1_0/run/checkpoints/last.ckpt"
GONE = object()
HEAD = "net.head.weight"
EVERYWHERE = {
    "no hyper-parameters": ({"hyper_parameters": GONE}, "lacks the hyper_parameters of its net"),
    "no net": ({"hyper_parameters": {}}, "lacks the hyper_parameters of its net"),
    "other hyper-parameters": ({"hyper_parameters": 5}, "its hyper_parameters is 5"),
    "no head": ({HEAD: GONE}, r"lacks .*head\.weight|differ in net\.head\.weight"),
    "head of text": ({HEAD: "weights"}, r"net\.head\.weight in its state_dict is no tensor but 'weights'"),
    "whole numbers": ({HEAD: torch.int64}, r"head\.weight .* is int64, but its net needs floating-point numbers"),
    "complex numbers": ({HEAD: torch.complex64}, r"head\.weight .* is complex64, but its net needs floating-point"),
    "number as version": ({"pytorch-lightning_version": 3}, "its pytorch-lightning_version is 3"),
    "text as version": ({"pytorch-lightning_version": "new"}, "its pytorch-lightning_version is 'new'"),
    "step": ({"global_step": "3"}, "its global_step is '3'"),
    "epoch": ({"epoch": None}, "its epoch is None"),
    "loops": ({"loops": 5}, "its loops is 5"),
    "callbacks": ({"callbacks": [1]}, r"its callbacks is \[1\]"),
    "trained weights": ({"current_model_state": {"net.head.bias": torch.zeros(10)}}, "current_model_state differ in"),
}
FOR_A_FIT = {
    "no loops": ({"loops": GONE}, "it lacks its loops"),
    "no progress": ({"loops": {"fit_loop": {}}}, "its loops do not say how far its run came"),
    "no optimiser": ({"optimizer_states": GONE}, "it lacks its optimizer_states"),
    "no states": ({"optimizer_states": []}, "its optimizer_states are those of no optimiser"),
    "empty state": ({"optimizer_states": [{}]}, "its optimizer_states are those of no optimiser"),
    "no groups": ({"optimizer_states": [{"state": {}, "param_groups": []}]}, "those of no optimiser"),
    "no parameters": ({"optimizer_states": [{"state": {}, "param_groups": [{"lr": 1, "params": []}]}]}, "no optimiser"),
    "no rate": ({"lr_schedulers": 5}, "its lr_schedulers is 5"),
    "weights only": (
        {"optimizer_states": GONE, "lr_schedulers": GONE, "callbacks": GONE},
        "holds weights only, from which no run can go on; to begin with them, give --model.weights",
    ),
}


@pytest.fixture
def damaged(tmp_path):
    """Writes the checkpoint of a run with other parts; returns its path."""

    def write(parts):
        content = torch.load(WHOLE, weights_only=True)
        for name, value in parts.items():
            of = content["state_dict"] if name == HEAD else content
            if value is GONE:
                del of[name]
            else:
                of[name] = of[name].to(value) if isinstance(value, torch.dtype) else value
        torch.save(content, tmp_path / "damaged.ckpt")
        return tmp_path / "damaged.ckpt"

    return write


def test_a_whole_one_is_taken():
    assert read_facts(WHOLE, goes_on=True)["global_step"] == 30


@pytest.mark.parametrize("fault", EVERYWHERE)
def test_what_every_verb_needs_is_checked(fault, damaged):
    parts, said = EVERYWHERE[fault]
    with pytest.raises(InputError, match=said):
        read_facts(damaged(parts))


@pytest.mark.parametrize("fault", ["head of text", "whole numbers", "complex numbers", "loops", "number as version"])
def test_weights_are_checked_alike(fault, damaged):
    parts, said = EVERYWHERE[fault]
    with pytest.raises(InputError, match=said):
        load_net(damaged(parts))


@pytest.mark.parametrize("fault", FOR_A_FIT)
def test_what_a_run_needs_to_go_on_is_checked(fault, damaged):
    parts, said = FOR_A_FIT[fault]
    path = damaged(parts)
    with pytest.raises(InputError, match=said):
        read_facts(path, goes_on=True)
    read_facts(path)  # its net is whole, which is all that the other verbs take


@pytest.mark.parametrize("verb", ["fit", "validate", "test", "predict", "convert", "export"])
def test_every_verb_says_one_sentence(verb, app, damaged, monkeypatch):
    path = damaged({HEAD: torch.int64})
    monkeypatch.setattr(Classifier, "build_net", lambda self: pytest.fail("a net was built"))
    done = app(verb, *((path, "out.ckpt") if verb in ("convert", "export") else ("--ckpt_path", path)))
    assert done.code == 1 and len(done.err.splitlines()) == 1, done.err
    assert "is int64, but its net needs floating-point numbers" in done.err


def test_a_converted_checkpoint_goes_to_the_weights(app, damaged):
    assert app("convert", WHOLE, "out.ckpt").code == 0
    done = app("fit", "--ckpt_path", "out.ckpt")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert "out.ckpt holds weights only" in done.err and "give --model.weights out.ckpt" in done.err
    assert not Path("runs").exists()


def test_a_run_without_its_loops_does_not_begin_anew_as_if_it_went_on(app, damaged):
    done = app("fit", "--ckpt_path", damaged({"loops": GONE}))
    assert (done.code, len(done.err.splitlines())) == (1, 1) and "it lacks its loops" in done.err


def test_a_state_that_no_check_knows_is_damage_too(app, damaged):
    words = ("fit", "--data", "Digits", "--data.batch_size", 64, "--trainer.accelerator", "cpu", "--ckpt_path")
    groups = torch.load(WHOLE, weights_only=True)["optimizer_states"][0]["param_groups"]
    fewer = [{"state": {}, "param_groups": [{**groups[0], "params": [0]}]}]
    done = app(*words, damaged({"optimizer_states": fewer}), "--model.schedule.allow_horizon_change", "true")
    assert done.code == 1
    assert "the checkpoint holds a state that does not fit this run, or is damaged (ValueError" in done.err, done.err
    assert "Traceback" not in done.err


def test_other_exceptions_are_none_of_a_checkpoint():
    with pytest.raises(KeyError) as found:
        {}["x"]
    assert explain(found.value) is None
