"""Predictor's answers for several images at once, and what it takes of a source, on tiny nets."""

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning import Predictor, predictor
from vit_lightning.augment import Augment
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.predictor import _at_least, _coloured, _is_several, _size
from vit_lightning.weights.report import Report
from vit_lightning.weights.save import save

NAMES = ["a", "b", "a"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "x"
    net = build(NetConfig("mu/8", depth=3), (16, 24), 3)
    generator = torch.Generator().manual_seed(0)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.2, generator=generator)
    report = Report("", "", class_names=NAMES, mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    save(net, report, folder, "safetensors")
    return folder, net.eval()


def pixels(count: int) -> torch.Tensor:
    return torch.randint(0, 256, (count, 3, 16, 24), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def normalised(images: torch.Tensor) -> torch.Tensor:
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.4, 0.5, 0.6])
    return (images / 255 - mean[:, None, None]) / std[:, None, None]


@pytest.mark.parametrize("batch_size", [1, 2, 5, 64])
def test_answers_features_and_attention_come_in_the_order_of_the_images(made, batch_size):
    folder, net = made
    ours, images = Predictor(folder, "cpu", batch_size), pixels(5)
    with torch.no_grad():
        scores = net(normalised(images)).softmax(-1)
        features = net.features(normalised(images))
        attention = net.attention(normalised(images))
    answers = ours(list(images))
    keys = ["a (0)", "b", "a (2)"]
    assert [set(answer) for answer in answers] == [set(keys)] * 5
    for answer, row in zip(answers, scores.tolist(), strict=True):
        assert list(answer.values()) == sorted(answer.values(), reverse=True)
        assert [answer[key] for key in keys] == pytest.approx(row, abs=1e-6)
    torch.testing.assert_close(ours.features(images), features, atol=1e-5, rtol=1e-5)
    found = ours.attention(images)
    assert len(found) == len(attention) == 3
    for ours_of_layer, theirs in zip(found, attention, strict=True):
        torch.testing.assert_close(ours_of_layer, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("top", "count"), [(1, 1), (2, 2), (3, 3), (99, 3), (None, 3)])
def test_the_best_classes_are_as_many_as_asked_for(made, top, count):
    ours = Predictor(made[0], "cpu")
    whole, some = ours(pixels(1)[0]), ours(pixels(1)[0], top)
    assert list(some.items()) == list(whole.items())[:count]


def test_one_image_has_one_answer_and_a_list_of_one_a_list(made):
    ours, image = Predictor(made[0], "cpu"), pixels(1)[0]
    alone = ours(image)
    assert isinstance(alone, dict) and ours([image]) == ours((image,)) == ours(image[None]) == [alone]
    assert ours.features(image).shape[0] == 1 and ours.attention([image])[0].shape[0] == 1


def test_float_images_and_pillow_s_answer_alike(made):
    ours, image = Predictor(made[0], "cpu"), pixels(1)[0]
    alone = ours(image)
    array = image.permute(1, 2, 0).numpy()
    for form in (array, Image.fromarray(array), image.float() / 255, array.astype(np.float64) / 255):
        assert ours(form) == pytest.approx(alone, abs=1e-6)


def test_a_transform_stands_for_the_validation_s(made):
    ours = Predictor(made[0], "cpu", transform=lambda image: image[:, :16, :24].float() / 510)
    with torch.no_grad():
        expected = made[1](normalised(pixels(1) / 2)).softmax(-1)[0].tolist()
    found = ours(torch.nn.functional.pad(pixels(1)[0], (0, 7, 0, 3)))
    assert [found[key] for key in ("a (0)", "b", "a (2)")] == pytest.approx(expected, abs=1e-5)
    assert ours.augment == Augment() and ours.report is not None and ours.report.class_names == NAMES


@pytest.mark.parametrize(
    ("images", "several"),
    [
        ([1], True),
        ((1, 2), True),
        ("x.jpg", False),
        (np.zeros((2, 4, 4, 3)), True),
        (np.zeros((4, 4, 3)), False),
        (torch.zeros(1, 3, 4, 4), True),
        (torch.zeros(3, 4, 4), False),
        (b"x", False),
    ],
)
def test_a_list_or_a_batch_is_several_images(images, several):
    assert _is_several(images) is several


@pytest.mark.parametrize("value", [None, 8, (8, 16), [8, 16], np.int64(8)])
def test_sizes_that_can_be(value):
    assert _size(value) is value


@pytest.mark.parametrize("value", [0, -1, (8,), (8, 0), (8, 8, 8), 8.0, "8", (8, "8")])
def test_sizes_that_cannot(value):
    with pytest.raises(InputError, match=r"^image_size is .*, expected pixels per side, or \(y, x\)$"):
        _size(value)


def test_a_count_is_a_whole_number_from_its_least():
    assert _at_least("n", 1, 1) == 1 and _at_least("n", np.int32(3), 1) == 3
    for value in (0, True, 1.0, "1", None):
        with pytest.raises(InputError, match=r"^n is .*, expected a whole number, 1 or more$"):
            _at_least("n", value, 1)


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 1)])
def test_grey_arrays_show_grey_in_every_channel(shape):
    grey = np.arange(24, dtype=np.uint8).reshape(shape)
    found = _coloured(grey, 3)
    assert found.shape == (4, 6, 3) and all((found[..., c] == grey.reshape(4, 6)).all() for c in range(3))
    assert _coloured(grey, 1).shape == (4, 6, 1)


def test_other_images_are_left_and_tensors_come_to_the_host():
    array = np.zeros((4, 6, 3), np.uint8)
    assert _coloured(array, 3) is array and _coloured("x", 3) == "x"
    tensor = torch.zeros(3, 4, 6, requires_grad=True)
    assert not _coloured(tensor, 3).requires_grad


@pytest.mark.parametrize("there", [True, False])
def test_unasked_the_gpu_computes_if_there_is_one(monkeypatch, there):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: there)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda", 0))
    assert predictor._device(None) == (torch.device("cuda", 0) if there else torch.device("cpu"))
    assert predictor._device("cpu") == predictor._device(torch.device("cpu")) == torch.device("cpu")
    with pytest.raises(InputError, match="device is 'nonsense', which does not compute here; expected cpu"):
        predictor._device("nonsense")
