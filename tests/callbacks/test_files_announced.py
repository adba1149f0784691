"""Whatever file a verb leaves behind, its last lines name with the path."""

from pathlib import Path

import pytest

DATA = ("--data", "Synthetic", "--data.train_size", 24, "--data.eval_size", 8, "--data.num_workers", 0)
DATA += ("--data.batch_size", 8, "--trainer.accelerator", "cpu")


@pytest.fixture
def run(app) -> Path:
    done = app("fit", *DATA, "--model.net.variant", "mu/8", "--trainer.max_epochs", 1, "--name", "mine")
    assert done.code == 0, done.err
    return Path("runs/mine/0")


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("test", ()),
        ("validate", ()),
        ("predict", ("--features", "features.npz")),
        ("probe", ("--probes", "[knn]", "--neighbours", "[5]", "--missing_classes", "ignore")),
        ("plan", ()),
    ],
)
def test_new_files_are_named(app, run, verb, words):
    before = {path for path in Path().rglob("*") if path.is_file()}
    done = app(verb, run, *words)
    assert done.code == 0, done.err
    made = {path for path in Path().rglob("*") if path.is_file()} - before
    assert bool(made) == (verb != "plan")
    said = done.out + done.err
    for path in made:  # of several beside each other the first is whole; those of a folder are named by it
        assert path.name in said or f"{path.parent}:" in said, path
        assert str(path.parent) in said
