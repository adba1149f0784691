"""Channels and windows in every kind of file set: the same 16-bit pictures give the same batches."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image

from datamodules.digits import Digits
from datamodules.folder import ImageFolder
from datamodules.images import Images
from datamodules.manifest import Manifest
from datamodules.parquet import Parquet
from datamodules.webshards import WebShards
from vit_lightning.testing import check_datamodule

VALUES = np.random.default_rng(0).integers(0, 4096, (8, 8, 8), dtype=np.uint16)
SETTINGS = {"image_size": 8, "batch_size": 4, "num_workers": 0, "channels": 1, "window": (0, 4095)}


def png(values: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(values).save(file, "PNG")
    return file.getvalue()


def folder(root: Path) -> ImageFolder:
    for number, values in enumerate(VALUES):
        for split in ("train", "val"):
            file = root / split / ("a" if number < 4 else "b") / f"{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(png(values))
    return ImageFolder(root, **SETTINGS)


def manifest(root: Path) -> Manifest:
    folder(root)
    rows = [f"{'a' if number < 4 else 'b'}/{number}.png,{'ab'[number // 4]}" for number in range(8)]
    for split in ("train", "val"):
        (root / split / "table.csv").write_text("path,label\n" + "\n".join(rows))
    tables = {"train": Path("train/table.csv"), "val": Path("val/table.csv")}
    return Manifest(root, **tables, cache=root / "cache", **SETTINGS)


def parquet(root: Path) -> Parquet:
    pyarrow, write = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet").write_table
    table = pyarrow.table({"image": [png(values) for values in VALUES], "label": [0] * 4 + [1] * 4})
    write(table.take([*range(4, 8), *range(4)]), root / "train.parquet")  # no copy
    write(table, root / "val.parquet")
    return Parquet(root, **SETTINGS)


def webshards(root: Path) -> WebShards:
    for split in ("train", "val"):
        with tarfile.open(root / f"{split}.tar", "w") as tar:
            for number, values in enumerate(VALUES):
                for name, data in ((f"{number}.png", png(values)), (f"{number}.cls", str(number // 4).encode())):
                    member = tarfile.TarInfo(f"{split}{name}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    return WebShards(str(root), val="val.tar", cache=root / "cache", **SETTINGS)


@pytest.mark.parametrize("make", [folder, manifest, parquet, webshards])
def test_a_window_in_every_kind_of_file_set(make, tmp_path):
    data = make(tmp_path)
    check_datamodule(data)
    data.setup("fit")
    seen = torch.cat([images for images, _ in data.val_dataloader()])
    assert seen.dtype == torch.float32
    np.testing.assert_allclose(seen.numpy(), (VALUES / 4095)[:, None], atol=1e-6)


def test_bands_of_a_folder_of_tiffs(tmp_path):
    bands = np.random.default_rng(0).integers(0, 256, (8, 5, 8, 8), dtype=np.uint8)
    for number, values in enumerate(bands):
        file = tmp_path / "new" / f"{number}.tif"
        file.parent.mkdir(exist_ok=True)
        tifffile.imwrite(file, values, photometric="minisblack", planarconfig="separate")
    data = Images(str(tmp_path / "new"), image_size=8, batch_size=4, num_workers=0, channels=5)
    data.setup("predict")
    seen = torch.cat([images for images, _ in data.predict_dataloader()])
    assert seen.dtype == torch.uint8 and (seen.numpy() == bands).all()


def test_sets_of_tensors_have_a_luminance():
    for channels in (1, 3):
        data = Digits(image_size=8, channels=channels)
        data.setup("fit")
        images, _ = next(iter(data.val_dataloader()))
        assert images.shape[1] == channels
        whole, _ = data.val_set[0]
        assert torch.equal(images[0], whole[:channels])
