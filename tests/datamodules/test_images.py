from pathlib import Path

import pytest
from lightning.pytorch.trainer.states import TrainerFn
from PIL import Image

from datamodules.images import Images
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.sampling import BROKEN, IGNORE
from vit_lightning.errors import InputError
from vit_lightning.testing import check_datamodule


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    for number, name in enumerate(("photos/b.jpg", "photos/a.PNG", "photos/deep/c.jpg", "one.gif")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 8), (number, 0, 0)).save(tmp_path / name)
    for junk in ("photos/notes.md", "photos/._b.jpg", "photos/.hidden/d.jpg"):
        (tmp_path / junk).parent.mkdir(exist_ok=True)
        (tmp_path / junk).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ready(files, **options) -> Images:
    data = Images(files, **{"image_size": 8, "batch_size": 2, "num_workers": 0, **options})
    data.setup("predict")
    return data


@pytest.mark.parametrize(
    ("files", "keys"),
    [
        ("photos", ["photos/a.PNG", "photos/b.jpg", "photos/deep/c.jpg"]),
        ("photos/*", ["photos/a.PNG", "photos/b.jpg"]),
        ("photos/**/*.jpg", ["photos/b.jpg", "photos/deep/c.jpg"]),
        ("one.gif", ["one.gif"]),
        ("photos/notes.md", ["photos/notes.md"]),  # named by the user: decoding says what is wrong with it
        (
            ["one.gif", "photos/b.jpg", "one.gif", "photos/deep"],
            ["one.gif", "photos/b.jpg", "one.gif", "photos/deep/c.jpg"],
        ),
    ],
)
def test_files_in_order(folder, files, keys):
    assert list(ready(files).test_set.keys) == keys


def test_paths_start_from_root(folder, monkeypatch):
    monkeypatch.chdir("/")
    data = ready(["photos/b.jpg", "photos/deep"], root=folder)
    assert list(data.test_set.keys) == ["photos/b.jpg", "photos/deep/c.jpg"]
    assert data.test_set[0] == (folder / "photos/b.jpg", IGNORE)
    assert list(ready(str(folder / "photos/*.jpg"), root=Path("/tmp")).test_set.keys) == [str(folder / "photos/b.jpg")]


def test_pictures_that_are_not_read_are_named(folder):
    Image.new("RGB", (9, 8)).save(folder / "photos" / "scan", "png")
    data = ready("photos")
    assert len(data.test_set) == 3
    assert data.notices == [
        "photos holds 1 file without an ending, such as photos/scan, which is left out; give them the ending of their "
        "format, as .jpg"
    ]
    (folder / "phone").mkdir()
    (folder / "phone" / "p.heic").write_bytes(b"ftypheic")
    with pytest.raises(InputError, match="phone holds no images that are read, but 1 file of"):
        ready("phone")


@pytest.mark.parametrize("files", ["photos", "photos/**", ["photos/a.PNG", "photos/b.HEIC", "photos/p.dng"]])
def test_pictures_of_formats_that_are_not_read_keep_their_places(folder, files):
    """A raw file may hold a small picture that a decoder would take for the whole."""
    for name in ("photos/b.jpg", "photos/deep/c.jpg"):
        (folder / name).unlink()
    (folder / "photos/b.HEIC").write_bytes(b"ftypheic")
    Image.new("RGB", (9, 8)).save(folder / "photos/p.dng", "tiff")
    data = ready(files)
    loader = data.predict_dataloader()
    assert list(loader.dataset.keys) == ["photos/a.PNG", "photos/b.HEIC", "photos/p.dng"] and not data.notices
    assert [label for _, labels in loader for label in labels.tolist()] == [IGNORE, BROKEN, BROKEN]
    assert loader.dataset.reason(1) == "files of .heic are not read; convert them to .jpg or .png"
    assert loader.dataset.reason(2) == "files of .dng are not read; convert them to .jpg or .png"
    with pytest.raises(BrokenImage, match=r"photos/b\.HEIC: files of \.heic are not read"):
        list(ready(files, on_error="raise").predict_dataloader())


def test_contract(folder):
    check_datamodule(Images("photos", image_size=8, batch_size=2))


def test_broken_files_keep_their_places(folder):
    (folder / "photos/a0.jpg").write_bytes(b"<html>")
    loader = ready("photos").predict_dataloader()
    assert [label for _, labels in loader for label in labels.tolist()] == [IGNORE, BROKEN, IGNORE, IGNORE]
    assert list(loader.dataset.keys) == [
        "photos/a.PNG",
        "photos/a0.jpg",
        "photos/b.jpg",
        "photos/deep/c.jpg",
    ]
    assert loader.dataset.reason(1) == "not an image of a known format"
    with pytest.raises(BrokenImage, match=r"test image photos/a0\.jpg: not an image"):
        list(ready("photos", on_error="raise").predict_dataloader())


def test_classes_are_the_checkpoints(folder):
    data = Images("photos")
    assert data.num_classes is None
    assert data.class_names == []
    assert data.image_size is None


def test_loader(folder):
    batches = list(ready("photos").predict_dataloader())
    assert [len(images) for images, _ in batches] == [2, 1]
    assert batches[0][0].shape == (2, 3, 8, 8)
    assert [label for _, labels in batches for label in labels.tolist()] == [IGNORE] * 3


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ("gone", r"--data\.files gone: it is no file or folder, and no image matches it in "),
        ("photos/*.tif", r"--data\.files photos/\*\.tif: it is no file or folder, and no image matches"),
        ("photos/.hidden", r"hidden: it holds no images"),
        (["one.gif", "gone.jpg"], r"--data\.files gone\.jpg"),
    ],
)
def test_nothing_found(folder, files, message):
    if files == "photos/.hidden":
        (folder / "photos/.hidden/d.jpg").unlink()
    with pytest.raises(InputError, match=message):
        ready(files)


def test_predict_alone(folder):
    for stage in ("fit", TrainerFn.FITTING):  # which Lightning hands over
        with pytest.raises(InputError, match="Images have no labels, which fit needs"):
            Images("photos").setup(stage)


def test_a_text_file_lists_images(tmp_path):
    for name in ("b.png", "a.png"):
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    (tmp_path / "list.txt").write_text("b.png\n\n*.png\n")
    data = Images("list.txt", root=tmp_path, image_size=4)
    data.setup("predict")
    assert list(data.test_set.keys) == ["b.png", "a.png", "b.png"]
