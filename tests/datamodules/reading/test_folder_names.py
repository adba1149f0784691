"""What folders are called that are parts of a set, and which names are those of classes."""

import pytest

from datamodules.reading import folder_names as names


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("trainA", ["train", "a"]),
        ("images_test-2", ["images", "test", "2"]),
        ("TrainSet", ["train", "set"]),
        ("trainset", ["train", "set"]),
        ("Xtest", ["test", "x"]),
        ("xtrain", ["train", "x"]),
        ("dataTraining", ["data", "training"]),
        ("imagesTr", ["images", "tr"]),
        ("val2017", ["val", "2017"]),
        ("strainer", ["strainer"]),
        ("JPEGImages", ["jpegimages"]),
        ("RedFoxHTTP", ["red", "fox", "http"]),
        ("\u732btrain", ["\u732b", "train"]),
        ("testing", ["testing"]),
        ("validation", ["validation"]),
        ("trainsets", ["train", "sets"]),
    ],
)
def test_words_of_a_name(name, words):
    assert sorted(names.words_of(name)) == sorted(words)


@pytest.mark.parametrize(
    ("some", "pair"),
    [
        ("trainA trainB testA", "trainA trainB"),
        ("bus train_1 train_2", ""),
        ("train_1 extra train_2", "train_1 train_2"),
        ("train_1 masks train_2", "train_1 train_2"),
        ("train_1 extra", ""),
        ("train_red train_blue", ""),
        ("train_red test_red", "train_red test_red"),
        ("train_red test_blue", ""),
        ("images_background images_evaluation", "images_background images_evaluation"),
        ("images_train images_extra images_old", "images_train images_extra"),
        ("images_background images_cat", ""),
        ("images_evaluation cat", ""),
        ("images masks", "images masks"),
        ("masks images edges", "images masks"),
        ("images others", ""),
        ("images masks bus", ""),
        ("images", ""),
        ("asl_train asl_test bus", "asl_train asl_test"),
        ("train_asl test_asl bus", "train_asl test_asl"),
        ("asl_train asl_training bus", ""),
        ("asl_train_b asl_test_b bus", ""),
        ("train2017 val2017 bus", "train2017 val2017"),
        ("train2017 val2018 bus", ""),
        ("train1 val1 bus", ""),
        ("asl_train1 asl_test2 bus", "asl_train1 asl_test2"),
    ],
)
def test_two_names_of_parts(some, pair):
    assert list(names.parts_of_a_set(some.split())) == pair.split()


@pytest.mark.parametrize(
    ("name", "split"),
    [
        *(
            ("train", "train"),
            ("Training_Images", "train"),
            ("tr", "train"),
            ("va", "val"),
            ("te", "test"),
            ("ts", "test"),
        ),
        *(("eval", "test"), ("evaluation", "test"), ("holdout", "test"), ("heldout", "test"), ("dev", "val")),
        *(("valid-set", "val"), ("testset", "test"), ("train_1", "train"), ("train_station", None), ("fold1", None)),
        *(("cat", None), ("images", None)),
    ],
)
def test_the_split_that_a_name_stands_for_alone(name, split):
    assert names.split_alone(name) == split


@pytest.mark.parametrize(
    ("name", "side", "plain", "image", "may_be_class"),
    [
        ("masks", True, True, False, False),
        ("mask", True, False, False, False),
        ("ground_truth", True, True, False, True),
        ("truth_ground", False, False, False, True),
        ("Labels_2", True, True, False, False),
        ("label_a", False, False, False, True),
        ("images", False, False, True, False),
        ("rgb_images", False, False, True, False),
        ("2019", False, False, False, False),
        ("20-1_9", False, False, False, False),
        ("no_2", False, False, False, True),
        ("images_masks", False, False, False, False),
        ("cat", False, False, False, True),
    ],
)
def test_what_lies_beside_images(name, side, plain, image, may_be_class):
    found = names.is_side(name), names.is_plain_side(name), names.is_image_word(name), names.may_be_class(name)
    assert found == (side, plain, image, may_be_class)


def test_a_side_is_named_beside_others_alone():
    assert names.sides_beside(["cat", "masks", "labels"]) == ["masks", "labels"]
    assert names.sides_beside(["masks"]) == [] == names.sides_beside(["cat", "mask"])


@pytest.mark.parametrize(
    "name",
    [
        *("unlabelled", "Unlabeled", "unlabeled_images", "unlabelledData", "unlabeled-data", "unlabeled2017"),
        *("no_label", "no_labels", "NoLabel", "not-labelled", "nolabel", "without_annotations", "unannotated"),
        *("unsup", "train_unlabelled", "unlabelled_1", "unlabelled_pool", "Unlabeled Samples", "pool-unlabeled"),
        *("no_label_pool", "to_label", "to_be_labeled", "raw_unlabelled"),
    ],
)
def test_images_without_a_class_are_named_beside_others_alone(name):
    assert names.unlabelled_beside(["cat", name]) == name
    assert names.unlabelled_beside([name]) is None


def test_classes_are_no_images_without_a_class():
    assert (
        names.unlabelled_beside(
            ["cat", "no_mask", "unlabelled_bottle", "label", "not_cat", "without_dog", "pool", "to_eat"]
        )
        is None
    )
    assert names.unlabelled_beside(["label", "no_label"]) is names.unlabelled_beside(["with_label", "no_label"]) is None


def test_unlabelled_images_beside_a_folder_called_label_have_no_class_still():
    assert names.unlabelled_beside(["labels", "unlabeled"]) == "unlabeled"


def test_parts_may_lie_beside_their_masks_and_images_beside_one_folder_of_masks():
    assert names.parts_of_a_set(["train_images", "test_images", "masks"]) == ["train_images", "test_images"]
    assert names.parts_of_a_set(["images", "annotations"]) == ["images", "annotations"]
    assert names.parts_of_a_set(["images", "masks", "cat"]) == []
