import pickle
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from PIL import Image
from pyarrow import parquet

from datamodules.folder import ImageFolder
from datamodules.manifest import Manifest
from datamodules.parquet import Parquet
from datamodules.reading.image_files import ImageFiles
from datamodules.reading.shared_sequences import Strings
from vit_lightning.augment import Augment
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError
from vit_lightning.testing import check_datamodule


def put(path: Path, shade: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = "PNG" if path.suffix == ".png" else "JPEG"
    Image.new("RGB", (10, 8), (shade, shade, shade)).save(path, kind)


@pytest.fixture
def tree(tmp_path) -> Path:
    """Case C8: train has 0, 180, 270, 90; val lacks 180; hidden folders and an empty class beside them."""
    for name in ("0", "180", "270", "90"):
        for number in range(5):
            put(tmp_path / f"train/{name}/{number}.jpg", 10 * number)
    for name in ("0", "270", "90"):
        put(tmp_path / f"val/{name}/a.jpg")
    put(tmp_path / "train/.ipynb_checkpoints/0.jpg")
    put(tmp_path / "train/__MACOSX/._0.jpg")
    return tmp_path


def folder(root: Path, **options) -> ImageFolder:
    return ImageFolder(root=root, image_size=8, batch_size=4, augment=Augment(crop="none"), **options)


def ready(root: Path, **options) -> ImageFolder:
    data = folder(root, **options)
    data.setup("fit")
    return data


def test_contract(tree):
    put(tree / "test/0/a.jpg")
    check_datamodule(folder(tree))
    shutil.rmtree(tree / "val")
    check_datamodule(folder(tree, val_fraction=0.3))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("1", "01"), "are one number in two spellings"),
        (("caf\u00e9", "cafe\u0301"), "look alike, but their code points"),
        (("cat", "cat "), r"look alike, but their code points \(none\) and U\+0020 differ"),
    ],
)
@pytest.mark.parametrize("parent", [".", "train"])
def test_class_folders_that_look_alike(tmp_path, names, said, parent):
    for name in (*names, "dog"):
        put(tmp_path / parent / name / "0.jpg")
    if len(list((tmp_path / parent).iterdir())) < 3:
        pytest.skip("the file system takes both names for one")
    with pytest.raises(InputError, match=rf"has two class folders for what may be one: .*{said}.*; rename one"):
        ready(tmp_path)
    (tmp_path / parent / names[0]).rename(tmp_path / "kept")
    if parent == "train":
        (tmp_path / "val").mkdir()
        (tmp_path / "kept").rename(tmp_path / "val" / names[0])
        with pytest.raises(InputError, match=r"has the class folder .*lacks.*(look alike|in two spellings)"):
            ready(tmp_path)


@pytest.mark.parametrize("parent", [".", "train"])
def test_class_folders_whose_letters_differ_in_size(tmp_path, parent):
    for number, name in enumerate(("Cat", "cat", "a", "A")):
        put(tmp_path / parent / name / "0.jpg", number)
    if len(list((tmp_path / parent).iterdir())) < 4:
        pytest.skip("the file system takes both names for one")
    with pytest.raises(InputError, match=r"'A' and 'a' differ in small and large letters alone; rename one, or give"):
        ready(tmp_path)
    (tmp_path / "names.txt").write_text("Cat\ncat\na\nA\n")
    assert ready(tmp_path, class_map=tmp_path / "names.txt").class_names == ["Cat", "cat", "a", "A"]
    letters = sorted([*"abcdefghij", *"ABCDEFGHIJ"])
    for number, name in enumerate(letters):
        put(tmp_path / parent / name / "0.jpg", number)
    with pytest.raises(InputError, match=r"'Cat' and 'cat' differ in small and large letters alone; rename one, or g"):
        ready(tmp_path)
    shutil.rmtree(tmp_path / parent / "cat")
    assert ready(tmp_path).class_names == sorted([*letters, "Cat"])


def test_case_c8_one_mapping_from_train(tree, caplog):
    (tree / "train/45").mkdir()
    with caplog.at_level("INFO"):
        data = ready(tree)
    assert f"class '45' has no images in {tree / 'train'}; it keeps its number 3" in caplog.text
    assert data.class_names == ["0", "180", "270", "45", "90"]
    assert data.num_classes == 5
    assert np.bincount(data.train_set.labels).tolist() == [5, 5, 5, 0, 5]
    assert list(zip(data.val_set.keys, data.val_set.labels.tolist(), strict=True)) == [
        ("0/a.jpg", 0),
        ("270/a.jpg", 2),
        ("90/a.jpg", 4),
    ]


