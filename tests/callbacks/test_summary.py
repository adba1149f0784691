"""What the end of a fit says."""

import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vit_lightning.callbacks.figures import figures
from vit_lightning.callbacks.summary import RunSummary
from vit_lightning.callbacks.throughput import Throughput
from vit_lightning.compute.cost import macs
from vit_lightning.models import NetConfig

DATA = ("--data", "Synthetic", "--data.eval_size", 8, "--data.batch_size", 8, "--data.num_workers", 0)
FIT = ("fit", *DATA, "--data.train_size", 64, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")


def said(out: str) -> dict[str, str]:
    """Lines of a word and what it is, by the word; the last one of each."""
    return {line.split()[0]: line[9:] for line in out.splitlines() if re.match(r"[a-z]+ {2,}\S", line)}


def test_the_end_says_scores_places_time_and_the_next_command(app):
    done = app(*FIT, "--trainer.max_epochs", 2)
    assert done.code == 0, done.err
    words = [line.split()[0] for line in done.out.splitlines()][-6:]
    assert words == ["best", "last", "time", "cost", "run", "next"]
    found = said(done.out)
    for name in ("best", "last"):
        assert re.fullmatch(rf"runs/default/0/checkpoints/{name}\.ckpt \(top-1 \d+\.\d\d %\)", found[name])
    assert re.fullmatch(r"[\d.]+ s, [\d,.]+ images/s, waiting for data \d+ %", found["time"])
    exaflops = 6e-18 * macs(NetConfig("mu/8"), 32, 10) * 128
    assert found["cost"].startswith(f"{exaflops:.3g} exaFLOPs (estimated {exaflops:.3g}), ")
    assert re.search(r", [\d.e-]+ device hours, peak memory of the process [\d.]+ GiB$", found["cost"])
    assert found["run"] == "runs/default/0"
    python, module, name, *rest = shlex.split(found["next"])
    assert (python, module, name) == ("python", "-m", "vit_lightning")
    tested = app(*rest)
    assert tested.code == 0, tested.err
    assert "top-1" in tested.out and tested.err == ""


def test_a_score_that_says_nothing_is_left_out(app):
    classes = ("--data.num_classes", 5)
    assert app(*FIT, *classes).code == 0
    done = app("test", "runs/default/0")
    assert done.code == 0 and "top-1" in done.out and "top-5" not in done.out, done


def test_a_resumed_run_counts_the_time_before(app):
    assert app(*FIT).code == 0
    more = ("--trainer.max_epochs", 2, "--model.schedule.allow_horizon_change", "true")
    done = app(*FIT, *more, "--ckpt_path", "last")
    assert done.code == 0, done.err
    assert " with what came before, " in said(done.out)["time"]
    assert said(done.out)["resume"] == "runs/default/0/checkpoints/last.ckpt at step 8, in epoch 2"


def test_the_time_before_is_that_of_a_clock_however_many_devices_there_are(capsys):
    throughput = Throughput()
    throughput.load_state_dict({"exaflops": 0.0, "device_hours": 8.0})
    facts = {"is_global_zero": True, "global_step": 1, "checkpoint_callbacks": [], "callbacks": [throughput]}
    RunSummary(Path("run")).on_fit_end(
        SimpleNamespace(**facts, world_size=4, datamodule=None, lightning_module=None), None
    )
    assert said(capsys.readouterr().out)["time"].partition(", ")[2] == "2 h 00 min with what came before"


def test_a_score_of_earlier_weights_is_not_the_last(app):
    counted = ("--trainer.check_val_every_n_epoch", "null", "--trainer.val_check_interval", 3)
    done = app(*FIT, "--trainer.max_epochs", 1, *counted)  # 4 batches, of which one comes after the validation
    assert done.code == 0, done.err
    assert said(done.out)["last"] == "runs/default/0/checkpoints/last.ckpt"
    assert "(top-1 " in said(done.out)["best"]


@pytest.mark.parametrize(("lacking", "verb"), [("test_set", "validate"), ("test_set = self.val_set", "report")])
def test_a_run_whose_data_cannot_be_tested_is_scored_or_shown_next(app, tmp_path: Path, monkeypatch, lacking, verb):
    source = (
        "from datamodules.synthetic import Synthetic\n\n\nclass Untested(Synthetic):\n    def setup(self, stage):\n"
    )
    (tmp_path / f"un{verb}.py").write_text(source + f"        super().setup(stage)\n        self.{lacking} = None\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    done = app("fit", "--data", f"un{verb}.Untested", *FIT[3:])
    assert done.code == 0, done.err
    assert said(done.out)["next"] == f"python -m vit_lightning {verb} runs/default/0"


@pytest.mark.parametrize(("unit", "said"), [("patch", "val patch top-1 50.0 %"), (None, "val top-1 50.0 %")])
def test_shares_of_patches_are_named_so_and_a_loss_is_a_loss(unit, said):
    model = SimpleNamespace(**({"scored_unit": unit} if unit else {}))
    scores = {"val/loss": torch.tensor(1.0), "val/top1": torch.tensor(0.5)}
    trainer = SimpleNamespace(progress_bar_metrics=scores, callback_metrics={}, lightning_module=model)
    assert figures(trainer, several=False) == ["val loss 1", said]
