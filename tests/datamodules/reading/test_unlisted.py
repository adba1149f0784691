"""Images that --data.split_file does not list: they are left out by default, or train, and the run keeps which."""

import csv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from datamodules.folder import ImageFolder
from datamodules.manifest import Manifest
from datamodules.reading.divided_data import DividedData
from datamodules.reading.drawn_split import LEFT_OUT, TEST, TRAIN, VAL
from datamodules.reading.unlisted import placed
from vit_lightning.errors import InputError
from vit_lightning.runs.folders import SPLIT_TABLE

FORM = {"image_size": 8, "batch_size": 2, "num_workers": 0}
LISTED = {"cat/0.png": "train", "cat/1.png": "val", "dog/0.png": "train", "dog/1.png": "test"}


@pytest.fixture
def photos(tmp_path) -> Path:
    """Photographs in two folders, of which those numbered 2 came later."""
    for shade, name in enumerate(("cat", "dog")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", (8, 8), (number * 40, shade * 90, 7)).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


@pytest.fixture
def listed(tmp_path) -> Path:
    table = tmp_path / "given.csv"
    table.write_text("file,split\n" + "".join(f"{file},{split}\n" for file, split in LISTED.items()))
    return table


def folder(root: Path, run: Path | None = None, verb: str = "fit", **flags) -> ImageFolder:
    return ready(ImageFolder(root, **FORM, **flags), run, verb)


def ready(data: DividedData, run: Path | None, verb: str) -> DividedData:
    data.run_folder = run
    if run is not None:
        run.mkdir(exist_ok=True)
    data.trainer = SimpleNamespace(state=SimpleNamespace(fn=verb), is_global_zero=True)
    data.prepare_data()
    data.setup(verb)
    return data


def parts(data: DividedData) -> list[list[str]]:
    return [sorted(map(str, some.keys)) for some in (data.train_set, data.val_set, data.test_set)]


def kept(run: Path) -> dict[str, str]:
    with (run / SPLIT_TABLE).open(newline="") as file:
        return {row["file"]: row["split"] for row in csv.DictReader(file)}


def test_they_are_left_out_with_a_notice_that_names_one_and_the_flag(photos, listed):
    data = folder(photos, split_file=listed)
    assert parts(data) == [["cat/0.png", "dog/0.png"], ["cat/1.png"], ["dog/1.png"]]
    assert (
        f"{listed} does not list 2 of the images of {photos}, such as cat/2.png, which are left out; "
        "--data.unlisted train trains on them"
    ) in data.notices


def test_they_train_and_the_run_keeps_it(photos, listed, tmp_path, caplog):
    caplog.set_level("INFO")
    data = folder(photos, tmp_path / "run", split_file=listed, unlisted="train")
    assert parts(data) == [["cat/0.png", "cat/2.png", "dog/0.png", "dog/2.png"], ["cat/1.png"], ["dog/1.png"]]
    assert kept(tmp_path / "run") == {**LISTED, "cat/2.png": "train", "dog/2.png": "train"}
    assert f"2 images that {listed} does not list train, such as cat/2.png" in caplog.text
    assert not [text for text in data.notices if "left out" in text]


@pytest.mark.parametrize("verb", ["fit", "validate", "test"])
@pytest.mark.parametrize("by_own", [False, True])
def test_a_run_that_goes_on_keeps_its_images_and_leaves_later_ones_out(photos, listed, tmp_path, verb, by_own):
    """It does so with the table that it was given, and with its own, as scoring reads it."""
    run = tmp_path / "run"
    facts = folder(photos, run, split_file=listed, unlisted="train").state_dict()
    Image.new("RGB", (8, 8), (1, 2, 3)).save(photos / "cat/3.png")
    table = run / SPLIT_TABLE if by_own else listed
    data = folder(photos, run, verb, split_file=table, unlisted="train")
    assert parts(data) == [["cat/0.png", "cat/2.png", "dog/0.png", "dog/2.png"], ["cat/1.png"], ["dog/1.png"]]
    data.load_state_dict(facts)
    assert data.state_dict() == facts
    said = f"{table} does not list {1} of the images of {photos}, such as cat/3.png, which are left out"
    assert said in data.notices


def test_the_flag_is_named_where_no_table_lists_images(photos):
    data = folder(photos, unlisted="train")
    assert "ignored: --data.unlisted train, since no --data.split_file lists images" in data.notices


def test_a_run_whose_split_was_drawn_names_the_way(photos, tmp_path):
    folder(photos, tmp_path / "run")
    Image.new("RGB", (8, 8), (1, 2, 3)).save(photos / "cat/3.png")
    with pytest.raises(InputError, match=r"begin a new run, which trains on them with --data\.split_file .*csv --data"):
        folder(photos, tmp_path / "run")


def test_they_go_where_their_group_is(photos, listed, tmp_path):
    rows = ["cat/0.png,cat,a", "cat/1.png,cat,b", "cat/2.png,cat,b", "dog/0.png,dog,c", "dog/1.png,dog,d"]
    (photos / "train.csv").write_text("\n".join(["path,label,owner", *rows, "dog/2.png,dog,e"]))
    flags = {"split_file": listed, "unlisted": "train", "group_column": "owner"}
    data = ready(Manifest(photos, cache=tmp_path / "cache", **FORM, **flags), tmp_path / "run", "fit")
    assert parts(data) == [["cat/0.png", "dog/0.png", "dog/2.png"], ["cat/1.png", "cat/2.png"], ["dog/1.png"]]
    assert kept(tmp_path / "run") == {**LISTED, "cat/2.png": "val", "dog/2.png": "train"}


@pytest.mark.parametrize(
    ("groups", "expected"),
    [(None, [TRAIN, VAL, TEST, TRAIN, TRAIN, TRAIN]), (list("abccbd"), [TRAIN, VAL, TEST, TEST, VAL, TRAIN])],
)
def test_places(groups, expected):
    splits = np.array([TRAIN, VAL, TEST, LEFT_OUT, LEFT_OUT, LEFT_OUT], np.int8)
    assert placed(splits, list("uvwxyz"), groups, None).tolist() == expected
    assert splits.tolist()[3:] == [LEFT_OUT] * 3