def test_case_c8_class_that_train_lacks(tree):
    put(tree / "val/360/a.jpg")
    with pytest.raises(InputError, match=r"val has the class folder '360', which .*train lacks"):
        ready(tree)


def test_case_c7_files_that_are_no_images_are_ignored(tree, caplog):
    put(tree / "train/0/B.JPEG")
    put(tree / "train/0/deep/er/c.png")
    put(tree / "train/0/.hidden/d.jpg")
    for name in ("._a.jpg", "Thumbs.db", "notes.txt", ".DS_Store"):
        (tree / "train/0" / name).write_bytes(b"junk")
    with caplog.at_level("INFO"):
        data = ready(tree)
    found = [key for key, label in zip(data.train_set.keys, data.train_set.labels, strict=True) if label == 0]
    assert found == ["0/0.jpg", "0/1.jpg", "0/2.jpg", "0/3.jpg", "0/4.jpg", "0/B.JPEG", "0/deep/er/c.png"]
    assert "ignored 4 hidden or other files" in caplog.text


@pytest.mark.parametrize("content", [b"", None])
def test_case_c7_broken_file_is_named(tree, content):
    path = tree / "val/90/a.jpg"
    path.write_bytes(path.read_bytes()[:200] if content is None else content)
    with pytest.raises(BrokenImage, match=r"validation image 90/a\.jpg: .+"):
        list(ready(tree, num_workers=0).val_dataloader())


def test_labels_and_pixels_stay_together(tree):
    data = ready(tree, num_workers=0)
    shades = dict(zip(data.train_set.keys, data.train_set.labels.tolist(), strict=True))
    assert {name: data.class_names[label] for name, label in shades.items()} == {
        name: name.split("/")[0] for name in shades
    }
    path, label = data.train_set[7]
    assert (path.parent.name, label) == ("180", 1)


def test_classes_are_sorted_as_text(tmp_path):
    for name in ("1", "10", "2", "B", "a"):
        put(tmp_path / f"train/{name}/x.jpg")
    assert folder(tmp_path).class_names == ["1", "10", "2", "B", "a"]


def test_class_map_decides_the_order(tree, tmp_path, caplog):
    path = tmp_path / "classes.txt"
    path.write_text("270\n90\n0\n180\n360\n\n")
    put(tree / "val/360/a.jpg")
    with caplog.at_level("INFO"):
        data = ready(tree, class_map=path)
    assert "'360' has no images" in caplog.text
    assert data.class_names == ["270", "90", "0", "180", "360"]
    assert data.val_set.labels.tolist() == [0, 1, 2, 4]
    path.write_text("270\n90\n")
    with pytest.raises(InputError, match=r"train has the class folder '0', which .*classes\.txt lacks"):
        ready(tree, class_map=path)
    with pytest.raises(InputError, match=r"--data\.class_map .*gone\.txt cannot be read"):
        folder(tree, class_map=tmp_path / "gone.txt").num_classes  # noqa: B018


def test_without_val_a_part_of_train_is_held_out(tree):
    shutil.rmtree(tree / "val")
    data, again = ready(tree, val_fraction=0.2), ready(tree, val_fraction=0.2)
    assert (len(data.train_set), len(data.val_set)) == (16, 4)
    assert list(data.val_set.keys) == list(again.val_set.keys)
    assert not set(data.val_set.keys) & set(data.train_set.keys)
    assert ready(tree, val_fraction=0.0).val_set is None


def test_validation_is_another_name_for_val(tree):
    (tree / "val").rename(tree / "validation")
    assert len(ready(tree).val_set) == 3


@pytest.mark.parametrize("layout", ["nothing", "flat train"])
def test_wrong_layout_is_explained(tmp_path, layout):
    if layout == "flat train":
        put(tmp_path / "train/a.jpg")
    with pytest.raises(InputError, match=r"train/<class>/<image>.*--data.root"):
        folder(tmp_path).num_classes  # noqa: B018


def test_flat_val_is_explained(tree):
    shutil.rmtree(tree / "val")
    put(tree / "val/a.jpg")
    with pytest.raises(InputError, match=r"val holds no <class>/<image>"):
        ready(tree)


