"""Further folders that are scored in the same pass, each on the classes that it has."""

from pathlib import Path

import pytest
from PIL import Image

from datamodules.folder import ImageFolder
from tests.datamodules.test_folder import put, ready
from vit_lightning.data.image_set import scored_classes_of
from vit_lightning.errors import InputError


def write(folder: Path, **counts: int) -> Path:
    for name, count in counts.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            Image.new("RGB", (8, 8), (number, len(name), 0)).save(folder / name / f"{folder.name}{number}.png")
    return folder


def test_each_further_set_is_whole_and_scored_on_its_own_classes(tmp_path):
    root = tmp_path / "set"
    write(root / "train", ant=4, bee=4, cow=4, dog=4)
    night, day = write(tmp_path / "night", dog=2, bee=1, ant=0), write(tmp_path / "day", ant=1, bee=1, cow=1, dog=1)
    data = ImageFolder(root=root, image_size=8, also={"night": night, "day": day})
    data.setup("fit")
    assert list(data.further_sets) == ["night", "day"]
    found = {
        name: (images.labels.tolist(), scored_classes_of(images).tolist()) for name, images in data.further_sets.items()
    }
    assert found == {"night": ([1, 3, 3], [1, 3]), "day": ([0, 1, 2, 3], [0, 1, 2, 3])}
    assert scored_classes_of(data.train_set) is None and scored_classes_of(data.val_set) is None


def test_a_class_that_does_not_train_is_no_class_of_a_further_set(tmp_path):
    write(tmp_path / "set/train", ant=4, bee=4)
    data = ImageFolder(root=tmp_path / "set", image_size=8, also={"night": write(tmp_path / "night", bee=1, cow=1)})
    with pytest.raises(InputError, match=r"night has the class folder 'cow', which .*train lacks"):
        data.setup("fit")


@pytest.mark.parametrize(("also", "how"), [("train", "is"), (".", "holds"), ("train/cat", "lies in")])
def test_the_training_images_are_no_further_set(tmp_path, also, how):
    for number in range(8):
        put(tmp_path / f"train/{('cat', 'dog')[number % 2]}/{number}.png", number)
    data = ImageFolder(root=tmp_path, image_size=8, also={"night": tmp_path / also})
    with pytest.raises(InputError, match=rf"--data\.also night: .* {how} the folder of the training images, .*/train;"):
        data.setup("fit")


def test_a_further_folder_of_another_class_is_named_with_the_fix(tmp_path):
    for place in ("train/cat", "train/dog", "night/cow"):
        put(tmp_path / place / "0.png")
    said = r"night has the class folder 'cow', which \S+ lacks \(1 such\); add it there{}, or remove it"
    with pytest.raises(InputError, match=said.format(", or say in --data.class_map which class it shows")):
        ready(tmp_path, also={"night": tmp_path / "night"})
    (tmp_path / "map.csv").write_text("cat,cat\ndog,dog\n")
    with pytest.raises(InputError, match=said.format("").replace(r"\S+", r"\S+map\.csv")):
        ready(tmp_path, also={"night": tmp_path / "night"}, class_map=tmp_path / "map.csv")
