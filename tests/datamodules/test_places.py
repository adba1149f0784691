"""Places of data that are not there, and files that a run would have kept."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

FIT = ("fit", "--model.net.variant", "mu/8", "--data.image_size", 16, "--data.num_workers", 0)
FIT += ("--trainer.accelerator", "cpu", "--trainer.max_steps", 1)


@pytest.mark.parametrize("name", ["ImageFolder", "Parquet", "ImageNet1k"])
def test_a_folder_that_is_not_there_is_called_so(app, name):
    done = app(*FIT, "--data", name, "--data.root", "nowhere")
    assert done.code == 1, done.out
    assert "nowhere: no such folder; give the folder of the images" in done.err.splitlines()[-1], done.err


def test_a_split_is_kept_once_a_run_trains(app):
    for number in range(40):
        path = Path("photos", "ab"[number % 2], f"{number}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    words = (*FIT, "--data", "ImageFolder", "--data.root", "photos", "--data.batch_size")
    said = "kept in"
    refused = app(*words, 1_000)
    assert refused.code == 1 and not Path("runs").exists()
    trained = app(*words, 4)
    assert trained.code == 0 and Path("runs/default/0/split.csv").is_file(), trained.err
    for done in (refused, trained):
        assert said in done.err and "split.csv once the run trains" in done.err
