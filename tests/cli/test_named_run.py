"""A run is a thing: its folder, or a checkpoint in it, is all that a verb needs."""

import csv
import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from PIL import Image

from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.named_run import config_of, experiment_name, named_run
from vit_lightning.errors import InputError

CONFIG = """
model: {net: {variant: mu/8}, optim: {lr: 0.01}}
data:
  class_path: Synthetic
  init_args:
    {num_classes: 4, train_size: 32, eval_size: 8, batch_size: 16, num_workers: 0, image_size: 16,
     augment: {evaluation: center, zoom: 1.5}}
trainer: {max_epochs: 2, accelerator: cpu}
"""


@pytest.fixture
def run(app, tmp_path):
    """A run of the experiment `trial`."""
    Path("trial.yaml").write_text(CONFIG)
    done = app("fit", "-c", "trial.yaml")
    assert done.code == 0, done.err
    return tmp_path / "runs/trial/0"


def scores(path: Path) -> dict:
    return json.loads(path.read_text())


def test_a_run_folder_is_all_that_scoring_needs(app, run):
    """From another folder, on its own data; each verb leaves what it prints."""
    plain = app("test", "-c", "trial.yaml", "--ckpt_path", "best")
    Path("elsewhere").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir("elsewhere")
        for verb, split in (("test", "test"), ("validate", "val")):
            done = app(verb, "../runs/trial/0")
            assert done.code == 0, done.err
            written = scores(run / f"{verb}.json")
            assert written["verb"] == verb and written["images"] == 8
            names = ("loss", "top1", "top5", "mean_class_accuracy", "macro_f1", "ece")
            assert set(written["scores"]) == {f"{split}/{name}" for name in names}
            assert f"{100 * written['scores'][f'{split}/top1']:.2f} %" in done.out
            assert written["checkpoint"] == str(run / "checkpoints/best.ckpt")
            assert written["data"] == "datamodules.synthetic.Synthetic" and written["date"].endswith("+00:00")
            assert [path.name for path in run.glob(".*")] == [".lock"]
        assert f"{100 * scores(run / 'test.json')['scores']['test/top1']:.2f} %" in plain.out
        done = app("predict", run)
        assert done.code == 0 and (run / "predictions.csv").is_file(), done.err
        assert not list(Path().iterdir())


def test_last_can_be_scored_too(app, run):
    done = app("test", run, "--ckpt_path", "last")
    assert done.code == 0, done.err
    assert scores(run / "test.json")["checkpoint"].endswith("last.ckpt")


def test_a_checkpoint_takes_the_config_of_its_run(app, run):
    done = app("test", run / "checkpoints/last.ckpt")
    assert done.code == 0, done.err
    assert scores(run / "test.json")["data"] == "datamodules.synthetic.Synthetic"
    done = app("test", "--ckpt_path", run / "checkpoints/last.ckpt")  # as the flag does, for the data alone
    assert done.code == 0 and scores(run / "test.json")["images"] == 8, done.err


@pytest.mark.parametrize("verb", ["test", "validate", "predict", "fit"])
@pytest.mark.parametrize("flag", [(), ("--ckpt_path",)])
def test_a_checkpoint_without_data_is_one_sentence_and_not_digits(app, run, tmp_path, verb, flag):
    shutil.copy(run / "checkpoints/last.ckpt", "alone.ckpt")
    done = app(verb, *flag, "alone.ckpt")
    assert done.code == 1 and not done.out
    assert f"error: {verb} needs data: give --data NAME, or -c FILE; alone.ckpt lies in no run folder" in done.err
    assert [each.name for each in (tmp_path / "runs").iterdir()] == ["trial"]


def test_weights_without_data_are_not_scored_on_digits(app, run):
    done = app("test", "--model.weights", run / "checkpoints/last.ckpt")
    assert done.code == 1 and "test needs data" in done.err


def test_fit_goes_on_in_the_same_folder(app, run):
    words = ("--trainer.max_epochs", 3, "--model.schedule.allow_horizon_change", "true")
    done = app("fit", run, *words)
    assert done.code == 0, done.err
    assert [each.name for each in run.parent.iterdir()] == ["0"]
    assert torch.load(run / "checkpoints/last.ckpt", weights_only=True)["global_step"] == 6
    assert (run / "config.resume-1.yaml").is_file()
    again = app("fit", run)  # which takes what the run was told last
    assert "nothing was left to train: the checkpoint has 6 optimiser steps" in again.out and again.code == 0, again.err
    assert "give --model.schedule.allow_horizon_change true" in again.out
    assert again.out.index("nothing was left") < again.out.index("next ")
    assert app("fit", run / "checkpoints/last.ckpt").code == 0


