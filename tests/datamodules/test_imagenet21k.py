import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from datamodules import imagenet21k
from datamodules.imagenet21k import ImageNet21k
from datamodules.reading import synsets
from vit_lightning.augment import Augment
from vit_lightning.errors import InputError
from vit_lightning.testing import check_datamodule

ORGANISM, DOG, CAT, NOWHERE = "n00004475", "n02084071", "n02121808", "n99999999"
FOLDERS = (ORGANISM, DOG, CAT)


def picture() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "JPEG")
    return buffer.getvalue()


def put(root: Path, wnid: str, count: int = 4) -> None:
    (root / wnid).mkdir(parents=True)
    for number in range(count):
        (root / wnid / f"{wnid}_{number}.JPEG").write_bytes(picture())


def pack(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


@pytest.fixture
def tree(tmp_path) -> Path:
    root = tmp_path / "21k"
    for wnid in FOLDERS:
        put(root, wnid)
    return root


def imagenet21k_at(root: Path, **options) -> ImageNet21k:
    given = {"val_images": 3, "image_size": 8, "batch_size": 2, "num_workers": 0, "cache": root.parent / "cache"}
    return ImageNet21k(root=root, augment=Augment(crop="none"), **{**given, **options})


def ready(root: Path, **options) -> ImageNet21k:
    data = imagenet21k_at(root, **options)
    data.prepare_data()
    data.setup("fit")
    return data


def shown(data: ImageNet21k) -> dict[str, int]:
    sets = [data.train_set, data.val_set]
    return {
        key.rpartition("/")[2]: label
        for each in sets
        for key, label in zip(each.keys, each.labels.tolist(), strict=True)
    }


@pytest.fixture
def few(tmp_path) -> Path:
    """A label set of three classes, in an order of its own."""
    path = tmp_path / "few.txt"
    path.write_text(f"{DOG}\n{ORGANISM}\n{CAT}\n")
    return path


pytestmark = pytest.mark.filterwarnings("ignore:.*classes have no images")


def test_contract(tree, few):
    check_datamodule(imagenet21k_at(tree, label_set=str(few)))
    check_datamodule(imagenet21k_at(tree, label_set=str(few), hierarchy=True))


@pytest.mark.parametrize(
    ("label_set", "size"), [("google", 21_843), ("fall11", 21_841), ("miil-p", 11_221), ("miil-p-winter21", 10_450)]
)
def test_label_sets(tmp_path, label_set, size):
    data = ImageNet21k(tmp_path, label_set=label_set)
    assert data.num_classes == len(set(data.class_names)) == size
    assert data.class_names[data.wnids.index(DOG)] == f"{DOG} dog, domestic dog, Canis familiaris"


def test_labels_do_not_depend_on_what_lies_there(tree, caplog):
    with caplog.at_level("INFO"), pytest.warns(UserWarning, match="21840 of 21843 classes have no images"):
        data = ready(tree)
    google = synsets.wnids("google")
    assert shown(data) == {f"{wnid}_{n}.JPEG": google.index(wnid) for wnid in FOLDERS for n in range(4)}
    assert (len(data.train_set), len(data.val_set)) == (9, 3)
    assert f"label set google: 21843 classes, sha256 {synsets.fingerprint(google)}" in caplog.text


def test_folders_outside_the_label_set_are_left_out(tree, few, caplog):
    put(tree, NOWHERE, 2)
    few.write_text(f"{CAT}\n{DOG}\n")
    with caplog.at_level("INFO"):
        data = ready(tree, label_set=str(few))
    assert shown(data) == {f"{wnid}_{n}.JPEG": label for label, wnid in enumerate((CAT, DOG)) for n in range(4)}
    assert "left out 6 images of classes outside" in caplog.text


@pytest.mark.parametrize("form", ["a tar per class", "one tar of tars"])
def test_tars(tree, few, tmp_path, form):
    root = tmp_path / "tars"
    root.mkdir()
    for wnid in FOLDERS:
        pack(root / f"{wnid}.tar", {path.name: path.read_bytes() for path in sorted((tree / wnid).iterdir())})
    if form == "one tar of tars":
        inner = {f"{wnid}.tar": (root / f"{wnid}.tar").read_bytes() for wnid in FOLDERS}
        for name in inner:
            (root / name).unlink()
        pack(root / "fall11_whole.tar", inner)
    packed, plain = ready(root, label_set=str(few)), ready(tree, label_set=str(few))
    assert shown(packed) == shown(plain)
    assert torch.equal(next(iter(packed.val_dataloader()))[0], next(iter(plain.val_dataloader()))[0])
    check_datamodule(imagenet21k_at(root, label_set=str(few)))


def test_own_validation_folder(tree, few):
    for wnid in FOLDERS:
        (tree / "train").mkdir(exist_ok=True)
        (tree / wnid).rename(tree / "train" / wnid)
        put(tree / "val", wnid, 1)
    data = ready(tree, label_set=str(few))
    assert (len(data.train_set), data.val_set.labels.tolist()) == (12, [1, 0, 2])


def test_hierarchy(tree, few):
    """Dogs and cats are organisms."""
    data = ready(tree, label_set=str(few), hierarchy=True)
    vectors = {key[:9]: data.train_set[place][1].tolist() for place, key in enumerate(data.train_set.keys)}
    assert vectors == {DOG: [1, 1, 0], ORGANISM: [0, 1, 0], CAT: [0, 1, 1]}


def test_winter21_is_read_off_the_folders(tree, monkeypatch):
    with pytest.raises(InputError, match=r"21k holds 3 folders or tars .* winter21 has 19167; complete it"):
        imagenet21k_at(tree, label_set="winter21").num_classes  # noqa: B018
    monkeypatch.setattr(imagenet21k, "WINTER21", 3)
    data = ready(tree, label_set="winter21")
    assert data.wnids == sorted(FOLDERS)
    assert np.bincount(data.train_set.labels).sum() == 9


def test_wrong_label_sets(tree, few):
    with pytest.raises(InputError, match=r"label_set fall12 is neither one of google, fall11, .* nor a text file"):
        imagenet21k_at(tree, label_set="fall12").num_classes  # noqa: B018
    for content, message in ((f"{DOG}\n{DOG}\n", "on each line$"), ("dog\n", "not dog"), ("", "on each line$")):
        few.write_text(content)
        with pytest.raises(InputError, match=message):
            imagenet21k_at(tree, label_set=str(few)).num_classes  # noqa: B018


def test_wrong_places(tree, tmp_path):
    with pytest.raises(InputError, match=r"nowhere is missing: expected <wnid>/<image>\.JPEG or <wnid>\.tar"):
        ready(tmp_path / "nowhere")
    (tmp_path / "empty/cats").mkdir(parents=True)
    (tmp_path / "empty/cats/a.jpg").write_bytes(picture())
    with pytest.raises(InputError, match=r"empty holds no image in a folder or tar named after a class of google"):
        ready(tmp_path / "empty")
    with pytest.raises(InputError, match=r"val_images 12 leaves none of the 12 images"):
        ready(tree, val_images=12)


def test_changes_between_runs_are_refused_and_labels_stay(tree, few):
    before = shown(ready(tree, label_set=str(few)))
    put(tree, "n00005787", 1)
    with pytest.raises(InputError, match=r"21k has changed since it was indexed; give --data\.reindex true"):
        ready(tree, label_set=str(few))
    assert shown(ready(tree, label_set=str(few), reindex=True)) == before
    (tree / DOG / f"{DOG}_1.JPEG").rename(tree / CAT / f"{DOG}_1.JPEG")
    with pytest.raises(InputError, match=rf"{CAT}/{DOG}_1\.JPEG lies in the wrong folder; move it to {DOG}"):
        ready(tree, label_set=str(few), reindex=True)
