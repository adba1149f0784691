"""Predictor answers as the verb predict does, in every form of image and from every kind of source."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from einops import einsum, rearrange
from PIL import Image

from vit_lightning import Predictor
from vit_lightning.classifier import Classifier
from vit_lightning.data import images
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights.report import Report
from vit_lightning.weights.save import save

CLASSES = ["bird", "car", "cat"]
FIT = ("fit", "--data", "ImageFolder", "--data.root", "photos", "--data.image_size", 16, "--data.batch_size", 4)
SEEN = ("--data.num_workers", 0, "--data.augment.evaluation", "center", "--data.augment.zoom", 1.5)
FIT += (*SEEN, "--model.net.variant", "mu/8")
FIT += ("--model.optim.lr", 0.01, "--trainer.accelerator", "cpu", "--trainer.max_epochs", 2)


def photo(path: Path, number: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 256, (5, 9, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((45 + number, 25), Image.Resampling.BICUBIC).save(path, quality=90)
    return path


@pytest.fixture
def run(app, tmp_path):
    """A run folder on photographs in three classes, whose validation crops the middle."""
    for split in ("train", "val"):
        for number in range(12):
            photo(tmp_path / "photos" / split / CLASSES[number % 3] / f"{number}.jpg", number)
    done = app(*FIT)
    assert done.code == 0, done.err
    return tmp_path / "runs/default/0"


def random_net(variant: str = "mu/8", classes: int = 3, **fields):
    net = build(NetConfig(variant, **fields), 16, classes).eval()
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return net


@pytest.fixture
def weights(tmp_path):
    """A net's file of ours, without a run around it."""
    report = Report("made", "ours", mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4), class_names=CLASSES)
    save(random_net(), report, tmp_path / "made", "safetensors")
    return tmp_path / "made"


def test_answers_are_those_of_the_verb(app, run, tmp_path):
    paths = [photo(tmp_path / "new" / f"{number}.jpg", 20 + number) for number in range(5)]
    words = ("--data", "Images", "--data.files", "new", *SEEN)
    done = app("predict", *words, "--ckpt_path", "best", "--trainer.accelerator", "cpu")
    assert done.code == 0, done.err
    with (run / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    answers = Predictor(run, device="cpu", batch_size=2)(paths)
    for row, answer in zip(rows, answers, strict=True):
        told = [(row[f"class{k}"], float(row[f"probability{k}"])) for k in (1, 2, 3)]
        assert [name for name, _ in told] == list(answer)
        assert [score for _, score in told] == pytest.approx(list(answer.values()), abs=1e-5)
    for source in (run / "checkpoints/best.ckpt", str(run / "checkpoints/best.ckpt")):
        assert Predictor(source, device="cpu")(paths[0]) == pytest.approx(answers[0], abs=1e-6)


def test_every_form_of_a_photograph_gives_the_same_answer(weights, tmp_path):
    path = photo(tmp_path / "x.png", 3)
    predictor, pixels = Predictor(weights, device="cpu"), np.asarray(Image.open(path))
    expected = predictor(path)
    assert set(expected) == set(CLASSES) and sum(expected.values()) == pytest.approx(1)
    assert list(expected.values()) == sorted(expected.values(), reverse=True)
    forms = [str(path), path.read_bytes(), Image.open(path), pixels, torch.from_numpy(pixels.copy()).permute(2, 0, 1)]
    for form in forms:
        assert predictor(form) == pytest.approx(expected, abs=1e-6)
    floats = [pixels / 255, torch.from_numpy(pixels / 255).permute(2, 0, 1)]
    for form in floats:
        assert predictor(form) == pytest.approx(expected, abs=1e-6)
    assert predictor(forms) == [pytest.approx(expected, abs=1e-6)] * len(forms)
    assert predictor(np.stack([pixels] * 2)) == [pytest.approx(expected, abs=1e-6)] * 2
    assert list(predictor(path, top=2)) == list(expected)[:2]


def test_grey_arrays_show_grey_in_every_channel(weights):
    grey = np.random.default_rng(0).integers(0, 256, (20, 20), dtype=np.uint8)
    predictor = Predictor(weights, device="cpu")
    expected = predictor(np.stack([grey] * 3, axis=-1))
    assert predictor(grey) == predictor(grey[..., None]) == expected


def test_batches_do_not_change_answers(weights):
    pictures = list(np.random.default_rng(0).random((7, 16, 16, 3), dtype=np.float32))
    whole, parts = (Predictor(weights, device="cpu", batch_size=size) for size in (64, 2))
    for one, other in zip(whole(pictures), parts(pictures), strict=True):
        assert one == pytest.approx(other, abs=1e-6)
    torch.testing.assert_close(whole.features(pictures), parts.features(pictures))


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("gone.jpg", "gone.jpg: No such file"),
        (np.zeros((3, 16, 16), np.uint8), "image 0 has 16 channels, but the net takes 3"),
        (torch.zeros(16, 16, 4), "image 0 has 16 channels, but the net takes 3"),
        (np.zeros((16, 16, 3), np.int64), r"image 0: an image array must be uint8 or float .* not int64 \(16, 16, 3\)"),
        (np.full((16, 16, 3), 255.0), r"float images must lie in \[0, 1\], and this one has values from 255 to 255"),
        (np.full((16, 16, 3), np.nan), "values that are NaN; leave it out"),
        (torch.zeros(16), r"image 0: an image tensor must be uint8 or float .* not float32 \(16,\)"),
        ({"image": 1}, "image 0: an image of the type dict; expected"),
        ([], "the list of images is empty"),
    ],
)
def test_what_is_no_image_is_one_sentence(weights, image, said):
    with pytest.raises(InputError, match=said):
        Predictor(weights, device="cpu")(image)


