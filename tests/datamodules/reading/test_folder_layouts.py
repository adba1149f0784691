"""Which trees of folders are classes, and which are parts of a set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datamodules.folder import ImageFolder
from datamodules.reading import folder_names
from datamodules.reading.folder_names import parts_of_a_set
from tests.datamodules.test_folder import put
from vit_lightning.errors import InputError

PARTS = "are called as parts of a set are, not as classes"
SIDE = "is called as what belongs to images is"
SIBLINGS = "each of which holds"
UNLABELLED = "is called as images without a class are"
INSIDE = "has the splits inside its classes"
NESTED = "if both are one class"
LETTERS = "holds folders of letters"

REFUSED = [
    ("trainA trainB testA testB", PARTS),
    ("trainA trainB", PARTS),
    ("TrainSet TestSet", PARTS),
    ("trainset testset", PARTS),
    ("train_set test_set docs", PARTS),
    ("Xtrain Xtest", PARTS),
    ("X_train X_test y_train y_test", PARTS),
    ("train1 train2 test1", PARTS),
    ("split1 split2", PARTS),
    ("fold1 fold2 holdout", PARTS),
    ("fold_a fold_b fold_c", PARTS),
    ("set1/cat set1/dog set2/cat set2/bird", PARTS),
    ("dataset1 dataset2", PARTS),
    ("batch_1 batch_2 batch_3", PARTS),
    ("part1 part2", PARTS),
    ("train/session_1 train/session_2", PARTS),
    ("imgs masks", PARTS),
    ("imgs masks_machine", PARTS),
    ("images bbox", PARTS),
    ("rgb nir", PARTS),
    ("train/images train/thermal", PARTS),
    ("original resized_256", PARTS),
    ("jpg png", PARTS),
    ("images_128 images_256", PARTS),
    ("a b thumbnails", SIDE),
    ("images masks edges", PARTS),
    ("imagesTr imagesTs labelsTr", PARTS),
    ("rgb depth", PARTS),
    ("train2017 val2017 annotations", PARTS),
    ("train2017 test2017 unlabeled2017", PARTS),
    ("train2017 val2017 bus", PARTS),
    ("train_1 train_2 extra", PARTS),
    ("bounding_box_train bounding_box_test query", PARTS),
    ("dog_train dog_test", PARTS),
    ("Training-Data Testing-Data", PARTS),
    ("seg_train/a seg_train/b seg_test/a seg_test/b seg_pred", PARTS),
    ("train/a train/b train/masks", SIDE),
    ("a b masks", SIDE),
    ("a b ground_truth", SIDE),
    ("train/trainA train/trainB", PARTS),
    ("train/imgs train/masks", PARTS),
    ("train/a train/a/masks train/b", SIDE),
    ("train/a/images train/a/masks train/b/images", SIDE),
    ("a/images a/masks b/images b/masks", SIDE),
    ("a/rgb a/depth b/rgb", SIDE),
    ("siteA/cat siteA/dog siteB/cat siteB/bird", SIBLINGS),
    ("day/0 day/1 night/0 night/1", SIBLINGS),
    ("day/c0 day/c1 night/c0 night/c1", SIBLINGS),
    ("day/0 day/2 night/1 night/0 night/2", SIBLINGS),
    ("day/f15 day/f16 night/f15 night/f16", SIBLINGS),
    ("day/2019 day/cat night/2019 night/cat", SIBLINGS),
    ("amazon/images/bike amazon/images/mug dslr/images/bike dslr/images/mug", SIBLINGS),
    ("a/data/images/bike a/data/images/mug b/data/images/bike b/data/images/pen", SIBLINGS),
    ("train/flowers/all/rose train/flowers/all/tulip train/rose train/tulip", NESTED),
    ("cat/train1 cat/test1 dog/train1", INSIDE),
    ("train/flowers/rose train/flowers/tulip train/rose train/tulip", NESTED),
    ("a/abbey a/alley b/barn b/beach", LETTERS),
    ("a/abbey b/badlands", LETTERS),
    ("train/a/abbey train/b/badlands train/c/church/indoor", LETTERS),
    ("A/abbey B/badlands", LETTERS),
    ("augmented_images/augmented_images/m original_images/original_images/m", PARTS),
    ("raw_images processed_images", PARTS),
    ("original augmented", PARTS),
]
ACCEPTED = [
    ("front_part rear_part", 2),
    ("part1 bolt", 2),
    ("train_station test_tube bus", 3),
    ("train_station test_tube", 2),
    ("bullet_train test_tube", 2),
    ("test_01 train_01 bus", 3),
    ("strainer attest contest", 3),
    ("chess_set tea_set", 2),
    ("with_mask without_mask", 2),
    ("mask no_mask", 2),
    ("original tampered", 2),
    ("thermal visible", 2),
    ("jpg cat", 2),
    ("cat masks_of_africa", 2),
    ("ground sky truth", 3),
    ("oval round", 2),
    ("train_station train_interior valley", 3),
    ("label_a logo", 2),
    ("tr us va", 3),
    ("train/0/1 train/0/2 train/1/1 train/1/2", 2),
    ("0/a 1/a", 2),
    ("cat/2019 cat/2020 dog/2019", 2),
    ("cat/2019 cat/2020 dog/2019 dog/2020", 2),
    ("cat/1 cat/2 dog/1 dog/2", 2),
    ("cat/2019-01 cat/2019-02 dog/2019-01 dog/2019-02", 2),
    ("cat/40X cat/100X dog/40X dog/100X", 2),
    ("cat/p1 cat/p2 dog/p1 dog/p2", 2),
    ("cat/10mm cat/images dog/10mm dog/images", 2),
    ("cat/images cat/more dog/images", 2),
    ("train/cat/indoor train/cat/outdoor train/dog/indoor train/dog/outdoor", 2),
    ("train/dog_train train/test_tube", 2),
    ("\u732btrain \u72actest", 2),
    ("train/a/mask train/b/mask", 2),
    ("a/a_1 a/a_2 b/b_1 b/b_2", 2),
    ("a/anna b/anna", 2),
    ("a/abbey b/badlands cat", 3),
    ("raw processed", 2),
    ("raw cooked", 2),
    ("original_art augmented_art", 2),
    ("train/a/images train/a/extra train/b/images", 2),
]


def make(root, tree: str) -> None:
    """Write images into folders; a blank in a folder's name is a low line here."""
    for number, place in enumerate(tree.split()):
        for copy in range(4):
            put(root / place / f"{copy}.png", 10 * number + copy)


