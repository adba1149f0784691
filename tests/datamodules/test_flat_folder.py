"""A folder of classes without any split: drawn once, kept with the run, and never another one in silence."""

import csv
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from datamodules.folder import ImageFolder
from tests.datamodules.test_folder import put
from vit_lightning.augment import Augment
from vit_lightning.errors import InputError
from vit_lightning.testing import check_datamodule

CLASSES = {"ant": 20, "bee": 20, "cat": 2}
KEPT = Path("runs/default/0/split.csv")
LONGER = ("--trainer.max_epochs", 2, "--model.schedule.allow_horizon_change", "true")
TRAINED_ON = "is a validation image, and was trained on before the checkpoint was written"
LAST, BEST = (("--ckpt_path", name) for name in ("last", "best"))


@pytest.fixture
def photos(tmp_path) -> Path:
    chance = np.random.default_rng(0)
    for name, count in CLASSES.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(count):
            pixels = chance.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


def words(root: Path) -> tuple:
    data = ("--data", "ImageFolder", "--data.root", root, "--data.image_size", 8, "--data.batch_size", 4)
    return (*data, "--data.num_workers", 0, "--trainer.accelerator", "cpu")


def fit(app, root: Path, *further: object):
    return app("fit", *words(root), "--model.net.variant", "mu/4", "--trainer.max_epochs", 1, *further)


def ready(root: Path, **options) -> ImageFolder:
    data = ImageFolder(root=root, image_size=8, batch_size=4, num_workers=0, augment=Augment(crop="none"), **options)
    data.setup("fit")
    return data


def test_contract(photos):
    check_datamodule(ImageFolder(root=photos, image_size=8, batch_size=4, augment=Augment(crop="none")))


def test_each_class_is_divided_alike(photos, caplog):
    (photos / "notes").mkdir()
    with caplog.at_level("INFO"):
        data = ready(photos)
    assert data.class_names == ["ant", "bee", "cat"]
    parts = [data.train_set, data.val_set, data.test_set]
    assert [np.bincount(part.labels, minlength=3).tolist() for part in parts] == [[14, 14, 2], [3, 3, 0], [3, 3, 0]]
    assert len({key for part in parts for key in part.keys}) == 42
    assert "split    30 training, 6 validation and 6 test images, drawn by class (val_fraction 0.15" in caplog.text
    assert f"{photos / 'notes'} holds no images and is left out" in data.notices
    assert "1 of 3 classes have no test image, since they are small: cat" in data.notices
    assert list(ready(photos).test_set.keys) == list(data.test_set.keys)
    assert list(ready(photos, split_seed=1).test_set.keys) != list(data.test_set.keys)
    without = ready(photos, val_fraction=0.0, test_fraction=0.5)
    assert (len(without.train_set), without.val_set, len(without.test_set)) == (21, None, 21)
    with pytest.raises(InputError, match=r"--data\.val_fraction 0\.5 and --data\.test_fraction 0\.5 leave no training"):
        ready(photos, val_fraction=0.5, test_fraction=0.5)


def test_a_training_folder_is_divided_where_a_test_is_asked_for(photos):
    shutil.copytree(photos, photos.parent / "set" / "train")
    data = ready(photos.parent / "set", test_fraction=0.25)
    assert [len(part) for part in (data.train_set, data.val_set, data.test_set)] == [27, 4, 11]
    assert ready(photos.parent / "set").test_set is None


def test_the_split_is_kept_and_read_again(app, photos):
    assert fit(app, photos).code == 0
    with KEPT.open(newline="") as file:
        kept = {row["file"]: (row["class"], row["split"]) for row in csv.DictReader(file)}
    assert len(kept) == 42 and all(file.startswith(f"{name}/") for file, (name, _) in kept.items())
    assert app("predict", *words(photos), *BEST).code == 0
    with (KEPT.parent / "predictions.csv").open(newline="") as file:
        predicted = {row["image"] for row in csv.DictReader(file)}
    assert predicted == {file for file, (_, split) in kept.items() if split == "test"}
    before = KEPT.read_bytes()
    for verb in ("test", "validate"):
        assert app(verb, *words(photos), *BEST).code == 0
    resumed = fit(app, photos, *LAST, *LONGER)
    assert resumed.code == 0, resumed.err
    assert KEPT.read_bytes() == before


