"""Versions of one source, which a split that is drawn keeps together."""

import numpy as np
import pytest

from datamodules.folder import ImageFolder
from datamodules.reading import image_sources
from datamodules.reading.image_sources import numbers, said_of, sources
from datamodules.reading.shared_sequences import Strings
from tests.datamodules.test_folder import put
from tests.datamodules.test_manifest_split import keys
from tests.datamodules.test_manifest_split import ready as manifest


@pytest.mark.parametrize(
    "files",
    [
        ["cat/12_jpg.rf.0a1b.jpg", "cat/12_jpg.rf.Zz99.jpg", "cat/12_jpg.rf.77ff.jpg"],
        ["cat/12.jpg", "cat/12_aug1.jpg", "cat/12-aug-2.png", "cat/12_augmented_3.jpg"],
        ["cat/1.jpg", "cat/1.webp", "./cat/1.png"],
        ["cat/12.jpg", "cat/aug_0_12.jpg", "cat/aug_1_12.png", "cat/augmented-12.jpg", "cat/aug12_12.jpg"],
        ["cat/0_12.jpg", "cat/aug_0_12.jpg"],
        ["cat/a.rf.b.rf.0a1b.jpg", "cat/a.rf.b.rf.99.jpg"],
    ],
)
def test_versions_of_one_source(files):
    assert sources(["cat/13.jpg", *files, "dog/12.jpg"]) == ["cat/13.jpg", *[files[0]] * len(files), "dog/12.jpg"]


def test_versions_of_sources_that_are_gone():
    files = [f"cat/{source}_aug{version}.jpg" for source in "abc" for version in (1, 2)]
    assert sources(files) == [f"cat/{source}_aug1.jpg" for source in "abc" for _ in (1, 2)]


def test_versions_that_are_counted_first_of_sources_that_are_gone():
    files = [f"cat/aug_{version}_{source}.jpg" for version in (1, 2) for source in (7, 8, 9)]
    assert sources(files) == [f"cat/aug_1_{source}.jpg" for _ in (1, 2) for source in (7, 8, 9)]
    assert said_of(files) == []


@pytest.mark.parametrize("form", ["aug_0_{}", "aug_{}_77", "Augmented-3-{}"])
def test_augmented_images_of_unknown_sources_are_said(form):
    files = [f"{name}/{form.format(number)}.jpg" for name, number in zip("aabb", range(90, 94), strict=True)]
    (said,) = said_of([*files, "a/1.jpg", "b/2.jpg"])
    assert said.startswith(f"images such as a/{form.format(90)} may be augmented copies") and "(4 such)" in said


@pytest.mark.parametrize("form", ["{}_{}", "{} {}", "p{}-{}", "{}_{}_cc"])
@pytest.mark.parametrize("sides", [("left", "right"), ("OD", "OS"), ("L", "R")])
def test_two_sides_of_one_are_said(form, sides):
    files = [f"{number % 3}/{form.format(number // 2, sides[number % 2])}.jpeg" for number in range(8)]
    (said,) = said_of(files)
    assert f"images such as {files[0][:-5]} and {files[1][:-5]} are called as two sides of one are (4 such)" in said
    assert "--data.group_column" in said and "--data.split_file" in said


@pytest.mark.parametrize(
    "files",
    [
        ["a/left_1.jpg", "a/right_1.jpg", "b/left_2.jpg", "b/right_2.jpg", "b/left_3.jpg", "b/right_3.jpg"],
        ["left/1_left.jpg", "left/2_left.jpg", "left/3_left.jpg", "right/4_right.jpg", "right/5_right.jpg"],
        ["a/1_left.jpg", "a/1_right.jpg", "a/2_left.jpg", "a/2_right.jpg", "a/3_left.jpg"],
        [f"a/{number}_{side}.jpg" for number in range(3) for side in "LR"]
        + [f"b/{number}.jpg" for number in range(99)],
        [f"a/model_{letter}.jpg" for letter in "ABLRS"],
    ],
)
def test_other_names_are_no_two_sides(files):
    assert said_of(files) == []


@pytest.mark.parametrize(
    "files",
    [
        ["cat/12_jpg.rf.0a1b.jpg", "cat/13_jpg.rf.0a1b.jpg", "dog/12_jpg.rf.0a1b.jpg"],
        ["cat/aug_1.jpg", "cat/aug_2.jpg", "cat/august1.jpg", "cat/_aug1.jpg"],
        ["cat/1.jpg", "cat/10.jpg", "cat/1.1.jpg", "cat/1 (2).jpg", "cat/1_2.jpg"],
        ["cat/surf.1.jpg", "cat/surf.2.jpg", "rf.1.jpg", "rf.2.jpg"],
        [f"cat/image.rf.{number}.jpg" for number in range(13)],
        [f"cat/cat_aug_{number}.jpg" for number in range(1, 6)],
        [f"cam{camera}-aug{day:02}.png" for camera in (0, 1) for day in (1, 2)],
    ],
)
def test_files_that_stand_alone(files):
    assert sources(files) == files
    assert numbers(files, None) is None


