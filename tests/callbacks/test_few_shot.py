"""Few-shot probes in the validations of a fit."""

import csv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from datamodules.digits import Digits
from vit_lightning.callbacks import FewShot, few_shot
from vit_lightning.classifier import Classifier
from vit_lightning.data.image_set import labels_of
from vit_lightning.data.sampling import BROKEN, IGNORE
from vit_lightning.errors import InputError
from vit_lightning.evaluation import fewshot
from vit_lightning.evaluation.features import FeatureSet

FIT = ("fit", "--data", "Digits", "--data.image_size", 8, "--model.net.variant", "mu/8", "--data.batch_size", 100)
FIT += ("--trainer.accelerator", "cpu", "--trainer.max_epochs", 2)
CALLBACK = "--trainer.callbacks+=FewShot"
SHOTS = "--trainer.callbacks.shots=[1,10]"


def logged(folder: str = "runs/default/0") -> list[dict]:
    rows = csv.DictReader((Path(folder) / "metrics.csv").read_text().splitlines())
    return [row for row in rows if row.get("val/fewshot10")]


def score(path: str, shots: int, seed: int) -> float:
    """That of a checkpoint's features, by the probe alone."""
    model = Classifier.load_from_checkpoint(path).eval()
    data = Digits(image_size=8)
    data.setup("fit")
    chosen = fewshot.select(labels_of(data.train_set), 10, shots, seed)
    with torch.no_grad():
        train, val = (
            model.net.features(model.normalise(torch.stack([images[int(i)][0] for i in numbers])))
            for images, numbers in ((data.train_set, chosen), (data.val_set, range(len(data.val_set))))
        )
    found = fewshot.solve(train, labels_of(data.train_set)[chosen], 10)
    return found.top1(val, labels_of(data.val_set))


@pytest.mark.parametrize(("averaged", "seeds"), [(False, 1), (True, 3)])
def test_a_fit_logs_the_score_of_its_features(app, averaged, seeds):
    average = ("--model.averaging.decay", 0.5) if averaged else ()
    draws = f"--trainer.callbacks.seeds={seeds}"
    done = app(*FIT, CALLBACK, SHOTS, draws, "--checkpoint.monitor", "val/fewshot10", *average)
    assert done.code == 0, done.err
    rows = logged()
    assert len(rows) == 2 and all(0.1 < float(row["val/fewshot10"]) <= 1 for row in rows)
    for shots in (1, 10):
        value = float(rows[-1][f"val/fewshot{shots}"])
        scores = [score("runs/default/0/checkpoints/last.ckpt", shots, seed) for seed in range(seeds)]
        assert value == pytest.approx(sum(scores) / seeds, abs=1e-6) and len(set(scores)) == seeds
    assert "10-shot" in done.out and "(10-shot" in done.out.partition("best  ")[2]


def test_it_is_off_by_itself_and_changes_no_weight(app):
    assert app(*FIT).code == 0 and not logged()
    assert app(*FIT, CALLBACK).code == 0 and logged("runs/default/1")
    states = [torch.load(f"runs/default/{run}/checkpoints/last.ckpt", weights_only=True) for run in (0, 1)]
    for name, tensor in states[0]["state_dict"].items():
        assert torch.equal(tensor, states[1]["state_dict"][name]), name


def test_images_without_a_label_count_nothing(monkeypatch):
    """Nor do those that could not be read, of the training images as of those that validate."""
    eye = 10 * torch.eye(4)
    train = FeatureSet(eye[[0, 1, 1]], torch.tensor([0, 1, BROKEN]))
    val = FeatureSet(eye[[0, 1, 2, 3]], torch.tensor([0, 1, IGNORE, BROKEN]))
    monkeypatch.setattr(few_shot, "_features", lambda trainer, model, loader: loader)
    callback, model = FewShot([1]), Classifier({"variant": "mu/8"}, num_classes=2, image_size=8)
    callback._chosen, callback._loaders, callback._images = {(1, 0): np.arange(3)}, (train, val), None
    found: dict[str, float] = {}
    monkeypatch.setattr(model, "log", lambda name, value, **how: found.update({name: float(value)}))
    trainer = SimpleNamespace(state=SimpleNamespace(fn="fit"), sanity_checking=False)
    trainer.datamodule = SimpleNamespace(val_set=None, num_classes=2)
    trainer.strategy = SimpleNamespace(broadcast=lambda value: value)
    callback.on_validation_epoch_end(trainer, model)
    assert found == {"val/fewshot1": 1}


def test_two_processes_log_what_one_does(app, together):
    words = ("--trainer.max_epochs", 1, "--trainer.limit_train_batches", 1, "--model.optim.lr", 0, "--data.batch_size")
    assert app(*FIT, CALLBACK, *words, 7).code == 0
    together(*FIT, CALLBACK, *words, 4)
    one, two = (logged(f"runs/default/{run}")[-1]["val/fewshot10"] for run in (0, 1))
    assert float(one) == pytest.approx(float(two), abs=1e-6)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--trainer.callbacks.shots=[500]",), "FewShot's shots 500 are more than the 120 training images of class"),
        (("--trainer.callbacks.shots=[0]",), "FewShot's shots are [0]"),
        (("--checkpoint.monitor", "val/fewshot11"), "val/fewshot11 is not logged by Classifier; did you mean"),
    ],
)
def test_what_cannot_be(app, words, said):
    done = app(*FIT, CALLBACK, *words)
    assert done.code == 1 and said in done.err.splitlines()[-1], done.err
    assert not Path("runs").exists()


def test_numbers_that_cannot_be():
    for wrong in ({"shots": ()}, {"shots": (0,)}, {"seeds": 0}, {"l2": 0.0}):
        with pytest.raises(InputError, match="each must be above 0"):
            FewShot(**wrong)
