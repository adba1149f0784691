"""Names of classes that own sets carry: a label means one class in all of them, or no set is read."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, random_split
from torch.utils.data import Subset as TorchSubset
from torchvision.datasets import ImageFolder

from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule
from vit_lightning.data.carried_names import NamedSet, carried_names, contradiction, named_sets, plain
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


def found(**members) -> dict[int, frozenset[str]] | None:
    """The names that a set with these members carries."""
    return next((dict(one.names) for one in named_sets(SimpleNamespace(**members), "x")), None)


def called(*names: str) -> dict[int, frozenset[str]]:
    return {number: frozenset([name]) for number, name in enumerate(names)}


@pytest.mark.parametrize(
    ("members", "names"),
    [
        ({"classes": ["a", "b"]}, called("a", "b")),
        ({"class_names": ["a", "b"]}, called("a", "b")),
        ({"classes": ["a"], "class_names": ["b"]}, called("a")),
        ({"classes": [("a", "A"), ["b"]]}, {0: frozenset("aA"), 1: frozenset("b")}),
        ({"classes": [["a", "b"], "c"]}, {0: frozenset("ab"), 1: frozenset("c")}),
        ({"classes": ["a", "b", "a"]}, None),  # a class per record
        ({"classes": ["a", 3]}, None),
        ({"classes": ["a", ()]}, None),
        ({"classes": [3, "a"]}, None),
        ({"classes": "ab"}, None),
        ({"class_to_idx": {"a": np.int64(1), "b": 0, 3: 2}}, {1: frozenset("a"), 0: frozenset("b")}),
        ({"class_to_idx": {"a": 0, "b": 0}}, {0: frozenset("ab")}),
        ({"class_to_idx": {"a": True, "b": False}, "classes": ["x"]}, called("x")),
        ({"class_to_idx": {"a": 0.0}}, None),
        ({"features": {"label": SimpleNamespace(names=["a", "b"])}}, called("a", "b")),
        ({"features": {"label": SimpleNamespace(feature=SimpleNamespace(names=["a"]), names=["b"])}}, called("a")),
        ({"features": {"label": SimpleNamespace(names=["a", 3])}}, None),
        ({"features": {"image": SimpleNamespace(names=["a"])}}, None),
        ({"features": ["label"]}, None),
    ],
)
def test_names_that_a_set_carries(members, names):
    assert found(**members) == names


@pytest.mark.parametrize(
    ("transform", "names"),
    [
        (lambda label: 2 - label, {2: frozenset("a"), 1: frozenset("b"), 0: frozenset("c")}),
        (lambda label: torch.tensor(label + 5), {5: frozenset("a"), 6: frozenset("b"), 7: frozenset("c")}),
        (lambda label: label // 2, {0: frozenset("ab"), 1: frozenset("c")}),
        (lambda label: np.eye(3)[label], called("a", "b", "c")),
        (lambda label: np.eye(3, dtype=bool)[2 - label], {2: frozenset("a"), 1: frozenset("b"), 0: frozenset("c")}),
        (lambda label: np.ones(3), None),
        (lambda label: np.zeros(3), None),
        (lambda label: np.eye(3)[None, label], None),
        (lambda label: float(label), None),
        (lambda label: label > 0, None),
        (lambda label: label.item(), None),
    ],
)
def test_names_are_those_of_the_labels_that_a_set_yields(transform, names):
    assert found(classes=["a", "b", "c"], target_transform=transform) == names


def test_names_of_the_first_set_that_names_every_class():
    few, whole = SimpleNamespace(classes=["a"]), SimpleNamespace(classes=[("b", "B"), "c"])
    shifted = SimpleNamespace(classes=["x", "y"], target_transform=lambda label: label + 1)
    assert carried_names((None, few, shifted, whole, SimpleNamespace(classes=["d", "e"])), 2) == ["B, b", "c"]
    assert carried_names((few, shifted), 2) == carried_names((), 2) == []


@pytest.mark.parametrize(
    ("name", "form"), [("Ant_Hill", "ant hill"), (" ant--hill ", "ant hill"), ("a_-\tb", "a b"), ("STRASSE", "strasse")]
)
def test_spellings_of_a_name(name, form):
    assert plain(name) == plain(form) == form


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({0: "1"}, {0: "ant"}, "label 0 is 'ant' in two of Own and '1' in one"),
        ({0: "0"}, {0: "ant"}, None),
        ({0: "ant"}, {0: "0"}, None),
        ({0: "ant", 1: "bee"}, {1: "ant"}, "class 'ant' has the label 1 in two of Own and 0 in one"),
        ({0: "ant"}, {0: "bee"}, "label 0 is 'bee' in two of Own and 'ant' in one"),
        ({0: "ant"}, {0: "ANT"}, None),
        ({0: "ant"}, {3: "cow"}, None),
    ],
)
def test_a_number_and_a_name_belong_together_in_all_sets(first, second, said):
    sets = [
        NamedSet(name, {number: frozenset([one]) for number, one in names.items()})
        for name, names in (("one", first), ("two", second))
    ]
    answer = contradiction("Own", [], sets)
    assert answer is None if said is None else answer.startswith(said)
