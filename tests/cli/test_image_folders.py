"""A folder of images where a run is meant to stand."""

from pathlib import Path

import pytest

from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.named_run import named_run
from vit_lightning.errors import InputError

BEGINS = (
    "{verb} photos: a folder of images in folders of classes, and no run; give --data ImageFolder --data.root photos"
)
SCORES = (
    "{verb} photos: a folder of images in folders of classes, and no run; name a run or checkpoint first, then the "
    "images: {verb} RUN --data ImageFolder --data.root photos"
)
LOOKS = "{verb} photos: a folder of images in folders of classes, and no run; name the run before it: {verb} RUN photos"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def put(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()


def said(*words: str) -> str:
    with pytest.raises(InputError) as refused:
        named_run(CommandLine(list(words)))
    return str(refused.value)


@pytest.mark.parametrize(
    ("verbs", "sentence"),
    [
        (("fit", "doctor", "plan", "benchmark", "prepare"), BEGINS),
        (("validate", "test", "probe"), SCORES),
        (("predict", "inspect"), LOOKS),
    ],
)
@pytest.mark.parametrize("names", [("cat/1.jpg", "dog/2.PNG"), ("train/cat/1.jpeg", "val/dog/2.webp"), ("cat/1.tif",)])
def test_a_folder_of_classes_is_offered_as_data(verbs, sentence, names):
    put(*(f"photos/{name}" for name in names), "photos/README.txt")
    for verb in verbs:
        assert said(verb, "photos") == sentence.format(verb=verb)


def test_images_without_classes_are_offered_where_none_are_needed():
    put("my photos/1.jpg")
    assert said("predict", "my photos") == (
        "predict my photos: a folder of images, and no run; name the run before it: predict RUN 'my photos'"
    )
    assert "a folder without config.yaml and checkpoints" in said("fit", "my photos")


@pytest.mark.parametrize("name", ["notes/cat/1.txt", "photos/cat/._1.jpg", "photos/a/b/c/d/1.jpg"])
def test_other_folders_are_no_images(name):
    put(name)
    for verb in ("doctor", "test", "predict"):
        assert "a folder without config.yaml and checkpoints" in said(verb, name.partition("/")[0])


def test_pictures_among_runs_are_no_data():
    put("runs/pets/0/config.yaml", "runs/pets/0/report/1.png", "runs/pets/pictures/1.png")
    assert "whose newest run is runs/pets/0" in said("test", "runs")
