"""Masks and the like beside images, in folders of their own and among the images of a class."""

import shutil

import pytest

from datamodules.folder import ImageFolder
from datamodules.reading import folder_names
from tests.datamodules.test_folder import put
from vit_lightning.errors import InputError

SIDE = "is called as what belongs to images is, not as a class"
MARKED = "called as what belongs to"


def read(root, **options) -> ImageFolder:
    data = ImageFolder(root=root, image_size=8, **options)
    data.setup("fit")
    return data


def make(root, **folders: str) -> None:
    """Write four images into each folder, called by a form with a number from 0, or from that before a colon."""
    for place, forms in folders.items():
        for text in forms.split(","):
            first, _, form = text.rpartition(":")
            for number in range(int(first or 0), int(first or 0) + 4):
                put(root / place.replace("__", "/") / f"{form.format(number)}.png", len(place) + number)


@pytest.mark.parametrize(
    "side",
    [
        *("mask", "segmentation", "seg", "gt", "depth", "edges", "label", "thumb", "thumbs", "overlay", "overlays"),
        *("anno", "predictions", "saliency", "previews", "masks"),
    ],
)
def test_a_folder_of_what_belongs_to_all_images_is_no_class(tmp_path, side):
    make(tmp_path / "set", cat="cat{}", dog="dog{}", **{side: "cat{},dog{}"})
    with pytest.raises(InputError, match=f"holds the folder {side}, which {SIDE}"):
        read(tmp_path / "set")
    (tmp_path / "names.txt").write_text("\n".join(["cat", "dog", side]))
    assert read(tmp_path / "set", class_map=tmp_path / "names.txt").num_classes == 3


@pytest.mark.parametrize(
    "folders",
    [
        {"cat": "cat{}", "cat_masks": "cat{}", "dog": "dog{}", "dog_masks": "dog{}"},
        {"tumor": "{}", "tumor_mask": "{}"},
        {"tumor": "t_{}", "tumor_mask": "t_{}_mask"},
        {"cat": "{}", "dog": "4:{}", "mask": "{},4:{}"},
    ],
)
def test_masks_of_a_class_are_no_class(tmp_path, folders):
    make(tmp_path, **folders)
    with pytest.raises(InputError, match=SIDE):
        read(tmp_path)


@pytest.mark.parametrize(
    "folders", [{"images": "{}", "thumbs": "{}"}, {"JPEGImages": "2007_{}", "SegmentationClass": "2007_{}"}]
)
def test_images_and_what_belongs_to_them_are_no_classes(tmp_path, folders):
    make(tmp_path, **folders)
    with pytest.raises(InputError, match="called as parts of a set"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("folders", "said"),
    [
        ({"helmets": "helmets_{}", "masks": "masks_{}", "vests": "vests_{}"}, True),
        ({"labels": "label{}", "caps": "cap{}"}, True),
        ({"heatmaps": "heatmaps-{}", "barcharts": "barcharts-{}"}, True),
        ({"mask": "img_{}", "no_mask": "img_{}"}, False),
        ({"with_mask": "{}", "without_mask": "{}"}, False),
        ({"with_mask": "{}_mask", "without_mask": "{}"}, False),
        ({"fist": "hand_{}", "thumb": "hand_{}", "palm": "hand_{}"}, False),
        ({"center": "c{}", "edge": "e{}", "donut": "d{}"}, False),
        ({"center": "{}", "edge": "90:{}", "donut": "50:{}"}, False),
        ({"face": "{}", "mask": "{}", "body": "{}"}, False),
        ({"face": "face_{}", "thumb": "thumb_{}"}, False),
        ({"tumor": "{}", "mask": "{}"}, True),
        ({"label_0": "{}", "label_1": "{}"}, False),
        ({"crack": "crack_{}", "segmentation": "segmentation_{}"}, True),
        ({"face": "{}", "depth": "{}", "body": "{}"}, True),
        ({"mask": "m{}", "helmet": "9:h{}"}, False),
        ({"class_1": "{}", "class_2": "{}"}, False),
    ],
)
def test_classes_that_count_their_own_images(tmp_path, folders, said):
    make(tmp_path, **folders)
    data = read(tmp_path)
    assert data.class_names == sorted(folders)
    assert ("is read as a class" in "".join(data.notices)) == said


