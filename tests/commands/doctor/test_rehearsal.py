"""What a fit refuses before its first step, doctor names in the same words; where doctor passes, a fit starts."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.callbacks.finite_guard import FiniteGuard
from vit_lightning.cli.vit_cli import ViTCLI
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report
from vit_lightning.weights.save import save
from vit_lightning.weights.source import is_at_hand

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
CHANCE = np.random.default_rng(0)
RUN = ("--trainer.accelerator", "cpu", "--data.num_workers", 0)
NET = ("--model.net.variant", "mu/8")
MASKED = ("--model", "MaskedPatch", *NET)
TUNED = ("--model.weights", "net.ckpt", "--model.weights_head", "reset")


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two classes of eight training and two validation images."""
    for split, count in (("train", 8), ("val", 2)):
        for name in ("cat", "dog"):
            (tmp_path / "set" / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = CHANCE.integers(0, 256, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "set" / split / name / f"{number}.png")
    return tmp_path / "set"


@pytest.fixture
def data(folder) -> tuple:
    return ("--data", "ImageFolder", "--data.root", folder, "--data.image_size", 16, "--data.batch_size", 4, *RUN)


@pytest.fixture
def weights(tmp_path) -> None:
    net = build(NetConfig("mu/8"), (16, 16), 3)
    report = Report("", "", mean=(0.4,) * 3, std=(0.2,) * 3, class_names=["a", "b", "c"])
    save(net, report, tmp_path / "net.ckpt", "checkpoint")


FAULTS = {
    "layer scale": (*TUNED, "--model.net.variant", "mu/8", "--model.net.layer_scale", 0.1),
    "another net": (*TUNED, "--model.net.variant", "Ti/16"),
    "no weights": ("--model.weights", "gone.ckpt"),
    "channels": (*TUNED, "--data.channels", 1),
    "mean": (*TUNED, "--data.mean", "[0.1, 0.1, 0.1]"),
    "classes": ("--model.weights", "net.ckpt"),
    "patches": (*NET, "--data.image_size", 17),
    "warm-up": (*NET, "--model.schedule.warmup_steps", 8, "--trainer.max_epochs", 2),
    "batch": (*NET, "--data.batch_size", 32),
    "monitor": (*NET, "--checkpoint.monitor", "val/topp1"),
    "early stopping": (*NET, "--early_stopping.monitor", "lr", "--early_stopping.mode", "min"),
    "class weights": (*NET, "--model.class_weights", "[1, 2, 3]"),
    "graphs": (*NET, "--model.cuda_graph", "true"),
    "fp8": (*NET, "--model.fp8", "true"),
    "augmentation": (*NET, "--data.augment_on_device", "true", "--data.in_memory", "false"),
    "few-shot": (*NET, "--trainer.callbacks+=FewShot"),
    "one patch": (*MASKED, "--data.image_size", 8),
}


@pytest.mark.parametrize("name", FAULTS)
def test_doctor_says_what_fit_says(app, data, weights, name):
    fit = app("fit", *data, *FAULTS[name])
    assert fit.code == 1 and "Traceback" not in fit.err
    said = fit.err.splitlines()[-1].removeprefix("error: ")
    done = app("doctor", *data, *FAULTS[name])
    assert done.code == 1 and "Traceback" not in done.err
    assert said in done.out + done.err
    assert done.err.splitlines()[-1] in (f"error: {said}", "error: doctor found 1 error, listed above")
    assert not list(Path("runs").rglob("*.yaml"))


def test_a_fault_of_the_run_and_one_of_the_data_are_found_in_one_pass(app, data, folder):
    (folder / "train/dog/0.png").write_bytes(b"")
    done = app("doctor", *data, *NET, "--checkpoint.monitor", "val/topp1", "--trainer.devices", 1)
    assert done.code == 1
    assert "cannot be read: dog/0.png" in done.out and "val/topp1 is not logged" in done.out
    assert done.err.splitlines()[-1] == "error: doctor found 2 errors, listed above"


def test_what_is_rehearsed_is_said_behind_the_findings_about_images(app, data, folder):
    Image.new("RGB", (16, 16)).save(folder / "train/dog/1.png")
    Image.new("RGB", (16, 16)).save(folder / "val/cat/1.png")  # there twice
    done = app("doctor", *data, *NET)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    said = next(line for line in lines if line.startswith("rehearse"))
    assert said == "rehearse the first step of a fit: mu/8, 4 images of 16x16 pixels"
    assert any("twice" in line or "two" in line or "equal" in line for line in lines[: lines.index(said)]), done.out
    assert lines[-1].startswith("doctor   0 errors")


def test_no_net_is_tried_on_data_with_errors(app, data, folder, weights, monkeypatch):
    """A step of a large net may take minutes, and its run would end all the same."""
    (folder / "train/dog/0.png").write_bytes(b"")
    monkeypatch.setattr("vit_lightning.classifier.Classifier.forward", None)
    done = app("doctor", *data, *TUNED)
    assert done.code == 1 and "rehearse no step of a fit before the errors above are mended" in done.out, done.err
    assert done.err.splitlines()[-1] == "error: doctor found 1 error, listed above"


def test_a_net_of_weights_is_called_by_them(app, data, weights):
    done = app("doctor", *data, *TUNED)
    assert "rehearse the first step of a fit: the net of net.ckpt, 4 images of 16x16 pixels" in done.out, done.err


def test_the_warnings_of_a_fit_are_those_of_doctor(app, data, folder):
    """Softmax on several labels, which a fit warns of at its first batch."""
    with Path("labels.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "split", "label"])
        for path in sorted(folder.rglob("*.png")):
            rows.writerow([path, path.relative_to(folder).parts[0], "cat|dog" if "dog" in str(path) else "cat"])
    table = ("--data", "Manifest", "--data.root", folder, "--data.train", Path("labels.csv").absolute())
    words = (*table, "--data.multi_label", "true", "--data.separator", "|", *data[4:], *NET)
    said = "images have several classes or none, and softmax expects one; give --model.loss sigmoid"
    for verb in ("fit", "doctor"):
        done = app(verb, *words)
        assert done.code == 0, done.err
        assert f"warning  {said}" in done.out


def test_several_devices_are_rehearsed_on_one(app, data):
    """Sixteen images in batches of four on two devices make two steps of an epoch."""
    devices = ("--trainer.devices", 2, "--trainer.strategy", "ddp", *NET)
    assert app("doctor", *data, *devices).code == 0
    done = app("doctor", *data, *devices, "--model.schedule.warmup_steps", 2)
    assert done.code == 1 and "warm-up of 2 steps" in " ".join(done.out.split())


def test_memory_that_does_not_suffice_is_a_note(app, data, monkeypatch):
    def exhaust(self, *batch):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr("vit_lightning.classifier.Classifier.training_step", exhaust)
    done = app("doctor", *data, *NET)
    assert done.code == 0, done.err
    assert "note     the memory here does not suffice for 4 images a step" in done.out


def test_another_failure_ends_doctor_after_its_findings(app, data, monkeypatch):
    def fail(self, *batch):
        raise ValueError("odd")

    monkeypatch.setattr("vit_lightning.classifier.Classifier.validation_step", fail)
    with pytest.raises(ValueError, match="odd"):
        app("doctor", *data, *NET, "--json", "found.json")
    assert json.loads(Path("found.json").read_text())["findings"]


def test_weights_that_would_be_downloaded_are_not(app, data, monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", None)
    done = app("doctor", *data, *NET, "--model.weights", "https://example.org/net.safetensors")
    assert done.code == 0, done.err
    assert "the weights https://example.org/net.safetensors are not on this machine" in done.out


def test_weights_are_at_hand_where_no_download_is_needed(monkeypatch, tmp_path):
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path))
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda repo, **_: tmp_path / repo)
    assert is_at_hand("net.npz") and is_at_hand("hf://owner/repo/file.bin")
    assert not is_at_hand("https://example.org/net.npz")
    assert not is_at_hand("gs://owner/net.npz")