def test_several_labels_give_independent_scores(tmp_path):
    model = Classifier(NetConfig("mu/8"), loss="sigmoid", num_classes=3, image_size=16)
    torch.nn.init.normal_(model.net.head.weight)
    facts = {"hyper_parameters": dict(model.hparams), "pytorch-lightning_version": "2.6.0", "class_names": CLASSES}
    torch.save({"state_dict": model.state_dict()} | facts, tmp_path / "several.ckpt")
    image = torch.randint(0, 256, (3, 16, 16), dtype=torch.uint8)
    expected = dict(zip(CLASSES, model.eval()(image[None])[0].sigmoid().tolist(), strict=True))
    assert Predictor(tmp_path / "several.ckpt", device="cpu")(image) == pytest.approx(expected, abs=1e-6)
    softmax = Predictor(tmp_path / "several.ckpt", device="cpu", multi_label=False)(image)
    assert sum(softmax.values()) == pytest.approx(1)
    model.class_names = CLASSES
    assert Predictor(model, device="cpu")(image) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("names", "keys"), [([], {"0", "1", "2"}), (["crane", "crane", "cat"], {"crane (0)", "crane (1)", "cat"})]
)
def test_no_class_loses_its_score(tmp_path, names, keys):
    save(random_net(), Report("made", "ours", class_names=names), tmp_path / "made", "safetensors")
    assert set(Predictor(tmp_path / "made", device="cpu")(torch.rand(3, 16, 16))) == keys


@pytest.mark.parametrize("to", ["huggingface", "timm", "npz"])
def test_other_layouts_answer_alike(tmp_path, to):
    net = random_net("Ti/8", gelu="exact" if to != "npz" else "tanh", norm_eps=1e-6)
    save(net, Report("made", "ours", class_names=CLASSES), tmp_path / ("made.npz" if to == "npz" else "made"), to)
    place = next(path for path in tmp_path.iterdir() if path.name.startswith("made"))
    image = torch.rand(3, 16, 16).mul(255).round() / 255
    answer = Predictor(place, device="cpu", net=NetConfig(heads=3) if to != "huggingface" else None)(image)
    expected = net((image[None] - 0.5) / 0.5).softmax(-1)[0].tolist()
    assert sorted(answer.values()) == pytest.approx(sorted(expected), abs=1e-5)


def test_nets_without_classes_give_features_alone(tmp_path):
    save(random_net(classes=0), Report("made", "ours"), tmp_path / "made", "safetensors")
    predictor = Predictor(tmp_path / "made", device="cpu")
    assert predictor.features([torch.rand(3, 16, 16)] * 2).shape == (2, 32)
    with pytest.raises(InputError, match="has no classes"):
        predictor(torch.rand(3, 16, 16))
    save(build(NetConfig("mu/8"), 16, 3), Report("made", "ours"), tmp_path / "zeros", "safetensors")
    with pytest.raises(InputError, match="all zeros"):
        Predictor(tmp_path / "zeros", device="cpu")(torch.rand(3, 16, 16))


