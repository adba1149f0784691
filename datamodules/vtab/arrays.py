"""Readers for the sets of VTAB that come as arrays in one large file."""

import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from einops import rearrange, repeat
from torch import Tensor
from torchvision import datasets

from datamodules.cifar import CIFARImages
from datamodules.reading.damaged_files import reason
from datamodules.reading.published import Labelled, PublishedSet, own_folder
from vit_lightning.data.images import BrokenImage
from vit_lightning.files import check_regular


def _cifar100(root: Path, split: str) -> Labelled:
    for name in ("train", "test", "meta"):
        check_regular(root / "cifar-100-python" / name)
    cifar = CIFARImages(datasets.CIFAR100(root, train=split == "train"))
    return Labelled(cifar.images, cifar.labels, range(len(cifar)))


CIFAR100 = PublishedSet(
    "CIFAR-100",
    "cifar-100-python/{train,test,meta}",
    {"train": 50_000, "test": 10_000},
    _cifar100,
    fetch=lambda root: datasets.CIFAR100(root, download=True),
)


def _svhn(root: Path, split: str) -> Labelled:
    """Read one split; torchvision verifies its checksum first and makes label 10, which means the digit 0, a 0."""
    check_regular(own_folder(root, "svhn") / f"{split}_32x32.mat")
    svhn = datasets.SVHN(own_folder(root, "svhn"), split)
    return Labelled(torch.from_numpy(np.ascontiguousarray(svhn.data)), svhn.labels, range(len(svhn)))


SVHN = PublishedSet(
    "SVHN",
    "{train,test}_32x32.mat, in a folder svhn or loose,",
    {"train": 73_257, "test": 26_032},
    _svhn,
    fetch=lambda root: [datasets.SVHN(root / "svhn", split, download=True) for split in ("train", "test")],
)


class HDF5Images:
    """Images in a dataset `(n, y, x, 3)` of an HDF5 file, which is opened for each: its handles do not survive a fork.

    Args:
        file: the HDF5 file.
        name: the dataset in it.
    """

    def __init__(self, file: Path, name: str) -> None:
        self.file = file
        self.name = name

    def __getitem__(self, index: int) -> Tensor:
        import h5py

        try:
            with h5py.File(self.file) as archive:
                return rearrange(torch.from_numpy(archive[self.name][index]), "y x c -> c y x")
        except Exception as error:  # see damaged_files.reading
            raise BrokenImage(f"image {index} in {self.file}", reason(error)) from error


PCAM_SPLITS = {"train": "train", "validation": "valid", "test": "test"}


def _patch_camelyon(root: Path, split: str) -> Labelled:
    import h5py

    short = PCAM_SPLITS[split]
    pixels, answers = (own_folder(root, "pcam") / f"camelyonpatch_level_2_split_{short}_{part}.h5" for part in "xy")
    for file in (pixels, answers):
        check_regular(file)
    with h5py.File(pixels) as images, h5py.File(answers) as targets:
        found = targets["y"][:].ravel()
        if len(images["x"]) != len(found):
            raise ValueError(f"{pixels.name} has {len(images['x'])} images, {answers.name} {len(found)} labels")
    return Labelled(HDF5Images(pixels, "x"), found, [f"{short}_{row}" for row in range(len(found))])


PATCH_CAMELYON = PublishedSet(
    "PatchCamelyon",
    "camelyonpatch_level_2_split_{train,valid,test}_{x,y}.h5, in a folder pcam or loose,",
    {"train": 262_144, "validation": 32_768, "test": 32_768},
    _patch_camelyon,
    fetch=lambda root: [datasets.PCAM(root, split, download=True) for split in ("train", "val", "test")],
)

SPRITES = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64"
SIDE = 64


class Sprites:
    """All sprites, black and white, at one bit a pixel: 0.4 GB instead of 3.

    Args:
        blocks: their pixels in turn, 0 or 1, `(n, 64, 64)` uint8.
    """

    def __init__(self, blocks: Iterator[np.ndarray]) -> None:
        self.bits = np.concatenate([np.packbits(block, axis=-1) for block in blocks])

    def __getitem__(self, index: int) -> Tensor:
        pixels = np.unpackbits(self.bits[index], axis=-1) * np.uint8(255)
        return repeat(torch.from_numpy(pixels), "y x -> c y x", c=3)


