"""Folders of classes that hold the images of the others again, by their names."""

import pytest

from datamodules.folder import ImageFolder
from datamodules.reading import folder_copies
from tests.datamodules.test_folder import put
from vit_lightning.errors import InputError

REFUSED = "whose images are called as those of other classes are, such as"


def named(**forms: str) -> dict[str, list[str]]:
    """Return 20 paths of each class, called by a form with a number, or by several."""
    return {
        name: [f"{name}/{form.format(number)}.jpg" for form in text.split() for number in range(20)]
        for name, text in forms.items()
    }


@pytest.mark.parametrize(
    "again", ["all", "All_Images", "annotated", "visualization", "backup", "raw", "resized", "stuff"]
)
def test_a_folder_of_all_images(tmp_path, again):
    classes = named(good="g{}", bad="b{}") | {again: [f"{again}/{form}{n}.png" for form in "gb" for n in range(20)]}
    with pytest.raises(InputError, match=f"holds {again}, {REFUSED} {again}/.0.png and (good|bad)/.0.jpg; move it out"):
        folder_copies.check(tmp_path, classes)
    folder_copies.check(tmp_path, classes, known=list(classes))


@pytest.mark.parametrize("copy", ["good - Copy", "good_copy", "good (1)", "good_annotated", "gray good", "good backup"])
def test_a_copy_of_one_folder(tmp_path, copy):
    with pytest.raises(InputError, match=REFUSED):
        folder_copies.check(tmp_path, named(good="g{}", bad="b{}", **{copy: "g{}"}))


def test_several_such_folders(tmp_path):
    classes = named(good="g{}", bad="b{}", **{"all": "g{} b{}", "good - Copy": "g{}", "original": "b{} g{}"})
    with pytest.raises(InputError, match="holds all,"):
        folder_copies.check(tmp_path, classes)


@pytest.mark.parametrize(
    "classes",
    [
        named(cat="{}", dog="{}", all="{}"),
        named(cat="{}", dog="{}", cow="{}", pig="{}"),
        named(cat="IMG_{}", dog="x{}", cow="IMG_{}"),
        named(phone="p{}", phone_old="p{}", laptop="l{}"),
        named(raw="r{}", cooked="c{}", burnt="b{}"),
        named(good="g{}", bad="b{}", all="a{} g{}"),
        named(sharp="{}", noisy="{}", blurred="{}"),
        named(real="{}", fake="{}"),
        named(cat="c{}", cat_gray="{}", dog="d{}"),
        named(cat="c{}", copy="x{}", dog="d{}"),
        {"cat": [], "all": [], "dog": ["dog/1.jpg"]},
        {"cat": ["cat/1.jpg"], "all": ["all/1.jpg"]},
    ],
)
def test_other_classes(tmp_path, classes):
    folder_copies.check(tmp_path, classes)


@pytest.mark.parametrize("copy", ["good - Copy", "good_old", "good_raw"])
def test_copies_of_folders_that_count_anew_are_compared(tmp_path, copy):
    for number in range(6):
        for name in ("good", "bad"):
            put(tmp_path / name / f"{number}.png", 10 * number + len(name))
        put(tmp_path / copy / f"{number}.png", 10 * number + len("good"))
    classes = {name: [f"{name}/{number}.png" for number in range(6)] for name in ("good", "bad", copy)}
    with pytest.raises(InputError, match=REFUSED):
        folder_copies.check(tmp_path, classes)
    for number in range(6):
        put(tmp_path / copy / f"{number}.png", 200 + number)
    folder_copies.check(tmp_path, classes)


COUNTED = {"cat": range(6), "dog": range(6, 12), "other": range(12)}


@pytest.mark.parametrize("form", ["{}", "IMG_{}", "img ({})"])
@pytest.mark.parametrize("more", [{}, {"cow": ["cow/a.png", "cow/b.png"]}])
def test_a_class_counted_as_far_as_two_others_together(tmp_path, form, more):
    for shade, (name, numbers) in enumerate(COUNTED.items()):
        for number in numbers:
            put(tmp_path / name / f"{form.format(number)}.png", 60 * shade + number)
    classes = {name: [f"{name}/{form.format(n)}.png" for n in numbers] for name, numbers in COUNTED.items()} | more
    (said,) = folder_copies.check(tmp_path, classes)
    assert f"holds other, {REFUSED}" in said
    for number in range(12):
        put(tmp_path / "other" / f"{form.format(number)}.png", 60 * (number > 5) + number)
    with pytest.raises(InputError, match=f"holds other, {REFUSED}"):
        folder_copies.check(tmp_path, classes)
    assert folder_copies.check(tmp_path, classes, known=["other"]) == []


def test_a_folder_of_numbers_that_are_no_counts(tmp_path):
    numbers = {"cat": (24306, 31633, 29118), "dog": (27419, 25030, 33911), "both": ()}
    numbers["both"] = numbers["cat"] + numbers["dog"]
    with pytest.raises(InputError, match=f"holds both, {REFUSED}"):
        folder_copies.check(tmp_path, {name: [f"{name}/{n}.png" for n in some] for name, some in numbers.items()})


@pytest.mark.parametrize("form", ["{}", "DSC_04{:02}"])
def test_an_older_folder_of_other_bytes_is_said(tmp_path, form):
    classes = {name: [f"{name}/{form.format(n)}.jpg" for n in range(20)] for name in ("bad", "good", "good_old")}
    (said,) = folder_copies.check(tmp_path, classes)
    assert f"holds good_old, {REFUSED} good_old/{form.format(0)}.jpg and good/{form.format(0)}.jpg; move" in said
    assert folder_copies.check(tmp_path, classes, known=["bad", "good", "good_old"]) == []
    assert folder_copies.check(tmp_path, classes | {"good_old": [f"good_old/x{n}.jpg" for n in range(20)]}) == []


def test_folders_of_one_class_by_a_map_are_no_copies(tmp_path):
    for name in ("good", "Good", "good - Copy", "bad"):
        put(tmp_path / name / "1.png", 7)
    classes = {name: [f"{name}/1.png"] for name in ("good", "Good", "bad")}
    folder_copies.check(tmp_path, classes)
    folder_copies.check(tmp_path, classes | {"good - Copy": ["good - Copy/1.png"]}, known=["good - Copy"])


def test_very_many_classes_that_count_anew(tmp_path, monkeypatch):
    compared = []
    monkeypatch.setattr(folder_copies, "_pairs", lambda *some: compared.append(some) or iter(()))
    folder_copies.check(tmp_path, {f"c{number}": [f"c{number}/{n}.jpg" for n in range(9)] for number in range(500)})
    assert not compared


def test_a_run_and_doctor_see_them(app, tmp_path):
    for number in range(12):
        for name in ("ab"[number % 2], "all"):
            put(tmp_path / "set" / "train" / name / f"{number}.jpg", number)
    with pytest.raises(InputError, match="train holds all,"):
        ImageFolder(root=tmp_path / "set", image_size=8).setup("fit")
    words = ("--data", "ImageFolder", "--data.root", tmp_path / "set", "--data.image_size", 8, "--data.batch_size", 2)
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert done.code == 1 and REFUSED in done.out + done.err
    (tmp_path / "names.txt").write_text("a\nall\nb\n")
    data = ImageFolder(root=tmp_path / "set", image_size=8, class_map=tmp_path / "names.txt")
    data.setup("fit")
    assert data.num_classes == 3