def test_features_are_what_the_head_reads(weights):
    predictor, image = Predictor(weights, device="cpu"), torch.rand(3, 16, 16)
    features = predictor.features(image)
    assert features.shape == (1, 32) and not features.requires_grad
    scores = predictor.net.head(features).softmax(-1)[0].tolist()
    assert sorted(predictor(image).values(), reverse=True) == pytest.approx(sorted(scores, reverse=True), abs=1e-6)


def test_attention_is_that_of_the_fused_path(weights):
    """Each layer's explicit attention times its values gives what the fused attention returns, to 1e-5."""
    predictor, pictures = (
        Predictor(weights, device="cpu", batch_size=2),
        list(torch.rand(3, 3, 16, 16).mul(255).round() / 255),
    )
    maps = predictor.attention(pictures)
    net = predictor.net
    assert [each.shape for each in maps] == [(3, net.config.heads, 5, 5)] * net.config.depth
    mean, std = (torch.tensor(each)[:, None, None] for each in ((0.4, 0.5, 0.6), (0.2, 0.3, 0.4)))
    tokens = net.position(
        torch.cat([net.class_token.expand(3, 1, -1), net.embed((torch.stack(pictures) - mean) / std)], 1)
    )
    for weights, block in zip(maps, net.blocks, strict=True):
        normed = block.norm1(tokens)
        values = block.attention.split(normed)[2]
        mixed = rearrange(einsum(weights, values, "b h i j, b h j k -> b h i k"), "b h n k -> b n (h k)")
        torch.testing.assert_close(block.attention.out(mixed), block.attention(normed), atol=1e-5, rtol=1e-5)
        tokens = block(tokens)


def test_a_resnet_has_no_attention(tmp_path):
    save(random_net("R50x1"), Report("made", "ours"), tmp_path / "made", "safetensors")
    with pytest.raises(InputError, match="has no attention"):
        Predictor(tmp_path / "made", device="cpu").attention(torch.rand(3, 16, 16))


def test_a_transform_takes_the_place_of_the_validations(weights):
    flipped = Predictor(weights, device="cpu", transform=lambda pixels: pixels.flip(-1))
    image = torch.rand(3, 16, 16)
    assert flipped(image) == Predictor(weights, device="cpu")(image.flip(-1))


def test_code_of_others_is_not_left_out_in_silence(tmp_path):
    model = Classifier(NetConfig("mu/8"), num_classes=3, image_size=16)
    facts = {"hyper_parameters": dict(model.hparams), "pytorch-lightning_version": "2.6.0", "model": "own.Tilted"}
    torch.save({"state_dict": model.state_dict()} | facts, tmp_path / "own.ckpt")
    with pytest.raises(InputError, match=r"holds a own\.Tilted, whose code Predictor does not run"):
        Predictor(tmp_path / "own.ckpt")


def test_a_run_without_a_checkpoint_is_named(tmp_path):
    (tmp_path / "0" / "checkpoints").mkdir(parents=True)
    with pytest.raises(InputError, match=r"0 has no whole best\.ckpt or last\.ckpt yet"):
        Predictor(tmp_path / "0")


def test_a_folder_of_runs_names_the_newest(tmp_path):
    (tmp_path / "runs/mine/0/checkpoints").mkdir(parents=True)
    for folder in (tmp_path / "runs", tmp_path / "runs/mine"):
        with pytest.raises(InputError, match=r"whose newest run is \S*runs/mine/0; give a run folder"):
            Predictor(folder)


def test_sentences_about_arrays_speak_of_no_set(weights):
    for image in (np.zeros((4, 4, 3, 3, 1), np.uint8), torch.zeros(3, 4, 4).to_sparse(), torch.zeros(3, 4, 4) + 3):
        with pytest.raises(InputError) as told:
            Predictor(weights)(image)
        assert " set" not in str(told.value)


def test_the_package_itself_stays_light():
    code = "import sys, vit_lightning; assert 'torch' not in sys.modules; print(vit_lightning.Predictor.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "vit_lightning.predictor"


def test_damaged_photographs_are_named(weights, tmp_path):
    path = photo(tmp_path / "cut.jpg", 1)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(images.BrokenImage, match=r"cut\.jpg"):
        Predictor(weights, device="cpu")([path])


