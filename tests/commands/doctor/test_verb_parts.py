"""What `doctor` makes of findings, surveys and a run's flags, without an application."""

import logging
from types import SimpleNamespace

import pytest
from lightning_utilities.core import rank_zero

from vit_lightning.classifier import Classifier
from vit_lightning.commands.doctor import verb as module
from vit_lightning.commands.doctor.findings import Finding
from vit_lightning.commands.doctor.verb import (
    _answers,
    _batches,
    _by_severity,
    _config,
    _each_line_once,
    _is_for_fit,
    _is_said,
    _rehearsal,
    _statistics,
)
from vit_lightning.data.window import HOLD_SCALED
from vit_lightning.training.net_model import SILENT


class Survey(SimpleNamespace):
    def __len__(self) -> int:
        return self.images


def trainer(**facts: object) -> SimpleNamespace:
    usual = {"num_devices": 1, "num_nodes": 1, "world_size": 1, "limit_train_batches": 1.0, "max_epochs": 1}
    return SimpleNamespace(**usual | {"max_steps": -1, "accumulate_grad_batches": 1} | facts)


def model(**facts: object) -> Classifier:
    return Classifier({"variant": "mu/8"}, num_classes=3, image_size=16, **facts)


@pytest.mark.parametrize(
    ("facts", "batches"),
    [
        ({}, 5),
        ({"limit_train_batches": 3}, 3),
        ({"limit_train_batches": 9}, 5),
        ({"limit_train_batches": 1}, 1),
        ({"limit_train_batches": 0.5}, 2),
        ({"num_devices": 2}, 2),
        ({"num_devices": 2, "num_nodes": 3}, 0),
    ],
)
def test_batches_are_those_of_each_device(facts, batches):
    """Eleven images, two at a time."""
    assert _batches(trainer(**facts), 11, 2) == batches


def test_the_gravest_come_first_and_equals_stay_in_their_order():
    found = [Finding(severity, text, text) for severity, text in (("note", "a"), ("error", "b"), ("warning", "c"))]
    found += [Finding("error", "d", "d"), Finding("note", "e", "e")]
    assert [one.text for one in _by_severity(found)] == ["b", "d", "c", "a", "e"]


def test_what_a_fit_says_of_an_image_is_said_once():
    seen = [Finding("error", "broken", "two", items=("a.png: cut", "b.png: empty")), Finding("note", "x", "y")]
    assert _is_said(Finding("error", "data", "the image b.png: empty"), seen)
    assert not _is_said(Finding("error", "data", "bb.png: empty"), seen)
    assert not _is_said(Finding("error", "data", "a.png: cut off"), seen)
    scaled = Finding("error", "data", f"images {HOLD_SCALED} values")
    assert not _is_said(scaled, seen) and _is_said(scaled, [*seen, Finding("warning", "depth", "deep")])


def test_a_fit_speaks_of_its_batch_itself():
    found = [Finding(severity, topic, "") for severity in ("error", "note") for topic in ("batch", "data")]
    assert [_is_for_fit(one) for one in found] == [True, False, False, False]


def test_lines_that_come_again_are_dropped_while_it_looks(caplog):
    def say(*lines: str) -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.INFO, logger=rank_zero.log.name):
            for line in lines:
                rank_zero.log.info(line)
        return [record.getMessage() for record in caplog.records]

    with _each_line_once():
        assert say("a", "b", "a") == ["a", "b"]
        assert say("b", "c") == ["c"]
    assert say("a", "a") == ["a", "a"]


@pytest.mark.parametrize(
    ("facts", "sampler", "answers"),
    [
        ({}, "shuffled", []),
        ({}, "balanced", ["--data.sampler balanced"]),
        ({"class_weights": "balanced"}, "shuffled", ["--model.class_weights balanced"]),
        ({"class_weights": [1.0, 2.0, 3.0]}, "shuffled", ["--model.class_weights"]),
        ({"focal_gamma": 2.0}, "balanced", ["--data.sampler balanced", "--model.focal_gamma"]),
    ],
)
def test_flags_that_answer_an_imbalance_are_known(facts, sampler, answers):
    assert _answers(model(**facts), SimpleNamespace(sampler=sampler)) == answers


def test_statistics_that_weights_leave_open_are_a_warning():
    made = model()
    assert _statistics(made) == [] and _statistics(SimpleNamespace(normalised_by=SILENT)) == []
    made.weights, made.normalised_by = "w.npz", SILENT
    (found,) = _statistics(made)
    assert found.severity == "warning" and found.text.startswith("w.npz states neither mean nor std")


SURVEYS = [Survey(split="training", images=20), Survey(split="validation", images=999)]


def test_a_schedule_is_held_against_the_steps_of_the_training_images_alone():
    made, asked = model(), []
    made.schedule = SimpleNamespace(check=asked.append)
    data = SimpleNamespace(batch_size=4)
    assert _config(trainer(max_epochs=3), made, data, SURVEYS) == [] and asked == [15]
    assert _config(trainer(max_epochs=-1), made, data, SURVEYS) == [] and asked == [15]  # nobody knows its end
    assert _config(trainer(), SimpleNamespace(), data, SURVEYS) == []


@pytest.mark.parametrize(
    ("facts", "rehearsed"),
    [
        ({}, True),
        ({"refused": True}, False),
        ({"num_classes": None}, False),
        ({"weights": "w"}, True),
        ({"weights": "away"}, False),
        ({"num_devices": 2, "world_size": 2}, True),
        ({"num_devices": 8, "world_size": 8}, False),
    ],
)
def test_a_fit_is_rehearsed_where_it_could_begin(monkeypatch, facts, rehearsed):
    called, said = [], []
    monkeypatch.setattr(module, "rehearse", lambda *words: called.append(words[3:]) or "rehearsed")
    monkeypatch.setattr(module, "is_at_hand", lambda source: source != "away")
    monkeypatch.setattr(module, "report", said.append)
    made, classes = model(), facts.pop("num_classes", 3)
    data = SimpleNamespace(num_classes=classes, batch_size=4, size=(16, 24), scored_alone=())
    made.weights, refused = facts.pop("weights", None), facts.pop("refused", False)
    run = trainer(**facts)
    for steps in (True, False):
        found = _rehearsal(run, made, data, SURVEYS, refused, steps)
        if rehearsed:
            assert found == "rehearsed" and called[-1] == (20 // (4 * run.num_devices), steps)
            assert ("4 images of 24x16 pixels" in said[-1]) == steps
        else:
            assert called == said == [] and found.failure is None
            away = made.weights == "away"
            assert [one.topic for one in found.findings if one.topic == "weights"] == ["weights"] * away
