"""Sets of a datamodule that are there, empty, or exchanged after somebody has asked of them."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule
from vit_lightning.errors import InputError


class Named:
    """Four images of two classes, which it names."""

    def __init__(self, *classes: str) -> None:
        self.classes = list(classes)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, 8, 8), index, dtype=torch.uint8), index % 2


class Own(ImageDataModule):
    num_classes = 2

    def setup(self, stage: str) -> None:
        self.train_set, self.val_set = Named("ant", "bee"), Named("ant", "bee")


def test_names_follow_each_set_that_takes_anothers_place():
    data = Own(image_size=8)
    assert data.class_names == ["0", "1"]
    data.setup("fit")
    assert data.class_names == ["ant", "bee"]
    data.train_set = [(torch.zeros(3, 8, 8, dtype=torch.uint8), 0)]
    data.val_set = Named("cow", "dog")
    assert data.class_names == ["cow", "dog"]
    data.val_set = None
    assert data.class_names == ["0", "1"]
    data.test_set = Named("eel", "fox")
    assert data.class_names == ["eel", "fox"]


def test_a_test_set_is_predicted_even_if_it_is_empty_and_else_the_validation_set():
    data = Own(image_size=8)
    assert data.predict_set is None
    data.setup("predict")
    assert data.predict_set is data.val_set
    data.test_set = []
    assert data.predict_set is data.test_set


@pytest.mark.parametrize("kind", [str, Path])
def test_a_root_is_said_from_the_top_and_home_is_the_users(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert Own(root=kind("~/photos")).root == tmp_path / "home/photos"
    assert Own(root=kind("photos")).root == tmp_path / "photos"
    assert Own(root=kind("/photos")).root == Path("/photos") and Own().root is None


def test_prediction_goes_on_at_the_record_where_it_stopped():
    data = Own(image_size=8, batch_size=3, num_workers=0, augment=Augment(crop="none"))
    data.setup("predict")
    data.predict_from = 1
    for in_memory in (True, False):
        data.in_memory = in_memory
        shown = [image[0, 0, 0].item() for images, _ in data.predict_dataloader() for image in images]
        assert shown == [1, 2, 3]
        assert len([None for _, labels in data.val_dataloader() for _ in labels]) == 4  # which is scored as a whole


def test_what_is_left_out_is_said_once(caplog):
    data = Own(image_size=8)
    with caplog.at_level("INFO"):
        for text in ("one", "two", "one"):
            data.notice(text)
    assert data.notices == ["one", "two"] and caplog.messages == ["one", "two"]


def test_faults_are_kept_where_all_are_wanted():
    data, faults = Own(image_size=8), [InputError("one"), InputError("two")]
    with pytest.raises(InputError, match=r"^one$"):
        data.report(faults[0])
    data.faults = []
    for fault in faults:
        data.report(fault)
    assert data.faults == faults


@pytest.mark.parametrize(("cores", "devices", "workers"), [(1, 1, 1), (3, 2, 1), (1, 2, 1), (12, 3, 4), (64, 2, 16)])
def test_cores_are_shared_by_the_devices_and_a_device_takes_sixteen_at_most(monkeypatch, cores, devices, workers):
    monkeypatch.setattr("vit_lightning.data.datamodule.cores", lambda: cores)
    data = Own(image_size=8)
    data.trainer = SimpleNamespace(num_devices=devices)
    assert data.workers == workers and data.cores_per_device == max(1, cores // devices)
    data.num_workers = 40
    assert data.workers == 40
    alone = Own(image_size=8)
    assert alone.cores_per_device == cores
