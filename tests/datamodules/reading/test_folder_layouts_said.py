"""What is said of folders in classes and beside them."""

from pathlib import Path

import pytest

from datamodules.reading.folder_layouts import beside_images, classes_in_names, taken_together
from tests.datamodules.reading.test_folder_layouts import make, read
from tests.datamodules.test_folder import put
from vit_lightning.errors import InputError

TOGETHER = "are read as one class each"


def images(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (
            "colon_sets/aca colon_sets/n lung_sets/aca1 lung_sets/scc",
            "aca, n in colon_sets, aca1, scc in lung_sets are",
        ),
        ("train/dogs/pug train/dogs/poodle train/cats/manx val/dogs/pug val/cats/manx", "pug in dogs are read"),
        ("cat/2019 cat/2020 dog/2019 dog/2020", "2019, 2020 in cat, 2019, 2020 in dog are read as one class each"),
        ("aa/abbey aa/alley b/barn b/beach", "abbey, alley in aa, barn, beach in b are read as one class each"),
        ("benign/SOB/adenosis benign/SOB/fibroma malignant/SOB/lobular", "adenosis, fibroma in benign/SOB are read"),
    ],
)
def test_folders_in_classes_are_said(app, tmp_path, tree, said):
    make(tmp_path / "set", tree)
    data = read(tmp_path / "set")
    tops = sorted({place.removeprefix("train/").split("/")[0] for place in tree.split() if place[:4] != "val/"})
    assert data.class_names == tops and any(said in text for text in data.notices)
    words = ("--data", "ImageFolder", "--data.root", tmp_path / "set", "--data.image_size", 8, "--data.batch_size", 2)
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert said in done.out and "--data.root" in done.out and "warning" in done.out
    (tmp_path / "names.txt").write_text("\n".join(tops))
    assert not any(TOGETHER in text for text in read(tmp_path / "set", class_map=tmp_path / "names.txt").notices)


@pytest.mark.parametrize("tree", ["cat/2019 cat/2020 dog/2019", "cat dog", "cat/images dog/images"])
def test_folders_in_classes_that_are_no_classes(tmp_path, tree):
    make(tmp_path, tree)
    assert not any(TOGETHER in text for text in read(tmp_path).notices)


@pytest.mark.parametrize(
    ("known", "silent"), [([], False), (["a"], False), (["a", "b"], True), (["a", "b", "c"], True)]
)
def test_a_list_of_all_classes_says_what_folders_in_them_are(tmp_path, known, silent):
    for name in ("a/x", "a/y", "b"):
        images(tmp_path / name, "0.png")
    found = taken_together(tmp_path, ["a", "b"], known)
    assert (found is None) == silent
    if found:
        assert "all images in x, y in a are read as one class each" in found
        assert f"give --data.root {tmp_path / 'a'};" in found


def test_one_folder_in_a_class_is_not_told(tmp_path):
    images(tmp_path / "a" / "x", "0.png")
    assert taken_together(tmp_path, ["a"], []) is None


def test_a_folder_of_images_beside_others_may_be_a_class(tmp_path):
    said = beside_images(tmp_path, tmp_path / "test", ["dog", "ant"])
    assert "test holds no folders and lies beside dog" in said and "as train/test and train/dog" in said
    assert beside_images(tmp_path, tmp_path, ["dog"]) == beside_images(tmp_path, tmp_path / "test", []) == ""


@pytest.mark.parametrize(("name", "place"), [("runs", "runs/default/0"), ("mine", "mine/3"), ("out", "out/a/12")])
def test_runs_beside_classes_are_none(tmp_path, name, place):
    make(tmp_path, "cat dog")
    put(tmp_path / place / "test.confusion.png")
    assert read(tmp_path).class_names == sorted(["cat", "dog", name])
    (tmp_path / place / "env.json").touch()
    assert read(tmp_path).class_names == sorted(["cat", "dog", name])  # one file alone says nothing
    (tmp_path / place / "config.yaml").touch()
    data = read(tmp_path)
    assert data.class_names == ["cat", "dog"]
    assert f"{tmp_path / name} holds runs and is left out" in data.notices


def test_a_class_called_runs(tmp_path):
    make(tmp_path, "cat runs")
    assert read(tmp_path).class_names == ["cat", "runs"]


def test_images_whose_classes_stand_in_a_list_beside_them(tmp_path):
    make(tmp_path, "train/cat train/dog val/images")
    with pytest.raises(InputError, match="val has the class folder 'images', which"):
        read(tmp_path)
    (tmp_path / "val" / "val_annotations.txt").touch()
    with pytest.raises(InputError, match=r"val holds the folder images and val_annotations\.txt, which may list"):
        read(tmp_path)


@pytest.mark.parametrize(("folder", "offers"), [("", True), ("train", False)])
def test_one_folder_around_the_classes_is_offered_as_root(tmp_path, folder, offers):
    make(tmp_path / folder, "images/rose images/tulip")
    with pytest.raises(InputError, match="holds one folder, images, and rose and tulip in it; move them up") as error:
        read(tmp_path)
    assert (f", or give --data.root {tmp_path / 'images'}" in str(error.value)) == offers


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["cat.0.jpg", "cat.1.jpg", "dog.0.jpg", "dog.1.jpg"], "begin with cat and dog:"),
        (["dog_1.png", "ant_1.png", "cat_1.png", "cat_2.png", "ant_2.png", "dog_2.png"], "begin with ant and cat:"),
        (["cat.0.jpg", "cat.1.jpg", "cat.2.jpg"], ""),  # one word is no class
        (["cat.0.jpg", "dog.0.jpg", "ant.0.jpg", "cat.1.jpg"], ""),  # nearly a word for each image
        (["cat.0.jpg", "cat.1.jpg", "dog.0.jpg", "dog.1.jpg", "7.jpg"], ""),  # one has none
        (["cat.0.jpg", "cat.1.jpg", "dog.jpg", "dog.1.jpg"], ""),  # a word alone is a name
        (["cat.0.jpg", "cat.1.jpg", "dog.0.jpg", "dog.1.jpg", "read.me.txt"], "begin with cat and dog:"),
        ([], ""),
    ],
)
def test_classes_that_begin_the_names_of_images(tmp_path, names, said):
    folder = images(tmp_path / "my pets", *names)
    found = classes_in_names(folder)
    assert (said in found) if said else found == ""
    if said:
        table, place = f"'{folder}.csv'", f"'{folder}'"
        assert f"> {table}, and give --data Manifest --data.train {table} --data.image_folder {place}" in found
    assert classes_in_names(tmp_path / "none") == ""