@pytest.mark.parametrize(
    ("image", "side"),
    [
        *(("benign ({})", "benign ({})_mask"), ("{}", "{}_seg"), ("{}", "{}_gt"), ("{}", "{}_Mask")),
        *(("{}", "{}_mask_1"), ("{}", "{}_depth"), ("{}", "{}_thumb"), ("cat{}", "mask_cat{}"), ("cat{}", "cat{}Mask")),
        *(("scan-{}", "scan-{}_ground_truth"), ("{}", "{} segmentation")),
    ],
)
def test_masks_beside_the_images_of_a_class(app, tmp_path, image, side):
    make(tmp_path, benign=f"{image},{side}", normal="n{}")
    with pytest.raises(InputError, match=f"{MARKED}.* is [(]4 such in the class benign[)]; move these out"):
        read(tmp_path)


def test_doctor_finds_masks_beside_the_images_of_a_class(app, tmp_path):
    make(tmp_path / "set", benign="benign ({}),benign ({})_mask", normal="normal ({})")
    words = ("--data", "ImageFolder", "--data.root", tmp_path / "set", "--data.image_size", 8, "--data.batch_size", 2)
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert done.code == 1 and MARKED in done.out + done.err


def test_a_mask_of_another_format_is_one(tmp_path):
    make(tmp_path, cat="{}", dog="d{}")
    for number in range(4):
        shutil.copy(tmp_path / "cat" / f"{number}.png", tmp_path / "cat" / f"{number}_mask.gif")
    with pytest.raises(InputError, match=MARKED):
        read(tmp_path)


def test_few_images_called_as_masks_are_said(tmp_path):
    make(tmp_path, **{"can": ",".join(f"{4 * part}:can{{}}" for part in range(4)), "jar": "jar{}"})
    put(tmp_path / "can" / "can3_label.png", 99)
    notices = "".join(read(tmp_path).notices)
    assert (
        "can/can3_label.png, called as what belongs to can/can3.png is (1 such in the class can), and reads" in notices
    )


@pytest.mark.parametrize("form", ["cat_{}", "mask_{}", "img_{}_label", "gt{}", "thumb ({})", "depth"])
def test_images_of_one_form_are_no_masks_of_each_other(tmp_path, form):
    make(tmp_path, a=form, b=f"8:{form}")
    assert MARKED not in "".join(read(tmp_path).notices)


@pytest.mark.parametrize("side", ["mask", "gt", "seg", "depth", "thumbs", "previews"])
def test_a_folder_of_masks_beside_the_images_of_a_class(tmp_path, side):
    make(tmp_path, benign="{}", **{f"benign__{side}": "{}"}, normal="n{}")
    with pytest.raises(InputError, match=f"holds benign/{side} beside other images of the class benign"):
        read(tmp_path)


def test_a_class_map_that_lists_the_class_gets_past_a_folder_of_masks(tmp_path):
    make(tmp_path / "set", benign="{}", benign__depth="{}", normal="n{}")
    with pytest.raises(InputError, match=r"benign/depth beside .*, or list all classes in --data\.class_map"):
        read(tmp_path / "set")
    (tmp_path / "names.txt").write_text("benign\nnormal\n")
    data = read(tmp_path / "set", class_map=tmp_path / "names.txt", val_fraction=0, test_fraction=0)
    assert len(data.train_set) == 12 and "holds benign/depth beside other images" in "".join(data.notices)


def test_views_in_a_class_that_count_their_own_images(tmp_path):
    make(tmp_path, bar__front="{}", bar__back="{}", bar__edge="{}", rod__whole="r{}")
    assert read(tmp_path).class_names == ["bar", "rod"]


def test_words_of_sides():
    assert folder_names.doubtful_sides(["cat", "mask", "masks"]) == ["mask"]
    assert folder_names.doubtful_sides(["mask", "no_mask"]) == folder_names.doubtful_sides(["mask"]) == []
    assert folder_names.sides_of_classes(["cat", "cat_masks", "mask", "dog_mask"]) == {"cat_masks": "cat"}
    assert folder_names.is_side("SegmentationObject") and not folder_names.is_side("class_1")
    assert folder_names.sides_of_classes(["cat", "cat ", "mask", "mask ", "1"]) == {}
