"""Grey, transparent and 16-bit folders through all verbs: the data say channels and window, and the run keeps them."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning import Predictor
from vit_lightning.weights import load_net

SMALL = ("--data", "ImageFolder", "--data.image_size", "16", "--data.batch_size", "4", "--data.num_workers", "0")
FIT = ("fit", *SMALL, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.max_epochs")
CHANCE = np.random.default_rng(0)


def pictures(kind: str) -> Path:
    """Two classes of twelve pictures, dark and light."""
    for level, name in enumerate(("dark", "light")):
        folder = Path(kind, name)
        folder.mkdir(parents=True)
        for number in range(12):
            share = CHANCE.random((16, 16)) * 0.4 + level * 0.5
            if kind == "grey":
                image = Image.fromarray((share * 255).astype(np.uint8))
            elif kind == "deep":
                image = Image.fromarray((share * 4000).astype(np.uint16))
            else:
                colours = CHANCE.random((16, 16, 3))
                image = Image.fromarray((np.concatenate([colours, share[..., None]], -1) * 255).astype(np.uint8))
            image.save(folder / f"{number}.png")
    return Path(kind)


def expected(checkpoint: Path, unit: np.ndarray) -> np.ndarray:
    """The classes' probabilities of a picture `(c, y, x)` in [0, 1]."""
    net, report = load_net(checkpoint)
    assert report.mean == report.std == (0.5,) * len(unit)
    with torch.no_grad():
        logits = net.eval()((torch.from_numpy(unit.astype(np.float32))[None] - 0.5) / 0.5)
    return logits.softmax(-1)[0].numpy()


def predicted(run: Path) -> dict[str, float]:
    with (run / "predictions.csv").open() as file:
        row = next(csv.DictReader(file))
    return {row[f"class{place}"]: float(row[f"probability{place}"]) for place in (1, 2)}


def unit_of(kind: str, file: Path, window: list | None) -> np.ndarray:
    values = np.asarray(Image.open(file)).astype(float)
    if kind == "deep":
        return np.clip((values - window[0]) / (window[1] - window[0]), 0, 1)[None]
    return values[None] / 255 if kind == "grey" else values.transpose(2, 0, 1) / 255


@pytest.mark.parametrize(
    ("kind", "channels", "flags"),
    [("grey", 1, ()), ("rgba", 4, ()), ("deep", 1, ("--data.window", "auto"))],
)
def test_a_folder_is_trained_tested_predicted_resumed_and_exported(app, tmp_path, kind, channels, flags):
    root = pictures(kind)
    done = app(*FIT, "1", "--data.root", root, "--data.channels", channels, *flags)
    assert done.code == 0, done.err
    assert f"pixels   {channels} channel" in done.out
    run = tmp_path / "runs/default/0"
    facts = torch.load(run / "checkpoints/last.ckpt", weights_only=True)["hyper_parameters"]
    assert (facts["channels"], facts["net"]["channels"], len(facts["mean"])) == (channels, channels, channels)
    window = facts["window"]
    if kind == "deep":
        assert f"window {window[0]:g} to {window[1]:g}, from 99.8 % of the values" in done.out
        assert 0 <= window[0] < 40 and 3500 < window[1] < 3600
    else:
        assert window is None

    assert app("test", run).code == 0
    assert json.loads((run / "test.json").read_text())["images"] > 0

    file = root / "light/3.png"
    done = app("predict", run, file)
    assert done.code == 0, done.err
    shares = expected(run / "checkpoints/best.ckpt", unit_of(kind, file, window))
    assert predicted(run) == pytest.approx(dict(zip(("dark", "light"), shares, strict=True)), abs=2e-5)
    answer = Predictor(run, device="cpu")(file)
    assert answer == pytest.approx(dict(zip(("dark", "light"), shares, strict=True)), abs=2e-5)

    done = app("fit", run, "--trainer.max_epochs", "2", "--model.schedule.allow_horizon_change", "true")
    assert done.code == 0, done.err
    assert torch.load(run / "checkpoints/last.ckpt", weights_only=True)["hyper_parameters"]["window"] == window
    assert "differs from the checkpoint: model.window" not in done.out + done.err

    exported = app("export", run / "checkpoints/best.ckpt", "out", "--to", "onnx")
    assert exported.code == 0, exported.err
    import onnxruntime

    session = onnxruntime.InferenceSession("out/model.onnx")
    assert session.get_inputs()[0].shape[1] == channels
    told = json.loads(session.get_modelmeta().custom_metadata_map["input"])
    assert told["channels"] == channels
    assert [told["black"], told["white"]] == (list(window) if window else [0, 255])
    card = Path("out/README.md").read_text()
    assert f"| channels | {channels} |" in card
    assert ("become 0 and 1" in card) == (kind == "deep")
    assert app("export", run / "checkpoints/best.ckpt", "hf", "--to", "huggingface").code == 0
    assert json.loads(Path("hf/config.json").read_text())["num_channels"] == channels


