"""Names of classes that own sets carry: a label means one class in all of them, or no set is read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, random_split
from torch.utils.data import Subset as TorchSubset
from torchvision.datasets import ImageFolder

from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule
from vit_lightning.data.carried_names import contradiction, named_sets
from vit_lightning.data.subsets import Subset
from vit_lightning.errors import InputError
from vit_lightning.testing import check_datamodule

CHANCE = np.random.default_rng(0)


class Named:
    """Sixteen images whose labels are counted through the classes."""

    def __init__(self, **facts) -> None:
        vars(self).update(facts)
        self.count = min(3, len(facts.get("classes", (0, 1))))

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, 8, 8), index, dtype=torch.uint8), index % self.count


class Wrapped:
    """A set as many write one: that of another, varied, and perhaps with other labels."""

    def __init__(self, inner, shift: int = 0) -> None:
        self.photos = inner
        self.kept = list(range(len(inner)))
        self.itself = self
        self.shift = shift

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, index: int):
        image, label = self.photos[self.kept[index]]
        return image, label + self.shift


class Own(ImageDataModule):
    """A third party's data."""

    num_classes = 3

    def setup(self, stage: str) -> None:
        pass


class Naming(Own):
    class_names = ("ant", "bee", "cat")


def data_of(train, val=None, test=None, kind: type[Own] = Own) -> Own:
    data = kind(image_size=8, batch_size=4, num_workers=0, augment=Augment(crop="none"))
    data.train_set, data.val_set, data.test_set = train, val, test
    return data


def tree(folder: Path, *classes: str) -> Path:
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(3):
            Image.fromarray(CHANCE.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / name / f"{number}.png")
    return folder


def _with_parent(images: Wrapped) -> Wrapped:
    images.photos.parent = images
    return images


