"""Files that tables list under two names, through links."""

import pytest

from tests.datamodules.test_labels import manifest, root  # noqa: F401  # a fixture
from vit_lightning.errors import InputError


@pytest.fixture(params=["link", "hard link", "chain", "folder"])
def linked(request, root):  # noqa: F811
    """The name under which 0.png is listed again."""
    if request.param == "folder":
        (root / "again").symlink_to(root)
        return "again/0.png"
    if request.param == "chain":
        (root / "pool.png").symlink_to("0.png")
    if request.param == "hard link":
        (root / "x.png").hardlink_to(root / "0.png")
    else:
        (root / "x.png").symlink_to("pool.png" if request.param == "chain" else "0.png")
    return "x.png"


def test_one_file_with_two_labels(root, linked):  # noqa: F811
    (root / "train.csv").write_text(f"path,label\n0.png,cat\n1.png,dog\n{linked},dog\n")
    said = (
        rf"has in row 1 0\.png, and .*train\.csv has in row 3 {linked}, which are one through a link, as 'cat' and 'd"
    )
    with pytest.raises(InputError, match=said):
        manifest(root)
    (root / "train.csv").write_text(f"path,label\n0.png,cat\n1.png,dog\n{linked},cat\n")
    assert len(manifest(root).train_set) == 3


@pytest.mark.parametrize("split", ["val", "test"])
def test_one_file_in_two_splits(root, linked, split):  # noqa: F811
    (root / "train.csv").write_text("path,label\n0.png,cat\n1.png,dog\n")
    (root / f"{split}.csv").write_text(f"path,label\n2.png,dog\n{linked},cat\n")
    with pytest.raises(InputError, match=rf"are one through a link, as a train and a {split} image; keep one of the"):
        manifest(root, **{split: f"{split}.csv"})
    with pytest.raises(InputError, match=r"train\.csv is the table of train and of val images; give each split a"):
        manifest(root, val="train.csv")


def test_one_file_in_two_splits_of_one_table(root, linked):  # noqa: F811
    (root / "train.csv").write_text(f"path,label,fold\n0.png,cat,train\n1.png,dog,train\n{linked},cat,val\n")
    with pytest.raises(InputError, match=r"are one through a link, as a train and a val image"):
        manifest(root, split_column="fold")
    (root / "train.csv").write_text(f"path,label,fold\n0.png,cat,val\n1.png,cat,train\n{linked},cat,test\n")
    assert len(manifest(root, split_column="fold").test_set) == 1


def test_several_labels(root, linked):  # noqa: F811
    for labels, is_one in (("dog;cat", True), ("cat", False)):
        (root / "train.csv").write_text(f"path,label\n0.png,cat;dog\n1.png,dog\n{linked},{labels}\n")
        if is_one:
            assert len(manifest(root, multi_label=True).train_set) == 3
        else:
            with pytest.raises(InputError, match=r"as 'cat, dog' and 'cat'; keep one of the rows"):
                manifest(root, multi_label=True)


def test_doctor_finds_them(app, root, linked):  # noqa: F811
    (root / "train.csv").write_text(f"path,label\n0.png,cat\n1.png,dog\n{linked},dog\n")
    words = ("--data", "Manifest", "--data.root", root, "--data.cache", root.parent / "cache", "--data.image_size", 8)
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert done.code == 1 and "are one through a link, as 'cat' and 'dog'" in done.out + done.err