def test_many_names_are_kept_in_two_arrays():
    names = ["a/b.jpg", "", "\u00e4/\udcff.png", "x" * 300]
    strings = Strings(iter(names))
    assert list(strings) == names
    assert len(pickle.dumps(Strings(f"class/{number:08d}.jpg" for number in range(10_000)))) < 10_000 * 27
    files = pickle.loads(pickle.dumps(ImageFiles(Path("root"), names, [0, 1, 2, 3])))
    assert files[0] == (Path("root/a/b.jpg"), 0)


def test_kits_imagenet_tree(kit, tmp_path):
    """Real ImageNet files, gray and CMYK ones among them, in the usual layout."""
    files = sorted((kit / "imagenet-sample").rglob("*.JPEG"))[:20]
    for number, file in enumerate(files):
        target = tmp_path / f"train/{number % 2}/{file.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(file)
    data = ImageFolder(root=tmp_path, image_size=32, batch_size=4, val_fraction=0.3)
    check_datamodule(data)


@pytest.mark.parametrize("name", ["valid", "dev", "Validation"])
def test_other_names_of_splits(tree, name):
    (tree / "val").rename(tree / name)
    put(tree / "testing/0/a.jpg")
    data = ready(tree)
    assert (len(data.train_set), len(data.val_set), len(data.test_set)) == (20, 3, 1)
    put(tree / "val/0/a.jpg")
    with pytest.raises(InputError, match=rf"({name}|val) and .*({name}|val) are both named as val data are; keep one"):
        ready(tree)


def test_a_folder_that_is_no_split_is_named(tree, caplog):
    (tree / "val").rename(tree / "holdout")
    with caplog.at_level("INFO"):
        data = ready(tree)
    assert data.notices == [
        f"{tree} has the folder holdout, which is no split and is left out (1 such); "
        "splits are called train, training, val, valid, validation, dev, test, testing, eval, evaluation"
    ]
    assert data.notices[0] in caplog.text


