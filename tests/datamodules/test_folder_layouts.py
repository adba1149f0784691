"""Folders that are no classes, beside and around those that are."""

import pytest

from tests.datamodules.test_folder import folder, put, ready
from vit_lightning.errors import InputError


def test_fiftyones_unlabelled_images_are_left_out(tree):
    put(tree / "train/_unlabeled/a.jpg")
    assert ready(tree).class_names == ["0", "180", "270", "90"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["train/a.jpg", "bus/a.jpg"], r"; train holds no folders and lies beside bus: if both are classes, move all"),
        (["test/a.jpg", "bus/a.jpg", "car/a.jpg"], r"; test holds no folders and lies beside bus: if both are classes"),
        (["val/a.jpg", "bus/a.jpg"], r"; val holds no folders and lies beside bus: if both are classes, move all"),
        (["cat/train/a.jpg", "cat/test/b.jpg", "dog/train/a.jpg"], r"has the splits inside its classes, as cat/train;"),
        (["cat/Training/a.jpg", "dog/Training/a.jpg"], r"move them out, as Training/cat, or rename them"),
        (
            ["train/train/cat/a.jpg", "train/val/cat/b.jpg"],
            r"/train holds the folder train, .*; give --data\.root .*/train",
        ),
        (["train2017/a.jpg", "val2017/a.jpg"], r"holds the folders train2017 and val2017, which are called as parts"),
        (["train_images/a.jpg", "test_images/a.jpg"], r"for labels in a table give --data Manifest"),
        (["train/images/a.jpg", "train/labels/a.txt"], r"/train holds images and labels/\*\.txt, the boxes of YOLO's"),
        (["images/train/a.jpg", "labels/train/a.txt"], r"holds images and labels/\*\.txt, the boxes of YOLO's"),
        (["images/a.jpg", "labels/a.txt", "more/a.jpg"], r"ImageFolder reads a folder for each class, as train/cat/1"),
        (["JPEGImages/a.jpg", "Annotations/a.xml", "SegmentationClass/a.png"], r"as Pascal VOC has them"),
    ],
)
def test_folders_that_are_no_classes(app, tmp_path, files, said):
    for file in map(tmp_path.joinpath, files):
        if file.suffix in (".jpg", ".png"):
            put(file)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("0 0.5 0.5 1 1")
    with pytest.raises(InputError, match=said):
        folder(tmp_path).num_classes  # noqa: B018
    (tmp_path / "names.txt").write_text("bus\ncar\ncat\ndog\n")
    if "holds no folders" not in said:
        with pytest.raises(InputError, match=said):
            ready(tmp_path, class_map=tmp_path / "names.txt")


@pytest.mark.parametrize("files", [["training_shoe/a.jpg", "train/b.jpg"], ["cat/day/a.jpg", "dog/labels/a.jpg"]])
def test_folders_that_may_be_classes(tmp_path, files):
    for file in files:
        put(tmp_path / "train" / file)
    assert folder(tmp_path).num_classes == 2


def test_doctor_says_what_folders_are_no_classes(app, tmp_path):
    for file in ("cat/train/a.jpg", "cat/test/b.jpg", "dog/train/a.jpg"):
        put(tmp_path / file)
    words = ("--data", "ImageFolder", "--data.root", tmp_path, "--data.image_size", 8, "--data.batch_size", 2)
    words += ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data.num_workers", 0)
    done = app("doctor", *words)
    assert done.code == 1 and "has the splits inside its classes, as cat/train" in done.out + done.err


def test_doctor_names_a_folder_that_is_no_split(app, tree):
    (tree / "val").rename(tree / "holdout")
    words = ("--data", "ImageFolder", "--data.root", tree, "--data.image_size", 8, "--data.batch_size", 2)
    words += ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data.num_workers", 0)
    done = app("doctor", *words)
    assert f"warning  {tree} has the folder holdout, which is no split and is left out" in done.out


