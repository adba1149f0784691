"""The verb `prepare`: the sets of any data as shards of images of one short side."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from lightning.pytorch import LightningDataModule, LightningModule, Trainer

from vit_lightning.commands.prepare.packing import ENCODED_CHANNELS, Encoding, Form, Packing
from vit_lightning.data import ImageDataModule, ImageSet, chunks
from vit_lightning.data.carried_names import names_for_head
from vit_lightning.data.loaders import check_names
from vit_lightning.data.subsets import Subset
from vit_lightning.errors import InputError
from vit_lightning.files import unwritable, write_atomically
from vit_lightning.seeds import seed_from
from vit_lightning.terminal import counted, progress

SPLITS = ("train", "val", "test")


def prepare(
    trainer: Trainer,
    model: LightningModule,
    datamodule: LightningDataModule,
    *,
    out: Path,
    short_side: int | None = 256,
    quality: int | None = 90,
    shard_images: int = 4096,
    mix: bool = False,
) -> None:
    """Write training, validation and test images as shards, for --data Shards.

    Started again, it goes on after the last whole shard; a shard that was removed is made anew. What cannot be read is
    left out with --data.on_error skip. --data.num_workers says how many processes work; unset: one per core, at most
    16.

    Args:
        trainer: The trainer that a run with these flags would have.
        model: Its model, which is left aside.
        datamodule: Its data.
        out: Folder for the shards, apart from the data's own.
        short_side: Larger images are resized to that many pixels, antialiased, their aspect kept, and become JPEG;
            others keep their bytes. null: every image keeps its bytes.
        quality: JPEG's, 1 to 100. null: every image is stored uncompressed (PPM), in about ten times the space, and the
            loader needs two thirds of the time for it.
        shard_images: Images per shard.
        mix: Write the training images in a random order, for streaming from afar, instead of their own.
    """
    if not isinstance(datamodule, ImageDataModule) or datamodule.num_classes is None:
        raise InputError(f"prepare needs images with classes, which {type(datamodule).__name__} does not give")
    limits = {"short_side": (short_side, 65_500), "quality": (quality, 100), "shard_images": (shard_images, 2**31)}
    for name, (value, most) in limits.items():
        if value is not None and not 1 <= value <= most:
            raise InputError(f"--{name} is {value}, expected 1 to {most}")
    _check_form(datamodule, short_side, quality)
    if not trainer.is_global_zero:
        return
    _check_apart(out, datamodule.root)
    try:
        if foreign := next(_foreign_files(out), None):
            raise InputError(
                f"{out} holds {foreign}, which prepare has not written; give a new or empty folder as --out"
            )
        out.mkdir(parents=True, exist_ok=True)
        with FileLock(out / ".lock", timeout=0):
            _prepare(datamodule, out, Form(short_side, quality, shard_images), mix)
    except Timeout as error:
        raise InputError(f"another process is writing to {out}; wait for it, or give another --out") from error
    except OSError as error:
        raise unwritable(error.filename or out, error) from error


def _check_form(data: ImageDataModule, short_side: int | None, quality: int | None) -> None:
    """Refuse to store pixels that neither JPEG nor PNG holds."""
    if short_side is None and quality is not None:
        return
    flag = "--data.window" if data.window is not None or data.finds_window else ""
    if flag or data.channels not in (None, *ENCODED_CHANNELS):
        flag = flag or f"--data.channels {data.channels}"
        raise InputError(
            f"{flag} is stored with the bytes of files alone; give --short_side null and a --quality, and {flag} again "
            "where the shards are read"
        )


def _check_apart(out: Path, root: object) -> None:
    """Keep shards out of the folders in which the images lie; the root of own data may be anything."""
    if not isinstance(root, str | os.PathLike) or not os.fspath(root):
        return
    ours, theirs = out.resolve(), Path(root).resolve()
    if ours == theirs or theirs in ours.parents or ours in theirs.parents:
        how = "is" if ours == theirs else "lies in" if theirs in ours.parents else "contains"
        raise InputError(f"--out {out} {how} --data.root {root}, where the images are; give a folder beside it")


def _foreign_files(out: Path) -> Iterator[str]:
    """Yield what lies in a folder and is neither hidden nor written by prepare; beside shards, other files may lie."""
    found = [path for path in out.iterdir() if path.name[0] != "."] if out.is_dir() else []
    splits = [path for path in found if path.name in SPLITS and path.is_dir()]
    if not any((folder / chunks.JOURNAL).is_file() for folder in splits):
        yield from (path.name for path in found if path not in splits and path.name != "manifest.json")
    for folder in splits:
        yield from (f"{folder.name}/{path.name}" for path in folder.iterdir() if not _is_ours(path))


def _is_ours(path: Path) -> bool:
    names = (chunks.JOURNAL, chunks.INDEX, chunks.LABELS, "chunk-*.bin", "*.part", ".*")
    return path.is_file() and any(path.match(name) for name in names)


def _prepare(data: ImageDataModule, out: Path, form: Form, mix: bool) -> None:
    data.prepare_data()
    data.setup("fit")
    if data.test_set is None:
        data.setup("test")
    check_names(data, "train_set", "val_set", "test_set")
    splits: dict[str, Any] = {}
    sets = dict(zip(SPLITS, (data.train_subset, data.val_set, data.test_set), strict=True))
    for split, source in sets.items():
        if source is None or not len(source):
            continue
        same = next((name for name in splits if sets[name] is source), None)  # ImageNet's official validation images
        if same:
            splits[split] = splits[same]
            continue
        mixed = mix and split == "train"
        splits[split] = _write(data, split, _mixed(source) if mixed else source, out, form) | {"mixed": mixed}
    manifest = {"classes": names_for_head(data)[0], "splits": splits, "short_side": form.short_side}
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    # A class folder whose name is not UTF-8 becomes an escape of JSON.
    write_atomically(out / "manifest.json", text.encode(errors="backslashreplace"))
    for split, facts in splits.items():
        sides = " x ".join(map(str, facts["mean_size"]))
        left_out = f" and {facts['skipped']:,} left out" * (facts["skipped"] > 0)
        images = counted(facts["images"], "image", grouped=True) + left_out
        print(f"{split:<8} {images}, {facts['bytes'] / 1e6:,.1f} MB, {sides} pixels on average")
    print(f"wrote    {out}; read it with --data Shards --data.root {out}", flush=True)


def _write(data: ImageDataModule, split: str, source: ImageSet, out: Path, form: Form) -> dict[str, Any]:
    encoding = Encoding(source, data.num_classes, form, data.on_error, split == "test", data.pixel_form)
    packing = Packing(encoding, out / split, data.workers, data.max_broken)
    if packing.images_done == len(source):
        print(f"{split:<8} stands already, of the same names and labels; to make it anew, remove {packing.folder}")
    with progress(split, "prepared", len(source)) as advance:
        advance(packing.images_done)
        return packing.run(advance)


def _mixed(source: ImageSet) -> Subset:
    generator = torch.Generator().manual_seed(seed_from(0))
    return Subset(source, torch.randperm(len(source), generator=generator).numpy())
