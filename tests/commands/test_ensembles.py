"""Several nets as one: ensembles in test and predict, and the mean with mirror images, beside each net alone."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from datamodules.folder import ImageFolder
from vit_lightning.classifier import Classifier

CLASSES = ["bird", "car", "cat"]
WORDS = ("--data", "ImageFolder", "--data.root", "set", "--data.image_size", 8, "--data.batch_size", 4)
WORDS += ("--trainer.accelerator", "cpu", "--data.num_workers", 0)


def net(seed: int, loss: str = "softmax", classes: int = 3, **facts) -> Classifier:
    torch.manual_seed(seed)
    model = Classifier(net={"variant": "mu/8"}, num_classes=classes, image_size=8, loss=loss, **facts)
    for parameter in model.net.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def save(path: str, model: Classifier, names: list[str] = CLASSES) -> None:
    facts = {"hyper_parameters": dict(model.hparams), "pytorch-lightning_version": "2.6.0", "class_names": names}
    torch.save({"state_dict": model.state_dict(), "model": "vit_lightning.classifier.Classifier"} | facts, path)


@pytest.fixture
def nets(app, tmp_path):
    """Three nets of other weights, one of which normalises otherwise, and 31 images of their classes."""
    for number in range(31):
        for split in ("train", "test"):
            path = tmp_path / "set" / split / CLASSES[number % 3] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.random.default_rng(number).integers(0, 256, (11, 9, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path)
    for seed in range(3):
        save(f"{seed}.ckpt", net(seed, mean=(0.1 * seed + 0.4,) * 3))
    return app


def images() -> tuple[torch.Tensor, torch.Tensor]:
    data = ImageFolder(root=Path("set"), image_size=8, batch_size=31, num_workers=0)
    data.setup("test")
    return next(iter(data.test_dataloader()))


def shares(model: Classifier, pixels: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        logits = model(pixels)
    return logits.softmax(-1) if model.hparams.loss == "softmax" else logits.sigmoid()


def top1(probabilities: torch.Tensor, labels: torch.Tensor) -> float:
    return float((probabilities.argmax(-1) == labels).float().mean())


def rows(out: str) -> dict[str, float]:
    found = {}
    for line in out.splitlines():
        if match := re.match(r"\s*(test|without flip|\S+\.ckpt)\s+31\s.*?(?:\d\s+)?([\d.]+) %", line):
            found[match[1]] = float(match[2]) / 100
    return found


@pytest.mark.parametrize("flip", [False, True])
def test_an_ensemble_is_scored_beside_each_of_its_members(nets, flip):
    words = ("--ckpt_path", "0.ckpt", "--ckpt_path", "1.ckpt", "--ckpt_path", "2.ckpt")
    done = nets("test", *WORDS, *words, *(("--model.flip", "true") if flip else ()))
    assert done.code == 0, done.err
    pixels, labels = images()
    models = [net(seed, mean=(0.1 * seed + 0.4,) * 3) for seed in range(3)]
    alone = [shares(model, pixels) for model in models]
    views = alone + ([shares(model, pixels.flip(-1)) for model in models] if flip else [])
    expected = {f"{seed}.ckpt": top1(each, labels) for seed, each in enumerate(alone)}
    expected["test"] = top1(torch.stack(views).mean(0), labels)
    assert rows(done.out) == pytest.approx(expected, abs=1e-4)
    gain = 100 * (expected["test"] - max(expected[f"{seed}.ckpt"] for seed in range(3)))
    than = f"{abs(gain):.2f} points of top-1 {'better' if gain > 0 else 'worse'} than" if abs(gain) > 0.004 else ""
    assert f"the 3 nets together are {than or 'as good in top-1 as'} the best alone, " in done.out
    again = nets("test", "0.ckpt", "1.ckpt", "2.ckpt", *WORDS, *(("--model.flip", "true") if flip else ()))
    assert rows(again.out) == rows(done.out), again.err


def test_two_processes_score_an_ensemble_and_flips_as_one_does(nets, together):
    """31 images: no batch and no number of processes divides them."""
    for words in (("0.ckpt", "1.ckpt", "2.ckpt"), ("1.ckpt",)):
        line = ("test", *words, *WORDS, "--model.flip", "true")
        alone = nets(*line)
        assert alone.code == 0, alone.err
        both = together(*line, "--trainer.devices", 2, "--trainer.strategy", "ddp")
        assert len(rows(alone.out)) == len(words) + 1
        assert rows(both) == rows(alone.out), both
        gain = next(line for line in alone.out.splitlines() if "the best alone" in line)
        assert gain in both


def test_a_flip_is_scored_beside_the_net_without_it(nets):
    done = nets("test", "1.ckpt", *WORDS, "--model.flip", "true")
    assert done.code == 0, done.err
    pixels, labels = images()
    model = net(1, mean=(0.5,) * 3)
    plain, mirrored = shares(model, pixels), shares(model, pixels.flip(-1))
    expected = {"without flip": top1(plain, labels), "test": top1((plain + mirrored) / 2, labels)}
    assert rows(done.out) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_predict_gives_the_mean_probabilities(nets, loss):
    for seed in range(2):
        save(f"{seed}.ckpt", net(seed, loss))
    words = ("--ckpt_path", "0.ckpt", "--ckpt_path", "1.ckpt", "--model.flip", "true", "--top", "all")
    done = nets("predict", *WORDS, *words, "--out", "x.jsonl")
    assert done.code == 0, done.err
    pixels, _ = images()
    views = [shares(net(seed, loss), each) for seed in range(2) for each in (pixels, pixels.flip(-1))]
    found = [list(json.loads(line)["probabilities"].values()) for line in Path("x.jsonl").read_text().splitlines()]
    assert torch.allclose(torch.tensor(found), torch.stack(views).mean(0), atol=1e-5)


@pytest.mark.parametrize("names", [["0.ckpt"], ["0.ckpt", "1.ckpt"], ["1.ckpt", "0.ckpt"]])
def test_low_rank_updates_answer_alone_and_in_an_ensemble(nets, names):
    models = {"0.ckpt": net(0, lora={"rank": 2, "alpha": 4.0}), "1.ckpt": net(1)}
    for path, model in models.items():
        save(path, model)
    pixels, labels = images()
    alone = [shares(models[name], pixels) for name in names]
    plain = net(0)
    plain.load_state_dict({key: tensor for key, tensor in models["0.ckpt"].state_dict().items() if ".lora." not in key})
    assert not torch.allclose(shares(plain, pixels), shares(models["0.ckpt"], pixels), atol=1e-3)
    words = [word for name in names for word in ("--ckpt_path", name)]
    done = nets("predict", *WORDS, *words, "--top", "all", "--out", "x.jsonl")
    assert done.code == 0, done.err
    found = [list(json.loads(line)["probabilities"].values()) for line in Path("x.jsonl").read_text().splitlines()]
    assert torch.allclose(torch.tensor(found), torch.stack(alone).mean(0), atol=1e-5)
    scored = rows(nets("test", *names, *WORDS).out)
    assert scored["test"] == pytest.approx(top1(torch.stack(alone).mean(0), labels), abs=1e-4)


def test_run_folders_are_members_too(nets, tmp_path):
    words = ("--model.net.variant", "mu/8", "--trainer.max_epochs", 1, "--name", "x")
    for seed in (0, 1):
        assert nets("fit", *WORDS, *words, "--seed_everything", seed).code == 0
    done = nets("test", "runs/x/0", "runs/x/1")
    assert done.code == 0, done.err
    assert re.search(r"runs/x/0/checkpoints/best\.ckpt +31", done.out)
    assert re.search(r"runs/x/1/checkpoints/best\.ckpt +31", done.out)
    assert "test.mean.mistakes.csv" in done.out
    assert not list(Path("runs/x/0").glob("test.[!m]*"))  # those names are the run's own


def facts_of(path: str) -> dict:
    return json.loads(Path(path).read_text())


@pytest.mark.parametrize("verb", ["test", "validate"])
def test_scores_of_several_nets_replace_those_of_none(nets, verb):
    words = ("--model.net.variant", "mu/8", "--trainer.max_epochs", 1, "--name", "x")
    for seed in range(3):
        assert nets("fit", *WORDS, *words, "--seed_everything", seed).code == 0
        assert nets(verb, f"runs/x/{seed}").code == 0
    before = {path: path.read_bytes() for path in Path("runs").rglob(f"{verb}.*")}
    own = [facts_of(f"runs/x/{seed}/{verb}.json")["scores"] for seed in range(3)]
    pairs = (("runs/x/0", "runs/x/1"), ("runs/x/0", "runs/x/2"), ("runs/x/0", "runs/x/1"))
    for pair in pairs:
        assert nets(verb, *pair).code == 0
    assert {path: path.read_bytes() for path in before} == before
    files = sorted(path.name for path in Path("runs/x/0").glob(f"{verb}.mean*.json"))
    assert files == [f"{verb}.mean-2.json", f"{verb}.mean.json"]
    for name, second in ((f"{verb}.mean.json", 1), (f"{verb}.mean-2.json", 2)):
        members = facts_of(f"runs/x/0/{name}")["members"]
        assert [Path(one["checkpoint"]).parts[-4:-2] for one in members] == [("x", "0"), ("x", str(second))]
        for one, expected in zip(members, (own[0], own[second]), strict=True):
            assert one["scores"] == pytest.approx(expected, abs=1e-5)
    assert "checkpoint" not in facts_of(f"runs/x/0/{verb}.mean.json")
    assert Path(f"runs/x/0/{verb}.mean-2.classes.csv").is_file()


def test_every_score_of_every_member_stands_in_the_table(nets):
    done = nets("test", "0.ckpt", "1.ckpt", *WORDS)
    lines = [line.split() for line in done.out.splitlines() if re.match(r"\s*(test|\d\.ckpt)\s+31 ", line)]
    assert [line[0] for line in lines] == ["test", "0.ckpt", "1.ckpt"] and len({len(line) for line in lines}) == 1
    alone = nets("test", "1.ckpt", *WORDS)
    row = next(line.split() for line in alone.out.splitlines() if line.lstrip().startswith("test"))
    assert lines[2][1:] == row[1:]


def test_nets_of_other_answers_are_refused(nets):
    save("classes.ckpt", net(0, classes=4), ["a", "b", "c", "d"])
    save("names.ckpt", net(0), ["bird", "cat", "car"])
    save("loss.ckpt", net(0, "sigmoid"))
    for name, said in (
        ("classes.ckpt", "classes.ckpt has other classes than the first net, 4 where that has 3"),
        ("names.ckpt", "names.ckpt has other class names than the first net"),
        ("loss.ckpt", "loss.ckpt has other loss than the first net, sigmoid where that has softmax"),
        ("nowhere.ckpt", "no weights at 'nowhere.ckpt'"),
    ):
        done = nets("test", *WORDS, "--ckpt_path", "0.ckpt", "--ckpt_path", name)
        assert done.code == 1 and said in done.err.splitlines()[-1], done.err
    words = ("--ckpt_path", "0.ckpt", "--ckpt_path", "1.ckpt", "--features", "f.npz")
    done = nets("predict", *WORDS, *words)
    assert done.code == 1 and "--features f.npz are of one net" in done.err and not Path("f.npz").exists()


def test_nets_of_other_image_sizes_are_refused(nets):
    """Both pixels and names are those of the first run, whose size would be taken for all."""
    words = ("--model.net.variant", "mu/8", "--trainer.max_epochs", 1, "--name", "x")
    for size in (16, 8):
        assert nets("fit", *WORDS, *words, "--data.image_size", size).code == 0
    said = "runs/x/1/checkpoints/best.ckpt was trained on images of 8x8 pixels, and runs/x/0/checkpoints/best.ckpt on"
    checkpoints = [word for run in (0, 1) for word in ("--ckpt_path", f"runs/x/{run}/checkpoints/best.ckpt")]
    for line in (("test", "runs/x/0", "runs/x/1"), ("validate", "runs/x/0", "runs/x/1"), ("predict", *checkpoints)):
        done = nets(*line)
        assert done.code == 1 and f"{said} 16x16, so that they cannot answer together; give" in done.err, done.err
    assert not list(Path("runs").rglob("test*")) and not list(Path().rglob("predictions*"))


def test_runs_that_bring_images_to_size_differently_are_refused(nets):
    words = ("--model.net.variant", "mu/8", "--trainer.max_epochs", 1, "--name", "x")
    for way in ("resize", "center", "center"):
        assert nets("fit", *WORDS, *words, "--data.augment.evaluation", way).code == 0
    for verb in ("test", "validate", "average"):
        done = nets(verb, "runs/x/0", "runs/x/1", *(("--out", "soup.ckpt") if verb == "average" else ()))
        said = "the images of runs/x/1 were brought to size by evaluation center, zoom 1.16"
        assert (
            done.code == 1
            and said in done.err
            and "of runs/x/0/checkpoints/best.ckpt by evaluation resize;" in done.err
        )
    assert nets("test", "runs/x/1", "runs/x/2").code == 0
    assert nets("test", "runs/x/0", "runs/x/1", "--data.augment.evaluation", "center").code == 0


def test_every_member_is_held_to_the_split_that_it_was_trained_on(nets, tmp_path):
    """The second run drew another split of the same images, so that it was trained on some that the first tests on."""
    (tmp_path / "set/test").rename(tmp_path / "photos")
    words = (*WORDS, "--data.root", "photos", "--model.net.variant", "mu/8")
    for number in range(2):
        assert nets("fit", *words, "--data.split_seed", number, "--name", "drawn").code == 0
    done = nets("test", "runs/drawn/0", "runs/drawn/1")
    assert done.code == 1 and not Path("runs/drawn/0/test.mean.json").exists()
    assert "1/checkpoints/best.ckpt: the checkpoint was trained with another split: --data.split_seed 0" in done.err
    assert nets("test", "runs/drawn/0", "runs/drawn/0").code == 0
