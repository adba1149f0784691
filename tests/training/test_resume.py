"""What a checkpoint may not change, apart from any run; tests/runs/test_resume.py resumes runs."""

import logging
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build, resolve
from vit_lightning.runs.differences import differences
from vit_lightning.training import resume
from vit_lightning.training.averaging import RAW, UPDATES, Averaging, WeightAverage
from vit_lightning.training.optim import Optim, Schedule, parameter_groups

OLD = {"net": {"width": 32, "dropout": 0.0}, "image_size": (16, 16), "num_classes": 3, "optim": {"name": "adam"}}
FIXED = ("num_classes", "image_size")


def changed(**settings: object) -> dict[str, str]:
    return differences(OLD, OLD | settings)


@pytest.fixture
def printed(caplog):
    caplog.set_level(logging.INFO, logger="lightning.pytorch.utilities.rank_zero")
    return caplog


def test_another_class_is_refused():
    checkpoint = {"model": "vit_lightning.masked_patch.MaskedPatch"}
    resume.check_class(checkpoint, "vit_lightning.masked_patch.MaskedPatch", takes_weights=False)
    resume.check_class({}, "vit_lightning.classifier.Classifier", takes_weights=True)
    with pytest.raises(InputError, match="holds a MaskedPatch, not a Classifier; to begin with its net, give it to"):
        resume.check_class(checkpoint, "vit_lightning.classifier.Classifier", takes_weights=True)
    with pytest.raises(InputError, match=r"not a Own; drop --model$"):
        resume.check_class(checkpoint, "mine.Own", takes_weights=False)


@pytest.mark.parametrize(
    ("settings", "trains", "said"),
    [
        (
            {"net": {"width": 64, "dropout": 0.0}},
            False,
            r"32 -> 64 \(checkpoint -> now\); leave model\.net\.width to",
        ),
        (
            {"net": {"width": 64, "dropout": 0.0}},
            True,
            "-c files, or start a new run without --ckpt_path$",
        ),
        ({"image_size": (8, 8)}, False, r"give --data\.image_size \(16, 16\)$"),
        ({"num_classes": 5}, False, "give data of 3 classes$"),
    ],
)
def test_another_net_is_refused(settings, trains, said):
    with pytest.raises(InputError, match=said):
        resume.check_net(changed(**settings), OLD, FIXED, trains)


def test_what_may_change_may_change():
    resume.check_net(changed(net={"width": 32, "dropout": 0.5}, optim={"name": "sgd"}), OLD, FIXED, trains=True)
    resume.check_optimizer(changed(net={"width": 64, "dropout": 0.5}))
    with pytest.raises(InputError, match=r"keeps its optimiser: optim\.name: adam -> sgd"):
        resume.check_optimizer(changed(optim={"name": "sgd"}))


def test_settings_of_an_older_checkpoint_are_completed():
    """A field that came later has the value that its absence meant, and one that went is kept."""
    net = {"variant": "mu/8", "gone": 1}
    saved = resume.saved_settings({"hyper_parameters": {"net": net, "image_size": 16}})
    assert saved["net"]["gone"] == 1 and saved["net"]["width"] == 32 and saved["image_size"] == 16
    assert "width" not in net


@pytest.mark.parametrize("known", [{}, {"mean": None, "std": None}, {"mean": (0.1,), "std": None}])
def test_what_a_converted_checkpoint_does_not_know_of_the_images_is_no_setting(known):
    settings = {"net": {"variant": "mu/8"}, "image_size": 16, "window": None, **known}
    checkpoint = {"hyper_parameters": dict(settings)}
    saved = resume.saved_settings(checkpoint)
    assert {name: saved[name] for name in ("mean", "std") if name in saved} == {k: v for k, v in known.items() if v}
    assert saved["window"] is None and checkpoint["hyper_parameters"] == settings


def test_the_order_must_stay_inside_an_epoch_alone(printed):
    inside = {"current": {"ready": 3}, "is_last_batch": False}
    checkpoint = {"order": {"seed": 0}, "loops": {"fit_loop": {"epoch_loop.batch_progress": inside}}}
    resume.check_order(checkpoint, {"seed": 0, "images per batch": 8})  # a checkpoint that does not say holds the same
    with pytest.raises(InputError, match="lies inside an epoch, which goes on with the same seed: 0 -> 7"):
        resume.check_order(checkpoint, {"seed": 7})
    for progress in (
        {"current": {"ready": 0}, "is_last_batch": False},
        {"current": {"ready": 9}, "is_last_batch": True},
    ):
        printed.clear()
        checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"] = progress
        resume.check_order(checkpoint, {"seed": 7})
        assert "differs from the checkpoint: seed: 0 -> 7" in printed.text


