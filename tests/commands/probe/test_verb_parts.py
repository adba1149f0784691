"""What `probe` makes of its flags and of two different sets, in this process and without an application."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Trainer

from datamodules.synthetic import Synthetic
from tests.commands.probe.test_verb import model, save
from vit_lightning.commands.probe import verb as module
from vit_lightning.commands.probe.extraction import FrozenNet, frozen_model, goes_through_all
from vit_lightning.commands.probe.verb import _check_numbers, _countable, _trained_among, probe
from vit_lightning.errors import InputError
from vit_lightning.evaluation import fewshot
from vit_lightning.evaluation.features import FeatureSet
from vit_lightning.masked_patch import MaskedPatch

SETTINGS = {"probes": ("knn",), "neighbours": (1,)}


def data(**facts: object) -> Synthetic:
    usual = {"train_size": 12, "eval_size": 7, "num_classes": 3, "image_size": 8, "batch_size": 5, "num_workers": 0}
    return Synthetic(**usual | facts)


def trainer(**settings: object) -> Trainer:
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
    return Trainer(accelerator="cpu", **quiet, **settings)


@pytest.fixture
def probed(tmp_path, monkeypatch):
    """Call the verb with a net in net.ckpt; what it wrote, and its lines."""
    monkeypatch.chdir(tmp_path)
    save(model(3, 8))
    lines: list[str] = []
    monkeypatch.setattr(module, "report", lines.append)
    monkeypatch.setattr("vit_lightning.commands.probe.extraction.report", lines.append)
    monkeypatch.setattr(module, "console", lambda: SimpleNamespace(print=lambda shown: None))

    def call(images: Synthetic | None = None, **words: object) -> tuple[dict, list[str]]:
        lines.clear()
        words = SETTINGS | {"ckpt_path": "net.ckpt"} | words
        probe(trainer(), model(3, 8), images or data(), **words)
        return json.loads((Path(words.get("out") or "probe") / "probe.json").read_text()), list(lines)

    return call


def kept() -> dict[str, dict[str, torch.Tensor]]:
    from safetensors.torch import load_file

    return {path.name.partition("-")[0]: load_file(path) for path in Path("probe/features").iterdir()}


def test_each_set_s_features_are_its_own_and_come_from_their_files_the_next_time(probed, monkeypatch):
    images, made = data(), model(3, 8).eval()
    facts, lines = probed(images)
    assert facts["images"] == {"training": 12, "test": 7} and facts["scored"] == "test"
    assert facts["features"] == 32 and facts["net"] == str(Path("net.ckpt").resolve())
    assert facts["precision"] == "32-true" and facts["image_size"] == [8, 8]
    found = kept()
    for name, expected in (("training", images.train_set), ("test", images.test_set)):
        pixels = torch.stack([expected[number][0] for number in range(len(expected))])
        with torch.no_grad():
            features = made.net.features(made.normalise(pixels))
        torch.testing.assert_close(found[name]["features"], features, atol=1e-5, rtol=1e-4)
        assert found[name]["labels"].tolist() == [int(expected[number][1]) for number in range(len(expected))]
    took = facts["seconds_of_extraction"]
    assert set(took) == {"training", "test"} and all(seconds > 0 for seconds in took.values())
    assert [line.partition(",")[0] for line in lines[:2]] == ["features 12 training images", "features 7 test images"]
    stepped = []
    step = FrozenNet.predict_step
    monkeypatch.setattr(FrozenNet, "predict_step", lambda *words: stepped.append(len(words[1][1])) or step(*words))
    again, lines = probed(data())
    assert stepped == [] and again["seconds_of_extraction"] == {"training": None, "test": None}
    assert again["rows"] == [row | {"seconds": again["rows"][0]["seconds"]} for row in facts["rows"]]
    assert lines[0].startswith("features of the 12 training images are those of probe/features/training-")
    next(Path("probe/features").glob("test-*")).unlink()
    once, _ = probed(data())
    assert sum(stepped) >= 7 and once["seconds_of_extraction"]["training"] is None
    assert once["seconds_of_extraction"]["test"] > 0 and kept()["test"]["features"].shape == (7, 32)


def test_validation_images_stand_in(probed, monkeypatch):
    class Untested(Synthetic):
        def setup(self, stage: str) -> None:
            super().setup(stage)
            self.test_set = None

    images = Untested(train_size=12, eval_size=7, num_classes=3, image_size=8, batch_size=5, num_workers=0)
    facts, lines = probed(images)
    assert facts["scored"] == "validation" and facts["images"] == {"training": 12, "validation": 7}
    assert "scored   the validation images, since there are no test images" in lines


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({}, ([1, 5, 10, 25], [0, 1, 2], (1024.0,), [10, 20, 100], ["shots", "neighbours"])),
        (
            {"shots": (3, 1, 3), "seeds": 1, "l2": 2.0, "neighbours": (7, 2, 7)},
            ([1, 3], [0], (2.0,), [2, 7], []),
        ),
        ({"protocol": "original", "shots": (2,)}, ([2], [None], fewshot.ORIGINAL_L2, [10, 20, 100], ["neighbours"])),
    ],
)
def test_flags_become_probes(tmp_path, monkeypatch, words, expected):
    class Met(Exception):  # noqa: N818
        pass

    made = []

    def met(*facts, **named):
        made.append((facts, named))
        raise Met

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "Probes", met)
    with pytest.raises(Met):
        probe(trainer(), model(3, 8), data(), ckpt_path="net.ckpt", **words)
    (((probes, shots), named),) = made
    assert probes == ("fewshot", "knn", "logistic")
    assert (shots, named["seeds"], named["penalties"], named["neighbours"], named["usual"]) == expected
    assert named["temperature"] == 0.07 and named["missing_is_fine"] is False


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"probes": ()}, "--probes is empty"),
        ({"shots": ()}, "--shots is empty"),
        ({"neighbours": ()}, "--neighbours is empty"),
        ({"shots": (5, 0)}, "--shots is 0, expected 1 or more"),
        ({"neighbours": (0, 5)}, "--neighbours is 0"),
        ({"seeds": 0}, "--seeds is 0"),
        ({"l2": 0.0}, "--l2 is 0, expected a number above 0, such as 1024"),
        ({"l2": math.inf}, "--l2 is inf"),
        ({"temperature": -1.0}, r"--temperature is -1, expected a number above 0, such as 0\.07"),
        ({"temperature": math.nan}, "--temperature is nan"),
    ],
)
def test_numbers_with_which_nothing_is_computed(flags, said):
    fine = {"probes": ("knn",), "shots": (1,), "neighbours": (1,), "seeds": 1, "l2": 1e-9, "temperature": 1e-9}
    _check_numbers(**fine)
    with pytest.raises(InputError, match=said):
        _check_numbers(**fine | flags)


@pytest.mark.parametrize(
    ("limit", "fast", "whole"), [(1.0, False, True), (1, False, False), (0.5, False, False), (1.0, 1, False)]
)
def test_one_is_a_batch_and_one_point_nothing_all(limit, fast, whole):
    facts = SimpleNamespace(limit_predict_batches=limit, fast_dev_run=fast)
    assert goes_through_all(facts) == whole


def test_results_lie_in_the_folder_that_is_named_in_the_run_or_here(probed, tmp_path):
    probed(out=tmp_path / "new/place")
    assert {path.name for path in (tmp_path / "new/place").iterdir()} == {"probe.json", "probe.csv", "features"}
    (tmp_path / "runs/a/0/checkpoints").mkdir(parents=True)
    Path("net.ckpt").rename("runs/a/0/checkpoints/net.ckpt")
    words = {"ckpt_path": "runs/a/0/checkpoints/net.ckpt", "cache": tmp_path / "kept"}
    probe(trainer(), model(3, 8), data(), **SETTINGS, **words)
    assert {path.name for path in (tmp_path / "runs/a/0").iterdir()} == {"checkpoints", "probe.json", "probe.csv"}
    assert len(list((tmp_path / "kept").iterdir())) == 2


def test_images_without_a_label_are_counted(probed):
    probed()
    found = FeatureSet(torch.arange(8.0).reshape(4, 2), torch.tensor([0, -100, 1, -101]))
    taken = _countable(found, "test")
    assert taken.features.tolist() == [[0, 1], [4, 5]] and taken.labels.tolist() == [0, 1]


@pytest.mark.parametrize("members", [0, 2])
def test_images_that_any_member_was_trained_on_are_known(monkeypatch, members):
    seen = {"own": 3, "first": 1, "second": 5}
    of_data = {"seen_labels": "own", "seen_by_members": ["first", "second"][:members]}
    monkeypatch.setattr(module, "open_weights", lambda *facts: SimpleNamespace(of_data=of_data))
    monkeypatch.setattr(module, "trained_among", lambda known, images: seen.get(known, 0) if known else 0)
    net = SimpleNamespace(model=SimpleNamespace(weights="w", hparams={"weights_raw": False}, chosen=None))
    assert _trained_among(net, None) == (5 if members else 3)
    monkeypatch.setattr(module, "places_seen_before", lambda before, images: [0] * 7)
    assert _trained_among(net, None) == 7


def test_a_net_keeps_its_head_and_another_kind_of_model_has_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(model(3, 8))
    made = model(5, 8)
    made.hparams.update(weights_head="reset", weights_raw=True, weights_adapt=True)
    frozen = frozen_model(made, "net.ckpt")
    assert frozen is made and frozen.weights == "net.ckpt" and frozen.hparams["num_classes"] == 3
    assert [frozen.hparams[f"weights_{name}"] for name in ("head", "raw", "adapt")] == ["keep", False, False]
    other = model(5, 8)
    other.weights = "net.ckpt"
    other.hparams.update(weights_head="reset")
    assert frozen_model(other, None).hparams["num_classes"] == 5
    masked = MaskedPatch(net={"variant": "mu/8"}, image_size=16)
    found = frozen_model(masked, "net.ckpt")
    assert type(found).__name__ == "Classifier" and found.weights == "net.ckpt"
    with pytest.raises(InputError, match=r"inspect needs a net that shows its features.* Linear has none"):
        frozen_model(torch.nn.Linear(1, 1), None, "inspect")