def read(root, **options) -> ImageFolder:
    data = ImageFolder(root=root, image_size=8, **options)
    data.setup("fit")
    return data


@pytest.mark.parametrize(("tree", "said"), REFUSED)
def test_parts_of_a_set(tmp_path, tree, said):
    make(tmp_path, tree)
    with pytest.raises(InputError, match=said):
        read(tmp_path)


@pytest.mark.parametrize(
    "name", ["unlabelled", "Unlabeled", "unlabeled", "unlabeled_images", "unlabeled_data", "no_label", "unsup"]
)
@pytest.mark.parametrize("split", ["", "train"])
def test_images_without_a_class_are_none(app, tmp_path, name, split):
    """They have names of their own, which tell nothing."""
    root = tmp_path / "set"
    make(root / split, "cat dog")
    for copy in range(4):
        put(root / split / name / f"photo_{100 + copy}.png", 100 + copy)
    with pytest.raises(InputError, match=f"holds the folder {name}, which {UNLABELLED}"):
        read(root)
    words = ("--data", "ImageFolder", "--data.root", root, "--data.image_size", 8, "--data.batch_size", 2)
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert done.code == 1 and UNLABELLED in done.out + done.err
    (tmp_path / "names.txt").write_text("\n".join(["cat", "dog", name]))
    assert read(root, class_map=tmp_path / "names.txt").num_classes == 3


