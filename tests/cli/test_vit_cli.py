"""The application through its own door, on tiny nets."""

import csv
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
import yaml

from tests.processes import program
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report
from vit_lightning.weights.save import save

TINY = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
SYNTHETIC = ("--data", "Synthetic", "--data.train_size", 64, "--data.eval_size", 24, "--data.num_classes", 3)
FIT = ("fit", *TINY, *SYNTHETIC, "--data.batch_size", 16)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def load(path: str | Path) -> dict:
    return torch.load(path, weights_only=True)


# A run and what it leaves --------------------------------------------------------------------------------------------


def test_a_fit_leaves_a_whole_run_folder(app):
    done = app(*FIT, "--trainer.max_epochs", 2, "--trainer.log_every_n_steps", 1)
    assert done.code == 0, done.err
    run = Path("runs/default/0")
    assert {path.name for path in run.iterdir()} == {
        *("config.yaml", "env.json", "plan.txt", "metrics.csv", "tensorboard", "checkpoints", ".lock")
    }
    assert {path.name for path in (run / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt", "previous.ckpt"}
    assert json.loads((run / "env.json").read_text())["versions"]["torch"] == version("torch")
    metrics = rows(run / "metrics.csv")
    assert next(float(row["lr"]) for row in metrics if row.get("lr")) == 1e-3
    assert sum(bool(row["train/loss"]) for row in metrics) == 8
    assert sum(bool(row["val/top1"]) for row in metrics) == 2
    assert "runs/default/0" in done.out


def test_the_plan_comes_first_and_adds_up(app):
    done = app(*FIT, "--trainer.max_epochs", 3, "--data.batch_size", 10, "--trainer.accumulate_grad_batches", 2)
    lines = done.out.splitlines()
    assert lines[0].startswith("net      mu/8, 19,619 parameters") and "GFLOPs per image" in lines[0]
    assert lines[1] == "batch    10 per device x 1 device x 2 = 20"
    assert lines[2] == "data     64 training images, 4 dropped per epoch"
    assert lines[3].startswith("steps    3 epochs of 6 batches, 9 optimiser steps, warm-up 0, then cosine")


def test_the_saved_config_repeats_the_run(app):
    assert app(*FIT).code == 0
    assert app("fit", "-c", "runs/default/0/config.yaml").code == 0
    first, second = (load(f"runs/{run}/checkpoints/last.ckpt")["state_dict"] for run in ("default/0", "default/1"))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_runs_are_numbered_and_named_after_the_experiment(app):
    Path("tiny.yaml").write_text(yaml.safe_dump({"model": {"net": {"variant": "mu/8"}}}))
    for number in range(2):
        assert app(*FIT, "-c", "tiny.yaml").code == 0
        assert Path(f"runs/tiny/{number}/checkpoints/last.ckpt").is_file()


def test_a_file_of_hardware_names_no_experiment(app):
    """Its settings go with any experiment, whose name the run keeps; alone it has none."""
    Path("hardware").mkdir()
    Path("hardware/small.yaml").write_text("trainer: {max_steps: 1}\n")
    Path("tiny.yaml").write_text(yaml.safe_dump({"model": {"net": {"variant": "mu/8"}}}))
    for files, name in (
        (("-c", "hardware/small.yaml", "-c", "tiny.yaml"), "tiny"),
        (("-c", "hardware/small.yaml"), "default"),
    ):
        done = app(*FIT, *files)
        assert done.code == 0, done.err
        assert Path(f"runs/{name}/0/checkpoints/last.ckpt").is_file()
    assert not Path("runs/small").exists()


def test_a_run_goes_on_without_the_weights_that_it_began_with(app):
    net = build(NetConfig("mu/8"), 32, 3)
    save(net, Report("", ""), Path("begin.ckpt"), "checkpoint")
    words = (*FIT, "--model.weights", "begin.ckpt", "--trainer.max_epochs")
    done = app(*words, 1)
    assert done.code == 0, done.err
    Path("begin.ckpt").unlink()
    done = app(*words, 2, "--ckpt_path", "last", "--model.schedule.allow_horizon_change", "true")
    assert done.code == 0, done.err
    assert load("runs/default/0/checkpoints/last.ckpt")["epoch"] == 1


def test_another_seed_gives_another_net(app):
    for seed in (1, 2):
        assert app(*FIT, "--seed_everything", seed).code == 0
    first, second = (load(f"runs/default/{run}/checkpoints/last.ckpt")["state_dict"] for run in (0, 1))
    assert not torch.equal(first["net.patches.proj.weight"], second["net.patches.proj.weight"])


# Checkpoints ---------------------------------------------------------------------------------------------------------


RISING = """
from lightning.pytorch import Callback
from vit_lightning.classifier import Classifier


class Rising(Classifier):
    monitor = ("val/loss", "min")

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", float(self.current_epoch))


class Crash(Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.current_epoch == 3:
            raise RuntimeError("crash")
"""


def test_last_is_last_and_best_is_best_though_the_loss_rises(app, tmp_path, monkeypatch):
    """Case C2: four epochs whose validation loss rises; and a crash in the last of them."""
    (tmp_path / "rising.py").write_text(RISING)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ("fit", "--model", "rising.Rising", *TINY, *SYNTHETIC, "--data.batch_size", 16, "--trainer.max_epochs", 4)
    assert app(*words).code == 0
    epochs = {name: load(f"runs/default/0/checkpoints/{name}.ckpt")["epoch"] for name in ("last", "best")}
    assert epochs == {"last": 3, "best": 0}
    with pytest.raises(RuntimeError, match="crash"):
        app(*words, "--trainer.callbacks+=rising.Crash")
    assert load("runs/default/1/checkpoints/last.ckpt")["epoch"] >= 2


def test_last_is_last_even_inside_an_epoch(app):
    """Case C2: `last` holds the newest step, whatever the metric did."""
    done = app(*FIT, "--trainer.max_epochs", -1, "--trainer.max_steps", 6, "--trainer.check_val_every_n_epoch", 1)
    assert done.code == 0, done.err
    assert load("runs/default/0/checkpoints/last.ckpt")["global_step"] == 6


def test_checkpoints_hold_plain_types_and_facts_of_the_data(app):
    assert app(*FIT).code == 0
    checkpoint = load("runs/default/0/checkpoints/last.ckpt")
    hyper = checkpoint["hyper_parameters"]
    assert (hyper["num_classes"], hyper["image_size"], hyper["mean"]) == (3, 32, (0.5, 0.5, 0.5))
    assert hyper["net"]["width"] == 32 and "_class_path" not in hyper and "_instantiator" not in hyper
    assert checkpoint["class_names"] == [f"stripes at {angle} degrees" for angle in (0, 60, 120)]
    assert all(name.startswith("net.") for name in checkpoint["state_dict"])


def test_flags_beat_the_checkpoint_and_the_difference_is_printed(app):
    """Case C1."""
    fit = (*FIT, "--model.schedule.decay", "constant")
    assert app(*fit, "--model.optim.lr", 0.5).code == 0
    resumed = app(*fit, "--trainer.max_epochs", 2, "--ckpt_path", "last", "--model.optim.lr", 0.01)
    assert resumed.code == 0, resumed.err
    assert "optim.lr: 0.5 -> 0.01" in resumed.err
    (group,) = load("runs/default/0/checkpoints/last.ckpt")["optimizer_states"][0]["param_groups"]
    assert group["lr"] == group["initial_lr"] == 0.01
    unchanged = app("fit", *TINY, *SYNTHETIC, "--trainer.max_epochs", 3, "--ckpt_path", "last", "--data.batch_size", 16)
    assert unchanged.code == 0, unchanged.err
    (group,) = load("runs/default/0/checkpoints/last.ckpt")["optimizer_states"][0]["param_groups"]
    assert group["initial_lr"] == 0.01


def test_without_a_flag_the_checkpoints_value_stands(app):
    """Case C1, third part."""
    constant = ("--model.schedule.decay", "constant", "--trainer.log_every_n_steps", 1)
    assert app(*FIT, *constant, "--model.optim.lr", 0.5).code == 0
    resumed = app(*FIT, *constant, "--trainer.max_epochs", 2, "--ckpt_path", "last")
    assert resumed.code == 0, resumed.err
    assert "differs from the checkpoint: model" not in resumed.err
    assert {row["lr"] for row in rows(Path("runs/default/0/metrics.csv")) if row.get("lr")} == {"0.5"}


def test_another_architecture_than_the_checkpoints_is_an_error(app):
    assert app(*FIT).code == 0
    done = app(*FIT, "--ckpt_path", "last", "--trainer.max_epochs", 2, "--model.net.depth", 3)
    assert done.code == 1 and "net.depth: 1 -> 3" in done.err.splitlines()[-1]


def test_another_optimiser_cannot_go_on(app):
    assert app(*FIT).code == 0
    done = app(*FIT, "--ckpt_path", "last", "--model.optim.name", "sgd", "--trainer.max_epochs", 2)
    assert done.code == 1
    assert "optim.name: adam -> sgd" in done.err


def test_a_converted_checkpoint_can_be_scored(app):
    assert app(*FIT).code == 0
    assert app("convert", "runs/default/0/checkpoints/last.ckpt", "c.ckpt", "--to", "checkpoint").code == 0
    done = app("test", *SYNTHETIC, "--ckpt_path", "c.ckpt", "--trainer.accelerator", "cpu")
    assert done.code == 0, done.err
    assert "top-1" in done.out


def test_other_classes_than_the_checkpoints_are_an_error(app):
    assert app(*FIT).code == 0
    done = app("test", "--data", "Synthetic", "--data.num_classes", 4, "--ckpt_path", "last", *TINY)
    assert done.code == 1 and "the data has 4 classes, the net 3, and 'stripes at 45 degrees' is none of" in done.err


def test_a_resume_goes_on_in_the_same_folder(app):
    logged = ("--trainer.log_every_n_steps", 1, "--model.schedule.allow_horizon_change", "true")
    assert app(*FIT, *logged).code == 0
    before = rows(Path("runs/default/0/metrics.csv"))
    assert app(*FIT, *logged, "--trainer.max_epochs", 2, "--ckpt_path", "last").code == 0
    assert not Path("runs/default/1").exists()
    assert Path("runs/default/0/config.resume-1.yaml").is_file()
    after = rows(Path("runs/default/0/metrics.csv"))
    *before, end = before  # the cost, under the step that came next
    assert int(end["step"]) == 4 and float(end["cost/exaflops"]) > 0
    assert after[: len(before)] == before
    assert [int(row["step"]) for row in after if row["train/loss"]] == list(range(8))


def test_validate_repeats_the_fits_figures(app):
    assert app(*FIT).code == 0
    fitted = [row for row in rows(Path("runs/default/0/metrics.csv")) if row["val/loss"]][-1]
    words = ("--data.batch_size", 16, "--ckpt_path", "last", "--trainer.logger", "CSVLogger")
    done = app("validate", *TINY, *SYNTHETIC, *words, "--trainer.logger.save_dir", "scored")
    assert done.code == 0, done.err
    scored = rows(next(Path("scored").rglob("metrics.csv")))[-1]
    assert (scored["val/top1"], scored["val/loss"]) == (fitted["val/top1"], fitted["val/loss"])
    assert f" {100 * float(fitted['val/top1']):.2f} %" in done.out


def test_a_checkpoint_alone_rebuilds_its_net(app):
    assert app(*FIT).code == 0
    data = ("--data", "Synthetic", "--data.num_classes", 3, "--trainer.accelerator", "cpu")
    done = app("test", *data, "--ckpt_path", "runs/default/0/checkpoints/best.ckpt")
    assert done.code == 0, done.err
    assert "top-1" in done.out


def test_predict_writes_one_row_per_image_in_order(app):
    assert app(*FIT).code == 0
    done = app("predict", *TINY, *SYNTHETIC, "--ckpt_path", "last", "--data.batch_size", 7)
    assert done.code == 0, done.err
    written = rows(Path("runs/default/0/predictions.csv"))
    assert len(written) == 24 and done.out.splitlines()[-1].endswith("predictions.csv: 24 images")
    first = load("runs/default/0/checkpoints/last.ckpt")
    from vit_lightning.classifier import Classifier

    model = Classifier(**first["hyper_parameters"])
    model.configure_model()
    model.load_state_dict(first["state_dict"])
    model.eval()
    from datamodules.synthetic import Gratings

    images = torch.stack([Gratings(24, 3, (32, 32), 3, 2)[i][0] for i in range(24)])
    expected = model(images).softmax(-1).max(-1)
    assert [row["class1"] for row in written] == [f"stripes at {60 * int(index)} degrees" for index in expected.indices]
    assert [float(row["probability1"]) for row in written] == pytest.approx(expected.values.tolist(), abs=2e-6)


def test_a_place_for_predictions_is_looked_at_before_they_are_made(app, monkeypatch):
    from vit_lightning.classifier import Classifier

    assert app(*FIT).code == 0
    monkeypatch.setattr(Classifier, "predict_step", lambda *_: pytest.fail("predicted"))
    words = ("predict", *TINY, *SYNTHETIC, "--ckpt_path", "runs/default/0/checkpoints/last.ckpt")
    Path("taken").touch()
    done = app(*words, "--trainer.default_root_dir", "taken")
    assert done.code == 1
    assert done.err.splitlines()[-1] == "error: cannot make the folder taken: File exists; name another place"


def test_a_run_without_validation_keeps_the_newest_as_best(app, tmp_path):
    (tmp_path / "noval.py").write_text(
        "from datamodules.synthetic import Synthetic\n"
        "class NoVal(Synthetic):\n"
        "    def setup(self, stage):\n"
        "        super().setup(stage)\n"
        "        self.val_set = None\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        done = app("fit", *TINY, "--data", "noval.NoVal", "--data.train_size", 64, "--data.batch_size", 16)
    finally:
        sys.path.remove(str(tmp_path))
    assert done.code == 0, done.err
    assert load("runs/default/0/checkpoints/best.ckpt")["global_step"] == 4


def test_another_lightning_module_still_fits(app, tmp_path):
    (tmp_path / "other.py").write_text(
        "import torch\n"
        "from lightning.pytorch import LightningModule\n"
        "class Other(LightningModule):\n"
        "    def __init__(self, num_classes: int):\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.Linear(3 * 32 * 32, num_classes)\n"
        "    def training_step(self, batch, index):\n"
        "        return torch.nn.functional.cross_entropy(self.layer(batch[0].flatten(1).float() / 255), batch[1])\n"
        "    def configure_optimizers(self):\n"
        "        return torch.optim.SGD(self.parameters(), lr=0.01)\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        done = app("fit", "--model", "other.Other", *SYNTHETIC, "--trainer.accelerator", "cpu", "--data.batch_size", 16)
    finally:
        sys.path.remove(str(tmp_path))
    assert done.code == 0, done.err


# Help and errors -----------------------------------------------------------------------------------------------------


def test_help_lists_every_verb(app):
    done = app("--help")
    assert done.code == 0
    for verb in ("fit", "validate", "test", "predict"):
        assert any(line.strip().startswith(verb) for line in done.out.splitlines())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fit", "--data", "Petz"), ["--data Petz", "no such datamodule"]),
        (("fit", "--data", "CIFAR1O"), ["CIFAR1O", "did you mean CIFAR10?"]),
        (("fit", "--data", "CIFAR10"), ["root"]),
        (("fit", "--model.lrr", "1"), ["--model.lrr", "--model.optim.lr"]),
        (("fit", "--model.optim.lrr", "1"), ["--model.optim.lrr", "did you mean --model.optim.lr?"]),
        pytest.param(
            ("fit", "--trainer.accelerator", "gpu"),
            ["--trainer.accelerator gpu: torch finds no GPU", "cpu after a file"],
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
        (("fit", "--trainer.max_steps", "-5"), ["--trainer.max_steps -5: expected a whole number from 0, or -1"]),
        (("fit", "--trainer.devices", "1.5"), ["should be an int > 0", "a matter of --trainer"]),
        (("fit", "--data.augment.rand_augment", "2"), ["rand_augment 2: expected values in brackets, such as [2, 10]"]),
        (("fit", "--model.compile", "maybe"), ["--model.compile maybe: expected true or false"]),
        (("fit", "--model.optim.lr", "fast"), ["--model.optim.lr fast", "expected a number, such as 0.5"]),
        (("fit", "--trainer.acelerator", "cpu"), ["acelerator", "--trainer.accelerator"]),
        (("fit", "-c", "typo.yaml"), ["lerning_rate"]),
        (("fit", "--data", "ImageFolder"), ["--data.root is missing"]),
        (("fit", "--data", "no_such_module.X"), ["no_such_module.X", "there is no module"]),
        (("fit", "--data", "raising.X"), ["raising.X", "RuntimeError: at import"]),
        (("fit", "--model.loss", "hinge"), ["--model.loss hinge", "softmax, sigmoid"]),
        (("test", "--data", "Digits"), ["test needs a trained net", "--ckpt_path"]),
        (("fit", "--model.schedule.warmup_steps", "-5"), ["warmup_steps is -5"]),
        (("fit", "--model.net.depth", "0"), ["net.depth is 0"]),
        (("fit", "--model.net.width", "-64"), ["net.width is -64"]),
        (("fit", "--last.every_n_steps", "0"), ["every_n_steps is 0"]),
        ((*FIT, "--trainer.accelerator", "gpu"), ["gpu"]),
        ((*FIT, "--trainer.devices", "0"), ["devices"]),
        (("fit", "-c", "nope.yaml"), ["nope.yaml", "no such file"]),
        (("fit", "-c", "broken.yaml"), ["broken.yaml", "not valid YAML"]),
        (("fit", "-c", "list.yaml"), ["list.yaml", "mapping"]),
        (("fit", "-c", "linked.yaml"), ["model.num_classes", "data.num_classes"]),
        (("fit", "--model.num_classes", "3"), ["model.num_classes", "data.num_classes"]),
        (("fit", "--ckpt_path", "nope.ckpt"), ["nope.ckpt", "no such file"]),
        (("fit", "--ckpt_path", "last"), ["last.ckpt", "runs/default"]),
        (("test", "--ckpt_path", "typo.yaml"), ["typo.yaml", "not a readable checkpoint"]),
        (("convert", "a.npz", "b.npz", "--to", "jpg"), ["jpg", "npz, timm"]),
        (("convert", "a.npz", "--to", "npz"), ["dst"]),
        (("convert", "a.npz", "b.npz", "--to", "npz", "--haeds", "3"), ["haeds", "did you mean --heads?"]),
        ((), ["verb is missing", "fit"]),
        (("fitt",), ["fitt", "did you mean fit?"]),
        ((*FIT, "--data.image_size", "33"), ["33", "8"]),
        ((*FIT, "--data.train_size", "4", "--data.batch_size", "8"), ["4 images", "--data.batch_size"]),
        ((*FIT, "--data.channels", "4", "--model.net.channels", "3"), ["--data.channels is 4", "net has channels=3"]),
        ((*FIT, "--model.net.variant", "B/1x"), ["B/1x", "did you mean"]),
        ((*FIT, "--model.schedule.warmup_steps", "4"), ["warm-up of 4 steps", "4 optimiser steps"]),
        ((*FIT, "--trainer.limit_train_batches", "0"), ["limit_train_batches is 0, expected more than 0"]),
        ((*FIT, "--model.optim.lr", "1e30", "--trainer.max_epochs", "3"), ["is not finite", "step"]),
        ((*FIT, "--data.mean", "[0.5]"), ["mean", "3 channels"]),
    ],
    ids=lambda value: " ".join(map(str, value))[-50:] if isinstance(value, tuple) else "",
)
def test_errors_are_short_and_name_the_token(app, monkeypatch, words, said):
    """Case C15: no traceback, no usage wall, the bad token, a suggestion, a non-zero exit."""
    Path("raising.py").write_text("raise RuntimeError('at import')\n")
    monkeypatch.syspath_prepend(".")
    Path("typo.yaml").write_text("model:\n  optim:\n    lerning_rate: 1\n")
    Path("broken.yaml").write_text("model: [1\n")
    Path("list.yaml").write_text("- 1\n")
    Path("linked.yaml").write_text("model:\n  num_classes: 3\n")
    done = app(*words)
    assert done.code != 0
    error = next(line for line in done.err.splitlines() if line.startswith("error: "))
    for token in said:
        assert token in error
    assert "Traceback" not in done.err
    if len(words) < 5:
        assert len(done.err.splitlines()) <= 6, done.err


# Plug-ins ------------------------------------------------------------------------------------------------------------


def test_a_third_partys_package_is_fitted_by_its_short_name(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "flags.py").write_text(
        "import torch\n"
        "from vit_lightning.data import ImageDataModule\n\n\n"
        "class Flags(ImageDataModule):\n"
        '    """Two-coloured flags."""\n\n'
        "    num_classes = 2\n\n"
        "    def setup(self, stage):\n"
        "        bars = torch.zeros(3, 16, 16, dtype=torch.uint8)\n"
        "        bars[:, :, :8] = 255\n"
        "        self.train_set = [(bars, 0), (bars.mT, 1)] * 16\n"
        "        self.val_set = self.test_set = self.train_set[:4]\n"
    )
    (package / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "flags"\nversion = "1"\n'
        '[project.entry-points."vit_lightning.datamodules"]\nFlags = "flags:Flags"\nBroken = "flags_missing:Broken"\n'
        '[tool.setuptools]\npy-modules = ["flags"]\n'
    )
    site = tmp_path / "site"
    install = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", site, package]
    subprocess.run([sys.executable, *map(str, install)], check=True, capture_output=True)
    words = ["fit", *TINY, "--data", "Flags", "--data.image_size", "16", "--data.batch_size", "8"]
    done = program([*words, "--data.augment.crop", "none"], tmp_path, PYTHONPATH=str(site))
    assert done.returncode == 0, done.stderr
    assert "data     32 training images" in done.stdout
    done = program(["fit", *TINY, "--data", "Broken"], tmp_path, PYTHONPATH=str(site))
    assert done.returncode == 1 and "plug-in Broken" in done.stderr and "Traceback" not in done.stderr


def test_no_accumulation_is_one_and_not_zero(app):
    run = app("fit", "--trainer.accumulate_grad_batches", 0)
    assert run.code == 1
    assert "--trainer.accumulate_grad_batches is 0, expected 1 or more" in run.err


def test_a_run_can_do_without_checkpoints(app):
    done = app(*FIT, "--trainer.enable_checkpointing", "false")
    assert done.code == 0, done.err
    assert Path("runs/default/0/metrics.csv").is_file() and not list(Path("runs").rglob("*.ckpt"))


def test_help_on_a_class_names_the_command(tmp_path):
    done = program(("fit", "--data.help", "Digits"), tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("usage: python -m vit_lightning VERB [--flag value ...]\n")


def test_another_image_size_than_the_checkpoints_names_the_datas_flag(app):
    assert app(*FIT).code == 0
    data = (*SYNTHETIC, "--data.image_size", 16, "--trainer.accelerator", "cpu", "--ckpt_path", "last")
    done = app("predict", *data)
    assert done.code == 1
    assert done.err.splitlines()[-1].endswith("image_size: 32 -> 16 (checkpoint -> now); give --data.image_size 32")
    done = app("predict", *data, "--data.image_size", 32)
    assert done.code == 0, done.err


def test_a_strategy_that_does_not_exist_is_one_sentence(app):
    done = app(*FIT, "--trainer.strategy", "nonsense")
    assert done.code == 1 and "strategy='nonsense'" in done.err.splitlines()[-1]