@pytest.mark.parametrize("words", [("{run}",), ("-c", "trial.yaml")])
def test_fit_goes_on_from_the_state_before_the_last(app, run, words):
    assert torch.load(run / "checkpoints/previous.ckpt", weights_only=True)["global_step"] == 2
    last = torch.load(run / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
    done = app("fit", *(word.format(run=run) for word in words), "--ckpt_path", "previous")
    assert done.code == 0, done.err
    assert "previous.ckpt at step 2" in done.out and [each.name for each in run.parent.iterdir()] == ["0"]
    again = torch.load(run / "checkpoints/last.ckpt", weights_only=True)
    assert again["global_step"] == 4
    assert all(torch.equal(last[name], again["state_dict"][name]) for name in last)


@pytest.mark.parametrize("words", [("net.ckpt",), ("--ckpt_path", "net.ckpt")])
def test_an_error_names_the_flag_only_where_it_was_typed(app, words):
    Path("net.ckpt").write_bytes(b"nothing of the kind")
    done = app("predict", *words)
    expected = " ".join(words) + " is not a readable checkpoint"
    assert done.code == 1 and done.err.splitlines()[-1].startswith(f"error: {expected}"), done.err


def test_best_without_its_run_names_the_runs_there_are(app, run):
    done = app("predict", "--data", "Synthetic", "--ckpt_path", "best")
    named = "name the run, as in `predict runs/trial/0` (the newest: runs/trial/0)"
    assert done.code == 1 and named in done.err.splitlines()[-1], done.err


@pytest.mark.parametrize("verb", ["fit", "test"])
def test_a_run_keeps_its_name(app, run, verb):
    checkpoint = run / "checkpoints/last.ckpt"
    for words in ((run,), (checkpoint,), ("--ckpt_path", checkpoint)):
        done = app(verb, *words, "--name", "other")
        assert done.code == 1 and "error: --name other: " in done.err and "which keeps its name" in done.err, done
        assert ("--model.weights" in done.err) == (verb == "fit")
    assert [each.name for each in run.parent.parent.iterdir()] == ["trial"]
    assert app(verb, run, "--name", "trial").code == 0


def test_a_run_without_its_best_says_what_is_scored(app, run):
    best = run / "checkpoints/best.ckpt"
    whole = best.read_bytes()
    best.write_bytes(whole[:-100])
    done = app("test", run)
    assert done.code == 1 and "best.ckpt is damaged" in done.err and "give last.ckpt" in done.err, done
    best.unlink()
    done = app("test", run, "--ckpt_path", "best")
    assert done.code == 1 and "no whole best.ckpt yet; give --ckpt_path last" in done.err, done
    with pytest.warns(UserWarning, match=r"has no best.ckpt, which only validation makes: \S*last.ckpt is taken"):
        assert app("test", run).code == 0
    assert scores(run / "test.json")["checkpoint"].endswith("last.ckpt")


@pytest.mark.parametrize("verb", ["validate", "predict", "fit"])
def test_images_of_another_net_s_size_are_named(app, run, verb):
    done = app(verb, run, "--data.image_size", 12)
    assert done.code == 1 and "takes images of 16x16 pixels, and the data gives 12x12; give --data" in done.err


def test_photographs_behind_a_run_are_predicted_as_its_validation_sees_them(app, run):
    for name, colour in (("x.jpg", "red"), ("long name.jpg", "blue")):
        Image.new("RGB", (40, 20), colour).save(name)
    done = app("predict", run, "x.jpg", "long name.jpg")
    assert done.code == 0, done.err
    with (run / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, name in zip(rows, ("x.jpg        ", "long name.jpg"), strict=True):
        assert f"{name}  {row['class1']} {float(row['probability1']) * 100:.1f} %\n" in done.out
    crop = ("--data.augment.evaluation", "center", "--data.augment.zoom", 1.5)
    checkpoint = run / "checkpoints/best.ckpt"
    done = app(
        "predict", "--data", "Images", "--data.files", "['x.jpg','long name.jpg']", *crop, "--ckpt_path", checkpoint
    )
    assert done.code == 0 and (run / "predictions-2.csv").read_text() == (run / "predictions.csv").read_text()
    assert "predictions-2.csv: 2 images; predictions.csv is of an earlier call\n" in done.out


def test_many_images_are_not_printed(app, run):
    for number in range(11):
        Image.new("RGB", (20, 20)).save(f"{number}.png")
    Path("0.png").write_bytes(b"no image")
    assert " %\n" not in app("predict", run, *(f"{number}.png" for number in range(11))).out
    done = app("predict", run, "0.png", "1.png")
    assert "0.png  not an image of a known format" in done.out, done.err


def test_a_runs_config_belongs_to_its_experiment(app, run):
    done = app("fit", "-c", "runs/trial/0/config.yaml")
    assert done.code == 0, done.err
    assert sorted(each.name for each in Path("runs").iterdir()) == ["trial"]
    assert (Path("runs/trial/1") / "checkpoints/last.ckpt").is_file()


def test_a_name_names_the_experiment(app, run):
    done = app("fit", "-c", "trial.yaml", "--name", "other", "--trainer.max_epochs", 1)
    assert done.code == 0, done.err
    assert (Path("runs/other/0") / "checkpoints/last.ckpt").is_file()
    done = app("test", "-c", "trial.yaml", "--name", "other", "--ckpt_path", "last")
    assert done.code == 0 and Path("runs/other/0/test.json").is_file(), done.err


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "a\\b"])
def test_a_name_that_is_no_folder_is_refused(name):
    with pytest.raises(InputError, match="an experiment is a folder"):
        experiment_name(CommandLine(["fit", f"--name={name}"]), [], None)


