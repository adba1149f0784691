"""Any name that a file system holds works as an argument of every verb, also one that is no UTF-8."""

import os
from pathlib import Path

import pytest
from PIL import Image

from vit_lightning.private_api import let_any_name_be_typed

pytestmark = pytest.mark.filterwarnings("ignore")  # which name the file, and pytest-xdist sends UTF-8 alone
ODD = os.fsdecode(b"odd \xff\x7f\xc3\xa9")
FIT = (
    *("fit", "--data", "ImageFolder", "--data.image_size", "16", "--data.batch_size", "2", "--data.root", ODD),
    *("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.default_root_dir", f"to {ODD}"),
)


def draw(file: Path) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (16, 16)).save(file)
    return str(file)


@pytest.fixture
def run(app, tmp_path) -> str:
    for split in ("train", "val"):
        for label in ("a", "b"):
            for number in range(2):
                draw(tmp_path / ODD / split / label / f"{number}.png")
    done = app(*FIT, "--trainer.max_epochs", "1")
    assert done.code == 0, done.err
    return f"to {ODD}/default/0"


def test_every_verb_takes_it(app, tmp_path, run):
    on = ("--trainer.max_epochs", "2", "--model.schedule.allow_horizon_change", "true")
    image, folder = draw(Path(f"x{ODD}.png")), draw(Path(f"d{ODD}", f"{ODD}.png"))
    ckpt = f"{run}/checkpoints/best.ckpt"
    lines = (
        ("validate", run),
        ("fit", run, *on),
        ("predict", run, image, str(Path(folder).parent), "--trainer.default_root_dir", f"p{ODD}"),
        ("predict", ckpt, image, "--trainer.default_root_dir", f"q{ODD}"),
        ("validate", "--ckpt_path", ckpt),
        ("convert", ckpt, f"c{ODD}", "--to", "npz"),
        ("export", f"c{ODD}", f"s{ODD}", "--to", "safetensors"),
        (*FIT, "--model.weights", f"s{ODD}", "--trainer.max_epochs", "1"),
        ("prepare", "--data", "ImageFolder", "--data.root", ODD, "--out", f"o{ODD}"),
    )
    for line in lines:
        done = app(*line)
        assert done.code == 0, (line, done.err)
    assert len(Path(f"p{ODD}/predictions.csv").read_bytes().splitlines()) == 3


def test_a_list_holds_it_and_what_stands_for_it():
    from jsonargparse import ArgumentParser

    let_any_name_be_typed()
    parser = ArgumentParser()
    parser.add_argument("--files", type=str | list[str])
    for name in (ODD, "\U0010dcff", "a\udcff\U0010dcfe", "\x01", "\U0001f600"):
        assert parser.parse_args([f"--files={name}"]).files == name
        assert parser.parse_args([f'--files=["{name}"]']).files == [name]
    assert parser.parse_args(['--files=["a\\\\udcff"]']).files == ["a\\udcff"]
