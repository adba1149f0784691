"""Which files are images, where those of a table lie, and what is named instead."""

import os

import pytest

from datamodules.reading.image_files import (
    ENDINGS,
    ImageFiles,
    files_below,
    find_image,
    is_image,
    numbered_files_below,
    prefix_advice,
    without_prefix,
)
from vit_lightning.data.images import BrokenImage


@pytest.mark.parametrize("ending", ENDINGS)
def test_images_are_known_by_their_ending_in_any_case(ending):
    assert is_image(f"a/b{ending}") and is_image(f"a/b{ending.upper()}") and is_image(f".git/b{ending}")
    assert not is_image(f"a/.b{ending}") and not is_image(f"b{ending}.txt") and not is_image(ending[1:])


def test_files_are_sorted_folder_by_folder_and_hidden_ones_left_out(tmp_path):
    for name in ("c/b/2.jpg", "c/b/10.jpg", "c/z.jpg", "c/a.txt", "c/.h/x.jpg", "c/a/y.jpg", "d/other.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert list(files_below(tmp_path, "c")) == ["c/a.txt", "c/z.jpg", "c/a/y.jpg", "c/b/10.jpg", "c/b/2.jpg"]
    assert [name.removeprefix("./") for name in files_below(tmp_path / "d", "")] == ["other.jpg"]


def test_a_link_is_followed_unless_it_leads_back(tmp_path):
    (tmp_path / "set/a").mkdir(parents=True)
    (tmp_path / "else").mkdir()
    (tmp_path / "else/x.jpg").touch()
    (tmp_path / "set/a/back").symlink_to(tmp_path / "set")
    (tmp_path / "set/a/self").symlink_to(tmp_path / "set/a")
    (tmp_path / "set/a/out").symlink_to(tmp_path / "else")
    assert list(files_below(tmp_path, "set")) == ["set/a/out/x.jpg"]


def test_labels_stay_with_their_files(tmp_path):
    found = ImageFiles(tmp_path, ["b/2.jpg", "a/1.jpg", "c.jpg"], [2, 0, 1])
    assert [found[number] for number in range(len(found))] == [
        (tmp_path / "b/2.jpg", 2),
        (tmp_path / "a/1.jpg", 0),
        (tmp_path / "c.jpg", 1),
    ]
    assert list(found.keys) == ["b/2.jpg", "a/1.jpg", "c.jpg"] and found.labels.tolist() == [2, 0, 1]


def test_the_first_folder_that_holds_a_file_counts(tmp_path):
    for name in ("one/a/x.jpg", "two/a/x.jpg", "two/a/y.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    folders = [tmp_path / "one", tmp_path / "two"]
    assert find_image("a/x.jpg", folders, "") == tmp_path / "one/a/x.jpg"
    assert find_image("a/x.jpg", folders[::-1], "") == tmp_path / "two/a/x.jpg"
    assert find_image("a\\y.jpg", folders, "") == tmp_path / "two/a/y.jpg"


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("a/img_7.jpg", "; the nearest that is there is {}/one/a/img_70.jpg"),
        ("b/img_7.jpg", "; the nearest that is there is {}/two/img_8.jpg"),
    ],
)
def test_a_missing_file_names_the_nearest_in_its_own_folder(tmp_path, path, near):
    for name in ("one/a/img_70.jpg", "one/a/other.jpg", "one/a/img_7.txt", "two/img_8.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    folders = [tmp_path / "one", tmp_path / "two"]
    with pytest.raises(BrokenImage) as told:
        find_image(path, folders, "row 3")
    assert told.value.reason == f"No such file as {path} in {folders[0]} or {folders[1]}{near.format(tmp_path)}"
    with pytest.raises(BrokenImage, match=r"No such file as a/x.jpg in \S*empty; no image is there"):
        find_image("a/x.jpg", [tmp_path / "empty"], "row 3")


def test_files_have_the_number_of_what_they_lead_to(tmp_path):
    (tmp_path / "c/d").mkdir(parents=True)
    for name in ("c/x.jpg", "c/d/y.jpg"):
        (tmp_path / name).touch()
    (tmp_path / "c/hard.jpg").hardlink_to(tmp_path / "c/x.jpg")
    (tmp_path / "c/soft.jpg").symlink_to(tmp_path / "c/d/y.jpg")
    (tmp_path / "c/lost.jpg").symlink_to(tmp_path / "nowhere")
    (tmp_path / "c/pipe.jpg").symlink_to("/dev/null")
    found = dict(numbered_files_below(tmp_path, "c"))
    x, y = ((tmp_path / name).stat().st_ino for name in ("c/x.jpg", "c/d/y.jpg"))
    assert found == {
        **{"c/hard.jpg": x, "c/lost.jpg": 0, "c/pipe.jpg": 0, "c/soft.jpg": y, "c/x.jpg": x, "c/d/y.jpg": y},
    }
    assert sorted(name.removeprefix("./") for name, _ in numbered_files_below(tmp_path / "c", "")) == [
        *("d/y.jpg", "hard.jpg", "lost.jpg", "pipe.jpg", "soft.jpg", "x.jpg"),
    ]
    assert list(numbered_files_below(tmp_path, "nowhere")) == []
    (tmp_path / "top.jpg").touch()
    assert [os.path.normpath(name) for name in files_below(tmp_path, "")][:2] == ["top.jpg", "c/hard.jpg"]


@pytest.mark.parametrize(
    ("path", "prefix", "rest"),
    [
        ("/data/set/a.jpg", "/data/set/", "a.jpg"),
        ("C:\\set\\a\\b.jpg", "C:/set/", "a\\b.jpg"),
        ("C:/set/a/b.jpg", "C:\\set\\", "a/b.jpg"),
        ("/other/a.jpg", "/data/", "/other/a.jpg"),
        ("x/data/a.jpg", "data/", "x/data/a.jpg"),
        ("a.jpg", "", "a.jpg"),
    ],
)
def test_a_path_without_its_beginning(path, prefix, rest):
    assert without_prefix(path, prefix) == rest


@pytest.mark.parametrize(
    ("path", "advised"),
    [("C:\\set\\a.jpg", "'C:\\set\\'"), ("D:/a.jpg", "'D:\\\\'"), ("/a.jpg", None), ("a\\b.jpg", None)],
)
def test_paths_from_a_drive_of_windows(path, advised):
    said = prefix_advice(path, [])
    assert said == (
        ""
        if advised is None
        else f"; {path} begins at a drive of Windows: give its folder there, as --data.image_prefix {advised}"
    )


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("D:\\films\\a\\img\\P1.png", "; --data.image_prefix 'D:\\films\\a\\' leads to img/P1.png"),
        ("/mnt/films/img/P1.png", "; --data.image_prefix '/mnt/films/' leads to img/P1.png"),
        ("films/P2.png", "; --data.image_prefix 'films/' leads to P2.png"),
        ("films/P3.png", ""),
    ],
)
def test_the_beginning_of_a_path_that_leads_to_a_file_is_proposed(tmp_path, path, said):
    (tmp_path / "a/img").mkdir(parents=True)
    for file in ("img/P1.png", "P2.png"):
        (tmp_path / "a" / file).touch()
    assert prefix_advice(path, [tmp_path / "b", tmp_path / "a"]) == said