def test_another_split_is_refused(app, photos):
    assert fit(app, photos, "--data.test_fraction", 0.2).code == 0
    shutil.copy("runs/default/0/checkpoints/last.ckpt", "elsewhere.ckpt")

    def outcomes(checkpoint: str, *further: object):
        for verb in ("fit", "test", "predict"):
            settings = LONGER if verb == "fit" else ()
            yield app(verb, *words(photos), "--ckpt_path", checkpoint, *settings, *further)

    own = "runs/default/0/checkpoints/last.ckpt"
    for done in outcomes(own, "--data.test_fraction", 0.3):
        assert done.code == 1 and "--data.test_fraction 0.3 (the checkpoint's: 0.2)" in done.err.splitlines()[-1]
    shutil.copy(photos / "ant/0.png", photos / "ant/new.png")
    for done in outcomes(own):
        assert done.code == 1 and "photos has 1 image in no split of" in done.err and "as ant/new.png" in done.err
    resumed, *scored = outcomes("elsewhere.ckpt", "--data.test_fraction", 0.2)
    assert resumed.code == 1 and TRAINED_ON in resumed.err
    for done in scored:
        assert done.code == 1
        assert "another split: 28 + 6 + 9 images here, 27 + 6 + 9 images in the checkpoint" in done.err
    for done in outcomes(own, "--data.split_file", KEPT):
        assert done.code == 0, done.err
    (photos / "ant/0.png").unlink()
    for done in outcomes(own, "--data.split_file", KEPT):
        assert done.code == 1 and "photos lacks 1 of the 42 images that" in done.err


def test_what_is_held_out_of_a_training_folder_stays_the_same(app, photos):
    shutil.copytree(photos, photos.parent / "set" / "train")
    root = photos.parent / "set"
    assert fit(app, root).code == 0 and not KEPT.exists()
    assert app("validate", *words(root), *LAST).code == 0
    shutil.copy(photos / "ant/0.png", root / "train/ant/new.png")
    resumed = fit(app, root, *LAST)
    assert resumed.code == 1 and TRAINED_ON in resumed.err
    done = app("validate", *words(root), *LAST)
    assert done.code == 1 and "the checkpoint was trained with another split: 39 + 4 + 0" in done.err


def test_doctor_sees_small_classes_and_folders_without_images(app, photos):
    (photos / "notes").mkdir()
    done = app("doctor", *words(photos), "--model.net.variant", "mu/4")
    assert done.code == 0, done.err
    assert "warning  1 of 3 classes have no test image" in done.out
    assert f"warning  {photos / 'notes'} holds no images" in done.out


def test_a_file_that_was_moved_to_another_class_is_named_with_both(app, photos):
    assert fit(app, photos).code == 0
    (photos / "bee/5.png").rename(photos / "cat/5.png")
    for settings in ((), ("--data.split_file", KEPT)):
        done = app("test", *words(photos), *BEST, *settings)
        assert done.code == 1 and "photos lacks 1 of the 42 images that" in done.err
        assert "such as bee/5.png (cat/5.png is there, and not listed); put them back" in done.err


def test_a_soup_is_held_to_the_split_of_its_members(app, photos):
    for seed in (0, 1):
        assert fit(app, photos, "--seed_everything", seed).code == 0
    members = [f"runs/default/{number}" for number in (0, 1)]
    assert app("average", *members, "--out", "soup.ckpt").code == 0
    assert app("convert", members[0], "converted.ckpt").code == 0
    for checkpoint in ("soup.ckpt", "converted.ckpt"):
        done = app("test", checkpoint, *words(photos), "--data.split_seed", 1)
        assert done.code == 1 and "the checkpoint was trained with another split: --data.split_seed 1" in done.err, done
        assert app("test", checkpoint, *words(photos)).code == 0
    assert "seen_labels" in torch.load("soup.ckpt", weights_only=True)
    assert fit(app, photos, "--data.split_seed", 1).code == 0
    done = app("average", members[0], "runs/default/2", "--out", "other.ckpt")
    assert done.code == 1 and "since their splits of the data differ" in done.err, done
    assert not Path("other.ckpt").exists()