@pytest.mark.parametrize("name", ["cats", "photos of cats"])
def test_a_root_with_one_class_says_that_two_are_needed(tmp_path, name):
    put(tmp_path / name / "0.jpg")
    with pytest.raises(InputError, match=f"holds one folder with images, '{name}', and a classifier needs two classes"):
        _ = folder(tmp_path).class_names


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            [f"asl_alphabet_{split}/{name}/a.jpg" for split in ("train", "test") for name in "ab"],
            r"holds the folders asl_alphabet_test and asl_alphabet_train, which are called as parts of a set are",
        ),
        (["dataset_train/a.jpg", "dataset_valid/a.jpg"], r"holds the folders dataset_train and dataset_valid"),
        (["seg_train/seg_train/a/a.jpg", "seg_test/seg_test/a/a.jpg"], r"holds the folders seg_test and seg_train"),
        (["a-Val2/a.jpg", "a-Train1/a.jpg", "b/a.jpg"], r"holds the folders a-Train1 and a-Val2"),
        (["fold1/a/a.jpg", "fold2/a/a.jpg", "fold3/a/a.jpg"], r"holds the folders fold1 and fold2"),
        (["images/a/a.jpg", "masks/a/a.jpg"], r"holds the folders images and masks, which are called as parts"),
        (
            [f"{part}/{name}/a.jpg" for part in ("day", "night") for name in "ab"],
            r"holds day and night, each of which holds a and b: if these are the classes, .* --data\.root .*/day;",
        ),
        (
            ["flowers/rose/a.jpg", "flowers/tulip/a.jpg", "rose/a.jpg", "tulip/a.jpg"],
            r"holds the folders rose and flowers/rose: if both are one class, move",
        ),
        (
            ["train/flowers/rose/a.jpg", "train/rose/a.jpg", "val/rose/a.jpg"],
            r"/train holds the folders rose and flowers/rose",
        ),
        (
            ["train/animals/a/a.jpg", "train/animals/b/a.jpg", "val/animals/a/a.jpg"],
            r"/train holds one folder, animals, and a and b in it; move them up if they are the classes, as train/a",
        ),
    ],
)
def test_parts_of_a_set_are_no_classes(tmp_path, files, said):
    for number, file in enumerate(files):
        put(tmp_path / file, number)
    with pytest.raises(InputError, match=said):
        ready(tmp_path)


@pytest.mark.parametrize("top", ["", "train/"])
@pytest.mark.parametrize(
    "files",
    [
        ["cat/2019/a.jpg", "cat/2020/a.jpg", "dog/2019/a.jpg"],
        ["bullet train/a.jpg", "test tube/a.jpg"],
        ["cat/images/a.jpg", "dog/images/a.jpg"],
    ],
)
def test_folders_inside_classes(tmp_path, top, files):
    for number, file in enumerate(files):
        for copy in "bcde":
            put(tmp_path / top / f"{file.removesuffix('.jpg')}{copy}.jpg", number)
    assert ready(tmp_path).num_classes == 2


@pytest.mark.parametrize("parent", [".", "train"])
@pytest.mark.parametrize("name", ["@eaDir", "$RECYCLE.BIN", "$Recycle.Bin", "#recycle", "lost+found"])
def test_folders_of_systems_are_no_classes(tmp_path, parent, name):
    for number, place in enumerate((f"cat/{name}", name, "cat", "dog")):
        put(tmp_path / parent / place / "0.jpg", number)
        put(tmp_path / parent / place / "1.jpg", number)
    data = ready(tmp_path, val_fraction=0.0, test_fraction=0.0)
    assert data.class_names == ["cat", "dog"] and len(data.train_set) == 4


@pytest.mark.parametrize("parent", [".", "train"])
def test_images_beside_the_folders_of_classes_are_named(tmp_path, parent):
    for number, place in enumerate(("cat/0.jpg", "dog/0.jpg", "b.jpg", "a.jpg", ".c.jpg")):
        put(tmp_path / parent / place, number)
    data = ready(tmp_path, val_fraction=0.0, test_fraction=0.0)
    folder = tmp_path / parent
    assert data.notices == [f"{folder} has 2 images in no folder of a class, such as a.jpg, left out"]
    if parent == "train":
        put(tmp_path / "val/cat/0.jpg")
        put(tmp_path / "val/d.jpg")
        assert (
            ready(tmp_path).notices[1]
            == f"{tmp_path / 'val'} has 1 image in no folder of a class, such as d.jpg, left out"
        )
