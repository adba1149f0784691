"""What our own files state beside their tensors, to the letter, and what is refused of it."""

import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build, resolve
from vit_lightning.weights.archive import Archive, Stored, archive_of, open_archive
from vit_lightning.weights.layouts import checkpoint
from vit_lightning.weights.report import Report

FIELDS = {"patch": 4, "width": 16, "depth": 2, "heads": 2, "mlp": 24}


def tiny(image_size=(8, 12), **fields: object):
    return build(NetConfig("Ti/16", **FIELDS | fields), image_size, 3)


def told() -> Report:
    return Report("", "", mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6), class_names=["a", "b", "c"])


@pytest.mark.parametrize(("size", "stated"), [((8, 12), (8, 12)), ((8, 8), 8)])
@pytest.mark.parametrize("more", [False, True], ids=["plain", "of a window"])
def test_facts_are_those_of_the_net_and_its_report(size, stated, more):
    net, report = tiny(size), told()
    expected = {
        "net": asdict(net.config),
        "num_classes": 3,
        "image_size": stated,
        "mean": (0.1, 0.2, 0.3),
        "std": (0.4, 0.5, 0.6),
    }
    if more:
        report.window, report.training = (5.0, 4000.0), {"recipe": {"loss": "sigmoid"}}
        expected |= {"channels": 3, "window": (5.0, 4000.0), "loss": "sigmoid"}
    assert checkpoint.facts_of(net, report) == {"hyper_parameters": expected, "class_names": ["a", "b", "c"]}


def test_files_hold_the_tensors_and_the_facts(tmp_path):
    net, report = tiny(), told()
    checkpoint.write(net, report, tmp_path / "x.ckpt")
    content = torch.load(tmp_path / "x.ckpt", weights_only=True)
    state, facts = content.pop("state_dict"), checkpoint.facts_of(net, report)
    assert content == facts | {"pytorch-lightning_version": version("lightning")}
    assert state.keys() == {f"net.{name}" for name in net.state_dict()}
    checkpoint.write_safetensors(net, report, tmp_path / "x")
    with safe_open(tmp_path / "x" / "model.safetensors", "pt") as file:
        assert set(file.keys()) == set(net.state_dict())
        header = file.metadata()
    assert header["format"] == "pt" and json.loads(header["vit_lightning"]) == json.loads(json.dumps(facts))


def archive_with(change: dict | None = None, beside: dict | None = None, path: Path = Path("x.ckpt")) -> Archive:
    net = tiny()
    facts = checkpoint.facts_of(net, told())
    facts["hyper_parameters"] |= change or {}
    state = {f"net.{name}": tensor for name, tensor in net.state_dict().items()}
    return archive_of(path, {"state_dict": state, **facts, **(beside or {})})


def test_what_is_read_is_what_was_written():
    found = checkpoint.read(archive_with({"window": (5, 4000)}), None, None)
    net = tiny()
    assert (found.layout, found.config, found.image_size, found.num_classes) == (
        *("vit_lightning", net.config, (8, 12), 3),
    )
    assert {one.ours: (one.theirs, one.pattern) for one in found.mappings} == {
        name: ((name,), "") for name in net.state_dict()
    }
    assert (found.mean, found.std, found.window) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6), (5, 4000))
    assert (found.class_names, found.dropped, found.notes, found.assumed) == (["a", "b", "c"], {}, [], ())


def test_a_file_is_ours_by_its_facts_or_its_first_layer():
    stored = Stored((1,), lambda: torch.zeros(1))
    for facts, names, ours in (
        ({"hyper_parameters": {"net": {}}}, ["x"], True),
        ({"hyper_parameters": {"lr": 1}}, ["x"], False),
        ({"hyper_parameters": [1]}, ["x"], False),
        ({}, ["net.patches.proj.weight"], True),
        ({}, ["_orig_mod.patches.proj.weight"], True),
        ({}, ["patches.proj.bias"], False),
    ):
        archive = Archive(Path("x"), dict.fromkeys(names, stored), facts)
        assert checkpoint.recognises(archive) is ours, (facts, names)


@pytest.mark.parametrize(
    ("names", "classes", "said"),
    [
        (["a", "b"], 3, "it has 2 class_names for the 3 outputs of its head"),
        ("abc", 3, "its class_names are no list of names"),
        (["a", "b", 3], 3, "its class_names are no list of names"),
        ({"a": 1}, 1, "its class_names are no list of names"),
        (["a", "b", "c"], 3, None),
        (("a", "b", "c"), 3, None),
        ([], 3, None),
        (None, 3, None),
        (["a", "b"], 0, None),
    ],
)
def test_classes_have_a_name_each_or_none(names, classes, said):
    archive = Archive(Path("x.ckpt"), {}, {"class_names": names})
    if said is None:
        assert checkpoint._class_names(archive, classes) == list(names or [])
    else:
        with pytest.raises(InputError, match=rf"^x\.ckpt is damaged: {said}"):
            checkpoint._class_names(archive, classes)


