"""Every word of convert, export and predict reaches what does the work, and none stands for another."""

from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from types import SimpleNamespace

import pytest
from lightning.pytorch import Trainer

import vit_lightning.files
import vit_lightning.models.finite
import vit_lightning.weights
import vit_lightning.weights.card
import vit_lightning.weights.deploy
import vit_lightning.weights.interface
import vit_lightning.weights.save
from vit_lightning.callbacks.predictions import Predictions
from vit_lightning.commands.convert import convert
from vit_lightning.commands.export import export
from vit_lightning.commands.predict import predict
from vit_lightning.errors import InputError

STATED = {"gelu": "exact", "norm_eps": 0.5, "pool": "gap", "norm_after_pool": True, "resnet_code": "timm"}
LOADED = {"heads": 3, "raw": True}
SAID = {"mean": (0.1,), "std": (0.2,)}


@pytest.fixture
def calls(monkeypatch) -> dict[str, tuple]:
    """What the parts of convert and export are called with; none does anything."""
    found: dict[str, tuple] = {}
    net = SimpleNamespace(config=SimpleNamespace(channels=5), state_dict=lambda: "tensors")
    report = SimpleNamespace(
        notes=[],
        class_names=["a"],
        state_normalisation=lambda *words: found.update(normalisation=words),
        __str__=lambda: "",
    )

    def note(name: str, answer: object = None):
        def called(*words, **options):
            found[name] = (*words, options) if options else words
            return answer

        return called

    @contextmanager
    def written(place: Path):
        yield place.with_name("part")

    weights = vit_lightning.weights
    monkeypatch.setattr(weights, "load_net", note("load", (net, report)))
    monkeypatch.setattr(weights.save, "save", note("save", 0.25))
    monkeypatch.setattr(weights.deploy, "to_onnx", note("onnx", 0.25))
    monkeypatch.setattr(weights.deploy, "to_torch_export", note("torch_export", 0.25))
    monkeypatch.setattr(weights.card, "write_card", note("card"))
    monkeypatch.setattr(weights.interface, "evaluation_of", note("evaluation", "scores"))
    monkeypatch.setattr(vit_lightning.models.finite, "check_finite", note("finite"))
    monkeypatch.setattr(vit_lightning.files, "written", written)
    return found | {"net": net, "report": report, "found": found}


def check_loaded(found: dict, source: str, **further: object) -> None:
    *words, options = found["load"]
    stated = options.pop("stated")
    assert (words, options) == ([source], LOADED | further)
    assert {name: getattr(stated, name) for name in STATED} == STATED
    assert found["normalisation"] == ((0.1,), (0.2,), 5) and found["finite"] == ("tensors", source)


def test_words_of_convert(calls, capsys):
    found = calls["found"]
    convert("source", Path("there"), "timm", image_size=(8, 12), **LOADED, **STATED, **SAID)
    check_loaded(found, "source", image_size=(8, 12))
    assert found["save"] == (calls["net"], calls["report"], Path("there"), "timm")
    assert capsys.readouterr().out.endswith(
        "there: timm, every tensor bit-identical when read back, outputs differ by 2.5e-01\n"
    )


@pytest.mark.parametrize(
    ("to", "names", "warns"),
    [
        ("npz", ["a"], True),
        ("npz", [], False),
        ("torchvision", ["a"], True),
        ("timm", ["a"], False),
        ("checkpoint", ["a"], False),
    ],
)
def test_names_that_a_layout_loses_are_told(calls, capsys, to, names, warns):
    calls["report"].class_names = names
    convert("source", Path("there"), to)
    assert ("to checkpoint keeps them" in capsys.readouterr().out) is warns


@pytest.mark.parametrize(
    ("name", "to", "fine"),
    [
        ("x.npz", "npz", True),
        ("x.npz", "timm", False),
        ("x.safetensors", "timm", False),
        ("x.ckpt", "checkpoint", True),
        ("x.ckpt", "npz", False),
        ("x", "npz", True),
    ],
)
def test_names_that_promise_another_layout(calls, name, to, fine):
    if fine:
        convert("source", Path(name), to)
        return
    with pytest.raises(InputError, match=f"{name} ends in"):
        convert("source", Path(name), to)
    assert "load" not in calls["found"]


@pytest.mark.parametrize("to", ["onnx", "torch_export", "safetensors", "huggingface"])
@pytest.mark.parametrize("source", ["runs/x/0/checkpoints/best.ckpt", "https://x/y", "hf://a/b"])
def test_words_of_export(calls, capsys, to, source):
    found = calls["found"]
    export(source, Path("there"), to, licence="mit", **LOADED, **STATED, **SAID)
    check_loaded(found, source)
    assert found["evaluation"] == ((None,) if "://" in source else (Path("runs/x/0").absolute(),))
    net, report, place = calls["net"], calls["report"], Path("part")
    made = found.keys() & {"onnx", "torch_export", "save"}
    assert made == {to if "afe" not in to and "hug" not in to else "save"}
    assert found[made.pop()] == (net, report, place, "scores" if to in ("onnx", "torch_export") else to)
    assert found["card"] == (net, report, to, "mit", 0.25, Path("part/README.md"), "scores")
    assert capsys.readouterr().out.endswith(f"wrote    there: {to}, outputs differ by 2.5e-01\n")


@pytest.mark.parametrize("verb", [convert, export])
def test_what_a_file_says_stands_unless_a_flag_says_otherwise(calls, verb):
    verb("source", Path("there"))
    options = calls["found"]["load"][-1]
    assert options.pop("raw") is False and all(getattr(options["stated"], name) is None for name in STATED)
    assert calls["found"]["normalisation"] == (None, None, 5)
    assert signature(verb).parameters["to"].default == {convert: "checkpoint", export: "onnx"}[verb]


# predict -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def predicted(monkeypatch):
    """Call predict with a trainer of two callbacks; returns what it names and what it runs."""

    class Files(Predictions):
        def __init__(self) -> None: ...

        def write_to(self, *words) -> None:
            named.append(words)

    named, ran = [], []
    monkeypatch.setattr(Trainer, "predict", lambda *words, **options: ran.append((words, options)))

    def run(**words) -> tuple:
        trainer = SimpleNamespace(callbacks=[object(), Files()])
        predict(trainer, "model", "data", **words)
        assert ran == [
            (
                (trainer, "model"),
                {"datamodule": "data", "ckpt_path": words.get("ckpt_path"), "return_predictions": False},
            )
        ]
        return named[0]

    return run


def test_words_of_predict(predicted):
    words = {"ckpt_path": "x.ckpt", "out": Path("a.csv"), "features": Path("f.npz")}
    assert predicted(top=1, **words) == (Path("a.csv"), Path("f.npz"), 1)


@pytest.mark.parametrize(("words", "top"), [({}, 5), ({"top": "all"}, None), ({"top": 7}, 7)])
def test_how_many_classes_a_row_has(predicted, words, top):
    assert predicted(**words) == (None, None, top)


@pytest.mark.parametrize("top", [0, -1])
def test_a_row_has_a_class_at_least(top):
    with pytest.raises(InputError, match=f"--top is {top}, expected 1 or more, or all"):
        predict(None, None, None, top=top)