GREY = np.full((9, 9, 3), 128, np.uint8)
WRONG_ARGUMENTS = {
    **{f"device {device}": ({"device": device}, "device is") for device in ("gpu", "meta", "cuda:99", "", [], -1)},
    **{f"batch_size {size}": ({"batch_size": size}, "batch_size is") for size in (0, -1, "4", 2.5, None, True)},
    **{f"image_size {size}": ({"image_size": size}, "image_size is") for size in ("16", (16,), 1.5, 0, -1)},
    "net": ({"net": "B/16"}, "net is 'B/16', expected a NetConfig"),
    "transform": ({"transform": 3}, "transform is 3, expected a function"),
}
WRONG_IMAGES = {
    "no pixels": (GREY[:0], "holds no pixels"),
    "a tensor without pixels": (torch.zeros(3, 0, 0), "holds no pixels"),
    "one axis": (GREY[0, 0], "must be uint8 or float"),
    "five axes": (GREY[None, None], "must be uint8 or float"),
    "channels first": (GREY.transpose(2, 0, 1), "has 9 channels, but the net takes 3"),
    "too bright": (GREY.astype(float), r"must lie in \[0, 1\]"),
    "negative": (np.full((9, 9, 3), -0.1), r"must lie in \[0, 1\]"),
    "NaN": (np.full((9, 9, 3), np.nan), r"must lie in \[0, 1\]"),
    "complex": (GREY.astype(complex), "must be uint8 or float"),
    "sparse": (torch.zeros(3, 4, 4).to_sparse(), "sparse or has no values"),
    "meta": (torch.zeros(3, 4, 4, device="meta"), "sparse or has no values"),
    "a missing file": ("nowhere.jpg", "nowhere.jpg: No such file"),
    "a number": (3, "of the type int"),
}


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
def test_an_argument_that_cannot_work_is_a_sentence(weights, name):
    arguments, said = WRONG_ARGUMENTS[name]
    with pytest.raises(InputError, match=said):
        Predictor(weights, **{"device": "cpu"} | arguments)


@pytest.mark.parametrize("name", WRONG_IMAGES)
def test_an_image_that_cannot_be_seen_is_a_sentence(weights, name):
    image, said = WRONG_IMAGES[name]
    with pytest.raises(InputError, match=said):
        Predictor(weights, device="cpu")([GREY, image])


def test_what_is_no_source_and_no_count_is_a_sentence(weights):
    for source in (None, 3, random_net()):
        with pytest.raises(InputError, match="the source is of the type"):
            Predictor(source, device="cpu")
    predictor = Predictor(weights, device="cpu", batch_size=np.int64(2))
    for top in (0, -1, "2", 1.5):
        with pytest.raises(InputError, match="top is"):
            predictor(GREY, top=top)
    assert len(predictor(GREY, top=99)) == 3


@pytest.mark.parametrize("names", [["a", "b"], list("abcd"), "abc", [1, 2, 3]])
def test_names_that_are_not_one_for_each_output_are_an_error_everywhere(app, run, names):
    path = run / "checkpoints/best.ckpt"
    torch.save(torch.load(path, weights_only=True) | {"class_names": names}, path)
    with pytest.raises(InputError, match="class_names"):
        Predictor(run, device="cpu")
    for words in (("predict", run, "photos/val/cat/2.jpg"), ("convert", path, "out.ckpt"), ("validate", run)):
        done = app(*words)
        assert done.code == 1 and "is damaged: " in done.err and "class_names" in done.err, done


@pytest.mark.parametrize("kind", [">f4", ">f8"])
def test_an_array_of_another_byte_order_is_the_same_image(kind):
    values = np.random.default_rng(0).random((16, 16, 3))
    native = values.astype(np.dtype(kind).newbyteorder("="))
    assert torch.equal(images.load(values.astype(kind), name="x"), images.load(native, name="x"))


@pytest.mark.parametrize("shape", [(16, 16), (16, 16, 1), (16, 16, 3)])
def test_a_masked_array_and_an_empty_source_are_refused(weights, shape):
    masked = np.ma.masked_less(np.full(shape, 9, np.uint8), 10)
    with pytest.raises(InputError, match="image 1: a masked array"):
        Predictor(weights, "cpu")([np.zeros((16, 16, 3), np.uint8), masked])
    with pytest.raises(InputError, match="image 0: an image array must be uint8 or float"):
        Predictor(weights, "cpu")([np.zeros((16, 16, 3), np.longdouble)])
    with pytest.raises(InputError, match="the source is an empty text"):
        Predictor("")
