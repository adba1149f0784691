"""Batches decoded by the device are those of the loader: the same cuts, labels, faults and order."""

import csv
import io
import logging
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from datamodules.folder import ImageFolder
from tests.data.test_images_damaged import cut_and_ended, damaged, photo
from tests.processes import Pair
from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule, gpu_decode
from vit_lightning.data.gpu_decode import EncodedBatch, EncodedRecords
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.records import Records
from vit_lightning.errors import InputError
from vit_lightning.testing import check_datamodule

COUNT, BATCH = 24, 4
pytestmark = pytest.mark.filterwarnings("ignore:The image decoding and encoding capabilities:DeprecationWarning")


def png(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (30, 20), (number, 2 * number, 90)).save(buffer, "PNG")
    return buffer.getvalue()


def turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return photo(exif=exif)


def mixture() -> list[tuple[bytes, int]]:
    """Plain JPEGs of several sizes, and what the loader has to decode."""
    kinds = [photo(), photo("L"), photo(subsampling=0), photo("CMYK"), turned(), photo(progressive=True), png(7)]
    return [(kinds[index % len(kinds)], index % 3) for index in range(COUNT)]


class Pictures(ImageDataModule):
    num_classes = 3
    pictures: list[tuple[bytes, int]]

    def setup(self, stage: str) -> None:
        self.train_set, self.val_set = self.pictures, self.pictures[:5]


def pictures(found: list | None = None, device: str = "cpu", **options) -> Pictures:
    defaults = {"image_size": 32, "batch_size": BATCH, "num_workers": 0, "decode_on_device": True}
    data = Pictures(**defaults | options)
    data.pictures = mixture() if found is None else found
    data.trainer = SimpleNamespace(
        distributed_sampler_kwargs={"num_replicas": 1, "rank": 0},
        num_devices=1,
        training=False,
        state=SimpleNamespace(fn="fit"),
        strategy=SimpleNamespace(root_device=torch.device(device)),
    )
    data.setup("fit")
    return data


