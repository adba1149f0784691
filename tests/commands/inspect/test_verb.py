"""The verb inspect through the command line."""

import json
import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.classifier import Classifier
from vit_lightning.inspection.attention import mean_distance, rollout
from vit_lightning.masked_patch import MaskedPatch
from vit_lightning.models import resolve
from vit_lightning.models.config import NetConfig

CPU = ("--trainer.accelerator", "cpu", "--data.num_workers", 0)
DIGITS = ("--data", "Digits", *CPU)
PNG = ("--formats", "[png]")
FEW = ("--images", 8, "--maps", 2, *PNG)


def save(made, path: str = "net.ckpt") -> None:
    facts = {"hyper_parameters": dict(made.hparams), "pytorch-lightning_version": "2.6.0"}
    facts["model"] = f"{type(made).__module__}.{type(made).__qualname__}"
    torch.save({"state_dict": made.state_dict()} | facts, path)


def model(num_classes: int = 10, size: int = 16, head: bool = True, **net) -> Classifier:
    torch.manual_seed(0)
    fields = {"variant": "mu/8", "depth": 2, "patch": 4} | net
    made = Classifier(net=fields, num_classes=num_classes, image_size=size)
    if head:
        torch.nn.init.normal_(made.net.head.weight)
    return made


def photos(count: int = 5, size: int = 16) -> None:
    Path("photos").mkdir()
    rng = np.random.default_rng(0)
    for number in range(count):
        Image.fromarray(rng.integers(0, 255, (size, size, 3), dtype=np.uint8)).save(f"photos/{number}.png")


def facts(folder: str = "inspection") -> dict:
    return json.loads((Path(folder) / "inspection.json").read_text())


def maps(folder: str = "inspection") -> list[dict]:
    return [dict(np.load(path)) for path in sorted((Path(folder) / "images").iterdir())]


def test_every_figure_of_a_small_net(app):
    made = model(registers=1)
    save(made)
    done = app("inspect", "net.ckpt", *DIGITS, "--data.image_size", 16, "--images", 20, "--maps", 2)
    assert done.code == 0, done.err
    assert "looked at 20 images, " in done.out and "images/s" in done.out and "inspected net.ckpt" in done.out
    for name in ("distance", "position", "filters", "artefacts", "embedding_pca", "embedding_tsne"):
        for ending in ("png", "svg", "npz"):
            assert (Path("inspection") / f"{name}.{ending}").stat().st_size > 100
        assert f"inspection/{name}.{{png,svg,npz}}" in done.out
    for name in ("rollout", "pca_maps", "relevance"):
        assert Image.open(f"inspection/{name}.png").size[0] > 300
    assert len(list(Path("inspection/heads").glob("*.png"))) == 2
    assert not list(Path("inspection").glob(".*")) and not Path("inspection/ablation_heads.png").exists()
    assert facts()["images"] == 20 and facts()["grid"] == [4, 4] and facts()["split"] == "validation"


