"""The verb benchmark through the command line, on nets that are measured in no time."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
import torch

from vit_lightning.commands.benchmark import measurements, sizes
from vit_lightning.commands.benchmark.contender import Contender
from vit_lightning.compute import gpu_memory as memory
from vit_lightning.compute.cost import macs, training_flops
from vit_lightning.models import NetConfig

FAST = ("--rounds", 2, "--seconds", 0.01)
TINY = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data.num_classes", 3)
PLAIN = ("benchmark", "--data", "Synthetic", "--data.batch_size", 4, "--data.train_size", 16, *TINY)
BENCH = (*PLAIN, *FAST)


def figures(path: str = "b.json") -> dict:
    return json.loads(Path(path).read_text())


def test_every_measure_has_its_figures(app):
    done = app(*BENCH, "--json", "b.json", "--trainer.precision", "bf16-mixed")
    assert done.code == 0, done.err
    content = figures()
    assert content["device"] == "cpu" and content["precision"] == "bf16-mixed"
    rows = {(row["measure"], row["net"]): row for row in content["rows"]}
    assert set(rows) == {
        *(("train", "mu/8"), ("inference", "mu/8"), ("fit", "mu/8"), ("fit", "mu/8 bare"), ("data", "Synthetic"))
    }
    for row in rows.values():
        assert row["batch"] == 4 and len(row["rounds"]) == 2 and min(row["rounds"]) > 0
        assert row["mfu"] is None and row["memory_gib"] is None
    net = NetConfig("mu/8"), 32, 3
    assert rows["train", "mu/8"]["flops"] == training_flops(*net, computed=True) < 6 * macs(*net)
    assert rows["inference", "mu/8"]["flops"] == 2 * macs(*net, computed=True)
    assert [(pair["of"], pair["to"]) for pair in content["ratios"]] == [("mu/8", "mu/8 bare")]
    assert "the fit adds" in done.out and not Path("runs").exists()


def test_an_experiment_may_demand_a_metric_of_its_fit(app):
    smoke = Path(__file__).parents[3] / "experiments" / "smoke.yaml"
    done = app("benchmark", "-c", smoke, "--trainer.accelerator", "cpu", "--measure", "fit", *FAST)
    assert done.code == 0, done.err
    assert "the fit adds" in done.out


def test_a_peer_takes_turns(app):
    done = app(*BENCH, "--measure", "train,inference", "--compare", "Ti/16", "--json", "b.json")
    assert done.code == 0, done.err
    content = figures()
    assert [(pair["measure"], pair["of"], pair["to"]) for pair in content["ratios"]] == [
        ("train", "mu/8", "Ti/16"),
        ("inference", "mu/8", "Ti/16"),
    ]
    assert "train: round 2/2: mu/8" in done.out and ", Ti/16 " in done.out


def test_a_size_that_fits_nowhere_is_one_sentence(app):
    done = app(*PLAIN, "--sizes", 10**6, "--cap", 1)
    assert done.code == 1 and "error: --sizes 1000000: not even one image fits in the memory of this cpu" in done.err


def test_the_same_net_without_flags_is_told_apart(app):
    words = ("--measure", "inference", "--compare", "mu/8", "--model.net.depth", 3, "--json", "b.json")
    done = app(*BENCH, *words)
    assert done.code == 0, done.err
    rows = figures()["rows"]
    assert [row["net"] for row in rows] == ["mu/8", "mu/8, no flags"] and rows[0]["flops"] > rows[1]["flops"]


@pytest.mark.parametrize(
    ("flags", "expected"), [((), []), (("--compare_compiled", "true"), ["Ti/16"]), (("--model.compile", "true"), None)]
)
def test_a_peer_is_compiled_as_its_flag_says(app, monkeypatch, flags, expected):
    from vit_lightning.classifier import Classifier

    compiled = []
    monkeypatch.setattr(Classifier, "compile_net", lambda model: compiled.append(model.config.variant))
    done = app(*BENCH, "--measure", "inference", "--compare", "Ti/16", *flags)
    assert done.code == 0, done.err
    assert compiled == (["Ti/16", "mu/8"] if expected is None else expected)  # peers are warmed up first
    assert ("Ti/16 compiled" in done.out) == ("Ti/16" in compiled)


def test_a_peer_of_timm(app):
    pytest.importorskip("timm")
    done = app(*BENCH, "--measure", "train", "--compare", "timm/vit_tiny_patch16_224")
    assert done.code == 0, done.err
    assert "train      mu/8 / timm/vit_tiny_patch16_224: " in done.out


def test_the_bare_step_is_a_step_of_fit(app, monkeypatch):
    """Steps on a fixed batch change the weights as a fit's steps do."""
    from lightning.pytorch import Trainer

    from vit_lightning.classifier import Classifier
    from vit_lightning.commands.benchmark.fit import RepeatedBatch
    from vit_lightning.training.optim import Optim, Schedule

    def model() -> Classifier:
        optim = Optim(name="sgd", lr=0.1)
        schedule = Schedule(decay="constant")
        torch.manual_seed(0)
        return Classifier(net=NetConfig("mu/8"), optim=optim, schedule=schedule, num_classes=3, image_size=32)

    def trainer(**settings) -> Trainer:
        quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
        return Trainer(accelerator="cpu", gradient_clip_val=1.0, **quiet, **settings)

    batch = torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8), torch.tensor([0, 1, 2, 0])
    monkeypatch.setattr("vit_lightning.commands.benchmark.contender.resident_batch", lambda *facts: batch)
    fitted, bare = model(), model()
    trainer(max_steps=3, max_epochs=-1).fit(fitted, RepeatedBatch(batch))
    contender = Contender(trainer(), bare)
    before = bare.net.patches.proj.weight.clone()
    contender.task("train", 4)(3)
    assert not torch.equal(before, bare.net.patches.proj.weight)
    for (name, one), other in zip(fitted.named_parameters(), bare.parameters(), strict=True):
        torch.testing.assert_close(one, other, msg=lambda text, name=name: f"{name}: {text}")