def test_words_that_name_no_run_are_one_sentence(app, run):
    for words, said in (
        (
            ("test", "runs/trial"),
            "the folder of an experiment, whose newest run is runs/trial/0; give a run folder, such as that one,",
        ),
        (("test", "runs/none/0"), "no such file or folder"),
        (("test", "none.ckpt"), "no such file or folder"),
        (
            ("test", "nosuchrun"),
            "test nosuchrun: there is no such run or file; give a run folder, such as the newest, ",
        ),
        (
            ("probe", "nosuchrun"),
            "probe nosuchrun: there is no such run or file; give a run folder, such as the newest",
        ),
        (("test", "trainer.devices"), "trainer.devices lacks its dashes"),
        (("test", "."), "a folder without config.yaml and checkpoints"),
        (("fit", run, "--ckpt_path", "x.ckpt"), "both name a checkpoint"),
        (("test", run, "--ckpt_path", "x.ckpt"), "--ckpt_path x.ckpt: no such file"),
        (("predict", run, "x.jpg", "--data", "Synthetic"), "both say what to predict"),
        (
            ("predict", run, run),
            "is a run, not images; predict takes one run, and predict several nets as --ckpt_path A",
        ),
    ):
        done = app(*words)
        assert done.code == 1 and said in done.err and len(done.err.splitlines()) == 1, done.err
    assert named_run(CommandLine(["test", "stray"])) is None


@pytest.mark.parametrize(("runs", "newest"), [("0", 0), ("0 9 10 2", 10), ("99 100 11", 100)])
def test_the_newest_run_is_that_of_the_greatest_number(tmp_path, runs, newest):
    for number in runs.split():
        (tmp_path / number / "checkpoints").mkdir(parents=True)
    (tmp_path / "notes").mkdir()
    with pytest.raises(InputError, match=f"whose newest run is {tmp_path}/{newest}; give a run folder"):
        named_run(CommandLine(["test", str(tmp_path)]))


def test_a_run_that_has_saved_nothing_is_named(app, run):
    shutil.rmtree(run / "checkpoints")
    assert "has no whole best.ckpt or last.ckpt yet" in app("test", run).err
    assert "has no whole last.ckpt yet" in app("fit", run).err


def test_a_file_says_name_folder_and_checkpoint_as_flags_do(app, tmp_path):
    """A later one wins; a checkpoint that a file names is gone on from, in its own folder."""
    Path("trial.yaml").write_text(CONFIG + "name: mine\n")
    Path("place.yaml").write_text("trainer: {default_root_dir: kept}\n")
    assert app("fit", "-c", "trial.yaml", "-c", "place.yaml").code == 0
    assert not (tmp_path / "runs").exists() and [each.name for each in (tmp_path / "kept").iterdir()] == ["mine"]
    Path("further.yaml").write_text("ckpt_path: last\ntrainer: {max_epochs: 3}\n")
    longer = ("--model.schedule.allow_horizon_change", "true")
    files = ("-c", "trial.yaml", "-c", "place.yaml", "-c", "further.yaml")
    done = app("fit", *files, *longer)
    assert done.code == 0 and (tmp_path / "kept/mine/0/config.resume-1.yaml").is_file(), done.err
    assert torch.load("kept/mine/0/checkpoints/last.ckpt", weights_only=True)["global_step"] == 6
    assert app("test", *files, "--ckpt_path", "best").code == 0
    assert scores(Path("kept/mine/0/test.json"))["checkpoint"].endswith("best.ckpt")
    done = app("fit", *files, "--name", "other", "--ckpt_path", "last", "--trainer.default_root_dir", "flagged")
    assert done.code == 1 and "--ckpt_path last: no run below flagged/other has a last.ckpt" in done.err

    again = app("fit", "-c", "kept/mine/0/config.resume-1.yaml", "--trainer.max_epochs", 1, *longer)
    assert again.code == 0 and (tmp_path / "kept/mine/1/config.yaml").is_file(), again.err
    assert torch.load("kept/mine/1/checkpoints/last.ckpt", weights_only=True)["global_step"] == 2


