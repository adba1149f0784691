"""Checkpoints: what they claim is checked before anything of it is built or imported, and what stands for it."""

import sys
from pathlib import Path

import pytest
import torch
from jsonargparse import Namespace

from vit_lightning.cli import precedence
from vit_lightning.cli.precedence import (
    DEFAULT_MODEL,
    READ,
    as_defaults,
    find_checkpoint,
    of_another_model,
    read_facts,
    take_published,
)
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.runs import folders, sharded
from vit_lightning.weights import Report
from vit_lightning.weights.layouts import checkpoint

MASKED = "vit_lightning.masked_patch.MaskedPatch"
TINY = {"patch": 4, "width": 16, "depth": 1, "heads": 2, "mlp": 24}
EVIL = "from pathlib import Path\nPath('ran').touch()\nfrom vit_lightning.classifier import Classifier as Evil\n"


@pytest.fixture
def told(tmp_path):
    """Writes a checkpoint of a tiny net that says something else of itself; returns its path."""

    def write(net=None, **facts):
        checkpoint.write(build(NetConfig("Ti/4", **TINY), 8, 10), Report("", ""), tmp_path / "told.ckpt")
        content = torch.load(tmp_path / "told.ckpt", weights_only=True)
        content["hyper_parameters"]["net"] |= net or {}
        for name, value in facts.items():
            (content if name == "model" else content["hyper_parameters"])[name] = value
        torch.save(content, tmp_path / "told.ckpt")
        return tmp_path / "told.ckpt"

    return write


@pytest.mark.parametrize("verb", ["fit", "validate", "test", "predict"])
def test_a_bit_that_a_disk_turned_is_found_before_a_run_goes_on_from_it(verb, told):
    path = told()
    assert find_checkpoint(verb, str(path), path.parent, "x") == path
    content = bytearray(path.read_bytes())
    weights = torch.load(path, weights_only=True)["state_dict"]["net.blocks.0.mlp.up.weight"].numpy().tobytes()
    content[content.index(weights) + len(weights) // 2] ^= 1
    path.write_bytes(content)
    torch.load(path, weights_only=True)  # which does not look
    with pytest.raises(InputError, match=r"told\.ckpt is damaged: it does not hold what was written; give another one"):
        find_checkpoint(verb, str(path), path.parent, "x")


SIZES = [
    ({"depth": 1_000_000}, {}, "depth=1000000, but holds"),
    ({"stages": (1_000_000,), "patch": 1, "stride": 1}, {}, "stages=1000000, but holds"),
    ({"width": 2**20, "heads": 4}, {}, r"would make .* needs \(.*1048576"),
    ({"mlp": 10**9}, {}, r"needs \(1000000000"),
    ({}, {"num_classes": 10**9}, "num_classes=1000000000, but no tensor"),
    ({}, {"num_classes": -1}, "num_classes=-1, but no tensor"),
    ({}, {"image_size": 400_000}, "needs"),
    ({"variant": "timm/resnet10t"}, {"num_classes": 10**9}, "num_classes=1000000000|means? nothing"),
]


@pytest.mark.parametrize(("net", "facts", "message"), SIZES)
def test_a_size_that_the_tensors_have_not_is_refused(net, facts, message, told):
    with pytest.raises(InputError, match=message):
        read_facts(told(net, **facts))


@pytest.mark.parametrize("verb", ["validate", "test", "predict", "fit", "export", "convert"])
def test_every_verb_refuses_it_before_it_builds(verb, app, told, monkeypatch):
    path = told({"depth": 1_000_000})
    monkeypatch.setattr("vit_lightning.models.vit.ViT.__init__", lambda *_: pytest.fail("a net was built"))
    monkeypatch.setattr("vit_lightning.data.datamodule.ImageDataModule.__init__", lambda *_: pytest.fail("data was"))
    words = [path, "out"] if verb in ("export", "convert") else ["--ckpt_path", path]
    done = app(verb, *words)
    assert done.code != 0
    assert "depth=1000000, but holds" in done.err


def test_a_model_of_others_is_held_against_its_number_of_tensors(told):
    path = told({"depth": 1_000_000}, model="mine.Model")
    with pytest.raises(InputError, match="depth=1000000"):
        read_facts(path, ["mine.Model"])


def test_a_sharded_checkpoint_is_checked_by_its_shapes(told, monkeypatch):
    content = torch.load(told({"depth": 1_000_000}), weights_only=True)
    monkeypatch.setattr("vit_lightning.cli.precedence.is_sharded", lambda path: True)
    monkeypatch.setattr(sharded, "read_facts", lambda path: {n: v for n, v in content.items() if n != "state_dict"})
    shapes = {name: tensor.to("meta") for name, tensor in content["state_dict"].items()}
    monkeypatch.setattr(sharded, "read_shapes", lambda path: shapes)
    with pytest.raises(InputError, match="depth=1000000"):
        read_facts(Path("folder"))


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ({"model": "evilmod.Evil"}, "evilmod.Evil"),
        ({"optim": {"class_path": "evilmod.Evil"}}, "evilmod.Evil"),
        ({"anything": [{"class_path": "evilmod.Evil"}]}, "evilmod.Evil"),
    ],
)
@pytest.mark.parametrize("verb", ["validate", "fit"])
def test_a_checkpoint_imports_nobody_elses_code(verb, facts, named, told, app, tmp_path, monkeypatch):
    (tmp_path / "evilmod.py").write_text(EVIL)
    monkeypatch.syspath_prepend(tmp_path)
    done = app(verb, "--ckpt_path", told(**facts))
    assert done.code != 0
    assert f"names the class '{named}'" in done.err
    assert f"--model {named}" in done.err
    assert "evilmod" not in sys.modules
    assert not (tmp_path / "ran").exists()