def test_sizes_measure_every_net_and_stop_at_the_cap(app):
    nets = ("--variants", "mu/8,Ti/14,R26x0.5")
    done = app(*PLAIN, "--sizes", "16,32", *nets, "--cap", 4, "--seconds", 0.001, "--json", "b.json")
    assert done.code == 0, done.err
    rows = figures()["rows"]
    assert [(row["net"], row["image_size"]) for row in rows] == [
        (net, [size, size]) for net in ("mu/8", "Ti/14", "R26x0.5") for size in (16, 32)
    ]
    assert all(row["largest_batch"] == 4 and row["batch"] in (1, 2, 4) for row in rows)


def test_convolutions_are_not_given_more_values_than_they_count(app, monkeypatch):
    """What is above is computed by kernels so slow that a sweep seems to hang."""
    monkeypatch.setattr(sizes, "INDEXABLE", 2 * 3 * 32 * 32)
    nets = ("--variants", "mu/8,R26x0.5")
    done = app(*PLAIN, "--sizes", 32, *nets, "--cap", 4, "--seconds", 0.001, "--json", "b.json")
    assert done.code == 0, done.err
    found = [(row["net"], row["largest_batch"], row["note"]) for row in figures()["rows"]]
    assert found == [("mu/8", 4, "(cap)"), ("R26x0.5", 2, "(indices)")]


def test_sizes_are_kept_as_they_come(app, monkeypatch):
    kept = []
    whole = Contender.task

    def looked(self, measure, batch):
        kept.append(figures() if Path("b.json").exists() else None)
        return whole(self, measure, batch)

    monkeypatch.setattr(Contender, "task", looked)
    done = app(*PLAIN, "--sizes", "16,32", "--cap", 1, "--seconds", 0.001, "--json", "b.json")
    assert done.code == 0, done.err
    assert kept[0] is None and [row["image_size"] for row in kept[-1]["rows"]] == [[16, 16]]
    assert not kept[-1]["ended"] and figures()["ended"]


