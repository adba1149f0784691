"""An exported program says all that its caller must know: a client that reads nothing else gets the net's answers."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from vit_lightning import Predictor
from vit_lightning.commands.export import export

PICTURES = [(37, 51), (8, 12), (60, 9), (5, 6)]
"""Heights and widths."""


def told_by_onnx(folder: Path) -> tuple[dict, object]:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    facts = {name: json.loads(text) for name, text in session.get_modelmeta().custom_metadata_map.items()}
    names = facts["input"]["name"], facts["output"]["name"]
    return facts, lambda images: session.run([names[1]], {names[0]: images})[0]


def told_by_torch(folder: Path) -> tuple[dict, object]:
    told = {"vit_lightning.json": ""}
    program = torch.export.load(folder / "model.pt2", extra_files=told).module()
    return json.loads(told["vit_lightning.json"]), lambda images: program(torch.from_numpy(images)).detach().numpy()


def sized(image: Image.Image, given: SimpleNamespace) -> Image.Image:
    """As the metadata say, by Pillow."""
    assert given.interpolation == "bilinear, antialiased"
    (tall, wide), (height, width) = given.resize_to, given.size
    if given.resize == "cover":
        scale = max(tall / image.height, wide / image.width)
        tall, wide = round(scale * image.height), round(scale * image.width)
    image = image.resize((wide, tall), Image.Resampling.BILINEAR)
    if given.crop == "center":
        top, left = round((tall - height) / 2), round((wide - width) / 2)
        image = image.crop((left, top, left + width, top + height))
    return image


def answer(facts: dict, run, image: Image.Image) -> dict[str, float]:
    given = SimpleNamespace(**facts["input"])
    assert (given.axes, given.type, given.normalisation) == ("b c y x", "float32", "inside")
    pixels = np.asarray(sized(image.convert({"RGB": "RGB", "grey": "L"}[given.colours]), given), np.float32)
    pixels = pixels.reshape(*pixels.shape[:2], given.channels) / 255
    low, high = given.range
    logits = run((low + pixels * (high - low)).transpose(2, 0, 1)[None].astype(np.float32))[0]
    if facts["output"]["probabilities"] == "sigmoid":
        scores = 1 / (1 + np.exp(-logits))
    else:
        scores = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    return dict(zip(facts["class_names"], scores.tolist(), strict=True))


def smooth(height: int, width: int) -> Image.Image:
    """A picture in which two resizings that round otherwise agree."""
    y, x = np.mgrid[:height, :width]
    shades = [8 * (y // 3) % 256, 8 * (x // 4) % 256, (40 + 2 * (y + x)) % 256]
    return Image.fromarray(np.stack(shades, -1).astype(np.uint8))


@pytest.mark.parametrize(
    ("loss", "evaluation", "said"),
    [("softmax", "resize", "A softmax over the logits"), ("sigmoid", "center", "A sigmoid of a")],
)
@pytest.mark.parametrize(("to", "told_by"), [("onnx", told_by_onnx), ("torch_export", told_by_torch)])
def test_the_metadata_alone_give_the_answers_of_the_run(
    random_checkpoint, tmp_path, to, told_by, loss, evaluation, said
):
    pytest.importorskip("onnxruntime")
    content = torch.load(random_checkpoint, weights_only=True)
    content["hyper_parameters"]["loss"] = loss
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    torch.save(content, run / "checkpoints/best.ckpt")
    augment = {"evaluation": evaluation, "zoom": 1.25}
    config = {"data": {"class_path": "datamodules.ImageFolder", "init_args": {"augment": augment}}}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    export(str(run / "checkpoints/best.ckpt"), tmp_path / "out", to)
    facts, program = told_by(tmp_path / "out")
    predictor = Predictor(run / "checkpoints/best.ckpt", device="cpu")
    for height, width in PICTURES:
        image = smooth(height, width)
        assert answer(facts, program, image) == pytest.approx(predictor(image), abs=1e-5), (height, width)
    card = (tmp_path / "out/README.md").read_text()
    assert "Do not normalise: mean and std are inside." in card and said in card
    assert "0.485" not in card and "0.485" not in json.dumps(facts)
    assert ("take the middle 8 x 12 pixels" if evaluation == "center" else "the whole image to 8 x 12 pixels") in card


@pytest.mark.parametrize("to", ["safetensors", "huggingface"])
def test_mean_and_std_stand_where_someone_must_apply_them(random_checkpoint, tmp_path, to):
    export(str(random_checkpoint), tmp_path / "out", to)
    card = (tmp_path / "out/README.md").read_text()
    assert "| mean | (0.485, 0.456, 0.406) |" in card and "| normalisation | by the " in card


def test_a_loss_that_is_not_known_is_not_guessed(random_checkpoint, tmp_path):
    pytest.importorskip("onnxruntime")
    export(str(random_checkpoint), tmp_path / "out", "onnx")
    assert told_by_onnx(tmp_path / "out")[0]["output"]["probabilities"] is None