def test_the_order_of_images_follows_from_the_batch_of_all_devices_and_the_seed(monkeypatch):
    monkeypatch.setenv("PL_GLOBAL_SEED", "7")
    data = SimpleNamespace(batch_size=8)
    orders = [resume.data_order(SimpleNamespace(datamodule=data, world_size=devices)) for devices in (1, 4)]
    assert orders == [{"images per batch": 8, "seed": 7}, {"images per batch": 32, "seed": 7}]
    unknown = SimpleNamespace(datamodule=SimpleNamespace(), world_size=4)
    assert resume.data_order(unknown) == {"images per batch": None, "seed": 7}


def test_the_horizon_must_stay_where_the_schedule_follows_it(printed):
    resume.check_horizon(Schedule(), 1e-3, step=9, planned=None, total=18)
    resume.check_horizon(Schedule(), 1e-3, step=9, planned=9, total=9)
    resume.check_horizon(Schedule(decay="rsqrt"), 1e-3, step=9, planned=9, total=18)
    with pytest.raises(
        InputError, match=r"planned for 9 optimiser steps and now has 18 \(lr at step 9: 0 -> 0\.0005\)"
    ):
        resume.check_horizon(Schedule(), 1e-3, step=9, planned=9, total=18)
    resume.check_horizon(Schedule(allow_horizon_change=True), 1e-3, step=9, planned=9, total=18)
    assert "planned for 9 optimiser steps and now has 18: lr at step 9: 0 -> 0.0005" in printed.text


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("total", [35, 60])
def test_a_run_whose_new_length_is_done_already_is_refused(printed, total, allowed):
    schedule = Schedule(allow_horizon_change=allowed)
    with pytest.raises(InputError, match=rf"has 60 optimiser steps, .* now have {total} .*raise --trainer\.max_epochs"):
        resume.check_horizon(schedule, 1e-3, step=60, planned=120, total=total)
    assert "lr at step" not in printed.text
    resume.check_horizon(Schedule(decay="rsqrt"), 1e-3, step=60, planned=120, total=total)


def test_an_average_is_taken_back():
    averaged, trained = {"weight": torch.zeros(1)}, {"weight": torch.ones(1)}
    checkpoint = {"state_dict": averaged, RAW: trained, UPDATES: 5}
    with pytest.raises(InputError, match=r"drop --model\.averaging\.decay 0"):
        resume.restore_average(dict(checkpoint), None, nn.Identity())
    average = WeightAverage(Averaging(0.9))
    resume.restore_average(checkpoint, average, nn.Identity())
    assert checkpoint["state_dict"] is trained and average.averaged is averaged and average.updates == 5
    resume.restore_average({"state_dict": trained}, None, nn.Identity())


def test_the_recipe_is_written_over_what_the_optimiser_brought_back():
    net = build(NetConfig("mu/8"), image_size=16, num_classes=3)
    old = Optim(name="adamw", lr=1e-3, weight_decay=0.1, betas=(0.9, 0.99)).build(net)
    new = Optim(name="adamw", lr=4e-3, weight_decay=0.2, betas=(0.8, 0.9))
    scheduler = torch.optim.lr_scheduler.LambdaLR(old, lambda step: 0.5)
    resume.write_settings(parameter_groups(net, new), old, scheduler)
    assert {group["lr"] for group in old.param_groups} == {2e-3} and set(scheduler.base_lrs) == {4e-3}
    assert {group["weight_decay"] for group in old.param_groups} == {0.2, 0.0}
    assert {group["betas"] for group in old.param_groups} == {(0.8, 0.9)}
    assert all(isinstance(parameter, nn.Parameter) for group in old.param_groups for parameter in group["params"])


def test_each_layer_goes_on_at_its_own_share_of_the_new_rate_at_that_step():
    """Three steps are done, of a rate that falls by a quarter of its peak in each; layers learn half as fast below."""
    net = build(NetConfig("mu/8"), image_size=16, num_classes=3)
    old = Optim(name="adamw", lr=1.0, layer_decay=0.5).build(net)
    scheduler = torch.optim.lr_scheduler.LambdaLR(old, lambda step: 1 - step / 4)
    for _ in range(3):
        old.step()
        scheduler.step()
    new = Optim(name="adamw", lr=8.0, layer_decay=0.5)
    resume.write_settings(parameter_groups(net, new), old, scheduler)
    layers = [int(group["name"][len("layer")]) for group in old.param_groups]
    assert {*layers} == {0, 1, 2} and [group["lr"] for group in old.param_groups] == [2 / 2 ** (2 - n) for n in layers]
    assert (
        [group["initial_lr"] for group in old.param_groups] == scheduler.base_lrs == [8 / 2 ** (2 - n) for n in layers]
    )
    old.step()
    scheduler.step()
    assert {group["lr"] for group in old.param_groups} == {0}


@pytest.mark.parametrize(
    "key", ["net.dropout", "net.stochastic_depth", "net.patch_dropout", "net.head_bias", "optim.lr"]
)
def test_each_setting_that_no_weight_depends_on_may_change(key):
    resume.check_net({key: "1 -> 2"}, OLD, FIXED, trains=True)


