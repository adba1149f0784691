import pickle
import shutil
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from PIL import Image
from pyarrow import parquet

from datamodules.folder import ImageFolder
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
