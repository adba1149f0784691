import numpy as np
import torch
from sklearn.datasets import load_digits

from datamodules.digits import Digits
from vit_lightning.testing import check_datamodule


def test_contract():
    check_datamodule(Digits())


def test_pixels_labels_and_order_are_scikit_learns():
    data = Digits()
    data.setup("fit")
    digits = load_digits()
    for split in (data.train_set, data.val_set, data.test_set):
        for number in (0, len(split) - 1):
            image, label = split[number]
            record = split.keys[number]
            assert label == digits.target[record]
            assert image.shape == (3, 8, 8)
            assert torch.equal(image[0], image[2])
            assert np.abs(image[0].numpy() / 255 - digits.images[record] / 16).max() < 0.5 / 255 + 1e-9


def test_split_is_fixed_complete_and_stratified():
    data = Digits()
    data.setup("fit")
    splits = (data.train_set, data.val_set, data.test_set)
    assert [len(split) for split in splits] == [1248, 185, 364]
    assert sorted(np.concatenate([split.indices for split in splits])) == list(range(1797))
    total = np.bincount(load_digits().target)
    for split, share in zip(splits, (0.7, 0.1, 0.2), strict=True):
        assert np.abs(np.bincount(split.labels, minlength=10) - share * total).max() < 2.5