def test_linked_folders_are_followed(tree, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    put(elsewhere / "more/c.jpg")
    (tree / "val/90/linked").symlink_to(elsewhere / "more")
    (tree / "val/90/around").symlink_to(tree / "val")
    (tree / "train/gone").symlink_to(elsewhere / "gone")
    data = ready(tree)
    assert [key for key in data.val_set.keys if key.startswith("90/")] == ["90/a.jpg", "90/linked/c.jpg"]
    assert any("train/gone is a link to" in notice for notice in data.notices)


def test_test_images_without_classes_serve_predict_alone(tree):
    put(tree / "test/a.jpg")
    put(tree / "test/b.jpg")
    data = ready(tree)
    assert data.test_set.labels.tolist() == [IGNORE, IGNORE]
    with pytest.raises(InputError, match=r"test holds no <class>/<image>"):
        data.setup("test")


def test_images_with_a_table_of_labels_are_explained(tmp_path):
    put(tmp_path / "train/a.jpg")
    (tmp_path / "train/metadata.csv").write_text("file_name,label\na.jpg,cat\n")
    with pytest.raises(InputError, match=r"give --data Manifest --data\.train .*train/metadata\.csv"):
        folder(tmp_path).num_classes  # noqa: B018


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


def test_one_folder_or_file_in_two_classes_or_splits(tmp_path):
    for number, file in enumerate(("train/a/0.jpg", "train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg", "val/b/4.jpg")):
        put(tmp_path / file, number)
    for link, target in (
        ("train/c", "a"),
        ("train/b/link.jpg", "../a/0.jpg"),
        ("val/a/link.jpg", "../../train/a/0.jpg"),
        ("val/c", "../train/b"),
        ("test", "train"),
    ):
        (tmp_path / link).symlink_to(target)
        if link == "val/c":
            (tmp_path / "train/c").mkdir()
        with pytest.raises(InputError, match=r"are one through a link; keep it in one class of one split"):
            ready(tmp_path)
        (tmp_path / link).unlink()
    (tmp_path / "pool").mkdir()
    put(tmp_path / "pool/x.jpg")
    for link in ("train/a/x.jpg", "val/a/x.jpg"):
        (tmp_path / link).symlink_to(tmp_path / "pool/x.jpg")
    with pytest.raises(InputError, match=r"train/a/x\.jpg and .*val/a/x\.jpg are one through a link"):
        ready(tmp_path)
    (tmp_path / "val/a/x.jpg").unlink()
    (tmp_path / "test").symlink_to("val")
    assert len(ready(tmp_path).test_set) == 2


@pytest.mark.parametrize("kind", ["folder below", "chain", "chain of folders", "hard link", "hard link below"])
@pytest.mark.parametrize(("place", "target"), [("train/a", "train/b"), ("val/a", "train/a"), ("val/b", "val/a")])
def test_links_at_any_depth_and_of_any_kind(tmp_path, kind, place, target):
    for number, name in enumerate(("train/a", "train/b", "val/a", "val/b")):
        put(tmp_path / name / f"{number}.jpg", number)
    first = next((tmp_path / target).glob("*.jpg"))
    (tmp_path / place / "deep").mkdir()
    if kind == "folder below":
        (tmp_path / place / "deep/sub").symlink_to(tmp_path / target)
    elif kind == "chain":
        (tmp_path / "pool.jpg").symlink_to(first)
        (tmp_path / place / "x.jpg").symlink_to(tmp_path / "pool.jpg")
    elif kind == "chain of folders":
        (tmp_path / "pool").symlink_to(tmp_path / target)
        (tmp_path / place / "deep/sub").symlink_to(tmp_path / "pool")
    else:
        (tmp_path / place / ("deep/x.jpg" if "below" in kind else "x.jpg")).hardlink_to(first)
    with pytest.raises(InputError, match=r"\.jpg and .*\.jpg are one through a link; keep it in one class"):
        ready(tmp_path)


def test_links_within_a_class_and_among_what_is_scored(tmp_path):
    for number, name in enumerate(("train/a", "train/b", "val/a", "val/b")):
        put(tmp_path / name / f"{number}.jpg", number)
    (tmp_path / "train/a/again.jpg").hardlink_to(tmp_path / "train/a/0.jpg")
    (tmp_path / "test").symlink_to("val")
    (tmp_path / "train/b/gone.jpg").symlink_to("nowhere.jpg")
    assert len(ready(tmp_path).test_set) == 2
    (tmp_path / "test").unlink()
    put(tmp_path / "test/3.jpg", 9)
    (tmp_path / "test/x.jpg").hardlink_to(tmp_path / "train/a/0.jpg")
    with pytest.raises(InputError, match=r"train/a/(0|again)\.jpg and .*test/\./x\.jpg are one through a link"):
        ready(tmp_path)


def test_doctor_finds_links(app, tree):
    (tree / "val/0/deep").mkdir()
    (tree / "val/0/deep/x.jpg").hardlink_to(tree / "train/90/0.jpg")
    words = ("--data", "ImageFolder", "--data.root", tree, "--data.image_size", 8, "--data.batch_size", 2)
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert done.code == 1 and "are one through a link; keep it in one class" in done.out + done.err


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


def test_a_class_that_is_called_as_a_split_is(tmp_path):
    for number, name in enumerate(("train", "bus", "car")):
        put(tmp_path / name / "0.jpg", number)
    (tmp_path / "names.txt").write_text("train\nbus\ncar\n")
    data = ready(tmp_path, class_map=tmp_path / "names.txt", val_fraction=0.0, test_fraction=0.0)
    assert data.class_names == ["train", "bus", "car"]
    assert list(data.train_set.keys) == ["train/0.jpg", "bus/0.jpg", "car/0.jpg"]
    for place in ("data/train/train/0.jpg", "data/train/bus/0.jpg", "data/val/bus/0.jpg"):
        put(tmp_path / place)
    data = ready(tmp_path / "data", class_map=tmp_path / "names.txt")
    assert list(data.train_set.keys) == ["train/0.jpg", "bus/0.jpg"] and list(data.val_set.keys) == ["bus/0.jpg"]


def test_images_whose_names_begin_with_their_classes(tmp_path):
    """As Kaggle's Dogs vs. Cats has them; what the error says is what reads them."""
    for number in range(8):
        put(tmp_path / f"train/{('cat', 'dog')[number % 2]}.{number}.png", number)
    with pytest.raises(InputError, match=r"names of its images begin with cat and dog: if these are") as caught:
        ImageFolder(root=tmp_path, image_size=8).setup("fit")
    command, table = re.search(
        r"write a table by (.*), and give --data Manifest --data.train (\S+) ", str(caught.value)
    ).groups()
    subprocess.run(command, shell=True, check=True)
    data = Manifest(root=tmp_path, train=Path(table), image_folder=tmp_path / "train", cache=tmp_path / ".cache")
    data.setup("fit")
    assert data.class_names == ["cat", "dog"] and len(data.train_set) + len(data.val_set) == 8
    for file in (tmp_path / "train").iterdir():
        file.rename(file.with_name(f"{file.name.split('.')[1]}.png"))
    with pytest.raises(InputError, match=r"give --data\.root$"):
        ImageFolder(root=tmp_path, image_size=8).setup("fit")


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        ("american_bulldog_{} american_pit_bull_terrier_{}", ["american_bulldog", "american_pit_bull_terrier"]),
        ("n01440764_1{} n02102040_1{}", ["n01440764", "n02102040"]),
        ("cat{} dog{}", ["cat", "dog"]),
        ("cat-({}) sea-lion-({})", ["cat", "sea-lion"]),
        ("set.1.cat_{} set.2.cat_{}", ["set.1.cat", "set.2.cat"]),
        ("b\u00e4r_{} katze_{}", ["b\u00e4r", "katze"]),
        ("Cat_{} cat_{}", "which may be one class"),
        ("cat,tabby_{} dog_{}", ""),
        ("cat_{} {}", ""),
    ],
)
def test_the_whole_beginning_of_a_name_is_the_class(tmp_path, names, classes):
    for number in range(8):
        put(tmp_path / f"train/{names.split()[number % 2].format(number + 2)}.png", number)
    (tmp_path / "train/notes_1.txt").touch()
    with pytest.raises(InputError) as caught:
        ImageFolder(root=tmp_path, image_size=8).setup("fit")
    found = re.search(r"write a table by (.*), and give --data Manifest --data.train (\S+) ", str(caught.value))
    if isinstance(classes, str):
        assert found is None and classes in str(caught.value)
        return
    subprocess.run(found[1], shell=True, check=True)
    data = Manifest(root=tmp_path, train=Path(found[2]), image_folder=tmp_path / "train", cache=tmp_path / ".cache")
    data.setup("fit")
    assert data.class_names == classes and len(data.train_set) + len(data.val_set) == 8


