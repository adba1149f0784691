"""Labels of one's own sets: what a loss would skip or misread is an error that names the record."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from datamodules.shards import Shards
from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule, image_set, subsets
from vit_lightning.data import labels as label_module
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError

GOOD = {"int": 1, "vector": torch.tensor([0.0, 1.0, 0.5])}


class Own(ImageDataModule):
    """Three classes; `labels` are those of its sets."""

    num_classes = 3

    def __init__(self, labels: list, attribute: str = "train_set", **kwargs) -> None:
        super().__init__(image_size=8, batch_size=2, num_workers=0, **kwargs)
        setattr(self, attribute, Pairs(labels))

    def setup(self, stage: str) -> None:
        pass


class Pairs:
    def __init__(self, records: list) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int):
        return torch.full((3, 8, 8), index, dtype=torch.uint8), self.records[index]


def loaded(labels: list, split: str = "train", **kwargs) -> list:
    loader = getattr(Own(labels, f"{split}_set", **kwargs), f"{split}_dataloader")()
    return [label for _, batch in loader for label in batch]


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("split", ["train", "val"])
@pytest.mark.parametrize(
    ("first", "label", "said"),
    [
        ("int", IGNORE, "2 has label -100, which stands for one that is not told; take the image out, or move it"),
        ("int", np.int64(IGNORE), "2 has label -100, which stands for one that is not told"),
        ("vector", torch.full((3,), float(IGNORE)), "2 has a vector of -100 as its label, which stands for one"),
        ("vector", torch.tensor([0.0, float("nan"), 1.0]), "2 has nan in its label, for class 1; expected a share"),
        ("vector", torch.tensor([0.0, 1.5, 1.0]), "2 has 1.5 in its label, for class 1; expected a share"),
        ("vector", np.array([0.0, 1.0, -0.5]), "2 has -0.5 in its label, for class 2"),
        ("vector", torch.tensor([0.0, IGNORE, 1.0]), "2 has -100 in its label, for class 1"),
        ("vector", torch.tensor([0.0, float("inf"), 1.0]), "2 has inf in its label"),
        ("int", GOOD["vector"], "2 has a vector of classes as its label, and others have one class; a set has labels"),
        ("vector", 1, "2 has one class as its label, and others have a vector of classes"),
        ("int", ["cat", "dog"], r"2 has the label \['cat', 'dog'\]; expected an int or 3 floats"),
        ("int", "cat", "2 has the label 'cat'; expected an int or 3 floats"),
        ("int", 1j, "2 has the label 1j; expected an int or 3 floats"),
        ("int", None, "2 has the label None; expected an int or 3 floats"),
        ("int", -1, "2 has label -1, outside the 3 classes 0 to 2"),
    ],
)
def test_labels_that_no_loss_takes(in_memory, split, first, label, said):
    if split == "val" and "stands for one" in said:
        loaded([GOOD[first], GOOD[first], label, GOOD[first]], split, in_memory=in_memory)  # scores say how many count
        return
    with pytest.raises(InputError, match=f"(training|validation) image {said}"):
        loaded([GOOD[first], GOOD[first], label, GOOD[first]], split, in_memory=in_memory)


@pytest.mark.parametrize("in_memory", [True, False])
def test_labels_of_test_images_may_be_hidden(in_memory):
    assert sorted(map(int, loaded([1, IGNORE, 2], "test", in_memory=in_memory))) == [IGNORE, 1, 2]
    hidden = torch.full((3,), float(IGNORE))
    rows = loaded([GOOD["vector"], hidden], "test", in_memory=in_memory)
    assert torch.equal(torch.stack(rows), torch.stack([GOOD["vector"], hidden]))


def test_an_empty_vector_of_data_without_classes_hides_nothing():
    empty = np.zeros(0, np.float32)
    for may_hide in (False, True):
        assert label_module.checked(empty, lambda: "x", None, may_hide).shape == (0,)
    with pytest.raises(InputError, match=r"^x has a label of torch.float32 \(0,\); expected an int or 2 floats"):
        label_module.checked(empty, lambda: "x", 2, may_hide=True)


@pytest.mark.parametrize("kind", [np.uint16, np.uint64, np.int8, int, bool])
def test_whole_numbers_of_any_type(kind):
    assert list(map(int, loaded([kind(1), kind(0), kind(1)], "val"))) == [1, 0, 1]


@pytest.mark.parametrize("kind", [torch.uint16, torch.uint64])
def test_tensors_without_a_sign(kind):
    assert list(map(int, loaded([torch.tensor(2, dtype=kind)] * 3, "val"))) == [2, 2, 2]


@pytest.mark.parametrize(
    ("member", "value", "said"),
    [
        ("keys", lambda self: ["a"] * 4, "keys of the Odd is a method, expected an attribute with a name per record"),
        ("keys", ["a", "b"], "keys of the Odd is a sequence of 2 for 4 records"),
        ("keys", {"a", "b", "c", "d"}, "keys of the Odd is a set, expected an attribute with a name per record"),
        ("labels", lambda self: [0] * 4, "labels of the Odd is a method, expected an attribute with a number per"),
        (
            "labels",
            ["cat", "dog", "cat", "dog"],
            "the Odd has the label 'cat' in its attribute labels, expected an int",
        ),
        ("labels", [0, 1, None, 1], "the Odd has the label None in its attribute labels"),
        ("labels", [0, [1, 2], 1, 1], r"the Odd has the label \[1, 2\] in its attribute labels"),
        ("labels", [0.0, 1.0, 1.0, float("nan")], r"3 has a label of torch.float64 \(\); expected an int"),
        ("labels", [0.0, 1.0, 0.5, 1.0], r"2 has a label of torch.float64 \(\); expected an int"),
        ("labels", [0, 1], "labels of the Odd is a sequence of 2 for 4 records"),
        ("labels", [0, 1, IGNORE, 1], "training image 2 has label -100, which stands for one that is not told"),
    ],
)
def test_members_of_a_set(member, value, said):
    data = Own([0, 1, 0, 1])
    data.train_set = type("Odd", (Pairs,), {member: value})([0, 1, 0, 1])
    with pytest.raises(InputError, match=said):
        data.train_dataloader()


def test_a_dict_is_no_set_of_records():
    with pytest.raises(InputError, match="keys of the dict is a method"):
        image_set.keys_of({0: (None, 1)})


@pytest.mark.parametrize("record", [{"image": None}, {"image": None, "labels": 1}, (None,), 7])
def test_records_without_a_label(record):
    with pytest.raises(InputError, match=r"record 0 of the list has the type .*expected a pair"):
        image_set.record_of([record], 0)


HIDDEN_IN = """
import torch
from vit_lightning.data import ImageDataModule

