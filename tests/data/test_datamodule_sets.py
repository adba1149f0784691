"""Sets of a datamodule that are there, empty, or exchanged after somebody has asked of them."""

import torch

from vit_lightning.data import ImageDataModule


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
