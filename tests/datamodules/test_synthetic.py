import pytest
import torch

from datamodules.synthetic import Synthetic
from vit_lightning.augment import Augment
from vit_lightning.errors import InputError
from vit_lightning.testing import check_datamodule


@pytest.mark.parametrize("options", [{}, {"channels": 4, "image_size": (16, 24), "num_classes": 3}])
def test_contract(options):
    check_datamodule(Synthetic(train_size=64, eval_size=20, batch_size=16, augment=Augment(crop="pad"), **options))


@pytest.mark.parametrize("wrong", [0, 10**11])
def test_a_number_of_classes_that_cannot_be_held(wrong):
    with pytest.raises(InputError, match=f"--data.num_classes is {wrong}, expected 1 to 1000000"):
        Synthetic(num_classes=wrong)


def test_images_depend_on_their_number_alone():
    first, again = Synthetic(), Synthetic()
    for data in (first, again):
        data.setup("fit")
    torch.manual_seed(3)
    assert torch.equal(first.train_set[5][0], again.train_set[5][0])
    assert not torch.equal(first.train_set[5][0], first.train_set[15][0])
    assert not torch.equal(first.train_set[5][0], first.val_set[5][0])


def test_the_direction_of_the_stripes_tells_the_class():
    data = Synthetic(num_classes=8, image_size=32, train_size=200)
    data.setup("fit")
    right = 0
    for index in range(200):
        image, label = data.train_set[index]
        spectrum = torch.fft.fft2(image.float().mean(0) - image.float().mean()).abs()[:, :17]
        y, x = divmod(int(spectrum.argmax()), 17)
        angle = torch.atan2(torch.tensor(float(y if y <= 16 else y - 32)), torch.tensor(float(x))) % torch.pi
        right += int((angle / torch.pi * 8).round()) % 8 == label
    assert right > 150