class Hides(ImageDataModule):
    num_classes = 3
    def __init__(self, where: str = "train", **kwargs) -> None:
        super().__init__(**kwargs)
        self.where = where
    def setup(self, stage: str) -> None:
        image = torch.arange(3 * 64, dtype=torch.uint8).reshape(3, 8, 8)
        for number, split in enumerate(("train", "val", "test")):
            labels = [0, 1, 2, -100 if split == self.where else 0]
            own = image + 70 * number  # no image is in two splits
            setattr(self, f"{split}_set", [(own + 9 * place, label) for place, label in enumerate(labels)])
"""


@pytest.fixture
def hides(tmp_path, monkeypatch) -> None:
    (tmp_path / "hides.py").write_text(HIDDEN_IN)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize("where", ["train", "val", "test"])
def test_prepare_packs_hidden_labels_of_test_images_alone(app, tmp_path, hides, where):
    done = app(
        "prepare", "--data", "hides.Hides", "--data.where", where, "--data.num_workers", 0, "--out", tmp_path / "o"
    )
    if where != "test":
        assert done.code == 1 and "3 has label -100, which stands for one that is not told" in done.out + done.err
        return
    assert done.code == 0, done.err
    data = Shards(root=str(tmp_path / "o"), image_size=8, num_workers=0, batch_size=2)
    data.setup("test")
    assert [data.test_set[number][1] for number in range(4)] == [0, 1, 2, IGNORE]


def test_prepare_keeps_hidden_vectors_of_test_images(app, tmp_path, hides):
    text = (tmp_path / "hides.py").read_text().replace("enumerate(labels)", "enumerate(map(vector, labels))")
    (tmp_path / "vectors.py").write_text(
        text + "\ndef vector(label):\n    return torch.full((3,), -100.0) if label < 0 else torch.eye(3)[label]\n"
    )
    words = ("--data.where", "test", "--data.num_workers", 0, "--out", tmp_path / "o")
    assert app("prepare", "--data", "vectors.Hides", *words).code == 0
    data = Shards(root=str(tmp_path / "o"), image_size=8, num_workers=0, batch_size=2)
    data.setup("test")
    assert [data.test_set[number][1].tolist() for number in (2, 3)] == [[0, 0, 1], [IGNORE] * 3]


def test_doctor_finds_hidden_labels_in_training(app, tmp_path, hides):
    words = ("--data.num_workers", 0, "--data.batch_size", 2, "--data.image_size", 8, "--model.net.variant", "mu/8")
    done = app(
        "doctor", "--data", "hides.Hides", *words, "--trainer.accelerator", "cpu", "--json", tmp_path / "found.json"
    )
    found = json.loads((tmp_path / "found.json").read_text())["findings"]
    (finding,) = [finding for finding in found if finding["topic"] == "labels"]
    assert finding["severity"] == "error" and finding["text"] == "1 training image without a label that a run takes"
    assert finding["items"][0].startswith("3: has label -100, which stands for") and done.code == 1


class Listed(Pairs):
    """Pairs beside which stands a list of labels."""

    def __init__(self, records: list, labels) -> None:
        super().__init__(records)
        self.labels = labels


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_a_list_of_labels_that_contradicts_the_records(split, in_memory):
    data = Own([0, 1, 2, 0], in_memory=in_memory, augment=Augment(crop="none"))
    setattr(data, f"{split}_set", Listed([0, 1, 2, 0], [0, 1, 0, 2]))
    with pytest.raises(InputError, match=r"image (2 has the label 2, and 0|3 has the label 0, and 2) in the attri"):
        list(getattr(data, f"{split}_dataloader")())


@pytest.mark.parametrize(
    ("records", "labels"),
    [
        ([0, 1, 2, 1], np.array([0, 1, 2, 1], np.uint8)),
        ([0, 1, 2, 1], torch.tensor([0, 1, 2, 1])),
        ([0, 1, 2, 1], [0.0, 1.0, 2.0, 1.0]),
        (list(torch.eye(3)[[0, 1, 2, 1]]), [0, 1, 2, 1]),
    ],
)
def test_a_list_of_labels_in_another_form_goes_on(records, labels):
    data = Own(records)
    data.train_set = Listed(records, labels)
    assert sum(len(labels) for _, labels in data.train_dataloader()) == 4


def test_a_list_that_torchvision_turns_into_other_labels_says_nothing():
    data = Own([0, 1, 2, 1])
    data.train_set = Listed([0, 1, 2, 1], [1, 2, 3, 2])
    data.train_set.target_transform = lambda label: label - 1
    assert sum(len(labels) for _, labels in data.train_dataloader()) == 4


def test_a_list_of_labels_that_is_longer_than_its_set():
    data = Own([0, 1])
    data.train_set = Listed([0, 1, 2, 1], [0, 1, 2, 1, 3])
    with pytest.raises(InputError, match="labels of the Listed has 5 numbers for 4 records, expected one for each"):
        data.train_dataloader()


@pytest.mark.parametrize("large", [2**63, 2**64 - 1, 10**12])
def test_numbers_of_classes_that_are_far_too_large(large):
    data = Own([0, 1, large, 2], per_class=1)
    with pytest.raises(InputError, match=f"training image 2 has label {large}, outside the 3 classes 0 to 2"):
        Own([0, 1, np.uint64(large), 2], on_error="raise").train_dataloader().dataset[2]
    data.train_set = Listed([0, 1, large, 2], np.array([0, 1, large, 2], np.uint64))
    for count in (lambda: data.train_subset, lambda: subsets.class_counts(data.train_set, 3)):
        with pytest.raises(InputError, match=f"training image 2 has label {large}, outside the 3 classes 0 to 2"):
            count()


@pytest.mark.parametrize("in_memory", [False, True])
def test_softmax_is_given_no_vector_of_zeros(in_memory):
    labels = [torch.tensor(label) for label in ([1.0, 0, 0], [0.0, 0, 0], [0.0, 1, 1], [float(IGNORE)] * 3)]
    for loss, said in (("softmax", "image 1 has a label of zeros, and softmax expects a class"), ("sigmoid", None)):
        data = Own(labels, "test_set", in_memory=in_memory)
        strategy, model = SimpleNamespace(root_device=torch.device("cpu")), SimpleNamespace(hparams={"loss": loss})
        facts = {"distributed_sampler_kwargs": None, "num_devices": 1, "training": False}
        data.trainer = SimpleNamespace(strategy=strategy, lightning_module=model, **facts)
        with pytest.raises(InputError, match=said) if said else nullcontext():
            assert sum(len(labels) for _, labels in data.test_dataloader()) == 4


@pytest.mark.parametrize("wrong", [7, -1])
@pytest.mark.parametrize("split", ["val", "test"])
def test_a_wrong_label_is_found_at_once_behind_hidden_ones(split, wrong):
    """Before any image is read, where a set has a list of its labels."""

    class Listed(Pairs):
        labels = property(lambda self: np.array(self.records))

        def __getitem__(self, index: int):
            raise AssertionError("labels that are known must not be read")

    data = Own([0], in_memory=False)
    setattr(data, f"{split}_set", Listed([0, IGNORE, 2, IGNORE, wrong, 9]))
    with pytest.raises(InputError, match=f"image 4 has label {wrong}, outside the 3 classes 0 to 2"):
        getattr(data, f"{split}_dataloader")()