def test_sizes_that_the_tensors_cannot_have_are_refused_up_to_the_last():
    stored = {str(n): Stored((5, 7), lambda: torch.zeros(1)) for n in range(3)} | {"scalar": Stored((), torch.zeros)}
    config = resolve(NetConfig("mu/8"))
    for field, good, bad in (("depth", 4, 5), ("stages", (2, 2), (2, 3))):
        for value, fine in ((good, True), (bad, False)):
            changed = resolve(NetConfig("mu/8"))
            setattr(changed, field, value)
            if fine:
                checkpoint._check_extent(Path("x"), changed, 7, stored)
            else:
                with pytest.raises(InputError, match=rf"x says {field}=5, but holds 4 tensors of its net"):
                    checkpoint._check_extent(Path("x"), changed, 7, stored)
    for classes in (0, 7):
        checkpoint._check_extent(Path("x"), config, classes, stored)
    for classes in (8, -1):
        with pytest.raises(InputError, match=f"x says num_classes={classes}, but no tensor of its net has that many"):
            checkpoint._check_extent(Path("x"), config, classes, stored)


@pytest.mark.parametrize("missing", ["net", "image_size"])
def test_a_net_without_its_config_is_refused(missing):
    archive = archive_with()
    del archive.facts["hyper_parameters"][missing]
    with pytest.raises(InputError, match=r"x\.ckpt holds a net of ours without its config"):
        checkpoint.read(archive, None, None)


def test_a_run_says_its_recipe_its_data_and_its_scores(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    data = "data:\n  class_path: Pets\n  init_args: {root: /home/me, size: 8, augment: {flip: true}}\n"
    (tmp_path / "config.yaml").write_text(data)
    recipe = {"optim": {"lr": 0.5}, "schedule": {"decay": "cosine"}, "loss": "softmax", "label_smoothing": 0.1}
    beside = {
        "weights": "x.npz",
        "global_step": 70,
        "callbacks": {
            "Best": {"monitor": "val/top1", "best_model_score": torch.tensor(0.75)},
            "Last": {"monitor": None, "best_model_score": torch.tensor(0.5)},
            "None": {"monitor": "val/loss", "best_model_score": None},
            "Loss": {"monitor": "val/error", "best_model_score": torch.tensor(0.0)},
            "Other": 3,
        },
    }
    found = checkpoint.read(
        archive_with(recipe | {"compile": True}, beside, tmp_path / "checkpoints" / "best.ckpt"), None, None
    )
    assert found.training == {
        "recipe": recipe,
        "data": {"data": "Pets", "size": 8, "augment": {"flip": True}},
        "began with": "x.npz",
        "steps": 70,
        "metrics": {"val/top1": 0.75, "val/error": 0.0},
    }


def test_what_holds_a_net_to_its_data_goes_from_file_to_file(tmp_path):
    held = {
        "Own": {"split": {"seed": 3}},
        "seen_labels": {"class_names": {0: ["ant"]}},
        "seen_by_members": [{"class_names": {}}],
        "seen_before": {"records": [3]},
    }
    found = checkpoint.read(archive_with(beside=held | {"Other": {"state": 3}, "splits": [1], "epoch": 2}), None, None)
    assert found.of_data == held
    report = told()
    report.of_data = found.of_data
    checkpoint.write(tiny(), report, tmp_path / "x.ckpt")
    content = torch.load(tmp_path / "x.ckpt", weights_only=True)
    assert {name: content[name] for name in held} == held and content["class_names"] == ["a", "b", "c"]


@pytest.mark.parametrize("text", [None, "data: 3", "data: {class_path: x}", "a: [", "[1]", "model: {}"])
def test_a_checkpoint_elsewhere_says_only_what_it_holds(tmp_path, text):
    (tmp_path / "a").mkdir()
    if text is not None:
        (tmp_path / "config.yaml").write_text(text)
    assert checkpoint.read(archive_with(path=tmp_path / "a" / "x.ckpt"), None, None).training == {}


def test_prefixes_of_compiling_go_and_what_is_beside_the_net_is_named(tmp_path):
    tensors = {"net._orig_mod.a": torch.zeros(1), "_orig_mod.net.b": torch.zeros(1), "scores.c": torch.zeros(1)}
    torch.save(tensors, tmp_path / "x")
    inside, dropped = checkpoint._net(open_archive(tmp_path / "x").stored)
    assert inside.keys() == {"a", "b"} and dropped == {"scores.c": "beside the net"}
    torch.save({"a": torch.zeros(1), "network.b": torch.zeros(1)}, tmp_path / "x")
    inside, dropped = checkpoint._net(open_archive(tmp_path / "x").stored)
    assert inside.keys() == {"a", "network.b"} and dropped == {}
