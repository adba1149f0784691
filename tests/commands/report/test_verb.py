"""The verb report through the command line, on a real run."""

import json
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest

from vit_lightning.commands.report import verb
from vit_lightning.commands.report.boards import last_images

pytest.importorskip("matplotlib")
RUN = ("--data", "Synthetic", "--data.train_size", 64, "--data.eval_size", 16, "--data.batch_size", 8)
CPU = ("--data.num_workers", 0, "--trainer.accelerator", "cpu")
FIT = ("fit", *RUN, *CPU, "--model.net.variant", "mu/8", "--trainer.log_every_n_steps", 4)
SCORES = ("--model.scores", "[classes,confusion,mistakes]")
REPORT = Path("runs/default/0/report.html")


def test_a_run_from_its_fit_to_its_page(app, page):
    done = app(*FIT, *SCORES, "--report", "true")
    assert done.code == 0, done.err
    assert f"report   {REPORT}, " in done.out and " MB, written in " in done.out
    first = page(REPORT.read_text())
    assert "No mistakes are listed" in first.text and "mu/8 trained from scratch on Synthetic at 32 px" in first.text
    assert [picture for picture in first.all("img") if "Training images as the net saw them" in picture["alt"]]
    assert [picture for picture in first.all("img") if "Where the net looks" in picture["alt"]]
    assert app("test", "runs/default/0", *CPU).code == 0
    done = app("report", "runs/default/0/checkpoints/best.ckpt")
    assert done.code == 0, done.err
    found = page(REPORT.read_text())
    alts = [picture["alt"] for picture in found.all("img")]
    wrong = sum("Where the net looked in image" in alt for alt in alts)
    assert 1 <= wrong <= 12 and sum(alt.startswith("Image ") for alt in alts) == wrong
    assert any("first principal components of the filters" in alt for alt in alts)
    assert "taken for" in found.text and "They cannot be shown" not in found.text
    assert not list(REPORT.parent.glob(".report*"))


def test_data_that_are_gone_are_said_in_a_line(make_run, app, page):
    folder = make_run(data__class_path="datamodules.folder.ImageFolder", data__init_args={"root": "/nowhere/photos"})
    (folder / "checkpoints/last.ckpt").unlink()
    done = app("report", folder)
    assert done.code == 0, done.err
    text = page((folder / "report.html").read_text()).text
    assert "They cannot be shown: " in text and "/nowhere/photos" in text
    assert text.count("They cannot be shown: ") == 2 and "the run has no whole checkpoint" in text


def test_several_runs_are_compared_in_the_current_folder(make_run, app, page):
    folders = [make_run("pets/0"), make_run("pets/1", seed_everything=4)]
    done = app("report", *folders, "--out", "both.html")
    assert done.code == 0, done.err
    text = page(Path("both.html").read_text()).text
    assert "seed 3 4" in text and "Comparison of 2 runs" in text
    assert app("report", *folders).code == 0 and Path("report.html").is_file()


def test_what_is_damaged_is_printed(make_run, app):
    folder = make_run()
    (folder / "env.json").write_text("{")
    done = app("report", folder, "--images", "false")
    assert done.code == 0 and "note " in done.out and "env.json is damaged" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere",), "report nowhere: no such file or folder; give a run folder"),
        ((), "runs"),
        (("runs/pets/0", "--out", "no/such.html"), "--out no/such.html cannot be written: there is no folder no"),
        (("runs/pets/0", "--imgaes", "false"), "imgaes"),
    ],
)
def test_bad_input_is_one_sentence(make_run, app, words, said):
    make_run()
    done = app("report", *words)
    assert done.code == 1 and said in done.err and len(done.err.strip().splitlines()) == 1
    assert not Path("runs/pets/0/report.html").exists()


@pytest.mark.parametrize("opened", [True, False])
def test_a_browser_is_opened_if_there_is_one(make_run, app, monkeypatch, opened):
    asked = []
    monkeypatch.setattr(webbrowser, "open", lambda address: asked.append(address) or opened)
    done = app("report", make_run(), "--images", "false", "--open")
    assert done.code == 0, done.err
    assert asked == [Path("runs/pets/0/report.html").resolve().as_uri()]
    assert ("no browser could be opened here" in done.out) != opened


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_a_missing_library_is_named_before_anything_is_trained(make_run, app, monkeypatch, package):
    monkeypatch.setattr(verb, "find_spec", lambda name: None if name == package else object())
    for words in (("report", make_run()), (*FIT, "--report", "true")):
        done = app(*words)
        assert done.code == 1
        assert f'a report needs {package}: pip install "vit-lightning[report]"' in done.err
    assert not Path("runs/default").exists()


def test_a_run_has_not_failed_if_its_page_cannot_be_written(make_run, capsys):
    folder = make_run()
    (folder / "report.html").mkdir()
    verb.report_on(folder)
    assert "no report was written: --out" in capsys.readouterr().out


def test_the_verb_is_a_program(make_run, tmp_path):
    folder = make_run()
    words = [sys.executable, "-m", "vit_lightning", "report", str(folder), "--images", "false"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (folder / "report.html").is_file() and done.stderr == ""


def test_pictures_of_a_log_that_is_cut_are_read_up_to_there(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        for step in (1, 2):
            writer.add_image("val/rollout", torch_image(step), step)
        writer.add_scalar("train/loss", 1.0, 3)
    (log,) = tmp_path.iterdir()
    assert last_images(tmp_path, ("val/rollout",))["val/rollout"].step == 2
    log.write_bytes(log.read_bytes()[:-60])
    assert last_images(tmp_path, ("val/rollout",))["val/rollout"].step in (1, 2)
    assert last_images(tmp_path / "none", ("val/rollout",)) == {}


def test_a_folder_whose_name_is_no_utf8_has_its_pictures_too(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "log")) as writer:
        writer.add_image("val/rollout", torch_image(1), 1)
    folder = (tmp_path / "log").rename(tmp_path / "caf\udcff")
    assert last_images(folder, ("val/rollout",))["val/rollout"].step == 1


def torch_image(step: int):
    import torch

    return torch.full((3, 4, 4), step, dtype=torch.uint8)


def test_scores_that_are_no_numbers_are_left_out(make_run, app, page):
    folder = make_run()
    (folder / "test.json").write_text(json.dumps({"scores": {"test/top1": "high", "test/loss": None}, "images": "all"}))
    assert app("report", folder, "--images", "false").code == 0
    text = page((folder / "report.html").read_text()).text
    assert 'test/top1 is "high", which is no number; it is left out' in text and text.count("high") == 1
