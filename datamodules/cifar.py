"""CIFAR-10 and CIFAR-100 in their original pickled form."""

from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from einops import rearrange
from torch import Tensor
from torchvision import datasets

from datamodules.reading.published import tfds_order
from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule
from vit_lightning.data.subsets import hold_out
from vit_lightning.errors import InputError
from vit_lightning.files import check_regular


class CIFARImages:
    """All images of one split as uint8 RGB of 32 x 32 pixels."""

    def __init__(self, archive: datasets.CIFAR10) -> None:
        self.images = rearrange(torch.from_numpy(archive.data), "n y x c -> n c y x")
        self.labels = np.array(archive.targets)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.labels[index])


class CIFAR10(ImageDataModule):
    """CIFAR-10: 50,000 training and 10,000 test images of 32 x 32 pixels in ten classes.

    Under root lies what www.cs.toronto.edu/~kriz publishes, unpacked:

        cifar-10-batches-py/data_batch_1 ... data_batch_5, test_batch, batches.meta

    `--data.download true` fetches it. Every file's checksum is verified before anything in it is read. The last 2 % of
    the training images, in the order of TensorFlow Datasets, are for validation as in the paper (appendix B.1.1).

    Args:
        root: folder that holds, or with `download` receives, the set's own folder.
        download: fetch the set if root lacks it.
        val_fraction: share of the training images held out for validation; 0 trains on all of them.
        image_size: height and width of the images given to the model; 32 is their own size.
        augment: how training images are varied.
    """

    archive: ClassVar = datasets.CIFAR10
    num_classes = 10
    has_published_splits = True
    layout = "cifar-10-batches-py/{data_batch_1 ... data_batch_5,test_batch,batches.meta}"
    class_names: ClassVar = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]

    def __init__(
        self,
        root: Path = Path("data"),
        download: bool = False,
        val_fraction: float = 0.02,
        image_size: int | tuple[int, int] = 32,
        augment: Augment = Augment(crop="pad"),
        **kwargs,
    ) -> None:
        super().__init__(root=root, image_size=image_size, augment=augment, **kwargs)
        self.download = download
        self.val_fraction = val_fraction

    def prepare_data(self) -> None:
        if not self.download:
            return
        try:
            self.archive(self.root, download=True)
        except (OSError, RuntimeError) as error:
            raise InputError(
                f"{type(self).__name__} could not be fetched from {self.archive.url} ({error}); "
                f"put it at {self.root / self.layout} by hand"
            ) from error

    def setup(self, stage: str) -> None:
        whole = self._read(train=True)
        self.train_set, self.val_set = hold_out(whole, self.val_fraction, tfds_order("train", range(len(whole))))
        self.test_set = self._read(train=False)

    def _read(self, train: bool) -> CIFARImages:
        try:
            for file in sorted((self.root / self.archive.base_folder).glob("*")):
                check_regular(file)
            return CIFARImages(self.archive(self.root, train=train))
        except (OSError, RuntimeError) as error:  # torchvision's word for both missing and damaged
            raise InputError(
                f"{type(self).__name__} is missing or damaged under {self.root}: expected "
                f"{self.root / self.layout}; give --data.root, or --data.download true to fetch it"
            ) from error


class CIFAR100(CIFAR10):
    """CIFAR-100: 50,000 training and 10,000 test images of 32 x 32 pixels in a hundred classes.

    Under root lies what www.cs.toronto.edu/~kriz publishes, unpacked:

        cifar-100-python/train, test, meta

    `--data.download true` fetches it. Every file's checksum is verified before anything in it is read. The last 2 % of
    the training images, in the order of TensorFlow Datasets, are for validation as in the paper (appendix B.1.1).

    Args:
        root: folder that holds, or with `download` receives, the set's own folder.
    """

    archive: ClassVar = datasets.CIFAR100
    num_classes = 100
    layout = "cifar-100-python/{train,test,meta}"
    class_names: ClassVar = (  # noqa: SIM905
        "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can "
        "castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin "
        "elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster "
        "man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck "
        "pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk "
        "skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger "
        "tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm"
    ).split()
