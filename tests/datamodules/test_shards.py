"""Shards from a folder, from a plain HTTP server and from an S3 server, with one loader for all of them."""

import json
import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from datamodules.digits import Digits
from datamodules.shards import Shards
from tests import servers
from vit_lightning.augment import Augment
from vit_lightning.commands.prepare.packing import Encoding, Form, Packing
from vit_lightning.data.images import BrokenImage
from vit_lightning.errors import InputError
from vit_lightning.testing import check_datamodule

COUNT = 64
SPLITS = {"train": (64, 8), "val": (12, 8), "test": (5, 8)}
NET = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false")


class Pictures:
    """Random pictures of 9 x 12 pixels, of one class or of two."""

    def __init__(self, count: int, seed: int, several: bool) -> None:
        chance = np.random.default_rng(seed)
        self.pixels = torch.from_numpy(chance.integers(0, 256, (count, 3, 9, 12), dtype=np.uint8))
        self.keys = [f"class{number % 3}/{seed}-{number}.png" for number in range(count)]
        self.several = several

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, number: int) -> tuple:
        label = number % 3
        if self.several:
            label = torch.zeros(3).index_fill(0, torch.tensor([label, (label + 1) % 3]), 1)
        return self.pixels[number], label


def write(root: Path, several: bool = False) -> Path:
    """Shards of eight pictures."""
    splits = {}
    for seed, (split, (count, size)) in enumerate(SPLITS.items()):
        encoding = Encoding(Pictures(count, seed, several), 3, Form(None, 90, size), "raise")
        splits[split] = Packing(encoding, root / split, 0, 0).run(lambda done: None) | {"mixed": False}
    (root / "manifest.json").write_text(json.dumps({"classes": ["a", "b", "c"], "splits": splits}))
    return root


@pytest.fixture
def root(tmp_path) -> Path:
    return write(tmp_path / "set")


