"""Sets in memory: when, what they hold, and that batches from them are those of the records one by one."""

import io
import pickle
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule
from vit_lightning.data import in_memory as memory
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.in_memory import InMemoryBatches
from vit_lightning.data.records import Records
from vit_lightning.data.sampling import BROKEN, IGNORE, Draw
from vit_lightning.errors import InputError


def png(number: int, sides: tuple[int, int] = (8, 8)) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(number).integers(0, 256, (*sides, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


class Encoded:
    """Encoded images of 8 x 8 pixels with label i modulo 3; some are empty files, some of another size."""

    def __init__(self, size: int, broken=(), others=(), sides=(8, 8)) -> None:
        self.size = size
        self.broken = set(broken)
        self.others = set(others)
        self.sides = sides
        self.keys = [f"{index}.png" for index in range(size)]
        self.asked = set()

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int):
        self.asked.add(index)
        if index in self.broken:
            return b"", index % 3
        return png(index, (9, 8) if index in self.others else self.sides), index % 3


class MultiHot(Encoded):
    def __getitem__(self, index: int):
        if index in self.broken:
            raise BrokenImage(self.keys[index], "the disk had a bad day")
        return super().__getitem__(index)[0], np.eye(3)[index % 3]


class Tiny(ImageDataModule):
    num_classes = 3

    def setup(self, stage: str) -> None:
        pass


def tiny(train=None, val=None, **options) -> Tiny:
    defaults = {"image_size": 8, "batch_size": 4, "augment": Augment(crop="pad"), "max_broken": 0.5}
    data = Tiny(**defaults | options)
    data.train_set, data.val_set = train, val
    return data


def on_rank(data: Tiny, rank: int, world: int, device: str = "cpu") -> Tiny:
    data.trainer = SimpleNamespace(
        distributed_sampler_kwargs={"num_replicas": world, "rank": rank},
        num_devices=world,
        training=False,
        state=SimpleNamespace(fn="fit"),
        strategy=SimpleNamespace(root_device=torch.device(device)),
    )
    return data


def joined(loader) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = zip(*loader, strict=True)
    return torch.cat(images), torch.cat(labels)


def same(one, other) -> bool:
    return all(torch.equal(*pair) for pair in zip(joined(one), joined(other), strict=True))


@pytest.mark.parametrize("image_size", [8, 6, (16, 12)])
@pytest.mark.parametrize("evaluation", ["resize", "center"])
@pytest.mark.parametrize("kind", [Encoded, MultiHot])
def test_evaluation_is_the_same_from_memory(kind, evaluation, image_size):
    for world, rank in ((1, 0), (2, 1)):
        loaders = []
        for in_memory in (False, True):
            options = {"image_size": image_size, "on_error": "skip", "num_workers": 0, "in_memory": in_memory}
            augment = Augment(evaluation=evaluation)
            data = tiny(val=kind(9, broken={3, 8}), augment=augment, **options)
            loaders.append(on_rank(data, rank, world).val_dataloader())
        assert [type(loader.dataset) for loader in loaders] == [Records, InMemoryBatches]
        assert same(*loaders)
        assert loaders[0].dataset.skipped.flags.tolist() == loaders[1].dataset.skipped.flags.tolist()
        labels = joined(loaders[1])[1].flatten().tolist()
        assert (BROKEN in labels) == (rank == 0 or 3 in range(rank, 9, world))
        assert loaders[1].dataset.reason(3)
        assert loaders[1].dataset.keys[3] == "3.png"


def test_padding_of_a_short_rank_is_ignored():
    labels = joined(on_rank(tiny(val=Encoded(5)), 1, 2).val_dataloader())[1]
    assert labels.tolist() == [1, 0, IGNORE]


@pytest.mark.parametrize("broken", [set(), {3, 4, 19}])
def test_training_without_chance_is_the_same_from_memory(broken):
    loaders = [
        tiny(
            Encoded(20, broken),
            augment=Augment(crop="none", flip=False),
            on_error="skip",
            num_workers=0,
            in_memory=in_memory,
        ).train_dataloader()
        for in_memory in (False, None)
    ]
    assert same(*loaders)
    assert [loader.dataset.skipped.count for loader in loaders] == [len(broken)] * 2


def test_neither_batches_nor_workers_nor_devices_matter():
    augment = Augment(crop="pad", rand_augment=(1, 10), erasing=0.5)
    images, labels = joined(tiny(Encoded(24), augment=augment).train_dataloader())
    for options in ({"num_workers": 2}, {"batch_size": 3}, {"batch_size": 8}):
        other = joined(tiny(Encoded(24), augment=augment, **options).train_dataloader())
        assert torch.equal(other[0], images) and torch.equal(other[1], labels)
    halves = [
        joined(on_rank(tiny(Encoded(24), augment=augment, batch_size=2), rank, 2).train_dataloader())[0]
        for rank in range(2)
    ]
    assert torch.equal(torch.stack(halves, 1).flatten(0, 1), images)
    epoch = tiny(Encoded(24), augment=augment).train_dataloader()
    epoch.sampler.set_epoch(1)
    assert not torch.equal(joined(epoch)[0], images)


@pytest.mark.parametrize("in_memory", [False, None])
def test_the_epoch_alone_varies_a_record_anew(in_memory):
    """The same image at the same place of another epoch, which only the seed of its changes can tell apart."""
    augment = Augment(crop="pad", rand_augment=(1, 10), erasing=0.5)
    records = tiny(Encoded(24), augment=augment, num_workers=0, in_memory=in_memory).train_dataloader().dataset
    assert isinstance(records, InMemoryBatches) == (in_memory is None)

    def shown(epoch):
        return torch.stack([records[Draw(index, epoch, position=index)][0] for index in range(24)])

    assert torch.equal(shown(0), shown(0))
    assert not torch.equal(shown(0), shown(1))


@pytest.mark.parametrize("in_memory", [False, None])
def test_a_record_that_comes_twice_in_an_epoch_is_varied_twice(in_memory):
    """As rare classes' do in balanced epochs: its place decides, and its own number does not."""
    augment = Augment(crop="pad", rand_augment=(1, 10), erasing=0.5)
    records = tiny(Encoded(24), augment=augment, num_workers=0, in_memory=in_memory).train_dataloader().dataset
    shown = [records[Draw(3, 0, position)][0] for position in range(8)]
    assert len({image.numpy().tobytes() for image in shown}) == 8
    plain = tiny(Encoded(24), augment=Augment(crop="pad"), num_workers=0, in_memory=in_memory)
    shifts = plain.train_dataloader().dataset
    black = [
        torch.stack([(shifts[Draw(index, 2, position)][0] == 0).all(0) for position in range(8)]) for index in (0, 5)
    ]
    assert black[0].any() and torch.equal(*black)


def test_a_resumed_run_goes_on_with_the_same_batches():
    loader = tiny(Encoded(24)).train_dataloader()
    whole = list(loader)
    loader.batches_seen = lambda: 2
    assert same(loader, whole[2:])


def test_small_sets_of_one_size_are_loaded_unasked(monkeypatch):
    def in_memory(train, **options):
        return isinstance(tiny(train, batch_size=1, **options).train_dataloader().dataset, InMemoryBatches)

    assert in_memory(Encoded(20))
    assert not in_memory(Encoded(20), in_memory=False)
    assert not in_memory(Encoded(20, others={0}))
    assert not in_memory(Encoded(40, others={37}))  # between those that are looked at first
    for small, large in (((8, memory.SIDE), (8, memory.SIDE + 1)), ((memory.SIDE, 8), (memory.SIDE + 1, 8))):
        assert in_memory(Encoded(2, sides=small))
        assert not in_memory(Encoded(2, sides=large))
        assert in_memory(Encoded(2, sides=large), in_memory=True)
    monkeypatch.setattr(memory, "BUDGET", 20 * 3 * 8 * 8)
    assert in_memory(Encoded(20))
    monkeypatch.setattr(memory, "BUDGET", 20 * 3 * 8 * 8 - 1)
    assert not in_memory(Encoded(20))
    assert in_memory(Encoded(19))
    assert in_memory(Encoded(20), in_memory=True)


@pytest.fixture
def several(monkeypatch):
    """Lets processes decode small sets: two take three and two pieces of four images."""
    monkeypatch.setattr(memory, "CHUNK_BYTES", 4 * 3 * 8 * 8)
    monkeypatch.setattr(memory, "CHUNKS_PER_WORKER", 2)
    monkeypatch.setattr(Tiny, "cores_per_device", 2)


@pytest.mark.parametrize("kind", [Encoded, MultiHot])
def test_processes_decode_what_one_does(several, kind):
    source = kind(18, broken={3, 8, 9, 10, 11})
    state = torch.get_rng_state()
    held = tiny(source, on_error="skip").train_dataloader().dataset.source
    assert torch.equal(torch.get_rng_state(), state)
    assert 13 not in source.asked  # by this process, which looked at the sizes of some alone
    memory.CHUNKS_PER_WORKER = 100
    alone = tiny(source, on_error="skip").train_dataloader().dataset.source
    assert 13 in source.asked
    assert torch.equal(held.images, alone.images) and torch.equal(held.labels, alone.labels)
    assert {n: str(fault) for n, fault in held.faults.items()} == {n: str(fault) for n, fault in alone.faults.items()}
    assert (held.faults[9].name, held.faults[9].reason) == (alone.faults[9].name, alone.faults[9].reason)


def test_what_a_process_finds_is_one_sentence(several):
    with pytest.raises(InputError, match=r"^--data.in_memory true needs images of one size, but training image 15.png"):
        tiny(Encoded(18, others={15}), in_memory=True).train_dataloader()
    with pytest.raises(BrokenImage, match=r"^training image 7.png: the file is empty; --data.on_error skip goes on"):
        tiny(Encoded(18, broken={7, 9})).train_dataloader()


def test_a_set_is_decoded_once(monkeypatch):
    data = tiny(Encoded(20), Encoded(5))
    first = data.train_dataloader().dataset.source
    assert data.train_dataloader().dataset.source is first
    assert data.val_dataloader().dataset.source is not first
    data.train_set = Encoded(20)
    assert data.train_dataloader().dataset.source is not first


def test_another_wish_for_memory_is_granted_to_a_set_that_was_looked_at():
    data = tiny(Encoded(20), Encoded(5))
    kinds = []
    for wish in (None, False, True, False):
        data.in_memory = wish
        kinds.append((type(data.train_dataloader().dataset), type(data.val_dataloader().dataset)))
    assert kinds == [(InMemoryBatches,) * 2, (Records,) * 2, (InMemoryBatches,) * 2, (Records,) * 2]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_workers_stay_from_epoch_to_epoch(num_workers):
    data = tiny(Encoded(8), Encoded(8), in_memory=False, num_workers=num_workers)
    for loader in (data.train_dataloader(), data.val_dataloader()):
        assert loader.persistent_workers == (num_workers > 0)


def test_images_of_other_sizes_cannot_be_in_memory():
    with pytest.raises(InputError, match=r"one size, but training image 7.png has \(3, 9, 8\) and others \(3, 8, 8\)"):
        tiny(Encoded(20, others={7}), in_memory=True).train_dataloader()


def test_an_image_that_cannot_be_read_ends_the_run_before_it_starts():
    with pytest.raises(BrokenImage, match=r"image 7.png: the file is empty; --data.on_error skip goes on without it"):
        tiny(Encoded(20, broken={7, 9})).train_dataloader()


def test_too_many_of_them_end_the_run():
    loader = tiny(val=Encoded(20, broken={5, 11, 17}), on_error="skip", max_broken=0.1).val_dataloader()
    with pytest.raises(InputError, match="3 of 20 validation images cannot be read"):
        list(loader)


def test_transforms_of_ones_own_see_one_image_at_a_time():
    class Own(Tiny):
        def train_transform(self):
            return lambda image: image[:1].expand(3, -1, -1)

        def eval_transform(self):
            return lambda image: image[1:2].expand(3, -1, -1)

    data = Own(image_size=8, batch_size=4, num_workers=0)
    data.train_set = data.val_set = Encoded(8)
    for loader in (data.train_dataloader(), data.val_dataloader()):
        assert type(loader.dataset) is Records
        images, _ = joined(loader)
        assert torch.equal(images[:, 0], images[:, 2])
    data.augment_on_device = True
    with pytest.raises(InputError, match="impossible: Own has a training transform of its own"):
        data.train_dataloader()


def test_what_stands_against_the_device_is_said():
    for options, reason in (
        ({"augment": Augment()}, r"augment\.crop inception varies each image alone"),
        ({"in_memory": False}, r"the training set is not in memory; give --data\.in_memory true"),
    ):
        with pytest.raises(InputError, match=f"--data.augment_on_device true is impossible: {reason}"):
            tiny(Encoded(8), augment_on_device=True, **options).train_dataloader()


def test_workers_are_for_work():
    assert tiny(Encoded(8)).train_dataloader().num_workers == 0
    assert tiny(Encoded(8), num_workers=1).train_dataloader().num_workers == 1
    data = tiny(Encoded(8), Encoded(8), image_size=16)
    assert data.train_dataloader().num_workers == 0  # the device resizes
    assert data.val_dataloader().num_workers == data.workers > 0
    data.augment_on_device = False
    assert type(data.train_dataloader().dataset) is Records
    assert data.train_dataloader().num_workers == data.workers


def test_loading_in_inference_mode_serves_a_later_fit():
    data = tiny(Encoded(8))
    with torch.inference_mode():
        data.train_dataloader()
    assert not data.train_dataloader().dataset.source.images.is_inference()


def test_plain_numbers_and_workers_started_anew():
    data = tiny(Encoded(8, broken={2}), on_error="skip", augment=Augment(crop="none", flip=False))
    records = data.train_dataloader().dataset
    assert records[2][1] == 0  # the next one's label
    images, labels = pickle.loads(ForkingPickler.dumps(records)).__getitems__([1, 2, 7])
    assert labels.tolist() == [1, 0, 1]
    assert torch.equal(images, records.source.images[[1, 3, 7]])


@pytest.mark.filterwarnings("ignore")
def test_a_run_from_files(app, tmp_path):
    for number in range(12):
        path = tmp_path / f"set/{'train' if number < 8 else 'val'}/{'cat' if number % 2 else 'dog'}/{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(png(number, (16, 16)))
    words = ("--data", "ImageFolder", "--data.root", "set", "--data.image_size", 16, "--data.batch_size", 4)
    words += ("--data.augment.crop", "pad", "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    done = app("fit", *words)
    assert done.code == 0, done.err
    done = app("fit", *words, "--data.augment.crop", "inception", "--data.augment_on_device", "true")
    assert done.code == 1
    assert "--data.augment_on_device true is impossible" in done.err.strip().splitlines()[-1]


@pytest.mark.parametrize(("pause", "said"), [(5.0, [8, 16]), (9.0, [16]), (1e9, [])])
def test_a_long_start_tells_now_and_then_how_far_it_is(monkeypatch, pause, said):
    """Of 18 images in chunks of four, each of which takes three seconds by the clock at hand."""
    lines: list[str] = []
    now = [0]

    def decoded(chunks, cores):
        for number in range(len(chunks)):
            now[0] += 3
            yield chunks[number]

    monkeypatch.setattr(memory, "CHUNK_BYTES", 4 * 3 * 8 * 8)
    monkeypatch.setattr(memory, "PAUSE", pause)
    monkeypatch.setattr(memory, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(memory, "rank_zero_info", lines.append)
    monkeypatch.setattr(memory, "_decoded_chunks", decoded)
    tiny(Encoded(18)).train_dataloader()
    assert lines == [f"decoded {done} of 18 training images into memory" for done in said]