def test_the_arrays_are_those_of_the_net(app):
    made = model(pool="gap", class_token=True).eval()
    save(made)
    photos()
    words = ("inspect", "net.ckpt", "photos", *CPU, *PNG)
    done = app(*words, "--layers", "[0,-1]", "--relevance_class", 7)
    assert done.code == 0, done.err
    images = torch.stack([torch.from_numpy(np.array(Image.open(f"photos/{n}.png"))).permute(2, 0, 1) for n in range(5)])
    with torch.no_grad():
        seen = made.normalise(images)
        attention, logits = made.net.attention(seen), made.net(seen)
    distances = mean_distance(attention, (4, 4), 4, prefix=1)
    np.testing.assert_allclose(facts()["mean_distance"]["pixels"], distances.mean(1), atol=1e-4)
    rolled, found = rollout(attention, (4, 4), 1, "patches"), maps()
    assert [str(one["name"]) for one in found] == [f"{n}.png" for n in range(5)]
    for number, one in enumerate(found):
        np.testing.assert_allclose(one["rollout"], rolled[number], atol=1e-6)
        np.testing.assert_allclose(one["image"], images[number].permute(1, 2, 0) / 255, atol=1e-6)
        for layer in (0, 1):
            rows = attention[layer][number][:, 1:, 1:].mean(1).reshape(-1, 4, 4)
            np.testing.assert_allclose(one[f"heads_{layer}"], rows, atol=1e-6)
        assert one["class"] == 7 and one["best"] == logits[number].argmax()
        np.testing.assert_allclose(one["probability"], logits[number].softmax(0)[7], atol=1e-5)
        np.testing.assert_allclose(one["gradient_free_relevance"].mean(), logits[number, 7], atol=1e-4)
        assert one["pca"].shape == (4, 4, 3) and one["gradient_relevance"].shape == (4, 4)
    first = Path("inspection/rollout.png").read_bytes(), facts()["pca_shares"], maps()
    again = app(*words, "--figures", "[rollout,pca]", "--data.batch_size", 2)
    assert again.code == 0 and facts()["pca_shares"] == pytest.approx(first[1])
    with Image.open("inspection/rollout.png") as other, Image.open(BytesIO(first[0])) as one:
        assert np.abs(np.asarray(one).astype(int) - np.asarray(other)).mean() < 0.5
    for one, other in zip(first[2], maps(), strict=True):
        np.testing.assert_allclose(one["pca"], other["pca"], atol=1e-4)


@pytest.mark.parametrize(
    ("made", "missing"),
    [
        (lambda: model(head=False), "left out relevance: the head of the net is all zeros"),
        (lambda: model(position="relative", pool="gap"), "left out position: the net has relative positions"),
        (lambda: model(attention="axial", pool="gap", position="none"), "left out position: the net has no position"),
        (lambda: model(pool="map", position="sincos_2d", registers=2), ""),
        (lambda: model(variant="R26+S/32", stages=(1,), patch=1, width=32, heads=2, mlp=32, size=32), ""),
        (lambda: model(stride=2), ""),
        (lambda: MaskedPatch(net={"variant": "mu/8", "depth": 1}, num_classes=0, image_size=16), "has no head"),
    ],
    ids=["no head", "relative", "axial", "map", "hybrid", "overlapping", "masked patch"],
)
def test_nets_of_all_kinds(app, made, missing):
    save(made())
    done = app("inspect", "net.ckpt", *DIGITS, *FEW)
    assert done.code == 0, done.err
    assert (missing in done.out) if missing else ("left out" not in done.out)
    assert Path("inspection/rollout.png").exists()


def test_another_image_size_says_that_positions_were_resampled(app):
    save(model())
    done = app("inspect", "net.ckpt", *DIGITS, *FEW, "--data.image_size", 24, "--figures", "[position]")
    assert done.code == 0, done.err
    assert "resampled from images of 16x16 pixels to 24x24" in facts()["position"]
    assert not Path("inspection/rollout.png").exists() and len(maps()) == 2


def test_ablation_where_it_is_asked_for(app):
    save(model())
    done = app("inspect", "net.ckpt", *DIGITS, *FEW, "--figures", "[ablation]", "--ablation_images", 4)
    assert done.code == 0, done.err
    lost = np.load("inspection/ablation_heads.npz")
    assert lost["mean"].shape == lost["shuffle"].shape == (2, resolve(NetConfig("mu/8")).heads)
    assert lost["mean"].min() > 0 and "on 4 images" in done.out
    assert set(np.load("inspection/ablation_tokens.npz")) == {
        f"{by}_{kind}" for by in ("mean", "shuffle") for kind in ("class token", "patches")
    }


