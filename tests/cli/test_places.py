"""What a relative path that is not there is told: where it was looked for."""

from pathlib import Path

import pytest

SMALL = ("--data.image_size", 32, "--trainer.accelerator", "cpu", "--model.net.variant", "mu/8")
MISSING = {
    "-c": ("fit", "-c", "nope.yaml"),
    "sweep": ("sweep", "nope.yaml"),
    "--ckpt_path": ("test", "--ckpt_path", "nope.ckpt"),
    "--model.weights": ("fit", "--model.weights", "nope.npz"),
    "convert": ("convert", "nope.npz", "out"),
    "export": ("export", "nope.ckpt", "out"),
    "ImageFolder": ("fit", "--data", "ImageFolder", "--data.root", "nope", *SMALL),
    "Parquet": ("fit", "--data", "Parquet", "--data.root", "nope", *SMALL),
    "Manifest": ("fit", "--data", "Manifest", "--data.root", "nope", "--data.train", "train.csv", *SMALL),
    "Shards": ("fit", "--data", "Shards", "--data.root", "nope", *SMALL),
    "WebShards": ("fit", "--data", "WebShards", "--data.root", "nope", "--data.train", "{0..1}.tar", *SMALL),
    "--data.class_map": ("fit", "--data", "ImageFolder", "--data.root", ".", "--data.class_map", "nope.txt", *SMALL),
    "--json": ("doctor", "--json", "nope/found.json", *SMALL),
}


@pytest.mark.parametrize("kind", MISSING)
def test_a_relative_path_that_is_not_there_says_where_it_was_looked_for(kind, app, tmp_path):
    done = app(*MISSING[kind])
    assert done.code == 1
    assert "nope" in done.err and str(tmp_path) in done.err, done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not Path("out").exists()