@pytest.mark.parametrize(("tree", "count"), ACCEPTED)
def test_classes(tmp_path, tree, count):
    make(tmp_path, tree)
    assert read(tmp_path).num_classes == count


@pytest.mark.parametrize(("tree", "said"), [pair for pair in REFUSED if pair[1] in (PARTS, SIBLINGS, NESTED, LETTERS)])
def test_a_class_map_says_that_they_are_classes(tmp_path, tree, said):
    tops = {place.removeprefix("train/").split("/")[0] for place in tree.split()}
    make(tmp_path / "set", tree)
    (tmp_path / "names.txt").write_text("\n".join(sorted(tops)))
    data = read(tmp_path / "set", class_map=tmp_path / "names.txt")
    assert data.class_names == sorted(tops)
    with pytest.raises(InputError, match=r"list all classes in --data\.class_map"):
        read(tmp_path / "set")


@pytest.mark.parametrize(
    "tree",
    [
        "trainA trainB testA testB",
        "TrainSet TestSet",
        "fold1 fold2 holdout",
        "images masks edges",
        "imagesTr imagesTs labelsTr",
        "train/a train/b train/masks",
        "train/a/images train/a/masks train/b/images",
        "siteA/cat siteA/dog siteB/cat siteB/bird",
    ],
)
def test_doctor_finds_them(app, tmp_path, tree):
    make(tmp_path / "set", tree)
    words = ("--data", "ImageFolder", "--data.root", tmp_path / "set", "--data.image_size", 8, "--data.batch_size", 2)
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert done.code == 1 and any(said in done.out + done.err for said in (PARTS, SIDE, SIBLINGS))


@given(
    st.lists(st.sampled_from(["train", "Test", "VAL", "valid", "testing"]), min_size=2, max_size=4, unique=True),
    st.sampled_from(["{}A", "{}_images", "{} data", "{}2017", "X{}", "{}set", "{}-1", "birds_{}", "{}.dir"]),
)
def test_one_form_of_several_splits(splits, form):
    names = [form.format(split) for split in splits]
    assert parts_of_a_set(names)
    assert not parts_of_a_set(["cat", *(f"{name} station" for name in splits[:1]), "bus"])


@given(st.lists(st.text("abcdefgh ", min_size=2).map(str.strip), min_size=2, unique=True))
def test_names_without_such_words_are_classes(names):
    assert not parts_of_a_set(names) and not folder_names.sides_beside(names)


def test_classes_train_and_val_alone_are_those_of_a_class_map(tmp_path):
    make(tmp_path / "set", "train val")
    (tmp_path / "names.txt").write_text("train\nval\n")
    data = read(tmp_path / "set", class_map=tmp_path / "names.txt")
    assert data.class_names == ["train", "val"] and len(data.train_set) + len(data.val_set) + len(data.test_set) == 8


def test_splits_of_classes_train_and_val_stay_splits(tmp_path):
    make(tmp_path / "set", "train/train train/val val/train val/val")
    (tmp_path / "names.txt").write_text("train\nval\n")
    data = read(tmp_path / "set", class_map=tmp_path / "names.txt")
    assert len(data.train_set) == len(data.val_set) == 8 and data.test_set is None


def test_classes_in_images_beside_lists_are_no_detection(tmp_path):
    make(tmp_path, "images/banded images/dotted")
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "train1.txt").touch()
    with pytest.raises(InputError, match=f"in images folders such as banded; give --data.root {tmp_path / 'images'}"):
        read(tmp_path)
    assert read(tmp_path / "images").class_names == ["banded", "dotted"]
    for name in ("banded", "dotted"):
        (tmp_path / "images" / name).rename(tmp_path / "images" / {"banded": "train", "dotted": "val"}[name])
    with pytest.raises(InputError, match="the boxes of YOLO's detection"):
        read(tmp_path)
