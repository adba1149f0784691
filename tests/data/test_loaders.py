"""Which loader a set gets, apart from any run: sets as evaluation sees them, what memory keeps, where a run goes on."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.data.test_window import Tiny as Windowed
from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.in_memory import InMemoryBatches
from vit_lightning.data.loaders import frozen_loader
from vit_lightning.data.records import Records
from vit_lightning.data.sampling import BROKEN
from vit_lightning.data.subsets import Subset
from vit_lightning.errors import InputError

VARIED = Augment(crop="pad", flip=True, rotate=20, erasing=1.0)


class Noise:
    """Images of noise, some of which cannot be read; the label of image i is i modulo 3."""

    def __init__(self, broken=()) -> None:
        self.images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (9, 3, 8, 8), dtype=np.uint8))
        self.broken = broken

    def __len__(self) -> int:
        return 9

    def __getitem__(self, index: int):
        if index in self.broken:
            raise BrokenImage(f"{index}.png", "the disk had a bad day")
        return self.images[index], index % 3


class Plain(ImageDataModule):
    num_classes = 3

    def setup(self, stage: str) -> None:
        pass


class Own(Plain):
    def eval_transform(self):
        return lambda image: image.flip(-1)


def joined(loader) -> tuple[torch.Tensor, list[int]]:
    images, labels = zip(*loader, strict=True)
    return torch.cat(images), torch.cat(labels).tolist()


@pytest.mark.parametrize("kind", [Plain, Own])
@pytest.mark.parametrize("in_memory", [True, False])
def test_training_images_may_be_seen_as_evaluation_sees_them(kind, in_memory):
    """In order, not varied, and none in another's place."""
    source = Noise(broken={3, 8})
    data = kind(image_size=8, batch_size=4, num_workers=0, augment=VARIED, in_memory=in_memory, on_error="skip")
    data.max_broken = 0.5
    loader = frozen_loader(data, source, "training")
    assert isinstance(loader.dataset, InMemoryBatches) == (in_memory and kind is Plain)
    images, labels = joined(loader)
    expected = source.images.flip(-1) if kind is Own else source.images.clone()
    expected[[3, 8]] = 0
    assert labels == [0, 1, 2, BROKEN, 1, 2, 0, 1, BROKEN]
    assert torch.equal(images, expected)
    again, _ = joined(loader)
    assert torch.equal(again, images)


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_record_whose_label_cannot_be_read_either_gives_way_in_training(in_memory):
    plain = Augment(crop="none", flip=False)
    data = Plain(image_size=8, batch_size=9, num_workers=0, augment=plain, in_memory=in_memory, on_error="skip")
    data.max_broken, data.train_set = 0.5, Noise(broken={3, 8})
    loader = data.train_dataloader()
    images, labels = joined(loader)
    taken = [{3: 4, 8: 0}.get(draw.index, draw.index) for draw in loader.sampler]
    assert labels == [index % 3 for index in taken]
    assert torch.equal(images, data.train_set.images[taken])


def test_sets_in_memory_are_decoded_anew_for_other_channels():
    data = Windowed(channels=1)
    data.setup("fit")
    assert joined(data.val_dataloader())[0].shape == (12, 1, 8, 8)
    held = data.val_dataloader().dataset.source
    assert data.val_dataloader().dataset.source is held
    data.channels = 3
    assert joined(data.val_dataloader())[0].shape == (12, 3, 8, 8)


@pytest.mark.parametrize(("training", "seen"), [(True, 3), (False, 0)])
def test_a_run_goes_on_behind_the_batches_that_were_handed_out(training, seen):
    """A batch that was handed out counts, though its step was not over when the state was saved."""
    progress = SimpleNamespace(current=SimpleNamespace(ready=3, started=3, processed=3, completed=2))
    loop = SimpleNamespace(epoch_loop=SimpleNamespace(batch_progress=progress))
    data = Plain(image_size=8, batch_size=2, num_workers=0, augment=Augment(crop="none", flip=False))
    data.train_set = Noise()
    data.trainer = SimpleNamespace(
        training=training,
        fit_loop=loop,
        distributed_sampler_kwargs=None,
        num_devices=1,
        lightning_module=None,
        strategy=SimpleNamespace(root_device=torch.device("cpu")),
    )
    assert data.train_dataloader().batches_seen() == seen


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"batch_size": 10}, r"^the training set has 9 images, too few .* 1 device; give --data.batch_size 9 or less$"),
        ({"batch_size": 4, "fraction": 0.12}, r"has 1 image, .* or --data.batch_size 1$"),
        ({"batch_size": 8, "fraction": 0.5}, r"^with --data.fraction 0.5 .* give --data.fraction 1 or more, or "),
        ({"batch_size": 6, "fraction": 0.5}, r"has 4 images, .* give --data.fraction 0.83 or more, or --data.batch_si"),
        ({"batch_size": 4, "per_class": 1}, r"^with --data.per_class 1 .* 3 images, .* give more --data.per_class, or"),
    ],
)
def test_a_batch_that_cannot_be_filled_names_the_flags_that_would_fill_it(settings, said):
    data = Plain(image_size=8, num_workers=0, in_memory=False, **settings)
    data.train_set = Noise()
    with pytest.raises(InputError, match=said):
        data.train_dataloader()


def test_the_fraction_that_is_advised_fills_the_batch():
    data = Plain(image_size=8, num_workers=0, in_memory=False, batch_size=6, fraction=0.83)
    data.train_set = Noise()
    assert len(data.train_dataloader()) == 1
    assert isinstance(data.train_dataloader().dataset, Records)


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_set_of_which_nothing_can_be_read_is_all_marked(in_memory):
    data = Plain(image_size=8, batch_size=4, num_workers=0, in_memory=in_memory, on_error="skip", max_broken=1.0)
    data.val_set = Noise(broken=range(9))
    images, labels = joined(data.val_dataloader())
    assert labels == [BROKEN] * 9 and images.shape == (9, 3, 8, 8) and not images.any()


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (iter([]), "the test set of Plain is a list_iterator; a set has a length and gives its records by number"),
        ([], "Plain has no test images, which this command needs"),
        (None, "Plain has no test images, which this command needs"),
    ],
)
def test_what_is_no_set_is_said(images, said):
    data = Plain(image_size=8, num_workers=0)
    data.test_set = images
    with pytest.raises(InputError, match=said):
        data.test_dataloader()


def test_a_training_set_that_is_held_out_to_its_last_image_is_said():
    data = Plain(image_size=8, num_workers=0)
    data.train_set = Subset(Noise(), np.arange(0))
    with pytest.raises(InputError, match="has 9 images for training, held out for validation; give more images"):
        data.train_dataloader()
