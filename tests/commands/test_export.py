"""The verb export: what leaves computes what the net computes, names its classes and says where it comes from."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.commands.convert import convert
from vit_lightning.commands.export import export
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.runs.checkpoint_names import fingerprint
from vit_lightning.weights import deploy as deploying
from vit_lightning.weights import load_net
from vit_lightning.weights.card import write_card
from vit_lightning.weights.report import Report
from vit_lightning.weights.save import save

NAMES = ["tench", "teapot, lid on", "Zürich tram"]


def expected(checkpoint, images):
    net, report = load_net(checkpoint)
    mean, std = (torch.tensor(values)[:, None, None] for values in (report.mean, report.std))
    with torch.no_grad():
        return net.eval()((images - mean) / std)


@pytest.mark.parametrize("largest", [deploying.LARGEST, 0])
def test_onnx_has_a_free_batch_and_holds_all_facts(largest, random_checkpoint, tmp_path, difference, monkeypatch):
    """Small nets are one file, large ones have their tensors beside it."""
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(deploying, "LARGEST", largest)
    export(str(random_checkpoint), tmp_path / "out", "onnx", licence="apache-2.0")
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    for batch in (1, 3):
        images = torch.rand(batch, 3, 8, 12)
        logits = torch.from_numpy(session.run(["logits"], {"images": images.numpy()})[0])
        assert difference(logits, expected(random_checkpoint, images)) < 1e-5
    told = session.get_modelmeta().custom_metadata_map
    assert json.loads(told["class_names"]) == NAMES
    given = json.loads(told["input"])
    assert (given["size"], given["channels"], given["range"]) == ([8, 12], 3, [0, 1])
    assert given["normalisation"] == "inside" and not {"mean", "std"} & told.keys() and "0.485" not in str(told)


def test_onnx_takes_a_class_whose_name_is_no_utf_8(random_checkpoint, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    content = torch.load(random_checkpoint, weights_only=True)
    content["class_names"] = names = ["tench", "caf\udce9", "Zürich"]
    torch.save(content, random_checkpoint)
    export(str(random_checkpoint), tmp_path / "out", "onnx")
    told = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx").get_modelmeta().custom_metadata_map
    assert json.loads(told["class_names"]) == names


def test_torch_export_has_a_free_batch_and_holds_names(random_checkpoint, tmp_path, difference):
    export(str(random_checkpoint), tmp_path / "out", "torch_export")
    told = {"vit_lightning.json": ""}
    program = torch.export.load(tmp_path / "out" / "model.pt2", extra_files=told)
    for batch in (1, 3):
        images = torch.rand(batch, 3, 8, 12)
        with torch.no_grad():
            assert difference(program.module()(images), expected(random_checkpoint, images)) < 1e-5
    assert json.loads(told["vit_lightning.json"])["class_names"] == NAMES


def test_safetensors_holds_all_facts(random_checkpoint, tmp_path):
    export(str(random_checkpoint), tmp_path / "out", "safetensors")
    net, report = load_net(tmp_path / "out")
    assert report.class_names == NAMES
    assert report.mean == (0.485, 0.456, 0.406)
    assert torch.equal(net.head.weight, load_net(random_checkpoint)[0].head.weight)


def test_huggingface_opens_in_transformers(random_checkpoint, tmp_path, difference):
    transformers = pytest.importorskip("transformers")
    export(str(random_checkpoint), tmp_path / "out", "huggingface")
    net = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "out").eval()
    assert list(net.config.id2label.values()) == NAMES
    images = (torch.rand(2, 3, 8, 12) * 255).to(torch.uint8)
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "out")
    prepared = processor(list(images), return_tensors="pt")
    with torch.no_grad():
        assert difference(net(**prepared).logits, expected(random_checkpoint, images / 255)) < 1e-5


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
@pytest.mark.parametrize("way", [("huggingface",), ("safetensors", "huggingface"), ("huggingface", "huggingface")])
def test_a_pipeline_gives_the_probabilities_of_the_loss(random_checkpoint, tmp_path, loss, way):
    """Also where the weights went through another layout before."""
    transformers = pytest.importorskip("transformers")
    content = torch.load(random_checkpoint, weights_only=True)
    content["hyper_parameters"]["loss"] = loss
    torch.save(content, random_checkpoint)
    source = random_checkpoint
    for number, to in enumerate(way):
        export(str(source), tmp_path / str(number), to)
        source = tmp_path / str(number)
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 12, 3), np.uint8))
    shown = transformers.pipeline("image-classification", str(source))(image)
    logits = expected(random_checkpoint, torch.from_numpy(np.array(image)).permute(2, 0, 1)[None] / 255)[0]
    chances = logits.softmax(0) if loss == "softmax" else logits.sigmoid()
    assert {one["label"]: one["score"] for one in shown} == pytest.approx(
        dict(zip(NAMES, chances.tolist(), strict=True)), abs=1e-5
    )


@pytest.mark.parametrize(("loss", "said"), [("softmax", "A softmax over the logits"), ("sigmoid", "A sigmoid of a")])
def test_card_says_what_makes_probabilities(random_checkpoint, tmp_path, loss, said):
    """Those of programs: tests/commands/test_exported_interface.py."""
    content = torch.load(random_checkpoint, weights_only=True)
    content["hyper_parameters"]["loss"] = loss
    torch.save(content, random_checkpoint)
    export(str(random_checkpoint), tmp_path / "out", "safetensors")
    assert said in (tmp_path / "out" / "README.md").read_text()


def test_a_loss_that_is_none_is_left_out(random_checkpoint, tmp_path):
    content = torch.load(random_checkpoint, weights_only=True)
    content["hyper_parameters"]["loss"] = ["sigmoid"]
    torch.save(content, random_checkpoint)
    export(str(random_checkpoint), tmp_path / "out", "huggingface")
    assert "problem_type" not in (tmp_path / "out" / "config.json").read_text()


def test_card_of_a_net_without_a_head(tmp_path):
    net = build(NetConfig("mu/8"), 16, 0)
    save(net, Report("", ""), tmp_path / "net.ckpt", "checkpoint")
    export(str(tmp_path / "net.ckpt"), tmp_path / "out", "torch_export")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "pipeline_tag: image-feature-extraction" in card and "The net has no head" in card


def test_card_lists_classes_in_the_order_of_the_head(tmp_path):
    names = ["zebra", "ant", "10", "9", "Moth"]
    write_card(
        build(NetConfig("mu/8"), 16, 5), Report("", "", class_names=names), "onnx", "other", 0.0, tmp_path / "card"
    )
    lines = (tmp_path / "card").read_text().partition("## Classes")[2].split("\n")
    assert [line.partition(". ")[2] for line in lines if line] == names


def test_a_converted_checkpoint_keeps_its_loss(random_checkpoint, tmp_path):
    """Else predict would take a softmax for the sigmoid that the net was trained with."""
    content = torch.load(random_checkpoint, weights_only=True)
    content["hyper_parameters"]["loss"] = "sigmoid"
    torch.save(content, random_checkpoint)
    convert(str(random_checkpoint), tmp_path / "again.ckpt")
    assert torch.load(tmp_path / "again.ckpt", weights_only=True)["hyper_parameters"]["loss"] == "sigmoid"


def test_card_tells_licence_recipe_data_and_metrics(random_checkpoint, tmp_path):
    content = torch.load(random_checkpoint, weights_only=True)
    content["hyper_parameters"] |= {"optim": {"name": "sgd", "lr": 0.03, "betas": [0.9, 0.999]}, "freeze_trunk": True}
    content["hyper_parameters"]["schedule"] = {"decay": "cosine", "milestones": [0.5], "timescale": 9, "end_lr": 0.1}
    content["callbacks"] = {"ModelCheckpoint": {"monitor": "val/top1", "best_model_score": torch.tensor(0.75)}}
    content["global_step"] = 500
    run = tmp_path / "run" / "checkpoints"
    run.mkdir(parents=True)
    torch.save(content, run / "trained.ckpt")
    data = f"{{class_path: my.Pets, init_args: {{root: {tmp_path}, batch_size: 8}}}}"
    (tmp_path / "run" / "config.yaml").write_text(f"data: {data}")
    facts = {"scores": {"test/top1": 0.625}, "fingerprint": fingerprint(run / "trained.ckpt")}
    (tmp_path / "run" / "test.json").write_text(json.dumps(facts))
    export(str(run / "trained.ckpt"), tmp_path / "out", "safetensors", licence="apache-2.0")
    card = (tmp_path / "out" / "README.md").read_text()
    for line in (
        "license: apache-2.0",
        "| optim.lr | 0.03 |",
        '| data | "my.Pets" |',
        "| batch_size | 8 |",
        "| val/top1 | 0.75 |",
        "| test/top1 | 0.625 |",
        "| trained | the head alone; the net before it was frozen |",
        '| schedule.decay | "cosine" |',
        "| trained steps | 500 |",
        "| source | trained.ckpt |",
        "1. teapot, lid on",
    ):
        assert line in card, line
    assert str(tmp_path) not in card
    assert not any(idle in card for idle in ("betas", "milestones", "timescale", "end_lr"))


@pytest.mark.parametrize(("verb", "to"), [(export, "safetensors"), (convert, "checkpoint")])
def test_raw_weights_leave_on_request(random_checkpoint, tmp_path, verb, to):
    content = torch.load(random_checkpoint, weights_only=True)
    content["current_model_state"] = {name: tensor + 1 for name, tensor in content["state_dict"].items()}
    torch.save(content, tmp_path / "averaged.ckpt")
    for folder, raw in (("averaged", False), ("raw", True)):
        verb(str(tmp_path / "averaged.ckpt"), tmp_path / folder, to, raw=raw)
    averaged, raw = (load_net(tmp_path / folder)[0].head.bias for folder in ("averaged", "raw"))
    assert torch.allclose(raw, averaged + 1)


def test_wrong_program_is_refused_and_leaves_nothing(random_checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(deploying, "parity", lambda *_: float("nan"))
    with pytest.raises(InputError, match="differs from the net by nan"):
        export(str(random_checkpoint), tmp_path / "out", "torch_export")
    assert {path.name for path in tmp_path.iterdir()} == {"net.ckpt"}


def test_onnx_without_its_extra(random_checkpoint, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"onnxruntime: pip install \"vit-lightning\[onnx\]\""):
        export(str(random_checkpoint), tmp_path / "out", "onnx")


def test_a_name_that_promises_another_format_is_refused(random_checkpoint, tmp_path):
    with pytest.raises(InputError, match=r"ends in \.safetensors, but --to onnx .* give --to safetensors, or"):
        export(str(random_checkpoint), tmp_path / "net.safetensors")
    assert not (tmp_path / "net.safetensors").exists()


LIMITED = """
import resource, sys
from pathlib import Path
from vit_lightning.commands.convert import convert
from vit_lightning.commands.export import export
from vit_lightning.errors import InputError
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
for to in sys.argv[2:]:
    try:
        (convert if to in ("checkpoint", "npz", "timm") else export)(sys.argv[1], Path("out"), to)
    except InputError as error:
        print("refused:", error)