def test_sizes_are_drawn(app):
    pytest.importorskip("matplotlib")
    done = app(*PLAIN, "--sizes", "16,32", "--cap", 1, "--seconds", 0.001, "--figure", "sizes.png")
    assert done.code == 0, done.err
    assert Path("sizes.png").stat().st_size > 10_000


def test_the_largest_batch_is_found_and_measured(app, monkeypatch):
    """A net that runs out of memory above 11 images."""
    whole = Contender.task

    def scarce(self, measure, batch):
        if batch > 11:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(self, measure, batch)

    monkeypatch.setattr(Contender, "task", scarce)
    done = app(*BENCH, "--measure", "train", "--batches", "auto", "--json", "b.json")
    assert done.code == 0, done.err
    assert "the largest batch of mu/8 is 11" in done.out
    assert figures()["rows"][0]["batch"] == 11


def test_a_batch_too_large_is_one_sentence_after_what_was_measured(app, monkeypatch):
    whole = Contender.task

    def scarce(self, measure, batch):
        if measure == "inference":
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(self, measure, batch)

    monkeypatch.setattr(Contender, "task", scarce)
    done = app(*BENCH, "--measure", "train,inference", "--json", "b.json")
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("error: inference with a batch of 4 does not fit in the memory of")
    assert "--batches auto" in done.err and "│ train" in done.out
    assert [bool(row["rounds"]) for row in figures()["rows"]] == [True, False]


@pytest.mark.parametrize("measure", ["train", "fit"])
def test_ctrl_c_shows_what_was_measured(app, monkeypatch, measure):
    report = measurements.report

    def interrupt(text: str) -> None:
        report(text)
        if text.startswith(f"{measure}: round 1/"):
            raise KeyboardInterrupt

    monkeypatch.setattr(measurements, "report", interrupt)
    handler = signal.getsignal(signal.SIGINT)
    try:
        done = app(*BENCH, "--measure", f"inference,{measure}", "--json", "b.json")
    finally:
        signal.signal(signal.SIGINT, handler)  # Lightning ignores it from its own interruption on
    assert done.code == 130
    assert "interrupted" in done.err
    assert figures()["ended"] is False
    rounds = {row["measure"]: len(row["rounds"]) for row in figures()["rows"]}
    assert rounds[measure] == 1


