"""A path that is not there: the sentence names what lies beside it and is alike, or what its folder holds."""

from pathlib import Path

import pytest

from vit_lightning.errors import InputError
from vit_lightning.files import meant
from vit_lightning.weights.source import fetch


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("weights/vit_smal.npz", "; did you mean weights/vit_small.npz?"),
        ("weights/VIT_SMALL.npz", "; did you mean weights/vit_small.npz?"),
        ("weigths/vit_small.npz", "; did you mean weights/vit_small.npz?"),
        ("weigths/other.npz", "; did you mean weights?"),
        ("weights/b16.pth", "; weights holds resnet.pth, vit_small.npz"),
        ("weights/vit_small.npz", ""),
        ("nothing", ""),
        ("many/none", ""),
        ("weights/.hiden", "; weights holds resnet.pth, vit_small.npz"),
    ],
)
def test_what_is_alike_or_there_is_named(monkeypatch, tmp_path, path, said):
    monkeypatch.chdir(tmp_path)
    for name in ("weights/vit_small.npz", "weights/resnet.pth", "weights/.hidden", *(f"many/{n}.x" for n in range(9))):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    assert meant(path) == said


def test_weights_and_whole_paths(tmp_path):
    (tmp_path / "vit_small.npz").touch()
    with pytest.raises(InputError) as caught:
        fetch(tmp_path / "vit_smal.npz")
    assert str(caught.value).endswith(f"; did you mean {tmp_path / 'vit_small.npz'}?")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fit", "-c", "mine.yml", "--data", "Synthetic"), "did you mean mine.yaml?"),
        (("fit", "--data", "ImageFolder", "--data.root", "Photo"), "/photos?"),
        (("fit", "--data", "Synthetic", "--model.weights", "photos/net.pth"), "photos holds cat, dog"),
        (("test", "--data", "Synthetic", "--ckpt_path", "mine.yamle"), "did you mean mine.yaml?"),
        (("test", "photo/cat"), "did you mean photos/cat?"),
        (("report", "photo"), "did you mean photos?"),
        (("export", "nett.ckpt", "out"), "did you mean net.ckpt?"),
        (("sweep", "mine.yml"), "did you mean mine.yaml?"),
        (
            ("fit", "--data", "ImageFolder", "--data.root", "photos", "--data.split_file", "spilt.csv"),
            "mean split.csv?",
        ),
        (("predict", "--data", "Images", "--data.files", "[photos/cta]", "--model.weights", "x"), ""),
    ],
)
def test_every_door_says_it(app, words, said):
    for name in ("mine.yaml", "net.ckpt", "split.csv"):
        Path(name).touch()
    for name in ("photos/cat", "photos/dog"):
        Path(name).mkdir(parents=True)
        Path(name, "1.jpg").touch()
    done = app(*words)
    assert done.code == 1 and said in done.err.splitlines()[-1], done.err