@pytest.mark.parametrize("header", ["labels", "class", "ClassName"])
def test_a_header_of_a_class_map_of_folders(tmp_path, header):
    for number, name in enumerate(("owl", "cat")):
        put(tmp_path / f"set/train/{name}/0.jpg", number)
    (tmp_path / "names.txt").write_text(f"{header}\nowl\ncat\n")
    options = {"class_map": tmp_path / "names.txt", "val_fraction": 0.0}
    assert ready(tmp_path / "set", **options).class_names == ["owl", "cat"]
    put(tmp_path / f"set/train/{header}/0.jpg", 3)
    assert ready(tmp_path / "set", **options).class_names == [header, "owl", "cat"]


@pytest.mark.parametrize("form", ["{}/cat/0.png", "{}.parquet"])
def test_what_is_called_eval_is_tested(tmp_path, form):
    if form.endswith("parquet"):
        for split in ("train", "eval"):
            table = {"image": [f"{split}{number}".encode() for number in range(2)], "label": ["cat", "dog"]}
            parquet.write_table(pyarrow.table(table), tmp_path / f"{split}.parquet")
        data = Parquet(root=tmp_path, image_size=8, val_fraction=0.0)
        data.setup("fit")
    else:
        for number, place in enumerate(("train/cat", "train/dog", "eval/cat", "eval/dog")):
            put(tmp_path / place / "0.png", number)
        data = ready(tmp_path, val_fraction=0.0)
    assert (len(data.train_set), data.val_set, len(data.test_set)) == (2, None, 2)


@pytest.mark.parametrize(("also", "how"), [("train", "is"), (".", "holds"), ("train/cat", "lies in")])
def test_the_training_images_are_no_further_set(tmp_path, also, how):
    for number in range(8):
        put(tmp_path / f"train/{('cat', 'dog')[number % 2]}/{number}.png", number)
    data = ImageFolder(root=tmp_path, image_size=8, also={"night": tmp_path / also})
    with pytest.raises(InputError, match=rf"--data\.also night: .* {how} the folder of the training images, .*/train;"):
        data.setup("fit")


def test_a_further_folder_of_another_class_is_named_with_the_fix(tmp_path):
    for place in ("train/cat", "train/dog", "night/cow"):
        put(tmp_path / place / "0.png")
    said = r"night has the class folder 'cow', which \S+ lacks \(1 such\); add it there{}, or remove it"
    with pytest.raises(InputError, match=said.format(", or say in --data.class_map which class it shows")):
        ready(tmp_path, also={"night": tmp_path / "night"})
    (tmp_path / "map.csv").write_text("cat,cat\ndog,dog\n")
    with pytest.raises(InputError, match=said.format("").replace(r"\S+", r"\S+map\.csv")):
        ready(tmp_path, also={"night": tmp_path / "night"}, class_map=tmp_path / "map.csv")
