"""What is known of the images that a run's first weights were trained on, and which sets may not hold them."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning.pytorch.trainer.states import TrainerFn
from PIL import Image

from datamodules.folder import ImageFolder
from vit_lightning.errors import InputError
from vit_lightning.training.seen_before import check_unseen, merged, places_seen_before, seen_before
from vit_lightning.training.seen_labels import seen_labels

FORM = {"image_size": 8, "batch_size": 2, "num_workers": 0}


def draw(root: Path, **splits: str) -> ImageFolder:
    """Write a photograph for each letter of each split, always the same one for the same letter, and read them."""
    for split, letters in splits.items():
        for letter in letters:
            name = "cat" if letter in "abcdef" else "dog"
            (root / split / name).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (ord(letter), 9, 9)).save(root / split / name / f"{letter}.png")
    data = ImageFolder(root, **FORM)
    data.setup("fit")
    return data


def model(data: ImageFolder, verb: TrainerFn = TrainerFn.FITTING, **hparams) -> SimpleNamespace:
    trainer = SimpleNamespace(datamodule=data, state=SimpleNamespace(fn=verb))
    return SimpleNamespace(_trainer=trainer, hparams=hparams)


def of_weights(data: ImageFolder) -> dict:
    return {"seen_labels": seen_labels(data)}


@pytest.fixture
def first(tmp_path) -> dict:
    """What weights know that were trained on a, b, x and y."""
    return seen_before(of_weights(draw(tmp_path / "first", train="abxy", val="cz", test="dw")))


@pytest.fixture
def second(tmp_path) -> ImageFolder:
    """Data that are divided otherwise: a and x validate, b tests."""
    return draw(tmp_path / "second", train="cdzwef", val="axy", test="bz")


def test_a_fit_that_validates_or_tests_on_them_is_refused(first, second):
    with pytest.raises(InputError) as caught:
        check_unseen(first, model(second), "runs/head/0")
    assert str(caught.value) == (
        f"3 of 3 validation images, 1 of 2 test images, such as {second.val_set.keys[0]}, are images that runs/head/0 "
        "had been trained on; leave them out, or put them among the training images, or give --model.weights_overlap "
        "warn to score them nevertheless"
    )


@pytest.mark.parametrize(
    ("verb", "said"),
    [(TrainerFn.VALIDATING, "3 of 3 validation images, such as"), (TrainerFn.TESTING, "1 of 2 test images, such as")],
)
def test_verbs_that_score_look_at_their_own_set(first, second, verb, said):
    with pytest.raises(InputError, match=rf"^{said} .* weights that the checkpoint began with had been trained on"):
        check_unseen(first, model(second, verb))


def test_predictions_may_be_of_any_images(first, second):
    check_unseen(first, model(second, TrainerFn.PREDICTING))


def test_further_sets_are_looked_at(first, tmp_path):
    data = draw(tmp_path / "third", train="cz", val="dw", test="ev")
    check_unseen(first, model(data))
    data.further_sets = {"night": draw(tmp_path / "night", train="av", val="cz").train_set}
    with pytest.raises(InputError, match=r"^1 of 2 night images, such as"):
        check_unseen(first, model(data))


def test_a_user_who_means_it_is_warned(first, second):
    with pytest.warns(UserWarning, match="1 of 2 test images, such as .* so that their scores say little"):
        check_unseen(first, model(second, weights_overlap="warn"))


def test_the_split_of_the_weights_run_is_named(first, second, tmp_path):
    run = tmp_path / "runs/head/0"
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints/best.ckpt").touch()
    (run / "config.yaml").touch()
    (run / "split.csv").touch()
    fix = re.escape(f"give --data.split_file {run}/split.csv --data.unlisted train to keep the split and train on")
    for weights in (run, run / "checkpoints/best.ckpt"):
        with pytest.raises(InputError, match=fix):
            check_unseen(first, model(second), str(weights))


def test_weights_of_weights_are_known(first, tmp_path):
    """The first weights' images stay known where others are trained on in between, and each image counts once."""
    between = of_weights(draw(tmp_path / "between", train="aefuv", val="cz")) | {"seen_before": first}
    known = seen_before(between)
    assert known["files"].shape == (2, len(set("abxy") | set("aefuv")))
    last = draw(tmp_path / "last", train="cz", val="bw", test="edv")
    with pytest.raises(InputError, match=r"^1 of 2 validation images, 2 of 3 test images, such as .*b\.png"):
        check_unseen(known, model(last))


def test_each_member_of_an_average_is_known(tmp_path):
    one, other = (seen_labels(draw(tmp_path / name, train=name, val="cz")) for name in ("ax", "by"))
    known = seen_before({"seen_labels": one, "seen_by_members": [other]})
    assert places_seen_before(known, draw(tmp_path / "set", train="abdxyz", val="ev").train_set) == [0, 1, 3, 4]


def test_records_are_known_by_their_content():
    assert merged([{"files": None, "records": {5: 0, 3: 1}}, {"records": [3, 4]}])["records"] == [3, 4, 5]


@pytest.mark.parametrize("of_data", [{}, {"seen_labels": {}}, {"seen_labels": None, "seen_by_members": []}])
def test_weights_that_know_nothing_hinder_nothing(of_data, second):
    assert seen_before(of_data) == {}
    check_unseen({}, model(second))


@pytest.mark.parametrize(
    "damaged", ["text", {"files": torch.zeros(3, 2)}, {"files": np.zeros((2, 1), np.int64)}, {"records": ["a"]}]
)
def test_damage_is_named(damaged, second):
    with pytest.raises(InputError, match="the weights are damaged"):
        seen_before({"seen_before": damaged})
    with pytest.raises(InputError, match="the checkpoint is damaged"):
        check_unseen(damaged, model(second))