def sprites_of_npz(file: Path) -> Iterator[np.ndarray]:
    """Yield the images of the .npz piece by piece, since all of them do not fit every memory."""
    with zipfile.ZipFile(file) as archive, archive.open("imgs.npy") as member:
        np.lib.format.read_magic(member)
        (count, *_), _, _ = np.lib.format.read_array_header_1_0(member)
        while count > 0:
            block = np.frombuffer(member.read(min(count, 8192) * SIDE**2), dtype=np.uint8)
            yield rearrange(block, "(n y x) -> n y x", y=SIDE, x=SIDE)
            count -= 8192


def sprites_of_hdf5(images) -> Iterator[np.ndarray]:
    """Yield the images of an open HDF5 dataset piece by piece."""
    for start in range(0, len(images), 8192):
        yield images[start : start + 8192]


def dsprites(label: Callable[[np.ndarray], np.ndarray]) -> PublishedSet:
    """Return dSprites with the labels that a function gives to the latent classes `(n, 6)`."""

    def read(root: Path, split: str) -> Labelled:
        file = own_folder(root, "dsprites") / f"{SPRITES}.npz"
        for one in (file, file.with_suffix(".hdf5")):
            check_regular(one)
        if file.exists():
            latents = np.load(file)["latents_classes"]
            images = Sprites(sprites_of_npz(file))
        else:
            import h5py

            with h5py.File(file.with_suffix(".hdf5")) as archive:
                latents = archive["latents/classes"][:]
                images = Sprites(sprites_of_hdf5(archive["imgs"]))
        return Labelled(images, label(latents), range(len(latents)))

    return PublishedSet("dSprites", f"{SPRITES}.{{npz,hdf5}}, in a folder dsprites or loose,", {"train": 737_280}, read)


NORB = {
    "train": "smallnorb-5x46789x9x18x6x2x96x96-training",
    "test": "smallnorb-5x01235x9x18x6x2x96x96-testing",
}
NORB_TYPES = {0x1E3D4C55: np.dtype("<u1"), 0x1E3D4C54: np.dtype("<i4")}


class NORBArray:
    """A file of smallNORB, which is no MATLAB file despite its name, mapped into memory where it is read.

    Its header is, in little-endian 32-bit words: a magic number for the type of the values, the number of dimensions,
    and their sizes, of which there are at least 3 words.

    Args:
        file: path of the file.
    """

    def __init__(self, file: Path) -> None:
        check_regular(file)
        magic, dims = (int(word) for word in np.fromfile(file, dtype="<i4", count=2))
        if magic not in NORB_TYPES or not 1 <= dims <= 4:
            raise ValueError(f"{file.name} is no file of smallNORB; unpack it if it is a .gz")
        self.file = file
        self.dtype = NORB_TYPES[magic]
        self.shape = tuple(np.fromfile(file, dtype="<i4", count=2 + dims)[2:].tolist())
        self.offset = 4 * (2 + max(3, dims))
        expected = self.offset + int(np.prod(self.shape)) * self.dtype.itemsize
        if os.path.getsize(file) != expected:
            raise ValueError(f"{file.name} has {os.path.getsize(file)} bytes instead of {expected}")

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int | slice) -> np.ndarray:
        return np.array(np.memmap(self.file, self.dtype, "r", self.offset, self.shape)[index])


class NORBImages:
    """The picture that the first of smallNORB's two cameras took of each object."""

    def __init__(self, pairs: NORBArray) -> None:
        self.pairs = pairs

    def __getitem__(self, index: int) -> Tensor:
        return repeat(torch.from_numpy(self.pairs[index][0]), "y x -> c y x", c=3)


def smallnorb(label: Callable[[np.ndarray], np.ndarray]) -> PublishedSet:
    """Return smallNORB with the labels that a function gives to instance, elevation, azimuth, lighting `(n, 4)`."""

    def read(root: Path, split: str) -> Labelled:
        pairs, info = (
            NORBArray(own_folder(root, "smallnorb") / f"{NORB[split]}-{part}.mat") for part in ("dat", "info")
        )
        if len(pairs) != len(info):
            raise ValueError(f"{pairs.file.name} has {len(pairs)} images, {info.file.name} {len(info)} labels")
        return Labelled(NORBImages(pairs), label(info[:]), range(len(info)))

    return PublishedSet(
        "smallNORB",
        "{" + ",".join(NORB.values()) + "}-{dat,info}.mat, in a folder smallnorb or loose and unpacked,",
        {"train": 24_300, "test": 24_300},
        read,
    )
