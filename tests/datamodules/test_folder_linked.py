"""Links among the folders of classes, and what they bring into two of them."""

import pytest

from tests.datamodules.test_folder import put, ready
from vit_lightning.errors import InputError


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


def test_linked_folders_are_followed(tree, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    put(elsewhere / "more/c.jpg")
    (tree / "val/90/linked").symlink_to(elsewhere / "more")
    (tree / "val/90/around").symlink_to(tree / "val")
    (tree / "train/gone").symlink_to(elsewhere / "gone")
    data = ready(tree)
    assert [key for key in data.val_set.keys if key.startswith("90/")] == ["90/a.jpg", "90/linked/c.jpg"]
    assert any("train/gone is a link to" in notice for notice in data.notices)
