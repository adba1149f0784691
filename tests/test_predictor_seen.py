"""What Predictor's net sees of an image: its size, its values; and how its scores are ordered."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as F

from vit_lightning import Predictor
from vit_lightning import predictor as predictor_module
from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights.report import Report
from vit_lightning.weights.save import save

NAMES = ["bird", "car", "cat"]
CHANCE = np.random.default_rng(0)


def made(folder, channels: int = 3, **facts):
    net = build(NetConfig("mu/8", channels=channels), 16, 3).eval()
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    if facts.pop("alike", False):
        net.head.weight.data[2] = net.head.weight.data[0]
        net.head.bias.data[2] = net.head.bias.data[0]
    save(net, Report("made", "ours", class_names=NAMES, **facts), folder / "made", "safetensors")
    return net


def named(logits: torch.Tensor) -> dict[str, float]:
    return dict(zip(NAMES, logits.softmax(-1)[0].tolist(), strict=True))


@pytest.mark.parametrize("size", [32, (24, 40)])
def test_images_are_brought_to_the_size_asked_for(tmp_path, size):
    made(tmp_path)
    predictor = Predictor(tmp_path / "made", device="cpu", image_size=size)
    height, width = predictor.net.image_size
    assert (height, width) == ((size, size) if isinstance(size, int) else size)
    image = torch.from_numpy(CHANCE.integers(0, 256, (3, 50, 30), dtype=np.uint8))
    seen = F.resize(image, [height, width], antialias=True)[None] / 255
    with torch.no_grad():
        expected = named(predictor.net((seen - 0.5) / 0.5))
    assert predictor(image) == pytest.approx(expected, abs=1e-6)


def test_values_of_more_bits_are_mapped_by_the_window(tmp_path):
    net = made(tmp_path, channels=1, window=(100.0, 300.0), mean=(0.25,), std=(0.5,))
    predictor = Predictor(tmp_path / "made", device="cpu")
    for value, shown in ((150, 0.25), (300, 1.0), (5, 0.0), (9999, 1.0)):
        with torch.no_grad():
            expected = named(net(torch.full((1, 1, 16, 16), (shown - 0.25) / 0.5)))
        for kind in (np.uint16, np.float32):
            assert predictor(np.full((16, 16), value, kind)) == pytest.approx(expected, abs=1e-6)
    eight = np.full((16, 16), 51, np.uint8)  # which no window maps
    with torch.no_grad():
        assert predictor(eight) == pytest.approx(named(net(torch.full((1, 1, 16, 16), (0.2 - 0.25) / 0.5))), abs=1e-6)


@pytest.mark.parametrize("form", ["array", "tensor", "picture", "file"])
def test_scaled_values_are_refused_where_a_window_maps_raw_counts(tmp_path, form):
    made(tmp_path, channels=1, window=(0.0, 4095.0), mean=(0.25,), std=(0.5,))
    predictor = Predictor(tmp_path / "made", device="cpu")
    values = CHANCE.random((16, 16)).astype(np.float32)
    image = {"array": values, "tensor": torch.from_numpy(values)[None], "picture": Image.fromarray(values)}.get(form)
    if form == "file":
        image = tmp_path / "film.tif"
        Image.fromarray(values).save(image)
    said = "image 0" if form != "file" else "film.tif"
    with pytest.raises(InputError, match=rf"{said}: its values lie from .* the window 0 to 4095 asks for raw counts"):
        predictor(image)
    with pytest.raises(InputError, match="raw counts"):
        predictor.features([image])


def test_black_films_few_counts_and_narrow_windows_are_answered(tmp_path):
    made(tmp_path, channels=1, window=(0.0, 4095.0), mean=(0.25,), std=(0.5,))
    predictor = Predictor(tmp_path / "made", device="cpu")
    black = predictor(np.zeros((16, 16), np.float32))
    assert predictor(np.zeros((16, 16), np.uint16)) == black
    predictor(np.ones((16, 16), np.uint16))
    predictor(np.full((16, 16), 1.5, np.float32))
    (tmp_path / "narrow").mkdir()
    made(tmp_path / "narrow", channels=1, window=(0.0, 20.0), mean=(0.25,), std=(0.5,))
    Predictor(tmp_path / "narrow" / "made", device="cpu")(np.full((16, 16), 0.5, np.float32))


def test_scores_may_be_independent_of_a_net_trained_with_softmax(tmp_path):
    net = made(tmp_path)
    image = torch.full((3, 16, 16), 51, dtype=torch.uint8)
    with torch.no_grad():
        expected = net((image[None] / 255 - 0.5) / 0.5).sigmoid()[0].tolist()
    predictor = Predictor(tmp_path / "made", device="cpu", multi_label=True)
    assert predictor(image) == pytest.approx(dict(zip(NAMES, expected, strict=True)), abs=1e-6)


def test_of_equal_scores_the_class_of_the_lowest_number_comes_first(tmp_path):
    made(tmp_path, alike=True)
    predictor = Predictor(tmp_path / "made", device="cpu")
    for _ in range(5):
        answer = predictor(torch.from_numpy(CHANCE.random((3, 16, 16), dtype=np.float32)))
        assert list(answer).index("bird") + 1 == list(answer).index("cat")


def test_a_model_answers_as_itself_with_its_own_normalisation():
    model = Classifier(NetConfig("mu/8"), num_classes=3, image_size=16, mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    for parameter in model.net.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.class_names = NAMES
    images = torch.from_numpy(CHANCE.integers(0, 256, (2, 3, 16, 16), dtype=np.uint8))
    with torch.no_grad():
        expected = [named(model.eval()(image[None])) for image in images]
        features = model.net.features(model.normalise(images))
    predictor = Predictor(model, device="cpu")
    assert predictor(list(images)) == [pytest.approx(each, abs=1e-6) for each in expected]
    torch.testing.assert_close(predictor.features(list(images)), features)


@pytest.mark.parametrize(
    ("loss", "wish", "independent"),
    [
        ("softmax", None, False),
        ("softmax", True, True),
        ("sigmoid", None, True),
        ("sigmoid", False, False),
    ],
)
def test_a_wish_for_scores_beats_the_loss_of_training(loss, wish, independent):
    model = Classifier(NetConfig("mu/8"), num_classes=3, image_size=16, loss=loss)
    torch.nn.init.normal_(model.net.head.weight, std=0.5)
    with torch.no_grad():
        logits = model.eval()(torch.full((1, 3, 16, 16), 0.2))[0]
    answer = Predictor(model, device="cpu", multi_label=wish)(torch.full((3, 16, 16), 51, dtype=torch.uint8))
    scores = logits.sigmoid() if independent else logits.softmax(-1)
    assert answer == pytest.approx({str(number): score for number, score in enumerate(scores.tolist())}, abs=1e-6)


def test_a_model_maps_values_by_the_window_of_its_training():
    settings = {"num_classes": 3, "image_size": 16, "channels": 1, "window": (100.0, 1100.0)}
    model = Classifier(NetConfig("mu/8"), mean=(0.5,), std=(0.5,), **settings)
    torch.nn.init.normal_(model.net.head.weight, std=0.5)
    raw, unit = np.full((16, 16, 1), 350, np.uint16), torch.full((1, 1, 16, 16), 0.25)
    with torch.no_grad():
        expected = model.eval()(unit).softmax(-1)[0].tolist()
    answer = Predictor(model, device="cpu")(raw)
    assert answer == pytest.approx({str(number): score for number, score in enumerate(expected)}, abs=1e-6)


def test_weights_that_are_no_numbers_are_refused_where_they_are_opened(tmp_path, monkeypatch):
    made(tmp_path)
    said: list[str] = []
    monkeypatch.setattr(predictor_module, "check_finite", lambda tensors, source: said.append(source))
    Predictor(tmp_path / "made", device="cpu")
    assert said == [str(tmp_path / "made")]


@pytest.mark.parametrize("multi_label", [False, True])
def test_an_image_whose_outputs_are_not_finite_is_named(tmp_path, multi_label):
    net = made(tmp_path)
    predictor = Predictor(tmp_path / "made", device="cpu", multi_label=multi_label)
    compute = predictor.net.forward
    predictor.net.forward = lambda images: compute(images) / images.flatten(1).mean(1, keepdim=True).gt(0)
    bright, dark = (torch.full((3, 16, 16), value, dtype=torch.uint8) for value in (200, 20))
    logits = net((bright[None] / 255 - 0.5) / 0.5)
    expected = dict(zip(NAMES, logits.sigmoid()[0].tolist(), strict=True)) if multi_label else named(logits)
    assert predictor(bright) == pytest.approx(expected, abs=1e-6)
    with pytest.raises(InputError, match="the outputs for image 1 are not finite"):
        predictor([bright, dark])


def test_a_run_whose_config_is_damaged_asks_for_a_transform(tmp_path):
    made(tmp_path)
    run = tmp_path / "0"
    (run / "checkpoints").mkdir(parents=True)
    (run / "config.yaml").write_text("data: [1, 2]\n")
    (tmp_path / "made").rename(run / "checkpoints" / "made")
    with pytest.raises(InputError, match=r"config.yaml is no config of a run .*; give Predictor a transform"):
        Predictor(run / "checkpoints" / "made", device="cpu")
