"""Oxford-IIIT Pet: breeds of cats and dogs."""

from pathlib import Path
from typing import ClassVar

from torchvision import datasets

from datamodules.reading.damaged_files import read_whole
from datamodules.reading.image_files import ImageFiles
from datamodules.reading.published import HeldOutData, PublishedSet

LISTS = {"train": "trainval.txt", "test": "test.txt"}

NAMES = (  # noqa: SIM905
    "Abyssinian american_bulldog american_pit_bull_terrier basset_hound beagle Bengal Birman Bombay boxer "
    "British_Shorthair chihuahua Egyptian_Mau english_cocker_spaniel english_setter german_shorthaired great_pyrenees "
    "havanese japanese_chin keeshond leonberger Maine_Coon miniature_pinscher newfoundland Persian pomeranian pug "
    "Ragdoll Russian_Blue saint_bernard samoyed scottish_terrier shiba_inu Siamese Sphynx staffordshire_bull_terrier "
    "wheaten_terrier yorkshire_terrier"
).split()


def _read(root: Path, split: str) -> ImageFiles:
    folder = root / "oxford-iiit-pet"
    lines = read_whole(folder / "annotations" / LISTS[split]).decode().splitlines()
    names, breeds, *_ = zip(*(line.split() for line in lines), strict=True)
    return ImageFiles(folder / "images", [f"{name}.jpg" for name in names], [int(breed) - 1 for breed in breeds])


PETS = PublishedSet(
    "Oxford-IIIT Pet",
    "oxford-iiit-pet/{images/<breed>_<number>.jpg,annotations/{trainval,test}.txt}",
    {"train": 3_680, "test": 3_669},
    _read,
    fetch=lambda root: datasets.OxfordIIITPet(root, download=True),
)


class Pets(HeldOutData):
    """Oxford-IIIT Pet: 3,680 training and 3,669 test images of 37 breeds of cats and dogs.

    Under root lies what www.robots.ox.ac.uk/~vgg/data/pets publishes, unpacked as torchvision does:

        oxford-iiit-pet/images/Abyssinian_1.jpg ...
        oxford-iiit-pet/annotations/trainval.txt, test.txt

    The last 10 % of the training images, in the order of TensorFlow Datasets, are for validation as in the paper
    (table 4). ImageFiles are decoded by what they hold: one is a PNG with transparency and one a GIF, both named .jpg.
    """

    published = PETS
    num_classes = len(NAMES)
    class_names: ClassVar = NAMES
