"""The verb export: what leaves computes what the net computes, names its classes and says where it comes from."""

import json
import sys

import pytest
import torch

from vit_lightning.commands.export import export
from vit_lightning.errors import InputError
from vit_lightning.weights import deploy as deploying
from vit_lightning.weights import load_net

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
    assert json.loads(told["hyper_parameters"])["mean"] == [0.485, 0.456, 0.406]


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


def test_card_tells_licence_recipe_data_and_metrics(random_checkpoint, tmp_path):
    content = torch.load(random_checkpoint, weights_only=True)
    content["hyper_parameters"]["optim"] = {"name": "sgd", "lr": 0.03}
    content["callbacks"] = {"ModelCheckpoint": {"monitor": "val/top1", "best_model_score": torch.tensor(0.75)}}
    content["global_step"] = 500
    run = tmp_path / "run" / "checkpoints"
    run.mkdir(parents=True)
    torch.save(content, run / "trained.ckpt")
    data = f"{{class_path: my.Pets, init_args: {{root: {tmp_path}, batch_size: 8}}}}"
    (tmp_path / "run" / "config.yaml").write_text(f"data: {data}")
    export(str(run / "trained.ckpt"), tmp_path / "out", "safetensors", licence="apache-2.0")
    card = (tmp_path / "out" / "README.md").read_text()
    for line in (
        "license: apache-2.0",
        "| optim.lr | 0.03 |",
        '| data | "my.Pets" |',
        "| batch_size | 8 |",
        "| val/top1 | 0.75 |",
        "| trained steps | 500 |",
        "| source | trained.ckpt |",
        "1. teapot, lid on",
    ):
        assert line in card, line
    assert str(tmp_path) not in card


def test_raw_weights_leave_on_request(random_checkpoint, tmp_path):
    content = torch.load(random_checkpoint, weights_only=True)
    content["current_model_state"] = {name: tensor + 1 for name, tensor in content["state_dict"].items()}
    torch.save(content, tmp_path / "averaged.ckpt")
    for folder, raw in (("averaged", False), ("raw", True)):
        export(str(tmp_path / "averaged.ckpt"), tmp_path / folder, "safetensors", raw=raw)
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
