"""The images in the folders of classes, and what is said of other files there."""

import os

import pytest

from datamodules.reading.class_folders import ClassImages, said_of_strays
from vit_lightning.errors import InputError


def put(root, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_images_of_several_folders_of_a_class(tmp_path):
    put(tmp_path, "cat/2.jpg", "cat/in/1.png", "kitty/3.jpg", "dog/4.jpg", "cat/notes.txt", "dog/.5.jpg", "dog/6.heic")
    images = ClassImages(tmp_path)
    assert images.add(0, ["kitty", "cat"]) == 3 and images.add(1, ["dog"]) == 1 and images.add(2, []) == 0
    assert images.names == ["kitty/3.jpg", "cat/2.jpg", "cat/in/1.png", "dog/4.jpg"]
    assert images.labels == [0, 0, 0, 1]
    assert images.by_folder == {"kitty": ["kitty/3.jpg"], "cat": ["cat/2.jpg", "cat/in/1.png"], "dog": ["dog/4.jpg"]}
    assert images.others == ["cat/notes.txt", "dog/.5.jpg"]
    assert images.numbers.tolist() == [os.stat(tmp_path / name).st_ino for name in images.names]
    (said,) = images.said()
    assert "1 file of .heic, such as dog/6.heic" in said


def test_folders_that_the_user_gave_may_hold_images_of_any_names(tmp_path):
    put(tmp_path, "a/1.jpg", "a/1_mask.jpg", "b/1.jpg", "b/depth/1.jpg")
    for name, said in {"a": "a/1_mask.jpg, called as what belongs to a/1.jpg is", "b": "b/depth beside other"}.items():
        with pytest.raises(InputError, match=said):
            ClassImages(tmp_path).add(0, [name])
        images = ClassImages(tmp_path, known={name})
        assert images.add(0, [name]) == 2 and said in "".join(images.said())


def test_notices_of_five_folders_are_shown(tmp_path):
    put(tmp_path, *(f"{name}/{ending}" for name in "abcdefg" for ending in ("1.jpg", "2.heic")))
    images = ClassImages(tmp_path)
    for label, name in enumerate("abcdefg"):
        images.add(label, [name])
    *shown, rest = images.said()
    assert len(shown) == 5 and rest == f"{tmp_path}: 2 more such notices, of other classes, are not shown"


def test_images_beside_the_folders(tmp_path):
    put(tmp_path, "cat/1.jpg", "readme.txt")
    assert said_of_strays(tmp_path) is None
    put(tmp_path, "x.jpg", "b.png")
    assert said_of_strays(tmp_path) == f"{tmp_path} has 2 images in no folder of a class, such as b.png, left out"