@pytest.mark.parametrize(
    "key", ["net.width", "net.gelu", "net.norm_eps", "net.position", "net.registers", "image_size", "num_classes"]
)
def test_each_setting_that_the_net_is_made_of_may_not(key):
    with pytest.raises(InputError, match=rf"another net: {key}: 1 -> 2 \(checkpoint -> now\);"):
        resume.check_net({key: f"{key}: 1 -> 2", "optim.lr": "3 -> 4"}, OLD, FIXED, trains=False)


@pytest.mark.parametrize("key", ["optim.name", "optim.layer_decay", "optim.decay_on", "freeze_trunk", "bias_only"])
def test_each_setting_that_an_optimisers_state_depends_on_may_not_change(key):
    with pytest.raises(InputError, match=rf"keeps its optimiser: {key}: 1 -> 2 \(checkpoint -> now\)"):
        resume.check_optimizer({key: f"{key}: 1 -> 2"})
    resume.check_optimizer({"optim.lr": "1 -> 2", "optim.weight_decay": "1 -> 2", "net.width": "1 -> 2"})


@pytest.mark.parametrize("name", ["seed", "images per batch"])
def test_each_fact_of_the_order_must_stay_inside_an_epoch(name):
    inside = {"current": {"ready": 1}, "is_last_batch": False}
    order = {"seed": 3, "images per batch": 8}
    checkpoint = {"order": order, "loops": {"fit_loop": {"epoch_loop.batch_progress": inside}}}
    resume.check_order(checkpoint, order)
    with pytest.raises(InputError, match=f"goes on with the same {name}: {order[name]} -> 9"):
        resume.check_order(checkpoint, order | {name: 9})


def test_several_differences_have_each_remedy_once():
    found = {"image_size": "image_size: a", "net.width": "net.width: b", "net.depth": "net.depth: c"}
    with pytest.raises(InputError) as told:
        resume.check_net(found, OLD, FIXED, trains=False)
    assert str(told.value) == (
        "the checkpoint holds another net: image_size: a; net.width: b; net.depth: c (checkpoint -> now); "
        "give --data.image_size (16, 16) and leave model.net.width, model.net.depth to the checkpoint, in flags and -c "
        "files"
    )


def test_a_scored_checkpoint_is_silent_on_what_bears_on_training_alone():
    model = Classifier()
    settings = [name for name in model.hparams if name != "net"] + [f"net.{name}" for name in model.hparams["net"]]
    silent = {name for name in settings if not resume.bears_on_scores(name)}
    recipe = {"optim", "schedule", "averaging", "label_smoothing", "class_weights", "focal_gamma", "logit_adjustment"}
    start = {"weights", "weights_raw", "weights_head", "weights_resampling", "weights_adapt", "weights_overlap"}
    part = {"freeze_trunk", "bias_only"}
    machine = {"recompute", "compile", "cuda_graph", "fp8", "scores"}
    drawn = {"net.dropout", "net.stochastic_depth", "net.patch_dropout", "net.head_bias"}
    assert silent == recipe | start | part | machine | drawn
    assert not resume.bears_on_scores("optim.lr") and not resume.bears_on_scores("schedule.warmup_steps")


def test_the_sampler_of_an_older_checkpoint_shuffled(monkeypatch, printed):
    inside = {"current": {"ready": 3}, "is_last_batch": False}
    checkpoint = {"order": {}, "loops": {"fit_loop": {"epoch_loop.batch_progress": inside}}}
    data = SimpleNamespace(batch_size=8, sampler="balanced")
    order = resume.data_order(SimpleNamespace(datamodule=data, world_size=2))
    assert order["sampler"] == "balanced" and order["images per batch"] == 16
    resume.check_order(checkpoint, order | {"sampler": "shuffled"})
    with pytest.raises(InputError, match="same sampler: shuffled -> balanced"):
        resume.check_order(checkpoint, order)
    resume.check_order({"order": {}}, order)  # before the first epoch
    assert "differs from the checkpoint: sampler: shuffled -> balanced" in printed.text


@pytest.mark.parametrize(
    ("now", "then", "refused"),
    [
        ((20, 16), (16, 16), "images of 16x16 pixels, and the data gives 20x16; give --data.image_size (16, 16)"),
        (20, (16, 24), "images of 16x24 pixels, and the data gives 20x20; give --data.image_size (16, 24)"),
        (20, 16, "images of 16x16 pixels, and the data gives 20x20; give --data.image_size 16,"),
        ((24, 16), (16, 16), None),  # another net, which check_net refuses in its own words
        (20, (20, 20), None),
        (None, 16, None),
        (20, None, None),
    ],
)
def test_images_that_the_checkpoints_net_cannot_be_built_for(now, then, refused):
    config = resolve(NetConfig("mu/8"))
    if refused is None:
        resume.check_image_size(config, {"image_size": now}, {"image_size": then})
        return
    with pytest.raises(InputError) as told:
        resume.check_image_size(config, {"image_size": now}, {"image_size": then})
    assert refused in str(told.value)
