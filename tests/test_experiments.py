"""Every shipped experiment is a lab note that parses, and no layer touches another's keys."""

from pathlib import Path

import pytest
import yaml

from vit_lightning.arguments import LINKED

FOLDER = Path(__file__).parent.parent / "experiments"
EXPERIMENTS = sorted(FOLDER.glob("*.yaml"))
OVERLAYS = sorted((FOLDER / "hardware").glob("*.yaml"))
NOTE = ("Source:", "Expected:", "Cost:", "Command:")


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_an_experiment_is_a_lab_note(path):
    header = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert header[0].startswith(f"# {path.stem}: ")
    for part in NOTE:
        assert any(part in line for line in header), f"{path.name}: the note lacks {part}"
    assert any(f"-c experiments/{path.name}" in line for line in header), "the command names another file"


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_an_experiment_leaves_the_facts_of_the_data_to_the_data(path):
    content = yaml.safe_load(path.read_text())
    model = content["model"]
    assert not {*model, *model.get("init_args", {})} & set(LINKED)
    assert "class_path" in content["data"]


@pytest.mark.parametrize("path", OVERLAYS, ids=lambda path: path.stem)
def test_an_overlay_holds_a_trainer_alone(path):
    assert set(yaml.safe_load(path.read_text())) == {"trainer"}


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_an_experiment_parses(app, path):
    done = app("fit", "-c", path, "--print_config")
    assert done.code == 0, done.err
    assert yaml.safe_load(done.out)["data"]["class_path"]


@pytest.mark.parametrize("path", OVERLAYS, ids=lambda path: path.stem)
def test_an_overlay_stacks_on_an_experiment(app, path):
    done = app("fit", "-c", FOLDER / "smoke.yaml", "-c", path, "--print_config")
    assert done.code == 0, done.err
    trainer = yaml.safe_load(done.out)["trainer"]
    wanted = yaml.safe_load(path.read_text())["trainer"]
    assert trainer["accelerator"] == wanted["accelerator"] and trainer["precision"] == wanted["precision"]
    assert trainer["max_epochs"] == 3


def test_the_smoke_experiment_learns(app):
    done = app("fit", "-c", FOLDER / "smoke.yaml")
    assert done.code == 0, done.err


def test_the_smoke_experiment_fails_if_nothing_is_learnt(app):
    done = app("fit", "-c", FOLDER / "smoke.yaml", "--model.optim.lr", 0, "--trainer.max_epochs", 1)
    assert done.code == 1
    assert "val/top1 ended at" in done.err.splitlines()[-1]


def test_a_shipped_experiment_can_be_tried_for_one_step(app):
    done = app("fit", "-c", FOLDER / "digits.yaml", "--trainer.fast_dev_run", "true")
    assert done.code == 0, done.err
    assert not Path("runs").exists()