def writing_artefacts() -> Classifier:
    """A net in which neuron 7 of block 1 answers to white patches, and gives them a large norm."""
    made = model(variant="mu/16", patch=8, width=32, heads=2, mlp=48, size=32, position="sincos_2d", pool="gap")
    with torch.no_grad():
        made.net.patches.proj.weight.zero_()
        made.net.patches.proj.weight[0] = 1 / 64
        for block in made.net.blocks:
            block.attention.out.weight.zero_()
        mlp = made.net.blocks[1].mlp
        mlp.up.weight[7] = 0
        mlp.up.weight[7, 0], mlp.up.bias[7] = 4, -10
        mlp.down.weight[:, 7] = 20
    return made


def test_artefacts_are_named_and_test_time_registers_take_them(app):
    save(writing_artefacts())
    Path("photos").mkdir()
    for number in range(4):
        pixels = np.full((32, 32, 3), 128, dtype=np.uint8)
        pixels[8:16, 16:24] = 255
        Image.fromarray(pixels).save(f"photos/{number}.png")
    done = app("inspect", "net.ckpt", "photos", *CPU, *PNG, "--figures", "[artefacts]")
    assert done.code == 0, done.err
    assert "6.25 % of the patches have more than twice the median norm" in done.out
    assert facts()["artefacts"]["emerge_at_block"] == 1
    found = facts()["test_time_registers"]
    assert found["neurons"][0] == [1, 7] and (found["share_before"], found["share_after"]) == (1 / 16, 0)
    assert Path("inspection/artefacts_remedy.png").exists() and "artefacts become 0 %" in done.out


def test_a_run_folder_is_inspected_there_and_its_loggers_get_images(app):
    fit = app("fit", "--data", "Digits", "--model.net.variant", "mu/8", "--trainer.max_epochs", 1, *CPU)
    assert fit.code == 0, fit.err
    logger = ("--trainer.logger", "TensorBoardLogger", "--trainer.logger.save_dir", "logs")
    done = app("inspect", "runs/default/0", *CPU, *FEW, "--figures", "[distance,embedding]", *logger)
    assert done.code == 0, done.err
    assert facts("runs/default/0/inspection")["net"].endswith("checkpoints/best.ckpt")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(next(Path("logs").rglob("events*")).parent)).Reload()
    assert "inspection/distance" in events.Tags()["images"]


def test_broken_images_are_left_out_and_counted(app):
    save(model())
    photos(4)
    Path("photos/2.png").write_bytes(Path("photos/2.png").read_bytes()[:60])
    done = app("inspect", "net.ckpt", "photos", *CPU, *PNG, "--data.batch_size", 3)
    assert done.code == 0, done.err
    assert "looked at 3 images" in done.out and "1 more could not be read" in done.out
    assert [str(one["name"]) for one in maps()] == ["0.png", "1.png", "3.png"]