GOOD = {
    "digits": ("-c", EXPERIMENTS / "digits.yaml"),
    "masked_digits": ("-c", EXPERIMENTS / "masked_digits.yaml"),
    "smoke": ("-c", EXPERIMENTS / "smoke.yaml"),
    "finetune_folder": ("-c", EXPERIMENTS / "finetune_folder.yaml", *TUNED),
    "no validation": (*NET, "--trainer.limit_val_batches", 0),
    "few-shot": (*NET, "--trainer.callbacks+={class_path: FewShot, init_args: {shots: [2]}}"),
    "a probe": (*TUNED, "--model.freeze_trunk", "true"),
    "bf16": (*NET, "--trainer.precision", "bf16-mixed", "--trainer.accumulate_grad_batches", 2),
    "average": (*NET, "--model.averaging.decay", 0.9),
}


@pytest.mark.parametrize("name", GOOD)
def test_where_doctor_passes_a_fit_starts(app, data, weights, name, monkeypatch):
    own = () if name in ("digits", "masked_digits", "smoke") else data
    words = (*GOOD[name], *(own or RUN))
    done = app("doctor", *words)
    assert done.code == 0, done.out + done.err
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["net.ckpt", "set"]
    steps = []

    def end(self, trainer, *_):
        steps.append(trainer.global_step)
        trainer.should_stop = True

    monkeypatch.setattr(FiniteGuard, "on_train_batch_end", end)
    monkeypatch.setattr(ViTCLI, "after_fit", lambda self: None)
    fit = app("fit", *words)
    assert steps, fit.err