"""


def test_a_file_that_may_not_grow_leaves_nothing_behind(random_checkpoint, tmp_path):
    formats = ["checkpoint", "npz", "timm", "safetensors", "huggingface", "torch_export"] + ["onnx"] * (
        find_spec("onnxruntime") is not None
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    words = [sys.executable, "-c", LIMITED, str(random_checkpoint), *formats]
    (tmp_path / "empty").mkdir()
    done = subprocess.run(words, cwd=tmp_path / "empty", env=environment, capture_output=True, text=True)
    refused = [line for line in done.stdout.splitlines() if line.startswith("refused: out")]
    assert done.returncode == 0 and len(refused) == len(formats), done
    assert all("it would exceed the size that a file may have here; ulimit" in line for line in refused)
    assert not list((tmp_path / "empty").iterdir())


@pytest.mark.parametrize("verb", ["export", "convert"])
def test_a_name_that_is_too_long_is_one_sentence(random_checkpoint, app, verb):
    done = app(verb, str(random_checkpoint), "x" * 300)
    assert done.code == 1 and done.err.endswith(f"error: {'x' * 80}...: File name too long; give a shorter one\n")


@pytest.mark.parametrize("verb", ["export", "convert"])
def test_what_stands_in_the_way_is_said_before_the_weights_are_opened(app, verb):
    Path("taken").mkdir()
    Path("net.ckpt").write_bytes(b"no weights")
    done = app(verb, "net.ckpt", "taken", *(["--to", "timm"] if verb == "convert" else []))
    assert done.code == 1
    assert done.err.splitlines()[-1] == "error: taken exists already: choose another name, or remove it first."
