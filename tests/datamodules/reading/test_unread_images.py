"""Pictures in folders of classes that are not read: of formats that are not, or without an ending."""

import io
import os

import pytest
from PIL import Image

from datamodules.folder import ImageFolder
from datamodules.reading import unread_images
from tests.datamodules.test_folder import put
from vit_lightning.errors import InputError


def put_other(path, content: bytes = b"ftypheic") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def png() -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (8, 8)).save(data, "PNG")
    return data.getvalue()


def read(root, **options) -> ImageFolder:
    data = ImageFolder(root=root, image_size=8, **options)
    data.setup("fit")
    return data


@pytest.fixture(params=["set", "set/train"])
def root(tmp_path, request):
    for number in range(8):
        put(tmp_path / request.param / "cat" / f"c{number}.jpg", number)
        put(tmp_path / request.param / "cow" / f"w{number}.jpg", number)
    return tmp_path / request.param


@pytest.mark.parametrize("ending", [".heic", ".HEIC", ".heif", ".dcm", ".jxl", ".nef"])
def test_a_class_of_which_no_image_is_read(tmp_path, root, ending):
    for number in range(6):
        put_other(root / "dog" / f"d{number}{ending}")
    said = f"dog holds no images that are read, but 6 files of {ending.lower()}, such as dog/d[0-9]{ending}; convert"
    with pytest.raises(InputError, match=said):
        read(tmp_path / "set")


@pytest.mark.parametrize("content", [png(), bytes(128) + b"DICM" + bytes(9)])
@pytest.mark.parametrize("form", ["d{}", "IM-0001.{}"])
def test_a_class_of_images_without_endings(tmp_path, root, content, form):
    for number in range(6):
        put_other(root / "dog" / form.format(number), content)
    with pytest.raises(InputError, match="dog holds no images that are read, but 6 files without an ending, such as"):
        read(tmp_path / "set")


def test_half_of_a_class_is_said(tmp_path, root):
    for number in range(4):
        put_other(root / "cat" / f"p{number}.heic")
    put_other(root / "cow" / "w9", png())
    notices = "".join(read(tmp_path / "set").notices)
    assert f"{root / 'cat'} holds 4 files of .heic, such as cat/p0.heic, which are left out; convert them" in notices
    assert f"{root / 'cow'} holds 1 file without an ending, such as cow/w9, which is left out; give them" in notices


@pytest.mark.parametrize("names", [("a/1", "b/2"), ("a/1",), ("train/1", "val/2"), ("1", "2")])
def test_a_root_of_which_no_image_is_read(tmp_path, names):
    for name in names:
        put_other(tmp_path / "set" / f"{name}.heic")
    what = "2 files" if len(names) == 2 else "1 file"
    said = (
        f"set holds no images that are read, but {what} of .heic, such as {names[0]}.heic; convert them to .jpg or .png"
    )
    with pytest.raises(InputError, match=said):
        _ = ImageFolder(root=tmp_path / "set").class_names


def test_pictures_that_are_not_read_are_not_among_the_other_files(tmp_path, caplog):
    for number, name in enumerate(("a/1.jpg", "a/2.jpg", "b/3.jpg", "b/4.jpg")):
        put(tmp_path / "set" / name, number)
    put_other(tmp_path / "set/a/x.heic")
    put_other(tmp_path / "set/a/notes.txt", b"text")
    with caplog.at_level("INFO"):
        notices = read(tmp_path / "set", val_fraction=0, test_fraction=0).notices
    assert any("a holds 1 file of .heic, such as a/x.heic, which is left out" in text for text in notices)
    assert "ignored 1 hidden or other files, such as a/notes.txt" in caplog.text


def test_many_classes_are_not_all_told(tmp_path):
    for name in "abcdefgh":
        put(tmp_path / "set" / name / f"{name}.jpg")
        put_other(tmp_path / "set" / name / f"{name}1.heic")
    notices = read(tmp_path / "set", val_fraction=0, test_fraction=0).notices
    assert sum("1 file of .heic" in text for text in notices) == 5
    assert f"{tmp_path / 'set'}: 3 more such notices, of other classes, are not shown" in notices


def test_a_folder_beside_classes_that_is_none(tmp_path):
    for number in range(8):
        put(tmp_path / "set" / "ab"[number % 2] / f"{number}.jpg", number)
        put_other(tmp_path / "set" / "phone" / f"{number}.heic")
    with pytest.raises(InputError, match=r"phone holds no images that are read, .*; if it is no class, move it"):
        read(tmp_path / "set")
    (tmp_path / "names.txt").write_text("a\nb\n")
    assert read(tmp_path / "set", class_map=tmp_path / "names.txt").class_names == ["a", "b"]