def test_numbers_beside_those_that_are_known():
    files = ["a.rf.1.jpg", "b.jpg", "a.rf.2.jpg", "b.jpg"]
    assert numbers(files, None).tolist() == [0, 1, 0, 1]
    assert numbers(files, np.array([7, 5, 9, 5])).tolist() == [7, 5, 7, 5]
    plain = np.array([7, 5])
    assert numbers(["a.jpg", "b.jpg"], plain) is plain


def test_of_very_many_files_only_marks_are_looked_at(monkeypatch):
    monkeypatch.setattr(image_sources, "LOOKED_AT", 2)
    assert numbers(Strings(["a.jpg", "a.png", "b.jpg"]), None) is None
    assert numbers(Strings(["a.rf.1.jpg", "a.rf.2.jpg", "b.jpg"]), None).tolist() == [0, 0, 2]


FORMS = ["{}_jpg.rf.{}f.jpg", "{}_aug{}.jpg"]


def divided(parts: list[list[str]]) -> list[set[str]]:
    return [{name.rpartition("/")[2].partition("_")[0] for name in part} for part in parts]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", ["set", "set/train"])
def test_folders_keep_versions_together(tmp_path, form, place, caplog):
    for number in range(60):
        put(tmp_path / place / "ab"[number // 3 % 2] / form.format(number // 3, number % 3), number)
    data = ImageFolder(root=tmp_path / "set", image_size=8, val_fraction=0.3)
    with caplog.at_level("INFO"):
        data.setup("fit")
    parts = divided(keys(data))
    assert parts[0] and parts[1] and sum(map(len, parts)) == len(set.union(*parts)) == 20
    assert "versions of one by their names" in caplog.text


@pytest.mark.parametrize("options", [{}, {"test_fraction": 0.2}])
@pytest.mark.parametrize("form", FORMS)
def test_tables_keep_versions_together(tmp_path, form, options):
    names = [form.format(number // 3, number % 3) for number in range(60)]
    for number, name in enumerate(names):
        put(tmp_path / "set" / name, number)
    rows = [f"{name},{'ab'[number // 3 % 2]}" for number, name in enumerate(names)]
    (tmp_path / "set" / "train.csv").write_text("path,label\n" + "\n".join(rows) + "\n")
    parts = divided(keys(manifest(tmp_path / "set", val_fraction=0.3, **options)))
    assert parts[0] and parts[1] and sum(map(len, parts)) == len(set.union(*parts)) == 20


def test_other_names_are_drawn_as_before(tmp_path, caplog):
    for number in range(40):
        put(tmp_path / "set" / "ab"[number % 2] / f"{number}.jpg", number)
    with caplog.at_level("INFO"):
        ImageFolder(root=tmp_path / "set", image_size=8).setup("fit")
    assert "versions of one" not in caplog.text


@pytest.mark.parametrize("place", ["set", "set/train"])
def test_sides_are_said_where_a_split_is_drawn(tmp_path, place):
    for number in range(24):
        put(tmp_path / place / "ab"[number % 2] / f"{number // 2}_{('left', 'right')[number % 2]}.jpg", number)
    data = ImageFolder(root=tmp_path / "set", image_size=8)
    data.setup("fit")
    assert any("0_left and b/0_right are called as two sides" in said for said in data.notices)
    for split, name in {"val": "a", "test": "b"}.items():
        put(tmp_path / "set" / split / name / "99.jpg", 99)
    if place == "set/train":
        data = ImageFolder(root=tmp_path / "set", image_size=8)
        data.setup("fit")
        assert not data.notices


def test_copies_that_are_counted_first_stay_with_their_image(tmp_path):
    for number in range(60):
        form = ("{}.jpg", "aug_0_{}.jpg", "aug_1_{}.jpg")[number % 3]
        put(tmp_path / "set" / "ab"[number // 3 % 2] / form.format(number // 3), number)
    data = ImageFolder(root=tmp_path / "set", image_size=8)
    data.setup("fit")
    parts = [{name.rpartition("/")[2].rpartition("_")[2] for name in part} for part in keys(data)]
    assert all(parts) and sum(map(len, parts)) == len(set.union(*parts)) == 20
