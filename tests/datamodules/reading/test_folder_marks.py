"""Images of a class that are called as masks, depth maps, previews or copies of others are."""

import pytest
from PIL import Image

from datamodules.folder import ImageFolder
from datamodules.reading import folder_marks
from tests.datamodules.test_folder import put
from vit_lightning.errors import InputError

REFUSED = "holds .*, called as what belongs to .* [(]4 such in the class a[)]; move these out"


def images(*forms: str, count: int = 4) -> list[str]:
    return [f"a/{form.format(number)}" for form in forms for number in range(1, count + 1)]


@pytest.mark.parametrize(
    "forms",
    [
        *(["{}_rgb.png", "{}_depth.png"], ["rgb_{}.png", "depth_{}.png"], ["color_{}.png", "depth_{}.png"]),
        *(["apple_1_1_{}_crop.png", "apple_1_1_{}_depthcrop.png"], ["p_1_{}_crop.png", "p_1_{}_maskcrop.png"]),
        *(["img_{}.png", "mask_{}.png"], ["image_{}.png", "label_{}.png"], ["{}_image.png", "{}_seg.png"]),
        *(["plant{}_rgb.png", "plant{}_label.png"], ["plant{}_rgb.png", "plant{}_fg.png"], ["{}.jpg", "{}_trimap.png"]),
        *(["{}.jpg", "{}_superpixels.png"], ["{}.jpg", "{}_gradcam.jpg"], ["{}.jpg", "{}_heatmap.jpg"]),
        *(["{}.jpg", "{}_small.jpg"], ["x/IMD{}.bmp", "y/IMD{}_lesion.bmp"], ["{}.png", "img_{}_mask.png"]),
        *(
            ["ISIC_{}.jpg", "ISIC_{}_attribute_globules.png"],
            ["{}_original.png", "{}_mask.png"],
            ["{}.png", "{}_CAM.png"],
        ),
        *(["photo {}.png", "photo {} ground truth.png"], ["{}_image.png", "{}_maskimage.png"]),
    ],
)
def test_what_belongs_to_images_of_another_word(tmp_path, forms):
    with pytest.raises(InputError, match=REFUSED):
        folder_marks.check(tmp_path, "a", images(*forms))


@pytest.mark.parametrize(
    "forms",
    [
        *(["img_{}.png", "rgb_{}.png"], ["crop_{}.png", "photo_{}.png"], ["depth_{}.png"], ["{}_small.jpg"]),
        *(["bottle_{}.png", "small_bottle_{}.png"], ["cam_{}.png", "{}.png"], ["front_{}.png", "edge_{}.png"]),
        *(
            ["img_{}.png", "mask_9{}.png"],
            ["lesion_{}.png", "{}.png"],
            ["roi{}.png", "{}.png"],
            ["IMG_{}.jpg", "DSC_{}.jpg"],
        ),
        *(["attribute_{}.png", "{}.png"], ["background_{}.png", "img_{}.png"], ["label_{}.png", "mask_{}.png"]),
        *(["{}.jpg", "{}_cam2.jpg"], ["{}.jpg", "{}_cam2.jpg", "{}_cam3.jpg"], ["{}.jpg", "{}_cam_1.jpg"]),
        *(["foreground.png", "{}.png"], ["{}.png", "{}_2.png"], ["{}_small_dog.png", "{}.png"]),
    ],
)
def test_images_of_other_names(tmp_path, forms):
    assert folder_marks.check(tmp_path, "a", images(*forms)) == []


def test_images_called_as_their_class_is_are_said_alone(tmp_path):
    (said,) = folder_marks.check(tmp_path, "face_mask", images("img_{}.png", "mask_{}.png"))
    assert "holds a/mask_1.png, called as what belongs to a/img_1.png is (4 such in the class face_mask), and" in said
    with pytest.raises(InputError, match="called as what belongs to"):
        folder_marks.check(tmp_path, "mask", images("img_{}.png", "{}_mask.png"))


def test_images_that_have_a_word_of_their_class_are_said_alone(tmp_path):
    (said,) = folder_marks.check(tmp_path, "with_mask", images("{}.jpg", "{}_mask.jpg"))
    assert "holds a/1_mask.jpg, called as what belongs to a/1.jpg is (4 such in the class with_mask), and reads" in said
    for name, forms in {"with_mask": ["img_{}.jpg", "{}_mask.jpg"], "with_hat": ["{}.jpg", "{}_mask.jpg"]}.items():
        with pytest.raises(InputError, match="called as what belongs to"):
            folder_marks.check(tmp_path, name, images(*forms))