def test_two_files_that_one_path_may_mean(tmp_path):
    for folder, text in (("one", "x"), ("two", "x"), ("three", "yy")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.jpg").write_text(text)
    one, two, three = (tmp_path / folder for folder in ("one", "two", "three"))
    assert find_image("a.jpg", [one, two, one], "row 3") == one / "a.jpg"
    with pytest.raises(BrokenImage) as told:
        find_image("a.jpg", [one, two, three], "row 3")
    assert str(told.value) == f"row 3: a.jpg may be {one / 'a.jpg'} or {three / 'a.jpg'}, which differ; remove one"


def test_files_of_the_folder_itself_and_of_one_that_is_gone(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.jpg").touch()
    monkeypatch.chdir(tmp_path / "a")
    for name in ("", "."):
        assert [os.path.normpath(path) for path in files_below(tmp_path, name)] == ["a/b.jpg"]
    assert list(files_below(tmp_path, "gone")) == []


def test_files_of_one_size_and_time_may_differ(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jpg").write_text(name)
        os.utime(tmp_path / name / "a.jpg", (1, 1))
    folders = [tmp_path / "one", tmp_path / "two"]
    with pytest.raises(BrokenImage, match="which differ; remove one"):
        find_image("a.jpg", folders, "x")
    (tmp_path / "two/a.jpg").write_text("one")
    assert find_image("a.jpg", folders, "x") == tmp_path / "one/a.jpg"