def test_what_disagrees_is_one_sentence(app, tmp_path):
    grey, rgba = pictures("grey"), pictures("rgba")
    assert app(*FIT, "1", "--data.root", grey, "--data.channels", "1").code == 0
    last = tmp_path / "runs/default/0/checkpoints/last.ckpt"
    for verb in ("test", "fit"):
        done = app(verb, *SMALL, "--data.root", grey, "--data.channels", "3", "--ckpt_path", last)
        assert done.code == 1
        assert "--data.channels is 3, but the net has channels=1, by --model.net.channels or its checkpoint" in done.err
    done = app(*FIT, "1", "--data.root", grey, "--data.channels", "4")
    assert "has 1 channel, but --data.channels asks for 4" in done.err and ".png" in done.err
    done = app(*FIT, "1", "--data.root", rgba, "--data.channels", "4", "--data.mean", "[0.5,0.5,0.5]")
    assert "--data.mean is [0.5,0.5,0.5], expected one value for each of the 4 channels" in done.err
    done = app(*FIT, "1", "--data.root", rgba, "--data.channels", "4", "--data.augment.preset", "medium1")
    assert "--data.augment.preset changes 8-bit colours" in done.err and "--data.channels 4" in done.err
    done = app(*FIT, "1", "--data.root", grey, "--model.net.channels", "1")
    assert "have 3 channels, but the net expects 1: give --data.channels 1" in done.err
    done = app(*FIT, "1", "--data.root", grey, "--model.channels", "1")
    assert "model.channels comes from the data" in done.err
    done = app(*FIT, "1", "--data.root", grey, "--data.channels", "1", "--data.window", "auto")
    assert "none of the" in done.err and "more than 8 bits" in done.err
    done = app(*FIT, "1", "--data.root", grey, "--data.window", "[4,4]")
    assert "--data.window is [4,4], expected [low,high] with low below high" in done.err


def test_weights_adapt_to_the_channels_of_the_data(app):
    grey = pictures("grey")
    assert app(*FIT, "1", "--data.root", grey).code == 0
    begin = ("--data.root", grey, "--data.channels", "1", "--model.weights", "runs/default/0/checkpoints/last.ckpt")
    done = app(*FIT, "1", *begin)
    assert done.code == 1
    assert "net.channels=3, but the net has 1" in done.err and "--model.weights_adapt true" in done.err
    done = app(*FIT, "1", *begin, "--model.weights_adapt", "true", "--trainer.max_steps", "1", "--model.optim.lr", "0")
    assert done.code == 0, done.err
    assert "channels 3 -> 1" in done.out + done.err
    rgb, one = (load_net(f"runs/default/{run}/checkpoints/last.ckpt")[0].eval() for run in (0, 1))
    images = torch.rand(2, 1, 16, 16)
    with torch.no_grad():
        assert torch.allclose(one(images), rgb(images.expand(-1, 3, -1, -1)), atol=1e-5)


def test_mixing_cropping_and_erasing_work_with_any_channels(app):
    rgba = pictures("rgba")
    flags = ("mixup_alpha", "0.2", "cutmix_alpha", "1", "erasing", "0.5", "rotate", "10", "crop", "pad")
    varied = [f"--data.augment.{flag}" if place % 2 == 0 else flag for place, flag in enumerate(flags)]
    done = app(*FIT, "2", "--data.root", rgba, "--data.channels", "4", *varied)
    assert done.code == 0, done.err


def test_masked_patches_of_other_channels(app):
    grey = pictures("grey")
    flags = ("--data.root", grey, "--data.channels", "1", "--model", "MaskedPatch")
    assert app(*FIT, "1", *flags).code == 0
    done = app(*FIT, "1", "--data.root", grey, "--data.channels", "5", "--model", "MaskedPatch")
    assert "mean_colour has 8^5 classes for 5 channels; use pixels" in done.err


def test_doctor_names_twelve_bits_and_floats(app):
    deep = pictures("deep")
    check = ("doctor", *SMALL, "--data.root", deep, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    done = app(*check, "--data.channels", "1")
    assert "with 12-bit values (up to " in done.out and "give --data.window '[0,4095]', or auto" in done.out
    done = app(*check, "--data.channels", "1", "--data.window", "auto")
    assert "12-bit" not in done.out and "16 bits" not in done.out
    Image.fromarray(np.zeros((16, 16), np.float32)).save(deep / "dark/float.tif")
    done = app(*check, "--data.channels", "1")
    assert done.code == 1
    assert "float.tif: floating-point pixels" in done.out and "-> give --data.window auto, or [low,high]" in done.out
