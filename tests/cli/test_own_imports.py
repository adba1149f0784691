"""A class that a flag or a file names by its path, and whose module cannot be imported: one sentence says why."""

import re
import sys
from pathlib import Path

import pytest

from vit_lightning.cli.own_code import paths_in


@pytest.fixture
def modules(app, tmp_path, monkeypatch):
    """Modules that fail in their second line, of which each test imports its own."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "lacks_package.py").write_text('"""It lacks a package."""\nimport no_such_package\n')
    (tmp_path / "stumbles.py").write_text('facts = {}\nname = facts["name"]\n')
    (tmp_path / "is_cut.py").write_text("names = 1\ndef cut(:\n")
    return app


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("lacks_package", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("stumbles", "KeyError: 'name'"),
        ("is_cut", "SyntaxError: invalid syntax"),
    ],
)
@pytest.mark.parametrize(
    ("text", "flag", "row"),
    [
        ("data:\n  class_path: {}.Birds\n", "data", 2),
        ("model: {{class_path: {}.Birds}}\n", "model", 1),
        ("data: {}.Birds\n", "data", 1),
        ("trainer:\n  max_epochs: 1\n  callbacks: [{{class_path: {}.Birds}}]\n", "trainer.callbacks", 3),
        ("trainer: {{logger: {}.Birds}}\n", "trainer.logger", 1),
    ],
)
def test_a_file_that_names_it(modules, tmp_path, text, flag, row, module, why):
    Path("mine.yaml").write_text(text.format(module))
    done = modules("fit", "-c", "mine.yaml")
    said = f"error: -c mine.yaml, line {row}: --{flag} {module}.Birds: importing it fails: {why}"
    assert (done.code, done.err) == (1, f"{said}, in {tmp_path / module}.py, line 2\n")


@pytest.mark.parametrize(
    "flag", ["--data", "--model", "--trainer.callbacks", "--trainer.callbacks+", "--trainer.logger"]
)
def test_a_flag_that_names_it(modules, tmp_path, flag):
    done = modules("fit", f"{flag}=stumbles.Birds")
    said = f"error: {flag.removesuffix('+')} stumbles.Birds: importing it fails: KeyError: 'name'"
    assert (done.code, done.err) == (1, f"{said}, in {tmp_path}/stumbles.py, line 2\n")


@pytest.mark.parametrize(
    ("said", "paths"),
    [
        ("a.B", ["a.B"]),
        ("ImageFolder", []),
        ("mine.yaml", []),
        ("ddp", []),
        ("./a.B", []),
        ({"class_path": "a.B", "init_args": {"class_path": "c.D"}}, ["a.B"]),
        (["a.B", {"class_path": "c.D"}, 3], ["a.B", "c.D"]),
        (None, []),
    ],
)
def test_paths_of_classes(said, paths):
    assert list(paths_in(said)) == paths


@pytest.mark.parametrize("part", ["data", "model"])
def test_a_run_whose_module_is_gone(app, tmp_path, monkeypatch, part):
    """As in a job whose image lacks the package."""
    monkeypatch.syspath_prepend(str(tmp_path))
    base = {"data": "datamodules.synthetic import Synthetic", "model": "vit_lightning.classifier import Classifier"}
    name = base[part].rpartition(" ")[2]
    source = tmp_path / f"gone_{part}.py"
    source.write_text(f"from {base[part]}\n\n\nclass Own({name}): pass\n")
    chosen = ("--data", "Synthetic") if part == "model" else ()
    small = ("--data.image_size", 16, "--data.batch_size", 8, "--data.num_workers", 0, "--trainer.accelerator", "cpu")
    steps = ("--model.net.variant", "mu/8", "--trainer.max_steps", 1, "--model.schedule.warmup_steps", 0)
    done = app("fit", *chosen, f"--{part}", f"gone_{part}.Own", *small, *steps)
    assert done.code == 0, done.err
    source.unlink()
    monkeypatch.delitem(sys.modules, f"gone_{part}")
    for verb in ("test", "predict", "fit", "doctor"):
        done = app(verb, "runs/default/0")
        place = r"error: runs/default/0/config.yaml, line \d+: "
        said = f"--{part} gone_{part}.Own: there is no module gone_{part}; install it, or see PYTHONPATH\n"
        assert done.code == 1 and re.fullmatch(place + said, done.err), done.err