def test_scoring_takes_no_machine_from_a_run(run):
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["trainer"] |= {
        "devices": 8,
        "strategy": "ddp",
        "accelerator": "gpu",
        "num_nodes": 2,
        "precision": "bf16-mixed",
    }
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    assert not config_of(run, "test")["trainer"].keys() & {
        "devices",
        "strategy",
        "accelerator",
        "num_nodes",
        "precision",
    }
    assert config_of(run, "fit")["trainer"]["devices"] == 8


@pytest.mark.parametrize("verb", ["fit", "test", "probe"])
def test_a_run_was_told_what_its_last_part_was(tmp_path, verb):
    for name, size in (("config.yaml", 1), ("config.resume-1.yaml", 2), ("config.resume-10.yaml", 3)):
        (tmp_path / name).write_text(f"data: {{class_path: Synthetic, init_args: {{eval_size: {size}}}}}\n")
    assert config_of(tmp_path, verb)["data"]["init_args"] == {"eval_size": 3}


OWN = """
from vit_lightning.classifier import Classifier


class Tilted(Classifier):
    def __init__(self, tilt: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.tilt = tilt
"""


def test_a_run_names_its_models_code_and_a_checkpoint_does_not(app, tmp_path, monkeypatch):
    (tmp_path / "own_tilted.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("own.yaml").write_text(CONFIG)
    assert app("fit", "-c", "own.yaml", "--model", "own_tilted.Tilted", "--model.tilt", 0.5).code == 0
    assert app("test", "runs/own/0").code == 0
    refused = app("test", "runs/own/0/checkpoints/last.ckpt")
    assert refused.code == 1 and "names the class 'own_tilted.Tilted', whose code would run" in refused.err


def test_a_run_that_took_its_net_from_weights_is_whole(app, run):
    """Its config leaves the variant open, and so do flags that name the variant alone."""
    own = "--model.net.variant", "mu/8", "--model.net.gelu", "exact", "--model.net.layer_scale", 0.1
    words = "--data", "Synthetic", "--data.image_size", 24, "--data.train_size", 32, "--data.eval_size", 8
    words += "--data.batch_size", 16, "--data.num_workers", 0, "--trainer.accelerator", "cpu"
    first = app("fit", *words, *own, "--name", "first", "--trainer.max_epochs", 1)
    weights = "--model.weights", "runs/first/0/checkpoints/last.ckpt", "--model.weights_head", "reset"
    tuned = app("fit", *words, *weights, "--name", "tuned", "--trainer.max_epochs", 2)
    assert first.code == tuned.code == 0, first.err + tuned.err
    assert yaml.safe_load(Path("runs/tuned/0/config.yaml").read_text())["model"]["init_args"]["net"]["variant"] is None
    image = Path("x.png")
    Image.new("RGB", (24, 24), "red").save(image)
    config, best = "runs/tuned/0/config.yaml", "runs/tuned/0/checkpoints/best.ckpt"
    for call in (
        ("test", "runs/tuned/0"),
        ("test", "runs/tuned/0", "--model.net.variant", "mu/8"),
        ("test", "-c", config, "--ckpt_path", best),
        ("predict", "runs/tuned/0", image),
        ("fit", "runs/tuned/0"),
    ):
        done = app(*call)
        assert done.code == 0, (call, done.err)
    other = app("test", "runs/tuned/0", "--model.net.variant", "S/8")
    assert other.code == 1 and "the checkpoint holds another net" in other.err


def test_a_device_is_no_run(app):
    done = app("test", "/dev/null")
    assert done.code == 1
    assert done.err.startswith("error: test /dev/null: neither a folder nor a regular file; give a run folder")