@pytest.mark.parametrize(
    "names",
    [["notes.txt", "README", "a.json"], ["a.mat", "b.npy"], ["._a.heic", "Thumbs.db"], ["clip.mov"], ["a.xml"], []],
)
def test_folders_of_other_files_are_left_out(tmp_path, names):
    for number in range(8):
        put(tmp_path / "set" / "ab"[number % 2] / f"{number}.jpg", number)
    (tmp_path / "set" / "docs").mkdir()
    for name in names:
        put_other(tmp_path / "set" / "docs" / name, b"text")
    data = read(tmp_path / "set")
    assert data.class_names == ["a", "b"] and "docs holds no images and is left out" in "".join(data.notices)


@pytest.mark.parametrize("name", ["README", "labels.txt", "Thumbs.db", "x.mp4", "LICENSE"])
def test_other_files_in_a_class_are_not_said(tmp_path, name):
    put_other(tmp_path / "a" / name, b"text")
    assert unread_images.check(tmp_path, "a", ["a/1.jpg", f"a/{name}"]) == []


def test_a_pipe_is_not_waited_for(tmp_path):
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "pipe")
    assert unread_images.check(tmp_path, "a", ["a/1.jpg", "a/pipe"]) == []


@pytest.mark.parametrize("ending", ["jpe", "dib", "pnm", "tga", "jp2", "apng"])
def test_formats_that_are_read(tmp_path, ending):
    for number in range(8):
        path = tmp_path / "set" / "ab"[number % 2] / f"{number}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = {"jpe": "JPEG", "apng": "PNG", "pnm": "PPM", "jp2": "JPEG2000"}.get(ending, ending.upper())
        Image.new("RGB", (16, 16), (10, 200, 30)).save(path, kind)
    data = read(tmp_path / "set", val_fraction=0.25, test_fraction=0, batch_size=2, num_workers=0)
    assert len(data.train_set) == 6 and data.num_classes == 2 and next(iter(data.train_dataloader())) is not None


def test_test_images_without_classes(tmp_path):
    for name in ("cat/1.jpg", "dog/1.jpg"):
        put(tmp_path / "other" / "train" / name)
    put(tmp_path / "other" / "test" / "1.jpg")
    put_other(tmp_path / "other" / "test" / "2.heic")
    assert "test holds 1 file of .heic, such as 2.heic, which is left out" in "".join(read(tmp_path / "other").notices)


@pytest.mark.parametrize("name", ["raw", "RAW images", "psd", "dicom", "Photoshop_PSD", "dcm_1"])
@pytest.mark.parametrize("ending", [".nef", ".dcm", ".psd", ".raw"])
def test_a_folder_that_keeps_pictures_as_they_came_is_left_out(tmp_path, root, name, ending):
    for number in range(4):
        put_other(root / name / f"{number}{ending}")
    data = read(tmp_path / "set")
    assert data.class_names == ["cat", "cow"]
    assert any(f"{name} holds no images" in said and "left out" in said for said in data.notices)


@pytest.mark.parametrize("name", ["images", "raw_dog", "dog", "camera"])
def test_other_folders_of_such_pictures_are_no_stores(tmp_path, name):
    put_other(tmp_path / name / "1.nef")
    assert not unread_images.is_store(tmp_path, name)


def test_a_class_called_raw(tmp_path, root):
    for number in range(4):
        put(root / "raw" / f"{number}.jpg", 9 * number)
    put_other(root / "raw" / "5.nef")
    assert read(tmp_path / "set").class_names == ["cat", "cow", "raw"]


def test_files_that_stand_beside_as_they_were_before(tmp_path, root):
    for number in range(8):
        put_other(root / "cat" / f"c{number}.NEF")
    assert not read(tmp_path / "set").notices
    put_other(root / "cat" / "c9.NEF")
    assert "cat holds 1 file of .nef, such as cat/c9.NEF" in "".join(read(tmp_path / "set").notices)


@pytest.mark.parametrize("ending", [".raw", ".nii.gz", ".svs", ".NII"])
def test_more_endings_that_are_not_read(tmp_path, root, ending):
    put_other(root / "cow" / f"1{ending}")
    said = f"cow holds 1 file of {ending.lower()}, such as cow/1{ending}, which is left out"
    assert said in "".join(read(tmp_path / "set").notices)
    put_other(root / "pig" / f"1{ending}")
    with pytest.raises(InputError, match="pig holds no images that are read, but 1 file of"):
        read(tmp_path / "set")