def shown(data: ImageDataModule, epoch: int = 0, seen: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and labels of an epoch, as a training step gets them."""
    loader = data.train_dataloader()
    loader.sampler.set_epoch(epoch)
    loader.batches_seen = lambda: seen
    device = data.trainer.strategy.root_device
    batches = [data.on_after_batch_transfer((images, labels.to(device)), 0) for images, labels in loader]
    return tuple(torch.cat(part) for part in zip(*batches, strict=True))


def same(one: tuple[torch.Tensor, torch.Tensor], other: tuple[torch.Tensor, torch.Tensor]) -> bool:
    return all(torch.equal(*pair) for pair in zip(one, other, strict=True))


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("crop", ["inception", "resmall", "resize", "pad", "none"])
def test_images_and_labels_are_the_loaders(crop, num_workers):
    augment = Augment(crop=crop)
    for epoch in (0, 1):
        expected = shown(pictures(augment=augment, decode_on_device=False), epoch)
        assert len(expected[0]) == COUNT
        assert same(shown(pictures(augment=augment, num_workers=num_workers), epoch), expected)


def test_workers_leave_plain_jpegs_alone():
    images, labels = next(iter(pictures(batch_size=COUNT).train_dataloader()))
    assert isinstance(images, EncodedBatch) and len(images) == len(labels) == COUNT
    plain = sum(index % 7 < 3 for index in range(COUNT))
    assert len(images.lengths) == len(images.cuts) == plain
    assert images.pixels.shape == (COUNT - plain, 3, 32, 32)
    assert sum(isinstance(value, torch.Tensor) for value in vars(images).values()) == 5


def test_a_set_in_which_nothing_is_plain():
    found = [(png(index), index % 3) for index in range(COUNT)]
    assert same(shown(pictures(found)), shown(pictures(found, decode_on_device=False, in_memory=False)))


def test_further_steps_do_not_depend_on_the_batch():
    augment = Augment(rand_augment=(2, 10), erasing=0.5, rotate=5.0)
    expected = shown(pictures(augment=augment))
    assert not same(expected, shown(pictures()))
    assert same(shown(pictures(augment=augment, batch_size=8, num_workers=1)), expected)


def test_ranks_share_the_batches_of_one():
    expected, labels = shown(pictures(batch_size=BATCH))
    shares = []
    for rank in range(2):
        data = pictures(batch_size=BATCH // 2)
        data.trainer.distributed_sampler_kwargs = {"num_replicas": 2, "rank": rank}
        shares.append(shown(data))
    assert torch.equal(torch.stack([share[0] for share in shares], 1).flatten(0, 1), expected)
    assert torch.equal(torch.stack([share[1] for share in shares], 1).flatten(), labels)


def test_a_resumed_run_goes_on_with_the_next_image():
    images, labels = shown(pictures(), epoch=1)
    rest = shown(pictures(num_workers=1), epoch=1, seen=2)
    assert same(rest, (images[2 * BATCH :], labels[2 * BATCH :]))


def test_multi_hot_labels():
    found = [(image, np.eye(3)[label]) for image, label in mixture()]
    assert same(shown(pictures(found)), shown(pictures(found, decode_on_device=False)))


# Damage -----------------------------------------------------------------------------------------------------------


def with_one_broken(data: bytes, number: int = 7) -> list[tuple[bytes, int]]:
    found = [(photo(), index % 3) for index in range(COUNT)]
    found[number] = data, number % 3
    return found


@pytest.mark.parametrize("data", [photo()[:2000], b"<html>404</html>", b""], ids=["truncated", "a page", "empty"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_what_a_worker_cannot_read_ends_the_run_or_is_skipped(num_workers, data):
    found = with_one_broken(data)
    for on_error in ("raise", "fix"):
        batches = DataLoader.__iter__(pictures(found, on_error=on_error, num_workers=num_workers).train_dataloader())
        with pytest.raises(InputError, match=r"training image 7: .*--data.on_error skip goes on without it"):
            list(batches)
        if num_workers:
            batches._shutdown_workers()  # as Lightning does; the garbage collector waits 5 s for each
    skipping = {"on_error": "skip", "max_broken": 0.1}
    expected = shown(pictures(found, decode_on_device=False, **skipping))
    data = pictures(found, num_workers=num_workers, **skipping)
    assert same(shown(data), expected)
    assert data.jpeg_decoder.records.skipped.count == 1


def refuse(monkeypatch, batches: int) -> None:
    """Let the device refuse some batches, as nvJPEG refuses the whole one if a file is damaged."""
    decode, refused = gpu_decode._decode_jpegs, []

    def refusing(files, device):
        if len(refused) < batches:
            refused.append(files)
            raise RuntimeError("Error while decoding JPEG images:\nnvjpeg 5")
        return decode(files, device)

    monkeypatch.setattr(gpu_decode, "_decode_jpegs", refusing)


@pytest.mark.parametrize("batches", [1, 100])
def test_a_batch_that_the_device_refuses_is_decoded_by_the_host(monkeypatch, caplog, batches):
    augment = Augment(erasing=0.5)
    expected = shown(pictures(augment=augment))
    refuse(monkeypatch, batches)
    with caplog.at_level(logging.WARNING):
        assert same(shown(pictures(augment=augment, num_workers=1)), expected)
    assert "the host decodes a batch that the device cannot: Error while decoding JPEG images: nvjpeg 5" in caplog.text


def test_damage_inside_is_treated_as_wished_where_the_device_refuses_it(monkeypatch):
    found = with_one_broken(damaged(photo(), cut_and_ended, random.Random(0)))
    refuse(monkeypatch, 1000)
    with pytest.raises(BrokenImage, match=r"training image 7: .*premature end of data segment"):
        shown(pictures(found))
    skipping = {"on_error": "skip", "max_broken": 0.1}
    data = pictures(found, **skipping)
    assert same(shown(data), shown(pictures(found, decode_on_device=False, **skipping)))
    assert data.jpeg_decoder.records.skipped.count == 1
    assert same(shown(pictures(found, on_error="fix")), shown(pictures(found, decode_on_device=False, on_error="fix")))


def test_damage_that_the_device_does_not_mind_is_shown():
    found = with_one_broken(damaged(photo(), cut_and_ended, random.Random(0)))
    assert same(shown(pictures(found)), shown(pictures(found, decode_on_device=False, on_error="fix")))


def test_an_image_of_other_sides_than_its_header_says_is_refused(monkeypatch):
    expected = shown(pictures())
    monkeypatch.setattr(gpu_decode, "_decode_jpegs", lambda files, device: [torch.zeros(3, 9, 9)] * len(files))
    assert same(shown(pictures()), expected)


# The flag ---------------------------------------------------------------------------------------------------------


class Own(Pictures):
    def train_transform(self):
        return super().train_transform()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"augment": Augment(trivial_augment=True)}, "augment.trivial_augment varies each image alone"),
        ({"augment_on_device": False}, "--data.augment_on_device false wants"),
        ({"in_memory": True}, "--data.in_memory true decodes"),
    ],
)
def test_what_cannot_go_with_it(options, reason):
    with pytest.raises(InputError, match=f"--data.decode_on_device true is impossible: {reason}.*; leave it out"):
        pictures(**options).train_dataloader()


def test_a_training_transform_of_its_own_is_refused():
    data = pictures()
    data.__class__ = Own
    with pytest.raises(InputError, match="impossible: Own has a training transform of its own; leave it out"):
        data.train_dataloader()


def test_labels_are_checked_and_empty_sets_named():
    with pytest.raises(InputError, match="training image 5 has label 3, outside the 3 classes"):
        shown(pictures([(photo(), 3 if index == 5 else 0) for index in range(COUNT)]))
    with pytest.raises(InputError, match="Pictures has no training images"):
        pictures([]).train_dataloader()


def test_validation_and_loaders_without_a_trainer_decode_as_ever():
    data = pictures()
    assert type(data.val_dataloader().dataset) is Records
    data.trainer = None
    assert type(data.train_dataloader().dataset) is Records


def test_the_contract_holds():
    data = Pictures(image_size=16, batch_size=4, decode_on_device=True)
    data.pictures = mixture()
    check_datamodule(data)


def test_the_host_is_said_to_be_slow(caplog):
    with caplog.at_level("INFO"):
        pictures().train_dataloader()
    assert "without an NVIDIA GPU (cpu): the main process decodes" in caplog.text


def test_torchvision_without_nvjpeg(monkeypatch):
    refuse(monkeypatch, 1)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: None)
    with pytest.raises(InputError, match=r"cannot decode on this GPU \(Error.*nvjpeg 5\); install its wheel"):
        gpu_decode.check(torch.device("cuda"))


def test_records_and_batches_can_be_pickled():
    loader = pictures().train_dataloader()
    records = pickle.loads(pickle.dumps(loader.dataset))
    assert isinstance(records, EncodedRecords)
    assert len(pickle.loads(pickle.dumps(next(iter(loader))))[0]) == BATCH


# The command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path) -> Path:
    for number in range(16):
        file = tmp_path / f"pictures/train/{'ab'[number % 2]}/{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        jpeg = photo("L" if number % 3 else "RGB", restart_marker_blocks=number)
        file.write_bytes(jpeg if number % 5 else png(number))
    return tmp_path / "pictures"


def fit(tree: Path, *words: object) -> tuple:
    data = ("--data", "ImageFolder", "--data.root", tree, "--data.image_size", 32, "--data.batch_size", 2)
    small = ("--model.net.variant", "mu/8", "--data.val_fraction", 0.25, "--data.decode_on_device", "true")
    return ("fit", *data, *small, "--trainer.accelerator", "cpu", "--trainer.log_every_n_steps", 1, *words)


def losses(experiment: str) -> list[str]:
    with Path(f"runs/{experiment}/0/metrics.csv").open(newline="") as file:
        return [row["train/loss"] for row in csv.DictReader(file) if row.get("train/loss")]


def test_fits_are_the_loaders_own_and_resume_inside_an_epoch(app, tree):
    """Six steps an epoch; mixing follows decoding."""
    runs = {
        "plain": ("--data.decode_on_device", "false", "--trainer.max_steps", 9),
        "whole": ("--trainer.max_steps", 9, "--data.num_workers", 1),
        "stopped": ("--trainer.max_steps", 4, "--last.every_n_steps", 1),
    }
    longer = ("--model.schedule.allow_horizon_change", "true", "--model.schedule.decay", "constant")
    mixing = ("--data.augment.mixup_alpha", 0.2, *longer)
    for name, words in runs.items():
        Path(f"{name}.yaml").write_text("{}\n")
        done = app(*fit(tree, *mixing, "-c", f"{name}.yaml", "--data.num_workers", 0, *words))
        assert done.code == 0, done.err
    more = ("-c", "stopped.yaml", "--data.num_workers", 0, "--trainer.max_steps", 9, "--ckpt_path", "last")
    done = app(*fit(tree, *mixing, *more))
    assert done.code == 0, done.err
    assert len(losses("plain")) == 9
    assert losses("plain") == losses("whole") == losses("stopped")


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    pair = Pair(method="spawn")
    yield pair
    pair.end()


def test_two_processes_train_as_one_with_their_batches(app, together, tree):
    one, two = "--data.batch_size", "--trainer.devices"
    words = fit(tree, "--trainer.max_epochs", 1, "--data.num_workers", 1, "--data.augment.erasing", 0.5)
    for name in ("one", "two"):
        Path(f"{name}.yaml").write_text("{}\n")
    assert app(*words, "-c", "one.yaml", one, 4).code == 0
    together(*words, "-c", "two.yaml", one, 2, two, 2, "--trainer.strategy", "ddp")
    alone, shared = (torch.load(f"runs/{name}/0/checkpoints/last.ckpt")["state_dict"] for name in ("one", "two"))
    # Adam makes whole steps of the gradient of the keys' bias, which is 0 but for rounding: 1.3e-5 on an Intel Xeon.
    assert all(torch.allclose(alone[name], shared[name], atol=1e-4) for name in alone)


def test_a_recipe_that_is_impossible_is_one_sentence(app, tree):
    done = app(*fit(tree, "--data.augment.trivial_augment", "true"))
    assert done.code == 1
    assert "--data.decode_on_device true is impossible: augment.trivial_augment" in done.err.strip().splitlines()[-1]


def test_the_benchmark_measures_until_images_are_ready(app, tree):
    words = ("--data.num_workers", 0, "--measure", "data", "--rounds", 1, "--seconds", 0.1)
    done = app("benchmark", *fit(tree)[1:-2], *words)
    assert done.code == 0, done.err
    assert "ImageFolder, undecoded" in done.out and "on the device" in done.out


@pytest.mark.gpu
@pytest.mark.parametrize("crop", ["inception", "resmall"])
def test_a_gpu_shows_what_the_host_would(crop):
    """nvJPEG's inverse transform and its enlarging of the colours differ from libjpeg's; the cuts are the same."""
    options = {"augment": Augment(crop=crop), "batch_size": COUNT, "num_workers": 2}
    expected, labels = shown(pictures(decode_on_device=False, **options))
    for _ in range(3):  # the memory of one batch is used for the next
        images, found = shown(pictures(device="cuda", **options))
        assert images.is_cuda and torch.equal(found.cpu(), labels)
        off = (images.cpu().int() - expected.int()).abs().float()
        assert off.mean() < 1.5 and off.flatten(1).mean(1).max() < 4


@pytest.mark.gpu
def test_files_of_a_folder_on_a_gpu(tree):
    data = ImageFolder(root=tree, image_size=32, batch_size=4, num_workers=2, decode_on_device=True)
    data.trainer = pictures(device="cuda").trainer
    data.setup("fit")
    images, labels = shown(data)
    assert images.shape[1:] == (3, 32, 32) and len(labels) == len(images)


@pytest.mark.gpu
def test_damage_on_a_gpu_does_not_end_a_run_that_skips():
    chance = random.Random(0)
    found = [(damaged(photo(), cut_and_ended, chance) if index % 5 == 0 else photo(), 0) for index in range(COUNT)]
    images, _ = shown(pictures(found, device="cuda", on_error="skip", max_broken=0.5))
    assert len(images) == COUNT