def test_a_run_gives_its_images_and_split_to_a_soup(app, photos):
    for seed in (0, 1):
        assert fit(app, photos, "--seed_everything", seed).code == 0
    done = app("average", "runs/default/0", "runs/default/1", "--out", "soup.ckpt")
    said = "next     python -m vit_lightning test runs/default/0 --ckpt_path soup.ckpt"
    assert done.code == 0 and said in done.out.splitlines(), done
    plain = app("test", "soup.ckpt", *words(photos), "--data.split_file", KEPT)
    scored = {line for line in plain.out.splitlines() if line.lstrip().startswith("test ")}
    done = app(*said.split()[4:])
    assert done.code == 0 and scored and scored <= set(done.out.splitlines()), (plain, done)
    assert not list(Path("runs").rglob("test.*"))  # whose names are the run's own
    for verb in ("validate", "inspect"):
        done = app(verb, "runs/default/0", "--ckpt_path", "soup.ckpt")
        assert done.code == 0, done.err
    several = ("--ckpt_path", "soup.ckpt", "--ckpt_path", "runs/default/1/checkpoints/best.ckpt")
    done = app("predict", "runs/default/0", *several, photos / "ant/0.png")
    assert done.code == 0 and "0.png" in done.out, done
    done = app("test", "runs/default/0", "runs/default/1", "--ckpt_path", "soup.ckpt")
    assert done.code == 1 and "all name nets" in done.err, done
    done = app("fit", "runs/default/0", "--ckpt_path", "soup.ckpt")
    assert done.code == 1 and "both name a checkpoint" in done.err, done
    done = app("test", "runs/default/0", "--ckpt_path", "nowhere.ckpt")
    assert done.code == 1 and "--ckpt_path nowhere.ckpt: no such file" in done.err, done


@pytest.mark.parametrize("names", [("train", "bus"), ("valid", "invalid"), ("test", "train", "exam")])
def test_classes_called_as_splits_are_read_with_a_list(tmp_path, names):
    for number, name in enumerate(names * 3):
        put(tmp_path / "set" / name / f"{number}.png", number)
    with pytest.raises(InputError, match=r"or list all classes in --data\.class_map"):
        ImageFolder(root=tmp_path / "set", image_size=8).setup("fit")
    (tmp_path / "names.txt").write_text("\n".join(names))
    data = ImageFolder(root=tmp_path / "set", image_size=8, class_map=tmp_path / "names.txt", val_fraction=0)
    data.setup("fit")
    assert data.class_names == list(names)


@pytest.mark.parametrize("place", ["set", "my set"])
@pytest.mark.parametrize("inner", [("left", "right"), ("OD", "OS")])
def test_folders_of_both_sides_in_each_class_are_read_with_the_list_that_the_error_writes(tmp_path, place, inner):
    for number, name in enumerate(("cat", "dog")):
        for side in inner:
            put(tmp_path / place / name / side / f"{number}.png")
    (tmp_path / place / "readme.txt").touch()
    with pytest.raises(InputError, match="if cat and dog are the classes, list all classes in ") as raised:
        ImageFolder(root=tmp_path / place, image_size=8).setup("fit")
    flag, command = str(raised.value).partition("list all classes in ")[2].split(", written by ")
    subprocess.run(command, shell=True, check=True)
    names = Path(shlex.split(flag)[1])
    assert names.read_text() == "cat\ndog\n"
    data = ImageFolder(root=tmp_path / place, image_size=8, class_map=names, val_fraction=0, test_fraction=0)
    data.setup("fit")
    assert data.class_names == ["cat", "dog"] and len(data.train_set) == 4


@pytest.mark.parametrize(
    "names", [("-x", "cat"), ("#1", "#2"), ("1. cat", "2. dog"), ("0 cat", "1 dog"), ("cat", "a'b")]
)
def test_the_list_that_the_error_writes_holds_any_names_of_classes(tmp_path, names):
    for number, name in enumerate(names):
        for side in ("left", "right"):
            put(tmp_path / "set" / name / side / f"{number}.png")
    (tmp_path / "set" / "docs" / "inner").mkdir(parents=True)
    with pytest.raises(InputError, match=r"are the classes, list all classes in ") as raised:
        ImageFolder(root=tmp_path / "set", image_size=8).setup("fit")
    flag, command = str(raised.value).partition("list all classes in ")[2].split(", written by ")
    subprocess.run(command.replace("python -c", f"{shlex.quote(sys.executable)} -c"), shell=True, check=True)
    data = ImageFolder(root=tmp_path / "set", image_size=8, class_map=Path(shlex.split(flag)[1]), val_fraction=0)
    data.setup("fit")
    assert data.class_names == sorted(names)