WAYS = {
    "as it is": lambda images: images,
    "torch's Subset": lambda images: TorchSubset(images, range(len(images))),
    "random_split": lambda images: random_split(images, [0.5, 0.5])[0],
    "ours": lambda images: Subset(images, np.arange(len(images))),
    "ConcatDataset": lambda images: ConcatDataset([[], images]),
    "two layers": lambda images: TorchSubset(ConcatDataset([images]), [0, 1, 2]),
    "a wrapper": Wrapped,
    "wrappers that know each other": lambda images: _with_parent(Wrapped(Wrapped(images))),
    "wrappers": lambda images: Wrapped(TorchSubset(Wrapped(images), range(len(images)))),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("split", ["val", "test"])
def test_torchvisions_folders_that_number_their_own_classes(tmp_path, way, split):
    train = ImageFolder(tree(tmp_path / "train", "ant", "bee", "cat"))
    other = WAYS[way](ImageFolder(tree(tmp_path / "other", "bee", "cat")))
    data = data_of(train, **{split: other})
    data.train_dataloader()
    said = r"class 'bee' has the label 0 in the \w+ set \(ImageFolder .*other\) of Own and 1 in the training set"
    with pytest.raises(InputError, match=f"{said} .*give all sets one class_to_idx"):
        getattr(data, f"{split}_dataloader")()


def test_parts_of_one_training_set_that_number_their_own_classes(tmp_path):
    folders = [ImageFolder(tree(tmp_path / "a", "ant", "bee")), ImageFolder(tree(tmp_path / "b", "bee", "ant2"))]
    with pytest.raises(InputError, match=r"label 0 is 'ant2' in the training set \(.*/b\).* 'ant' in .*/a\)"):
        data_of(ConcatDataset(folders)).train_dataloader()


def test_sets_that_share_their_numbers_go_on(tmp_path):
    train = ImageFolder(tree(tmp_path / "train", "ant", "bee", "cat"))
    val = ImageFolder(tree(tmp_path / "val", "bee", "cat"))
    val.target_transform = lambda label: train.class_to_idx[val.classes[label]]
    data = data_of(train, val)
    assert [label for _, labels in data.val_dataloader() for label in labels.tolist()] == [1] * 3 + [2] * 3
    val.target_transform = lambda label: torch.eye(3)[train.class_to_idx[val.classes[label]]]
    assert len(data.val_dataloader().dataset) == 6


def features(*names: str):
    datasets = pytest.importorskip("datasets")
    return datasets.Features({"label": datasets.ClassLabel(names=list(names))})


def test_hugging_faces_features():
    train, test = (Named(features=features(*names)) for names in (("cat", "dog"), ("dog", "cat")))
    with pytest.raises(InputError, match="class 'dog' has the label 0 in the test set"):
        data_of(train, test=test).test_dataloader()
    assert data_of(train, test=Named(features=features("cat", "dog"))).test_dataloader() is not None


@pytest.mark.parametrize(
    ("train", "other"),
    [
        (["ant", "bee"], ["bee", "ant"]),
        (["ant", "bee"], ["ant", "cow"]),
        (["Ant", "Bee"], ["bee", "ant"]),
        (["0", "1", "10", "2"], ["0", "1", "2"]),
        ([("crane", "bird"), ("crane", "machine")], [("crane", "machine"), ("crane", "bird")]),
    ],
)
def test_lists_that_differ(train, other):
    with pytest.raises(InputError, match=r"in the validation set \(Named\) of Own and .* in the training set"):
        data_of(Named(classes=train), Named(classes=other)).val_dataloader()


@pytest.mark.parametrize(
    ("train", "other"),
    [
        (["ant", "bee"], ["ant", "bee", "cow"]),
        (["Ant hill", "bee"], ["ant_hill", "Bee"]),
        (["0", "1"], ["ant", "bee"]),
        (["ant", "bee"], np.array(["ant", "bee"])),
        (["ant", "bee"], [0, 1]),
        (["ant", "bee"], ["bee", "bee", "ant"]),
        (["ant", "bee"], 2),
        (["ant", "bee"], []),
    ],
)
def test_lists_that_do_not_contradict_each_other(train, other):
    sets = [one for part in (Named(classes=train), _with(other)) for one in named_sets(part, "training")]
    assert contradiction("Own", [], sets) is None


def _with(classes) -> Named:
    images = Named()
    images.classes = classes
    return images


def test_numbers_of_classes_come_before_their_list():
    train = Named(class_to_idx={"ant": 1, "bee": 0}, classes=["ant", "bee"])
    assert data_of(train, Named(classes=["bee", "ant"])).val_dataloader() is not None


def test_a_wrapper_with_labels_of_its_own_is_not_looked_into():
    train, val = Named(classes=["ant", "bee", "cat"]), Named(classes=["bee", "cat"])
    assert data_of(train, Wrapped(val, shift=1)).val_dataloader() is not None
    with pytest.raises(InputError, match="class 'bee'"):
        data_of(train, Wrapped(val)).val_dataloader()


def test_names_of_the_module_against_those_of_its_sets():
    with pytest.raises(InputError, match=r"label 0 is 'ant' in class_names of Naming and 'bee' in the training set"):
        data_of(Named(classes=["bee", "ant", "cat"]), kind=Naming).train_dataloader()
    for others in (["Ant", "bee", "cat"], ["n01", "n02", "n03"], ["ant", "wasp", "cat"], ["ant", "bee", "cat", "dog"]):
        assert data_of(Named(classes=others), kind=Naming).train_dataloader() is not None
    assert data_of(Named(classes=["1", "0", "2"])).train_dataloader() is not None


def test_the_contract_says_it():
    class Contrary(Own):
        def setup(self, stage: str) -> None:
            self.train_set, self.test_set = Named(classes=["ant", "bee"]), Named(classes=["bee", "ant"])

    with pytest.raises(AssertionError, match="has the label 0 in the test set"):
        check_datamodule(Contrary(image_size=8, batch_size=4, augment=Augment(crop="none")))
