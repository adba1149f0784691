"""What doctor says of imbalance, of images that are there twice, and of likely wrong labels."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.commands.doctor.test_likeness import encoded, picture
from vit_lightning.commands.doctor.suspects import _nearest, _outvoted

NET = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
CHANCE = np.random.default_rng(0)


@pytest.fixture
def folder(tmp_path) -> Path:
    """36 training images of three classes, and six for validation, all different."""
    seed = 0
    for split, count in (("train", 12), ("val", 2)):
        for name in ("cat", "dog", "owl"):
            (tmp_path / "set" / split / name).mkdir(parents=True)
            for number in range(count):
                picture(seed := seed + 1).save(tmp_path / "set" / split / name / f"{number}.png")
    return tmp_path / "set"


@pytest.fixture
def doctor(app, folder):
    def run(*words):
        data = ("--data", "ImageFolder", "--data.root", folder, "--data.image_size", 16, "--data.batch_size", 4)
        done = app("doctor", *NET, *data, "--data.num_workers", 0, "--json", "found.json", *words)
        content = json.loads(Path("found.json").read_text()) if Path("found.json").is_file() else {"findings": []}
        return done, {finding["topic"]: finding for finding in content["findings"]}

    return run


def test_different_pictures_are_no_finding(doctor):
    done, found = doctor()
    assert done.code == 0, done.err
    assert set(found) == {"batch", "device"}


def test_planted_duplicates_are_named_with_both_labels(doctor, folder):
    encoded(Image.open(folder / "train/cat/3.png"), 60).save(folder / "val/cat/again.jpg", quality=60)
    encoded(Image.open(folder / "train/dog/1.png"), 80, 0.6).save(folder / "train/owl/small.jpg", quality=80)
    encoded(Image.open(folder / "train/dog/2.png"), 80, 1.5).save(folder / "train/dog/large.jpg", quality=80)
    shutil.copy(folder / "train/owl/0.png", folder / "val/owl/leak.png")
    shutil.copy(folder / "train/owl/1.png", folder / "train/cat/wrong.png")
    done, found = doctor()
    assert done.code == 0
    assert found["near leak"]["items"] == ["cat/again.jpg (cat) ~ cat/3.png (cat)"]
    assert found["near leak"]["severity"] == "warning"
    assert found["near duplicates"]["items"] == [
        "dog/large.jpg (dog) ~ dog/2.png (dog)",
        "owl/small.jpg (owl) ~ dog/1.png (dog)",
    ]
    assert found["near contradictions"]["items"] == ["training owl/small.jpg (owl) ~ training dog/1.png (dog)"]
    assert found["leak"]["items"] == ["owl/leak.png (owl) = owl/0.png (owl)"]
    assert found["contradictions"]["items"] == ["training cat/wrong.png (cat) = training owl/1.png (owl)"]
    assert "1 validation image nearly equal to a training image: cat/again.jpg (cat) ~ cat/3.png (cat)" in done.out


def test_an_imbalance_is_named_with_the_flags_that_answer_it(doctor, folder):
    for number in range(1, 12):
        (folder / f"train/owl/{number}.png").unlink()
    _, found = doctor()
    assert found["imbalance"]["text"] == ("the largest class, cat, has 12 training images, the smallest, owl, 1")
    for flag in ("--data.sampler balanced", "--model.class_weights balanced", "--model.logit_adjustment 1"):
        assert flag in found["imbalance"]["fix"]
    _, found = doctor("--data.sampler", "balanced")
    assert found["imbalance"]["text"].endswith(", 1, which --data.sampler balanced answers")
    _, found = doctor("--model.class_weights", "balanced")
    assert found["imbalance"]["text"].endswith(", 1, which --model.class_weights balanced answers")


# Likely wrong labels -------------------------------------------------------------------------------------------------


def test_neighbours_are_those_of_every_pair(monkeypatch):
    monkeypatch.setattr("vit_lightning.commands.doctor.suspects.REFERENCES", 7)
    features = torch.nn.functional.normalize(torch.from_numpy(CHANCE.standard_normal((40, 5))), dim=1).float()
    likeness = features.double() @ features.double().T
    likeness.fill_diagonal_(-2)
    expected = likeness.argsort(descending=True)[:, :10]
    assert torch.equal(_nearest(features, torch.arange(40)), expected)


def test_an_image_among_those_of_another_class_is_suspected():
    places = np.repeat(np.eye(3), [20, 12, 5], axis=0) + 0.01 * CHANCE.standard_normal((37, 3))
    labels = torch.tensor([0] * 20 + [1] * 12 + [2] * 5)
    labels[3], labels[25] = 1, 2
    features = torch.nn.functional.normalize(torch.from_numpy(places).float(), dim=1)
    found, others, shares, agreement = _outvoted(features, labels)
    assert dict(zip(found.tolist(), others.tolist(), strict=True)) == {3: 0, 25: 1}
    assert (shares >= 0.8).all()
    assert agreement == 35 / 37


def test_classes_of_few_images_are_not_judged():
    features = torch.nn.functional.normalize(torch.from_numpy(CHANCE.standard_normal((20, 4))).float(), dim=1)
    labels = torch.tensor([0] * 17 + [1] * 3)
    assert not set(_outvoted(features, labels)[0].tolist()) & {17, 18, 19}


def test_a_wrong_label_is_found_with_weights(app, doctor, folder):
    """Reddish, greenish and bluish images, two of them in another's folder; a net at random tells colours apart."""
    for channel, name in enumerate(("cat", "dog", "owl")):
        for split, count in (("train", 12), ("val", 2)):
            for number in range(count):
                pixels = CHANCE.integers(0, 60, (40, 40, 3), dtype=np.uint8)
                pixels[..., channel] += 180
                Image.fromarray(pixels).save(folder / split / name / f"{number}.png")
    shutil.move(folder / "train/cat/5.png", folder / "train/owl/red.png")
    shutil.move(folder / "train/owl/7.png", folder / "train/dog/blue.png")
    data = ("--data", "ImageFolder", "--data.root", folder, "--data.image_size", 16, "--data.batch_size", 4)
    run = app("fit", *NET, *data, "--data.num_workers", 0, "--trainer.max_steps", 1, "--model.schedule.warmup_steps", 0)
    assert run.code == 0, run.err
    done, found = doctor("--suspect_labels", "true", "--model.weights", "runs/default/0/checkpoints/last.ckpt")
    assert done.code == 0, done.err
    assert "embedded 36 of 36 training images" in done.out
    named = {item.partition(",")[0] for item in found["suspect labels"]["items"]}
    assert named == {"owl/red.png (owl", "dog/blue.png (dog"}
    assert "dog/blue.png (dog, neighbours owl 100%)" in found["suspect labels"]["items"]


def test_suspect_labels_need_weights(doctor):
    done, _ = doctor("--suspect_labels", "true")
    assert done.code == 1
    assert done.err.splitlines()[-1] == (
        "error: --suspect_labels compares images by what a net sees; give --model.weights"
    )
    assert "looked at" not in done.out