@pytest.fixture(scope="module")
def website(tmp_path_factory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("website")
    write(folder / "set")
    with servers.http(folder) as address:
        yield f"{address}/set"


@pytest.fixture(scope="module")
def bucket(tmp_path_factory) -> Iterator[str]:
    """The set in an S3 bucket; the server is another process, and its address and keys are in the environment."""
    s3fs = pytest.importorskip("s3fs")
    folder = write(tmp_path_factory.mktemp("bucket") / "set")
    with servers.s3() as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", address)
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        s3fs.S3FileSystem().put(str(folder), f"{servers.BUCKET}/set", recursive=True)
        yield f"s3://{servers.BUCKET}/set"


def shards(root: Path | str, **options) -> Shards:
    options = {"image_size": 8, "batch_size": 4, "num_workers": 0, "augment": Augment(crop="none"), **options}
    return Shards(root=str(root), **options)


def ready(root: Path | str, **options) -> Shards:
    data = shards(root, **options)
    data.setup("fit")
    return data


def content(source) -> list[tuple]:
    return [(source.keys[number], *source[number]) for number in range(len(source))]


def test_contract(root):
    check_datamodule(shards(root))
    check_datamodule(shards(write(root.parent / "several", several=True)))


def test_contract_over_http(website, tmp_path):
    check_datamodule(shards(website, cache=tmp_path))


def test_contract_over_s3(bucket, tmp_path):
    check_datamodule(shards(bucket, cache=tmp_path))


def test_all_ways_give_the_same_records(root, website, bucket, tmp_path):
    near = ready(root)
    assert near.class_names == ["a", "b", "c"]
    assert near.train_set.labels.tolist() == [number % 3 for number in range(COUNT)]
    assert near.train_set.keys[7] == "class1/0-7.png"
    assert near.root == root and not hasattr(near.train_set, "blocks")
    for address in (website, bucket):
        far = ready(address, cache=tmp_path / "cache")
        assert far.root is None
        assert far.train_set.blocks.tolist() == [number // 8 for number in range(COUNT)]
        for split in ("train_set", "val_set", "test_set"):
            assert content(getattr(far, split)) == content(getattr(near, split))
    assert len(list((tmp_path / "cache").glob("set-*/*-chunk-0-*.bin"))) == 2 * (8 + 2 + 1)


def test_several_classes_per_image(tmp_path):
    data = ready(write(tmp_path, several=True))
    assert data.train_set[1][1].tolist() == [0, 1, 1]
    assert not hasattr(data.train_set, "labels")


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_resumes_with_the_very_next_image(website, tmp_path, workers):
    options = {"cache": tmp_path, "num_workers": workers, "in_memory": False, "augment": Augment(crop="inception")}
    whole = list(ready(website, **options).train_dataloader())
    shutil.rmtree(tmp_path)
    data = ready(website, **options)
    loader = data.train_dataloader()
    loader.batches_seen = lambda: 6
    rest = list(loader)
    assert len(whole) == 16 and len(rest) == 10
    for (images, labels), (theirs, their_labels) in zip(rest, whole[6:], strict=True):
        assert torch.equal(images, theirs) and torch.equal(labels, their_labels)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_stopped_inside_an_epoch_ends_as_if_it_had_not_been(website, app, tmp_path, workers):
    data = ("--data", "Shards", "--data.root", website, "--data.cache", tmp_path / "cache", "--data.image_size", 8)
    data += ("--data.batch_size", 4, "--data.num_workers", workers, "--data.in_memory", "false")
    constant = ("--model.schedule.decay", "constant", "--model.schedule.warmup_steps", 0)
    words = ("fit", *NET, *data, *constant, "--trainer.max_epochs", 2)
    assert app(*words, "--trainer.default_root_dir", "whole").code == 0
    half = app(*words, "--trainer.default_root_dir", "half", "--trainer.max_steps", 21)  # 16 steps make an epoch
    assert half.code == 0, half.err
    done = app(*words, "--trainer.default_root_dir", "half", "--ckpt_path", "last")
    assert done.code == 0, done.err
    ends = [
        torch.load(tmp_path / f"{name}/default/0/checkpoints/last.ckpt", weights_only=True)["state_dict"]
        for name in ("whole", "half")
    ]
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_two_devices_take_equal_steps_and_see_every_record_once(website, together, tmp_path):
    (tmp_path / "telling.py").write_text(
        "import json\nfrom pathlib import Path\nfrom zlib import crc32\nfrom datamodules.shards import Shards\n\n\n"
        "class Telling(Shards):\n"
        "    def on_after_batch_transfer(self, batch, dataloader_idx):\n"
        "        trainer = self.trainer\n"
        "        if trainer.training:\n"
        "            with Path(f'rank{trainer.global_rank}.jsonl').open('a') as file:\n"
        "                file.write(json.dumps([crc32(image.numpy()) for image in batch[0]]) + '\\n')\n"
        "        return super().on_after_batch_transfer(batch, dataloader_idx)\n"
    )
    data = ("--data", "telling.Telling", "--data.root", website, "--data.cache", tmp_path / "cache")
    data += ("--data.image_size", 8, "--data.batch_size", 3, "--data.num_workers", 0, "--data.in_memory", "false")
    data += ("--data.augment.crop", "none", "--data.augment.flip", "false")
    together("fit", *NET, *data, "--trainer.devices", 2, "--trainer.strategy", "ddp", "--trainer.max_epochs", 1)
    seen = [[json.loads(line) for line in (tmp_path / f"rank{rank}.jsonl").read_text().splitlines()] for rank in (0, 1)]
    assert len(seen[0]) == len(seen[1]) == COUNT // 2 // 3
    pictures = [picture for rank in seen for batch in rank for picture in batch]
    assert len(pictures) == len(set(pictures)) == 60  # none twice


def test_training_goes_on_with_the_same_order_in_little_space(website, tmp_path, monkeypatch):
    def labels(**options) -> list[int]:
        data = ready(website, cache=tmp_path / f"cache{len(options)}", in_memory=False, **options)
        return [data.train_set.keys[draw.index] for draw in data.train_dataloader().sampler]

    from datamodules.reading import remote_files

    monkeypatch.setattr(remote_files, "WINDOW", 1)  # of the little space that is demanded
    monkeypatch.setattr(remote_files, "THREADS", 1)
    size = 3.2 * max(entry["chunk_bytes"] for entry in _index(website)["chunks"]) / 2**30
    assert labels() == labels(cache_limit=size)
    assert 1 <= len(list((tmp_path / "cache1").glob("set-*/*-chunk-*.bin"))) <= 3


def _index(address: str) -> dict:
    from datamodules.reading.remote_files import content

    return json.loads(content(f"{address}/train/index.json"))


def test_order_from_afar_is_that_of_blocks_and_said_so(website, tmp_path, caplog):
    with caplog.at_level("INFO"):
        ready(website, cache=tmp_path)
    assert re.search("training shards are in the order of their source.*--mix true", caplog.text)


def test_changed_files_are_errors_not_other_labels(root):
    first = root / "train/chunk-0-1.bin"
    whole = first.read_bytes()
    first.write_bytes(whole[:-3])
    with pytest.raises(InputError, match=r"chunk-0-1.bin is incomplete; copy it again, or remove it and run prepare"):
        ready(root)
    first.unlink()
    with pytest.raises(InputError, match=r"chunk-0-1.bin is missing"):
        ready(root)
    first.write_bytes(whole[:300] + bytes([whole[300] ^ 1]) + whole[301:])
    shards(root).prepare_data()
    with pytest.raises(InputError, match=r"chunk-0-1.bin is damaged; remove it and run prepare again"):
        shards(root, verify=True).prepare_data()
    first.write_bytes(b"\xff" * len(whole))
    with pytest.raises(
        BrokenImage, match=r"record 3 of .*chunk-0-1.bin: its sizes do not add up; the shard is damaged"
    ):
        ready(root).train_set[11]
    (root / "train/index.json").write_text('{"chunks": [')
    with pytest.raises(InputError, match=r"train/index.json is damaged: Expecting value: line 1 column 13"):
        ready(root)
    shutil.rmtree(root)
    with pytest.raises(InputError, match=r"holds no train, val or test with an index.json"):
        ready(root)
    with pytest.raises(InputError, match=r"holds no manifest.json with classes: expected what `prepare --out` has"):
        _ = shards(root).num_classes


def test_a_set_that_litdata_wrote(tmp_path, root):
    writer = pytest.importorskip("litdata.streaming.writer").BinaryWriter(str(tmp_path / "theirs/train"), chunk_size=5)
    pictures = ready(root).train_set
    for number in range(12):
        writer[number] = pictures[number]  # a tuple: dicts become Arrow rows
    writer.done()
    writer.merge()
    (tmp_path / "classes").write_text("x\ny\nz\n")
    data = shards(tmp_path / "theirs", class_map=tmp_path / "classes", val_fraction=0.25)
    check_datamodule(data)
    data.setup("fit")
    both = [*content_of(data.train_set), *content_of(data.val_set)]
    assert sorted(both) == sorted(content_of(pictures)[:12])
    with pytest.raises(InputError, match=r"give --data.root, or --data.class_map for a set that LitData wrote"):
        ready(tmp_path / "theirs")


def spoil(file: Path, place: int, offset: int, content: bytes) -> None:
    """Write over a record of a chunk, from `offset` bytes after its begin."""
    data = bytearray(file.read_bytes())
    (begin,) = struct.unpack_from("<I", data, 4 + 4 * place)
    data[begin + offset : begin + offset + len(content)] = content
    file.write_bytes(data)


def test_damaged_records_have_the_name_of_their_place(root):
    file = root / "train/chunk-0-1.bin"
    spoil(file, 2, 0, struct.pack("<I", 9))  # the image's size
    data = ready(root).train_set
    assert [data.keys[number] for number in (9, 10, 11)] == [
        "class0/0-9.png",
        f"record 2 of {file}",
        "class2/0-11.png",
    ]


def test_a_key_or_label_that_is_none(root):
    file = root / "train/chunk-0-1.bin"
    image = len(ready(root).train_set[8 + 2][0])
    spoil(file, 2, 12 + image + 8, b"\xff\xd8\0")  # the key's first bytes
    assert ready(root).train_set.keys[10] == f"record 2 of {file}"
    spoil(file, 2, 0, struct.pack("<2I", image + 4, 4))
    with pytest.raises(BrokenImage, match=r"record 2 of .*chunk-0-1.bin: its label has 4 bytes; the shard is damaged"):
        ready(root).train_set[10]


def test_doctor_goes_on_after_a_damaged_record(app, root):
    spoil(root / "train/chunk-0-1.bin", 2, 0, struct.pack("<I", 9))
    spoil(root / "train/chunk-0-3.bin", 0, 12, b"nothing")  # the image itself
    words = ("--data", "Shards", "--data.root", root, "--data.image_size", 8, "--data.batch_size", 4)
    done = app("doctor", *NET[:4], *words, "--data.num_workers", 0, "--json", "found.json")
    assert done.code == 1
    assert done.err.splitlines()[-1] == "error: doctor found 2 errors, listed above"
    found = json.loads(Path("found.json").read_text())
    assert found["images"]["training"] == {"images": COUNT, "unreadable": 2}
    (data,) = (finding["text"] for finding in found["findings"] if finding["topic"] == "data")
    assert (
        data == f"{root}/train/chunk-0-1.bin, {root}/train/chunk-0-3.bin are damaged; remove them and run prepare again"
    )
    (broken,) = (finding for finding in found["findings"] if finding["topic"] == "broken")
    assert broken["text"] == f"2 training images of {COUNT} cannot be read"
    assert broken["items"][0].startswith(f"record 2 of {root}/train/chunk-0-1.bin: its sizes do not add up")
    assert broken["items"][1].startswith("class0/0-24.png: ")
    assert broken["fix"].startswith("remove the damaged shards, which the verb doctor names, and run prepare again")
    with pytest.raises(InputError, match=r"chunk-0-1.bin, .*chunk-0-3.bin are damaged; remove them and run prepare"):
        shards(root, verify=True).prepare_data()


def test_doctor_goes_on_after_shards_that_are_cut_short_or_missing(app, root):
    shard = root / "train/chunk-0-1.bin"
    shard.write_bytes(shard.read_bytes()[:-3])
    (root / "train/chunk-0-3.bin").unlink()
    words = ("--data", "datamodules.shards.Shards", "--data.root", root, "--data.image_size", 8)
    done = app("doctor", *NET[:4], *words, "--data.batch_size", 4, "--data.num_workers", 0, "--json", "found.json")
    assert done.code == 1
    found = json.loads(Path("found.json").read_text())
    texts = {finding["topic"]: finding for finding in found["findings"]}
    assert f"{shard} is incomplete" in texts["data"]["text"]
    assert texts["broken"]["text"] == f"9 training images of {COUNT} cannot be read"
    assert texts["broken"]["items"][0].startswith(f"record 7 of {shard}: ")
    assert "chunk-0-3.bin is missing" in texts["broken"]["items"][1]
    assert "on_error" not in texts["broken"]["fix"]  # a run refuses such shards, whatever it skips
    assert not any("damaged" in finding["text"] for finding in found["findings"])
    assert found["images"]["test"] == {"images": 5, "unreadable": 0}


def test_a_set_whose_prepare_was_stopped(root):
    (root / "manifest.json").unlink()
    for split in SPLITS:
        (root / split / "index.json").unlink()
    with pytest.raises(InputError, match="set: prepare was stopped before its end: run it again"):
        _ = shards(root).num_classes
    for split in SPLITS:
        (root / split / "prepared.jsonl").unlink()  # only chunks are there
    with pytest.raises(InputError, match="set: prepare was stopped before its end: run it again"):
        _ = shards(root).num_classes


def content_of(source) -> list[tuple]:
    return [source[number] for number in range(len(source))]


def test_the_rows_of_a_dict_that_litdata_writes_are_refused(tmp_path, root):
    writer = pytest.importorskip("litdata.streaming.writer").BinaryWriter(str(tmp_path / "rows/train"), chunk_size=5)
    for number in range(5):
        writer[number] = {"image": ready(root).train_set[number][0], "label": 0}
    writer.done()
    writer.merge()
    (tmp_path / "classes").write_text("x\n")
    data = ready(tmp_path / "rows", class_map=tmp_path / "classes", val_fraction=0)
    with pytest.raises(InputError, match="holds no records but Arrow rows, which LitData alone reads"):
        data.train_set[0]


def test_doctor_and_a_second_pass_of_prepare(app, root):
    words = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data", "Shards", "--data.root", root)
    words += ("--data.image_size", 8, "--data.batch_size", 4, "--data.num_workers", 0)
    done = app("doctor", *words, "--data.verify", "true")
    assert done.code == 0, done.err
    again = app("prepare", *words, "--out", "again", "--shard_images", 8, "--short_side", "null")
    assert again.code == 0, again.err
    theirs, ours = ((folder / "train/chunk-0-0.bin").read_bytes() for folder in (root, Path("again")))
    assert theirs == ours


def test_digits_come_back_pixel_by_pixel(app):
    assert app("prepare", *NET[:4], "--data", "Digits", "--data.num_workers", 0, "--out", "out").code == 0
    digits, data = Digits(), ready("out")
    digits.setup("fit")
    image, label = digits.train_set[3]
    ours, their = data.train_set[3]
    from vit_lightning.data import images

    assert torch.equal(images.decode(ours, name=""), torch.as_tensor(image).expand(3, -1, -1)) and label == their