@pytest.mark.parametrize("forms", [["{}.jpg", "{}_cam.jpg"], ["store_{}.jpg", "target_store_{}.jpg"]])
def test_a_class_map_that_lists_the_class_gets_past_marks(tmp_path, forms):
    for number, name in enumerate([*images(*forms), "b/x1.jpg", "b/x2.jpg"]):
        put(tmp_path / "set" / name, number)
    with pytest.raises(InputError, match=f"{REFUSED}.*; if both .*, list all classes in --data.class_map"):
        ImageFolder(root=tmp_path / "set", image_size=8).setup("fit")
    (tmp_path / "names.txt").write_text("a\nb\n")
    data = ImageFolder(root=tmp_path / "set", image_size=8, class_map=tmp_path / "names.txt", val_fraction=0)
    data.setup("fit")
    assert data.class_names == ["a", "b"] and any("as what belongs to" in said for said in data.notices)


def write(root, sizes: dict[str, tuple[int, int]]) -> list[str]:
    for name, size in sizes.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size).save(root / name)
    return list(sizes)


@pytest.mark.parametrize("endings", ["jpg png", "jpg webp", "jpeg bmp", "png tif"])
def test_images_of_one_name_and_two_endings(tmp_path, endings):
    names = [f"a/exp{number}.{ending}" for ending in endings.split() for number in range(4)]
    write(tmp_path, dict.fromkeys(names, (8, 6)))
    one, other = (f"a/exp0.{ending}" for ending in endings.split())
    said = f"holds {one} and {other}, called alike .4 such in the class a.*may be a mask or copy of the other; move one"
    with pytest.raises(InputError, match=said):
        folder_marks.check(tmp_path, "a", names)
    with pytest.raises(InputError, match="may be a mask or copy"):
        folder_marks.check(tmp_path, "a", names[:-1] + write(tmp_path, {"a/more.png": (8, 6)}))


def test_other_images_of_one_name_are_said(tmp_path):
    names = write(tmp_path, {f"a/{number}.jpg": (8, 6) for number in range(9)})
    names += write(tmp_path, {f"a/{number}.png": (7 + number, 9) for number in range(9)})
    (said,) = folder_marks.check(tmp_path, "a", names)
    assert "holds a/0.jpg and a/0.png, called alike (9 such in the class a), and reads both" in said
    few = write(tmp_path, {f"b/{number}.jpg": (8, 6) for number in range(9)} | {"b/1.png": (8, 6)})
    (said,) = folder_marks.check(tmp_path, "b", few)
    assert "holds b/1.jpg and b/1.png, called alike (1 such in the class b), and reads both" in said


@pytest.mark.parametrize("endings", ["jpg JPG", "jpg jpeg", "png PNG", "tif tiff"])
def test_images_of_one_name_and_one_format_are_said_alone(tmp_path, endings):
    names = [f"a/{number}.{ending}" for ending in endings.split() for number in range(4)]
    write(tmp_path, dict.fromkeys(names, (8, 6)))
    (said,) = folder_marks.check(tmp_path, "a", names)
    assert "called alike (4 such in the class a), and reads both" in said


def test_a_class_map_that_lists_the_class_gets_past_twins(tmp_path):
    names = write(tmp_path, {f"a/{number}.{ending}": (8, 6) for ending in ("jpg", "png") for number in range(4)})
    with pytest.raises(InputError, match=r"if both are images of the class, list all classes in --data\.class_map"):
        folder_marks.check(tmp_path, "a", names)
    (said,) = folder_marks.check(tmp_path, "a", names, known=["a"])
    assert "holds a/0.jpg and a/0.png, called alike (4 such in the class a), and reads both" in said


def test_images_that_cannot_be_opened_are_no_twins_for_sure(tmp_path):
    (said,) = folder_marks.check(tmp_path, "a", images("{}.jpg", "{}.png"))
    assert "holds a/1.jpg and a/1.png, called alike (4 such in the class a), and reads both" in said


def test_images_of_one_name_in_folders_of_a_class(tmp_path):
    names = write(tmp_path, {"a/x/1.jpg": (8, 6), "a/y/1.png": (8, 6), "a/2.jpg": (8, 6), "a/2.1.png": (8, 6)})
    assert folder_marks.check(tmp_path, "a", names) == []


def test_a_run_and_doctor_see_twins(app, tmp_path):
    for number in range(6):
        put(tmp_path / "set" / "blowhole" / f"exp{number}.jpg", number)
        put(tmp_path / "set" / "blowhole" / f"exp{number}.png", number)
        put(tmp_path / "set" / "free" / f"free{number}.jpg", number)
    with pytest.raises(InputError, match=r"blowhole/exp0\.jpg and blowhole/exp0\.png, called alike"):
        ImageFolder(root=tmp_path / "set", image_size=8).setup("fit")
    words = ("--data", "ImageFolder", "--data.root", tmp_path / "set", "--data.image_size", 8, "--data.batch_size", 2)
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert done.code == 1 and "called alike" in done.out + done.err