def test_loaders_take_turns_on_the_same_files(app, tmp_path):
    pytest.importorskip("timm")
    from PIL import Image

    for name in ("cat", "dog"):
        (tmp_path / "set/train" / name).mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (40, 30), (number * 20, 0, 0)).save(tmp_path / "set/train" / name / f"{number}.jpg")
    folder = ("--data", "ImageFolder", "--data.root", "set", "--data.batch_size", 2, "--data.val_fraction", 0.25)
    small = ("--data.image_size", 32, "--data.num_workers", 0, "--trainer.accelerator", "cpu", *FAST)
    words = ("--measure", "data", "--compare_loaders", "true", "--json", "b.json", "--model.net.variant", "mu/8")
    done = app("benchmark", *folder, *small, *words)
    assert done.code == 0, done.err
    assert [row["net"] for row in figures()["rows"]] == ["ImageFolder", "timm", "torchvision"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--measure", "trian"), "--measure trian: choose from train, inference, fit, data"),
        (("--sizes", "64,big"), "--sizes 64,big: expected numbers"),
        (("--sizes", "0"), "--sizes 0: expected numbers"),
        (("--sizes", "64,4294967296"), "--sizes 64,4294967296: expected numbers from 1 to 1000000"),
        (("--sizes", "64", "--variants", ""), "There is no net variant ''"),
        (("--rounds", "0"), "--rounds 0"),
        (("--seconds", "nan"), "--seconds nan: expected a number, such as 0.5"),
        (("--seconds", ".nan"), "--seconds is nan, expected a number up to 3.4e+38"),
        (("--cap", "0", "--batches", "auto"), "--cap 0: expected a batch of 1"),
        (("--compare", "timm/vit_tinny_patch16_224"), "did you mean timm/vit_tiny_patch16_224?"),
        (("--compare", "B/l6"), "There is no net variant 'B/l6'"),
        (("--compare_loaders", "true", "--measure", "data"), "the other loaders read image files"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(value),
)
def test_wrong_words_are_answered_in_one_sentence(app, words, said):
    done = app(*PLAIN, *words)
    assert done.code == 1
    assert said in done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (("--variants", "B/16"), "--sizes with"),
        (("--figure", "x.png"), "--sizes with"),
        (("--compare", "Ti/16", "--measure", "fit,data"), "train or inference in --measure"),
        (("--compare_compiled", "true"), "--compare with"),
        (("--compare_compiled", "false"), "--compare with"),
        (("--compare_loaders", "true", "--measure", "train"), "data in --measure"),
        (("--batches", "auto", "--measure", "data"), "train, inference or fit in --measure"),
        (("--cap", "8"), "--batches auto or --sizes"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(value),
)
def test_a_flag_that_would_do_nothing_is_refused(app, words, needed):
    done = app(*PLAIN, *words)
    assert done.code == 1
    assert f"error: {words[0]}" in done.err and f"does nothing without {needed}" in done.err.splitlines()[-1]


@pytest.mark.parametrize(
    "words",
    [
        ("--compare", "Ti/16"),
        ("--compare_compiled", "true"),
        ("--compare_loaders", "true"),
        ("--measure", "inference"),
        ("--batches", "auto"),
        ("--rounds", "3"),
    ],
    ids=" ".join,
)
def test_what_sizes_replaces_is_refused_beside_it(app, words):
    done = app(*PLAIN, "--sizes", "16", *words)
    assert done.code == 1
    assert f"error: {words[0]}" in done.err and "does nothing beside --sizes" in done.err.splitlines()[-1]


@pytest.mark.parametrize("measure", ["train", "inference"])
def test_a_size_that_the_peer_cannot_take_is_one_sentence(app, measure):
    pytest.importorskip("timm")
    small = ("--data.image_size", 16, "--measure", measure)
    done = app(*BENCH, *small, "--compare", "timm/vgg11")
    assert done.code == 1
    said = done.err.splitlines()[-1]
    assert said.startswith("error: timm/vgg11 cannot take images of 16x16 pixels (")
    assert "made for 224x224; set image_size 224" in said and "Traceback" not in done.err


def test_a_peer_without_timm_names_the_extra(app, monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    done = app(*BENCH, "--measure", "train", "--compare", "timm/vit_tiny_patch16_224")
    assert done.code == 1
    assert 'pip install "vit-lightning[timm]"' in done.err.splitlines()[-1]


def test_other_errors_are_no_exhausted_memory():
    with pytest.raises(RuntimeError, match="shapes"):
        memory.fits(lambda: (_ for _ in ()).throw(RuntimeError("shapes differ")))


def test_measured_steps_send_gradients_through_the_whole_net(app, monkeypatch):
    """A head at zero sends none, and products of zeros are faster."""
    measured, task = [], Contender.task
    monkeypatch.setattr(Contender, "task", lambda self, *words: measured.append(self.model) or task(self, *words))
    done = app(*BENCH, "--measure", "train", "--model.optim.lr", 0.1)
    assert done.code == 0, done.err
    (model,) = measured
    assert model.optim.lr == 1e-5
    assert model.net.patches.proj.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--json", "."), "--json . cannot be written: it is a folder"),
        (("--json", "none/b.json"), "there is no folder none in "),
        (("--json", "/proc/b.json"), "--json /proc/b.json cannot be written: "),
        (("--sizes", "16", "--figure", "b.gif"), "--figure b.gif: expected a name that ends in .png, .pdf or .svg"),
        (("--sizes", "16", "--figure", "/proc/b.png"), "--figure /proc/b.png cannot be written: "),
        (("--measure", "inference", "--compare", "timm/nonet"), "timm has no net 'nonet'"),
        (("--measure", "train,fit", "--data.image_size", "30"), "do not divide the image size 30"),
        (("--measure", "train,data", "--compare_loaders", "true"), "the other loaders read image files"),
        (("--sizes", "32,6"), "do not divide the image size 6"),
        (("--sizes", "32", "--variants", "mu/8,B/l6"), "There is no net variant 'B/l6'"),
        (("--sizes", "32", "--variants", "mu/8,timm/nonet"), "timm has no net 'nonet'"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(value),
)
def test_every_word_is_looked_at_before_anything_is_measured(app, words, said):
    if "timm" in said:
        pytest.importorskip("timm")
    done = app(*PLAIN, *words)
    assert done.code == 1 and done.out == ""
    assert said in done.err.splitlines()[-1] and "Traceback" not in done.err


def test_a_figure_without_matplotlib_is_refused_first(app, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = app(*PLAIN, "--sizes", "16", "--figure", "sizes.png")
    assert done.code == 1 and done.out == ""
    assert 'pip install "vit-lightning[figures]"' in done.err.splitlines()[-1]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_image_that_the_peers_cannot_read_is_one_sentence(app, tmp_path, workers):
    pytest.importorskip("timm")
    from PIL import Image

    for name in ("cat", "dog"):
        (tmp_path / "set/train" / name).mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (40, 30), (number * 20, 0, 0)).save(tmp_path / "set/train" / name / f"{number}.jpg")
    (tmp_path / "set/train/cat/2.jpg").write_bytes(b"no image")
    lenient = ("--data.on_error", "skip", "--data.max_broken", 0.5, "--data.val_fraction", 0.25)
    folder = ("--data", "ImageFolder", "--data.root", "set", "--data.batch_size", 2, *lenient)
    small = ("--data.image_size", 32, "--data.num_workers", workers, "--trainer.accelerator", "cpu", *FAST)
    words = ("--measure", "data", "--compare_loaders", "true", "--model.net.variant", "mu/8")
    done = app("benchmark", *folder, *small, *words)
    assert done.code == 1 and "Traceback" not in done.err
    said = done.err.splitlines()[-1]
    assert "2.jpg cannot be read by timm's and torchvision's loaders" in said and "mend or remove it" in said


def test_sigterm_keeps_what_was_measured(app, monkeypatch):
    report = measurements.report

    def end(text: str) -> None:
        report(text)
        if text.startswith("inference: round 1/"):
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(measurements, "report", end)
    done = app(*BENCH, "--measure", "train,inference", "--json", "b.json")
    assert done.code == 143 and "interrupted" in done.err and "│ train" in done.out
    assert {row["measure"]: len(row["rounds"]) for row in figures()["rows"]} == {"train": 2, "inference": 1}
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_sigterm_inside_a_fit_keeps_what_was_measured(app, monkeypatch):
    report = measurements.report

    def end(text: str) -> None:
        report(text)
        if text.startswith("fit: round 1/"):
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(measurements, "report", end)
    handler = signal.getsignal(signal.SIGINT)
    try:
        done = app(*BENCH, "--measure", "fit", "--json", "b.json")
    finally:
        signal.signal(signal.SIGINT, handler)  # Lightning ignores it from its own interruption on
    assert done.code == 143
    assert [len(row["rounds"]) for row in figures()["rows"]] == [1, 1]