def test_images_of_one_class_and_many_pages(app):
    save(model(2))
    photos(19)
    Path("set/val/a").mkdir(parents=True)
    for split in ("train/a", "train/b", "val/b"):
        Path("set", split).mkdir(parents=True)
    for path in sorted(Path("photos").iterdir()):
        path.rename(Path("set/val/a", path.name))
    for split in ("train/a", "train/b"):
        Image.new("RGB", (16, 16)).save(f"set/{split}/x.png")
    words = ("--data", "ImageFolder", "--data.root", "set", "--data.image_size", 16, *CPU, *PNG)
    done = app("inspect", "net.ckpt", *words, "--maps", 17, "--figures", "[rollout,embedding]", "--embeddings", "[pca]")
    assert done.code == 0, done.err
    assert "all images are of one class" in done.out
    assert Path("inspection/rollout_2.png").exists() and len(maps()) == 17


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--layers", "[2]"), "--layers 2: the net has 2 attention layers; give 0 to 1, or -1 for the last"),
        (("--heads", "[-9]"), "--heads -9: the net has 2 heads in each layer; give 0 to 1"),
        (("--images", 0), "--images is 0, expected 1 or more"),
        (("--ablation_images", 1), "--ablation_images is 1, expected 2 or more"),
        (("--figures", "[]"), "--figures is empty; give one or more"),
        (("--figures", "[rollot]"), "rollot"),
        (("--relevance_class", "cat"), "the net has 10 classes, none of them 'cat'"),
        (("--relevance_class", "10"), "give a name, or a number from 0"),
        (("--relevance_class", "1", "--figures", "[rollout]"), "goes with the figure relevance"),
        (("--images", 3, "--figures", "[embedding]"), "a map of 3 images shows nothing; give 4 or more"),
        (("--images", 1, "--figures", "[ablation]"), "two images or more"),
        (("--trainer.limit_predict_batches", 2), "inspect takes so many images as --images says"),
        (("--trainer.devices", 2), "inspect runs on one device, not on 2; give --trainer.devices 1"),
        (("--out", "net.ckpt"), "net.ckpt"),
        (("photos/none",), "no image matches it"),
    ],
)
def test_wrong_words_end_in_one_sentence(app, words, said):
    save(model())
    data = () if words[0].startswith("photos") else ("--data", "Digits")
    plain, flags = ([words[0]], words[1:]) if words[0].startswith("photos") else ([], words)
    done = app("inspect", "net.ckpt", *plain, *data, *CPU, *PNG, *flags)
    assert done.code == 1 and said in done.err.splitlines()[-1], done.err
    assert done.err.splitlines()[-1].startswith("error: ")
    assert not list(Path("inspection").rglob("*")) if Path("inspection").exists() else True


@pytest.mark.parametrize(
    ("net", "said"),
    [
        ({"variant": "R50x1", "stages": (1,)}, "R50x1 has no attention to look at; give a ViT or a hybrid"),
        ({"variant": "timm/resnet10t"}, "timm/resnet10t has no attention to look at"),
    ],
)
def test_a_net_without_attention_is_refused(app, net, said):
    pytest.importorskip("timm")
    torch.manual_seed(0)
    save(Classifier(net=net, num_classes=10, image_size=32))
    done = app("inspect", "net.ckpt", *DIGITS, "--data.image_size", 32)
    assert done.code == 1 and said in done.err.splitlines()[-1], done.err


def test_figures_by_name_that_a_net_has_not_are_an_error(app):
    save(model(head=False))
    done = app("inspect", "net.ckpt", *DIGITS, *FEW, "--figures", "[relevance]")
    assert done.code == 1 and "the figure relevance cannot be drawn: the head of the net is all zeros" in done.err


def test_a_figure_that_is_impossible_is_refused_before_any_image_is_looked_at(app):
    save(model(position="none", pool="gap"))
    done = app("inspect", "net.ckpt", *DIGITS, *FEW, "--figures", "[position]")
    assert done.code == 1 and "the figure position cannot be drawn: the net has no position" in done.err
    assert "looked at" not in done.out and not list(Path("inspection").iterdir())
    done = app("inspect", "net.ckpt", *DIGITS, *FEW, "--figures", "[distance,position]")
    assert done.code == 0 and "left out position: the net has no position" in done.out, done.err
    assert Path("inspection/distance.png").is_file() and not Path("inspection/position.png").exists()


def test_without_a_net_or_matplotlib(app, monkeypatch):
    done = app("inspect", *DIGITS)
    assert done.code == 1 and "inspect needs a trained net" in done.err
    save(model())
    monkeypatch.setattr("vit_lightning.inspection.drawing.style.find_spec", lambda name: None)
    done = app("inspect", "net.ckpt", *DIGITS)
    assert (
        done.code == 1 and 'figures need matplotlib: pip install "vit-lightning[figures]"' in done.err.splitlines()[-1]
    )


def test_as_its_own_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(model())
    photos(4)
    words = [sys.executable, "-m", "vit_lightning", "inspect", "net.ckpt", "photos", *map(str, (*CPU, *PNG))]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert (
        "looked at 4 images" in done.stdout
        and Path("inspection/rollout.png").exists()
        and "Traceback" not in done.stderr
    )