def test_a_class_that_the_person_names_is_taken(told, tmp_path):
    path = told(model="evilmod.Evil")
    assert read_facts(path, ["evilmod.Evil"])["model"] == "evilmod.Evil"


@pytest.mark.parametrize(
    "words", [["--model", "mine_of_others.Mine"], ["-c", "mine.yaml"]], ids=["as a flag", "in a file"]
)
def test_a_persons_own_model_is_scored(words, app, tmp_path, monkeypatch):
    (tmp_path / "mine_of_others.py").write_text(
        "from vit_lightning.classifier import Classifier\nclass Mine(Classifier):\n    'Mine.'\n"
    )
    (tmp_path / "mine.yaml").write_text("model:\n  class_path: mine_of_others.Mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    tiny = [f"--model.net.{name}={value}" for name, value in TINY.items()]
    fit = ["fit", "--data", "Synthetic", "--data.image_size", 8, "--data.batch_size", 4, "--trainer.max_steps", 1]
    assert app(*fit, "--model", "mine_of_others.Mine", *tiny).code == 0
    last = next(Path("runs").rglob("last.ckpt"))
    score = ["validate", "--data", "Synthetic", "--data.image_size", 8, "--ckpt_path", last]
    assert "--model mine_of_others.Mine" in app(*score).err
    done = app(*score, *words)
    assert done.code == 0, done.err


def test_facts_of_another_type_are_damage(told):
    with pytest.raises(InputError, match="its model is 5"):
        read_facts(told(model=5))


@pytest.mark.parametrize("verb", ["fit", "validate", "test", "predict"])
def test_a_checkpoint_is_the_one_that_is_named(verb, told, tmp_path, monkeypatch):
    path = told()
    asked = []
    monkeypatch.setattr(folders, "interrupted", lambda *words: asked.append(words) or "interrupted")
    monkeypatch.setattr(folders, "newest_checkpoint", lambda *words: words)
    assert find_checkpoint(verb, None, tmp_path, "x") == ("interrupted" if verb == "fit" else None)
    assert asked == [(tmp_path, "x")] * (verb == "fit")
    for name in ("last", "best"):
        assert find_checkpoint(verb, name, tmp_path, "x") == (tmp_path, "x", name, verb)
    assert find_checkpoint(verb, str(path), tmp_path, "x") == path
    for name, said in (
        (str(tmp_path), "a folder that holds no sharded checkpoint"),
        ("gone.ckpt", "no such file in .*"),
    ):
        with pytest.raises(InputError, match=rf"--ckpt_path {name}: {said}; give"):
            find_checkpoint(verb, name, tmp_path, "x")


def test_facts_are_those_of_the_file_and_have_something_to_stand_for_them(told, tmp_path):
    path = told()
    content = torch.load(path, weights_only=True)
    torch.save(content | {"global_step": 7, "precision": "16-mixed", "model": MASKED}, tmp_path / "own.ckpt")
    found = read_facts(tmp_path / "own.ckpt")
    assert (found["global_step"], found["precision"], found["model"]) == (7, "16-mixed", MASKED)
    assert found["hyper_parameters"] == content["hyper_parameters"] and set(found) == set(READ)
    kept = {name: value for name, value in content.items() if name not in ("global_step", "precision", "model")}
    torch.save(kept, tmp_path / "bare.ckpt")
    found = read_facts(tmp_path / "bare.ckpt")
    assert (found["global_step"], found["precision"], found["model"]) == (0, "", DEFAULT_MODEL)
    for name in ("state_dict", "pytorch-lightning_version"):
        torch.save({other: value for other, value in content.items() if other != name}, tmp_path / "less.ckpt")
        with pytest.raises(InputError, match=r"is not a checkpoint of a run; weights go to --model.weights"):
            read_facts(tmp_path / "less.ckpt")


@pytest.mark.parametrize("fact", ["hyper_parameters", "global_step", "precision"])
def test_each_fact_of_another_type_is_damage(told, fact):
    path = told()
    torch.save(torch.load(path, weights_only=True) | {fact: None}, path)
    with pytest.raises(InputError, match=f"told.ckpt is damaged: its {fact} is None; give another one"):
        read_facts(path)


def test_what_the_data_tell_is_no_default_of_the_checkpoint():
    hyper = {"num_classes": 3, "image_size": 8, "mean": 1, "std": 2, "loss": "sigmoid", "net": {"variant": "mu/8"}}
    assert as_defaults({"model": "x.Y", "hyper_parameters": hyper}) == {
        "model": {"class_path": "x.Y", "init_args": {"loss": "sigmoid", "net": {"variant": "mu/8"}}}
    }


@pytest.mark.parametrize(
    ("variant", "weights", "taken"),
    [
        ("timm/resnet10t.c3_in1k", None, "timm/resnet10t.c3_in1k"),
        ("timm/resnet10t.c3_in1k", "own.npz", "own.npz"),
        ("B/16", None, None),
        (None, None, None),
    ],
)
def test_a_tag_brings_the_weights_that_it_names(monkeypatch, variant, weights, taken):
    monkeypatch.setattr(precedence, "published_weights", lambda name: name if "." in name else None)
    settings = Namespace(weights=weights, net=Namespace(variant=variant))
    take_published(settings)
    assert settings.weights == taken
    take_published(Namespace(net=Namespace(variant=variant)))  # a model that takes none


@pytest.mark.parametrize("variant", [None, "Ti/4", "S/8"])
def test_a_checkpoint_fills_what_a_config_leaves_open_of_its_net(variant):
    """A value that says no, as 0 or false, is a value; another variant stays as it is given."""
    theirs = {"variant": "Ti/4", "width": 16, "dropout": 0.1, "swiglu": True, "stages": (1,), "depth": 2, "heads": None}
    given = {"variant": variant, "width": None, "dropout": 0.0, "swiglu": False, "stages": (), "depth": 3}
    settings = Namespace(net=Namespace(**given))
    precedence.take_net(settings, {"hyper_parameters": {"net": theirs}})
    taken = {"variant": "Ti/4", "width": 16, "heads": None} if variant != "S/8" else {}
    assert settings.net.as_dict() == given | taken


@pytest.mark.parametrize("facts", [{}, {"net": None}, {"net": {}}])
def test_a_checkpoint_without_a_net_fills_nothing(facts):
    settings = Namespace(net=Namespace(variant=None, width=None))
    precedence.take_net(settings, {"hyper_parameters": facts})
    assert settings.net.as_dict() == {"variant": None, "width": None}
    precedence.take_net(settings := Namespace(lr=1), {"hyper_parameters": {"net": {"width": 16}}})
    assert settings.as_dict() == {"lr": 1}


@pytest.mark.parametrize(
    ("text", "model", "said"),
    [
        ("there is no flag --model.label_smoothing; did", MASKED, "which has no model.label_smoothing; to train"),
        ("there is no flag --model.loss.x; did", MASKED, "which has no model.loss.x; to train"),
        ("there is no flag --model.optim.x; did", MASKED, None),  # both have an optimiser
        ("there is no flag --model.nonsense; did", MASKED, None),
        ("there is no flag --data.loss; did", MASKED, None),
        ("there is no flag --model.loss.x; did", DEFAULT_MODEL, None),
    ],
)
def test_a_flag_of_the_default_model_tells_of_the_checkpoint_s(text, model, said):
    found = of_another_model(text, model, "x.ckpt")
    if said is None:
        assert found is None
    else:
        assert found.startswith("--ckpt_path x.ckpt holds a MaskedPatch, ") and said in found
        assert found.endswith("give --model.weights x.ckpt in its place")


def test_classes_are_found_at_any_depth():
    settings = {"a": [{"class_path": "A", "init_args": {"b": ({"class_path": "B"},)}}], "c": {"d": {"class_path": "C"}}}
    assert sorted(precedence._class_paths(settings)) == ["A", "B", "C"]


@pytest.fixture
def written(tmp_path):
    def write(**facts: object):
        torch.save({"state_dict": {}, "pytorch-lightning_version": "2.6.0"} | facts, tmp_path / "x.ckpt")
        return tmp_path / "x.ckpt"

    return write


def test_a_converted_checkpoint_begins_at_step_0_of_the_default_model():
    assert READ == {
        "hyper_parameters": {},
        "global_step": 0,
        "model": "vit_lightning.classifier.Classifier",
        "precision": "",
        "class_names": [],
    }


@pytest.mark.parametrize(
    ("packages", "named", "taken"),
    [({"pkg"}, (), True), (set(), ("pkg.sub.Model",), True), ({"sub", "pkg.sub"}, (), False), (set(), ("pkg",), False)],
)
@pytest.mark.parametrize("inside", [False, True])
def test_a_class_is_that_of_an_installed_plug_in_or_of_the_person(written, monkeypatch, packages, named, taken, inside):
    monkeypatch.setattr(precedence, "plugin_packages", lambda: packages)
    monkeypatch.setattr(precedence, "check_checkpoint", lambda path, content, is_ours: None)
    held = {"hyper_parameters": {"head": [{"class_path": "pkg.sub.Model"}]}} if inside else {"model": "pkg.sub.Model"}
    if taken:
        read_facts(written(**held), named)
    else:
        with pytest.raises(InputError, match=r"names the class 'pkg\.sub\.Model', whose code would run; if you trust"):
            read_facts(written(**held), named)


@pytest.mark.parametrize("goes_on", [True, False])
def test_only_a_run_that_goes_on_needs_a_state(written, monkeypatch, goes_on):
    asked: list[tuple] = []
    monkeypatch.setattr(precedence, "check_checkpoint", lambda path, content, is_ours: asked.append(("net", is_ours)))
    monkeypatch.setattr(
        precedence, "check_state", lambda path, content, is_ours, is_sharded: asked.append((is_ours, is_sharded))
    )
    read_facts(written(), goes_on=goes_on)
    assert asked == [("net", True)] + [(True, False)] * goes_on
