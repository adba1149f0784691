"""Small data sets with random pixels, written in the form in which the real ones are published."""

import csv
import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision import datasets
from torchvision.datasets import flowers102, svhn

from datamodules import pets
from datamodules.vtab import folders

RANDOM = np.random.default_rng(0)
COUNT = 20


def pixels(*shape: int) -> np.ndarray:
    return RANDOM.integers(0, 256, shape, dtype=np.uint8)


def picture(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels(12, 16, 3)).save(file)


def lines(file: Path, content: list[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(content) + "\n")


def write_caltech101(root: Path) -> None:
    for name in ("accordion", "BACKGROUND_Google", "Faces"):
        for number in range(1, 34):
            picture(root / "caltech101" / "101_ObjectCategories" / name / f"image_{number:04d}.jpg")


def write_cifar100(root: Path) -> None:
    names = {"train": COUNT, "test": 6}
    files = {
        name: {"data": pixels(n, 3072), "fine_labels": [i * 7 % 100 for i in range(n)]} for name, n in names.items()
    }
    files["meta"] = {"fine_label_names": [str(number) for number in range(100)]}
    for name, content in files.items():
        (root / "cifar-100-python").mkdir(exist_ok=True)
        (root / "cifar-100-python" / name).write_bytes(pickle.dumps(content))


def write_dtd(root: Path) -> None:
    for number, split in enumerate(("train", "val", "test")):
        images = [
            f"{name}/{name}_{number}{i:03d}.jpg" for name in ("banded", "polka-dotted", "zigzagged") for i in range(4)
        ]
        lines(root / "dtd" / "dtd" / "labels" / f"{split}1.txt", images)
        for name in images:
            picture(root / "dtd" / "dtd" / "images" / name)


def write_flowers102(root: Path) -> None:
    from scipy.io import savemat

    (root / "flowers-102").mkdir()
    labels = np.arange(1, 31, dtype=np.uint8)
    ids = {"trnid": np.arange(1, 21), "valid": np.arange(21, 25), "tstid": np.arange(25, 31)}
    savemat(root / "flowers-102" / "imagelabels.mat", {"labels": labels})
    savemat(root / "flowers-102" / "setid.mat", ids)
    for number in range(1, 31):
        picture(root / "flowers-102" / "jpg" / f"image_{number:05d}.jpg")


def write_pets(root: Path) -> None:
    folder = root / "oxford-iiit-pet"
    for file, start in (("trainval", 0), ("test", 100)):
        rows = [(f"{pets.NAMES[breed]}_{start + i}", breed + 1) for breed in range(0, 37, 9) for i in range(4)]
        lines(folder / "annotations" / f"{file}.txt", [f"{name} {label} 1 1" for name, label in rows])
        for name, _ in rows:
            picture(folder / "images" / f"{name}.jpg")


def write_sun397(root: Path) -> None:
    for split in ("train", "validation", "test"):
        for key in folders.sun397_keys(split):
            picture(root / "SUN397" / key[1:])


def write_svhn(root: Path) -> None:
    from scipy.io import savemat

    for split, count in (("train", COUNT), ("test", 6)):
        content = {"X": pixels(32, 32, 3, count), "y": np.arange(count)[:, None] % 10 + 1}
        savemat(root / f"{split}_32x32.mat", content)


def write_patch_camelyon(root: Path) -> None:
    import h5py

    for split in ("train", "valid", "test"):
        for part, content in (("x", pixels(12, 96, 96, 3)), ("y", np.arange(12).reshape(-1, 1, 1, 1) % 2)):
            with h5py.File(root / f"camelyonpatch_level_2_split_{split}_{part}.h5", "w") as file:
                file[part] = content


def write_eurosat(root: Path) -> None:
    for name in ("AnnualCrop", "Highway", "SeaLake"):
        for number in range(1, 9):
            picture(root / "eurosat" / "2750" / name / f"{name}_{number}.jpg")


def write_resisc45(root: Path) -> None:
    for name in ("airplane", "sea_ice", "wetland"):
        for number in range(1, 9):
            picture(root / "NWPU-RESISC45" / name / f"{name}_{number:03d}.jpg")


def write_retinopathy(root: Path) -> None:
    (root / "btgraham-300").mkdir()

    def table(file: str, header: list[str], rows: list[tuple]) -> None:
        with (root / file).open("w", newline="") as opened:
            csv.writer(opened).writerows([header, *rows])

    train = [(f"{number}_{side}", number % 5) for number in range(6) for side in ("left", "right")]
    test = [(f"{number}_left", number % 5, ("Public", "Private")[number % 2]) for number in range(10, 22)]
    table("trainLabels.csv", ["image", "level"], train)
    table("retinopathy_solution.csv", ["image", "level", "Usage"], test)
    for folder, rows in (("train", train), ("test", test)):
        for name, *_ in rows:
            picture(root / folder / f"{name}.jpeg")


def write_clevr(root: Path) -> None:
    for split in ("train", "val"):
        scenes = []
        for number in range(COUNT):
            name = f"CLEVR_{split}_{number:06d}.png"
            depths = [8.2 + (number % 5) / 2 + thing for thing in range(3 + number % 8)]
            scenes.append({"image_filename": name, "objects": [{"pixel_coords": [1, 2, depth]} for depth in depths]})
            picture(root / "clevr" / "CLEVR_v1.0" / "images" / split / name)
        file = root / "clevr" / "CLEVR_v1.0" / "scenes" / f"CLEVR_{split}_scenes.json"
        lines(file, [json.dumps({"info": {}, "scenes": scenes})])


def crc32c(data: bytes) -> int:
    """CRC-32C, bit by bit as its definition goes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def tfrecord(data: bytes) -> bytes:
    """A record with both its checksums."""

    def masked(part: bytes) -> bytes:
        crc = crc32c(part)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer that holds a string or a message."""
    length, count = b"", len(content)
    while count > 127:
        length, count = length + bytes([count & 127 | 128]), count >> 7
    return bytes([number << 3 | 2]) + length + bytes([count]) + content


def tf_example(features: dict[str, bytes | int]) -> bytes:
    """A tf.train.Example with one value per feature."""
    entries = b""
    for name, value in features.items():
        values = field(1, field(1, value)) if isinstance(value, bytes) else field(3, field(1, bytes([value])))
        entries += field(1, field(1, name.encode()) + field(2, values))
    return field(1, entries)


def write_dmlab(root: Path) -> None:
    picture(root / "frame.jpg")
    image = (root / "frame.jpg").read_bytes()
    for split in ("train", "validation", "test"):
        for shard in range(2):
            frames = [{"label": i, "image": image, "filename": f"{split}_{shard}_{i}.jpg".encode()} for i in range(6)]
            file = root / f"dmlab-{split}.tfrecord-{shard:05d}-of-00002"
            file.write_bytes(b"".join(tfrecord(tf_example(frame)) for frame in frames))


def write_kitti(root: Path) -> None:
    raw = root / "Kitti" / "raw"
    lines(raw / "mapping" / "train_mapping.txt", [f"2011_09_26 drive_{i // 4:04d} {i:010d}" for i in range(48)])
    lines(raw / "mapping" / "train_rand.txt", [",".join(str(48 - number) for number in range(48))])
    for number in range(48):
        kind = ("Car", "Van", "Pedestrian")[number % 3]
        label = f"{kind} 0.00 0 -0.20 712.40 143.00 810.73 307.92 1.89 0.48 1.20 1.84 1.47 {number / 2} 0.01"
        lines(raw / "training" / "label_2" / f"{number:06d}.txt", [label])
        picture(raw / "training" / "image_2" / f"{number:06d}.png")


def write_dsprites(root: Path) -> None:
    latents = np.stack([np.zeros(40), np.zeros(40), np.zeros(40), np.arange(40), np.arange(40) % 32, np.zeros(40)], 1)
    file = root / "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
    np.savez_compressed(file, imgs=pixels(40, 64, 64) & 1, latents_classes=latents.astype(np.int64))


def write_smallnorb(root: Path) -> None:
    info = np.stack([np.arange(18) % 5, np.arange(18) % 9, np.arange(18) * 2, np.arange(18) % 6], 1)
    for name in ("smallnorb-5x46789x9x18x6x2x96x96-training", "smallnorb-5x01235x9x18x6x2x96x96-testing"):
        for part, values in (("dat", pixels(18, 2, 96, 96)), ("info", info.astype("<i4"))):
            (root / f"{name}-{part}.mat").write_bytes(norb(values))


def norb(values: np.ndarray) -> bytes:
    """An array as smallNORB stores it: in words of 32 bits the type, the number of sides and at least 3 sides."""
    magic = {"uint8": 0x1E3D4C55, "int32": 0x1E3D4C54}[str(values.dtype)]
    sides = (*values.shape, 1)[: max(3, values.ndim)]
    return struct.pack(f"<{2 + len(sides)}i", magic, values.ndim, *sides) + values.tobytes()


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write a small set in its published form, by the task's name, and return root; checksums then fit any file."""
    monkeypatch.setattr(datasets.CIFAR100, "_check_integrity", lambda self: True)
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *args: True)
    monkeypatch.setattr(flowers102, "check_integrity", lambda *args: True)
    monkeypatch.setattr(svhn, "check_integrity", lambda *args: True)
    few = {
        split: [f"/b/brewery/indoor/sun_{split}{i}.jpg" for i in range(12)] for split in ("train", "validation", "test")
    }
    monkeypatch.setattr(folders, "sun397_keys", few.__getitem__)

    def write(task: str) -> Path:
        name = task.removesuffix("_count").removesuffix("_distance")
        for group in ("clevr", "dsprites", "smallnorb"):
            name = group if name.startswith(group) else name
        globals()[f"write_{name}"](tmp_path)
        return tmp_path

    return write


@pytest.fixture(scope="session")
def bitwise_crc32c() -> Callable[[bytes], int]:
    return crc32c


@pytest.fixture
def tree(tmp_path) -> Path:
    """Case C8: train has 0, 180, 270, 90; val lacks 180; hidden folders and an empty class beside them."""
    train = {f"train/{name}/{number}.jpg": 10 * number for name in ("0", "180", "270", "90") for number in range(5)}
    val = {f"val/{name}/a.jpg": 0 for name in ("0", "270", "90")}
    hidden = {"train/.ipynb_checkpoints/0.jpg": 0, "train/__MACOSX/._0.jpg": 0}
    for name, shade in (train | val | hidden).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (10, 8), (shade, shade, shade)).save(tmp_path / name, "JPEG")
    return tmp_path
