import gc
import math
import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from jsonargparse import ArgumentParser
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch import nn
from torchvision.transforms import v2

from datamodules.synthetic import Synthetic
from vit_lightning.augment import Augment
from vit_lightning.contracts import ImageData
from vit_lightning.data import ImageDataModule, loaders
from vit_lightning.data import datamodule as module
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError


class Numbered:
    """Image i is filled with i; its label is i modulo 3."""

    def __init__(self, size: int, side: int = 8) -> None:
        self.size = size
        self.side = side

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, self.side, self.side), index, dtype=torch.uint8), index % 3


class Tiny(ImageDataModule):
    """A third party's datamodule."""

    num_classes = 3

    def setup(self, stage: str) -> None:
        self.train_set, self.val_set, self.test_set = Numbered(20), Numbered(5), Numbered(7)


class WithFlags(Tiny):
    """One with a flag of its own.

    Args:
        depth: how deep.
    """

    def __init__(self, depth: int = 1, **kwargs) -> None:
        super().__init__(**kwargs)
        self.depth = depth


def tiny(kind: type[ImageDataModule] = Tiny, **kwargs) -> ImageDataModule:
    defaults = {"image_size": 8, "batch_size": 4, "num_workers": 0, "augment": Augment(crop="none")}
    data = kind(**defaults | kwargs)
    data.setup("fit")
    return data


def indices(loader) -> list[int]:
    return [int(image[0, 0, 0]) for images, _ in loader for image in images]


def on_rank(data: ImageDataModule, rank: int, world: int) -> ImageDataModule:
    share = {"num_replicas": world, "rank": rank}
    data.trainer = SimpleNamespace(
        distributed_sampler_kwargs=share,
        num_devices=world,
        training=False,
        state=SimpleNamespace(fn="fit"),
        strategy=SimpleNamespace(root_device=torch.device("cpu")),
    )
    return data


def test_batches_of_the_contract():
    data = tiny()
    images, labels = next(iter(data.train_dataloader()))
    assert images.shape == (4, 3, 8, 8)
    assert images.dtype == torch.uint8
    assert labels.dtype == torch.int64
    assert labels.tolist() == [index % 3 for index in images[:, 0, 0, 0].tolist()]
    assert data.class_names == ["0", "1", "2"]


def test_training_shuffles_and_evaluation_does_not():
    data = tiny(batch_size=3)
    order = indices(data.train_dataloader())
    assert len(set(order)) == len(order) == 18
    assert order != sorted(order)
    assert indices(data.val_dataloader()) == list(range(5))
    assert indices(data.test_dataloader()) == indices(data.predict_dataloader()) == list(range(7))


def test_run_seed_decides_the_order(monkeypatch):
    orders = []
    for seed in ("1", "2", "1"):
        monkeypatch.setenv("PL_GLOBAL_SEED", seed)
        orders.append(indices(tiny().train_dataloader()))
    assert orders[0] == orders[2] != orders[1]


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_the_global_batches(world):
    whole = tiny(batch_size=2 * world).train_dataloader()
    ranks = [on_rank(tiny(batch_size=2), rank, world).train_dataloader() for rank in range(world)]
    for batch, *shares in zip(whole, *ranks, strict=True):
        shared = torch.cat([images for images, _ in shares])[:, 0, 0, 0]
        assert sorted(shared.tolist()) == sorted(batch[0][:, 0, 0, 0].tolist())


def test_models_find_what_they_read_of_data():
    assert isinstance(tiny(), ImageData)


def test_case_c4_padding_of_a_short_rank_is_ignored():
    ranks = [on_rank(tiny(batch_size=2), rank, 2).val_dataloader() for rank in range(2)]
    labels = [[batch_labels.tolist() for _, batch_labels in loader] for loader in ranks]
    assert labels == [[[0, 2], [1]], [[1, 0], [IGNORE]]]


def test_multi_hot_labels_and_their_padding():
    class MultiHot(Numbered):
        def __getitem__(self, index):
            return super().__getitem__(index)[0], np.array([1.0, 0.0, 1.0])

    data = tiny()
    data.val_set = MultiHot(5)
    _, labels = next(iter(on_rank(data, 1, 2).val_dataloader()))
    assert labels.dtype == torch.float32
    assert labels.tolist() == [[1, 0, 1], [1, 0, 1], [IGNORE] * 3]


def test_augmentation_depends_on_the_record_alone():
    class Noisy(Tiny):
        def train_transform(self):
            return lambda image: (image + torch.randint(0, 100, image.shape)).to(torch.uint8)

    def images(data):
        return torch.cat([images for images, _ in data.train_dataloader()])

    expected = images(tiny(Noisy))
    torch.manual_seed(9)
    state = torch.get_rng_state()
    assert torch.equal(images(tiny(Noisy)), expected)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(images(tiny(Noisy, num_workers=2)), expected)
    halves = [images(on_rank(tiny(Noisy, batch_size=2), rank, 2)) for rank in range(2)]
    assert torch.equal(torch.stack(halves, 1).flatten(0, 1), expected)


@pytest.mark.parametrize("changed", ["current_epoch", "step", "global_rank"])
def test_mixing_depends_on_epoch_step_and_rank(changed):
    """A batch at the same step of another epoch is mixed by other draws, and a repetition by the same ones."""

    def targets(**other):
        where = {"current_epoch": 2, "step": 3, "global_rank": 0} | other
        ready = SimpleNamespace(batch_progress=SimpleNamespace(current=SimpleNamespace(ready=where.pop("step"))))
        data = tiny(augment=Augment(mixup_alpha=1.0))
        data.trainer = SimpleNamespace(
            training=True, lightning_module=None, fit_loop=SimpleNamespace(epoch_loop=ready), **where
        )
        return data.on_after_batch_transfer((torch.zeros(4, 3, 8, 8, dtype=torch.uint8), torch.arange(4) % 2), 0)[1]

    assert torch.equal(targets(), targets())
    assert not torch.equal(targets(), targets(**{changed: 1}))


def test_plain_numbers_are_records_too():
    loader = tiny().train_dataloader()
    assert loader.dataset[3][0][0, 0, 0] == 3  # overfit_batches brings a sampler of numbers


def test_float_images_pass():
    class Scaled(Tiny):
        def eval_transform(self):
            return v2.ToDtype(torch.float32, scale=True)

    images, _ = next(iter(tiny(Scaled).val_dataloader()))
    assert images.dtype == torch.float32
    assert images.max() <= 1


def test_training_set_smaller_than_a_batch():
    with pytest.raises(InputError, match=r"20 images.*one batch of 64.*--data.batch_size 20"):
        tiny(batch_size=64).train_dataloader()
    with pytest.raises(InputError, match=r"20 images.*batch of 16.*2 devices.*--data.batch_size 10"):
        on_rank(tiny(batch_size=16), 0, 2).train_dataloader()


@pytest.mark.parametrize("known", [True, False])
def test_label_outside_the_classes(known):
    class Wrong(Numbered):
        keys = tuple(f"{index}.png" for index in range(20))

        def __getitem__(self, index):
            return super().__getitem__(index)[0], 3

    data = tiny()
    data.train_set = Wrong(20)
    if known:
        data.train_set.labels = [0] * 17 + [3] * 3
    name = "17.png" if known else "0.png"
    with pytest.raises(InputError, match=f"training image {name} has label 3, outside the 3 classes 0 to 2"):
        data.train_dataloader()


@pytest.mark.parametrize("label", [1.0, np.zeros(2), np.zeros((1, 3)), np.array([0, 1, 0]), "cat", None, [[1], 2]])
def test_labels_of_another_shape(label):
    class Odd(Numbered):
        def __getitem__(self, index):
            return super().__getitem__(index)[0], label

    data = tiny()
    data.val_set = Odd(5)
    with pytest.raises(InputError, match="expected an int or 3 floats"):
        data.val_dataloader()


def test_transform_that_misses_the_image_size():
    class Whole(Tiny):
        def train_transform(self):
            return v2.Identity()

    with pytest.raises(InputError, match=r"\(3, 8, 8\).*image_size asks for \(16, 16\)"):
        tiny(Whole, image_size=16).train_dataloader()


def test_missing_and_empty_sets():
    data = tiny()
    data.train_set, data.test_set = None, Numbered(0)
    for loader, name in ((data.train_dataloader, "training"), (data.test_dataloader, "test")):
        with pytest.raises(InputError, match=f"Tiny has no {name} images"):
            loader()


def test_no_validation_set_is_said_and_not_an_error(capsys, caplog):
    data = tiny()
    data.val_set = None
    with caplog.at_level("INFO"):
        assert data.val_dataloader() == []
    assert "Tiny has no validation set: validation is skipped" in caplog.text
    on_rank(data, 0, 1).trainer.state.fn = "validate"
    with pytest.raises(InputError, match="no validation images"):
        data.val_dataloader()


@pytest.mark.parametrize("wrong", [{"image_size": 0}, {"image_size": (8, -1)}, {"batch_size": 0}, {"num_workers": -1}])
def test_sizes_below_their_least(wrong):
    with pytest.raises(InputError, match=f"--data.{next(iter(wrong))} is -?[01], expected [01] or more"):
        tiny(**wrong)


def test_images_larger_than_any():
    with pytest.raises(InputError, match=r"--data.image_size is 4294967296, expected at most 1000000"):
        tiny(image_size=(8, 2**32))


def test_a_subclass_must_say_what_it_has():
    class Forgot(ImageDataModule):
        def setup(self, stage):
            pass

    with pytest.raises(TypeError, match="num_classes"):
        Forgot()


def test_constructor_is_the_command_line():
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(ImageDataModule, "data")
    arguments = ["--data", f"{__name__}.WithFlags", "--data.image_size", "[16, 32]", "--data.augment.flip", "false"]
    data = parser.instantiate(
        parser.parse_args([*arguments, "--data.depth=2", "--data.batch_size=3", "--data.num_workers=0"])
    ).data
    assert (data.depth, data.batch_size, data.image_size) == (2, 3, (16, 32))
    assert data.augment == Augment(flip=False)
    data.setup("fit")
    assert next(iter(data.val_dataloader()))[0].shape == (3, 3, 16, 32)


class Recorder(LightningModule):
    """Notes the batches that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.batches = {"train": [], "val": [], "predict": []}

    def training_step(self, batch, index):
        self.batches["train"].append(batch)
        return self.weight.sum()

    def validation_step(self, batch, index):
        self.batches["val"].append(batch)

    def predict_step(self, batch, index):
        self.batches["predict"].append(batch)

    def smooth(self, targets):
        return targets

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


@pytest.fixture
def run(tmp_path):
    """Run one verb of a silent trainer and return the batches seen."""
    before = dict(os.environ)
    seed_everything(0, verbose=False)

    def run(data: ImageDataModule, verb: str = "fit", **options) -> dict[str, list]:
        model = Recorder()
        silent = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        trainer = Trainer(default_root_dir=tmp_path, accelerator="cpu", max_epochs=2, **silent | options)
        getattr(trainer, verb)(model, datamodule=data)
        return model.batches

    yield run
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.filterwarnings("ignore")
def test_fit_sees_every_record_in_each_epoch(run):
    seen = run(tiny())
    epochs = [indices(seen["train"][:5]), indices(seen["train"][5:])]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(20))
    assert epochs[0] != epochs[1]
    assert indices(seen["val"][-2:]) == list(range(5))


@pytest.mark.filterwarnings("ignore")
def test_predict_sees_every_record_in_order(run):
    assert indices(run(tiny(), "predict")["predict"]) == list(range(7))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_fault_inside_a_worker_is_one_sentence(run, num_workers):
    class Faulty(Numbered):
        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return image, 9 if index == 4 else label

    data = tiny(num_workers=num_workers)
    data.setup = lambda stage: setattr(data, "test_set", Faulty(7))
    with pytest.raises(InputError) as caught:
        run(data, "predict")
    gc.collect()  # the error's traceback keeps the iterator, which no later worker may inherit
    assert str(caught.value) == "test image 4 has label 9, outside the 3 classes 0 to 2"


@pytest.mark.filterwarnings("ignore")
def test_overfitting_and_no_validation_set(run):
    data = tiny()
    data.setup = lambda stage: setattr(data, "val_set", None)
    assert len(run(data, overfit_batches=2)["train"]) == 4


@pytest.mark.filterwarnings("ignore")
def test_mixing_happens_in_training_only_and_is_repeatable(run):
    mixed = tiny(augment=Augment(crop="none", mixup_alpha=1.0))
    seen = run(mixed)
    images, labels = seen["train"][0]
    assert images.dtype == torch.float32
    assert images.max() <= 1
    assert labels.shape == (4, 3)
    assert torch.allclose(labels.sum(1), torch.ones(4))
    assert seen["val"][0][0].dtype == torch.uint8
    strengths = {round(float(batch_labels.max()), 4) for _, batch_labels in seen["train"]}
    assert len(strengths) > 2
    torch.manual_seed(123)
    again = run(tiny(augment=mixed.augment))
    assert all(torch.equal(a[0], b[0]) for a, b in zip(seen["train"], again["train"], strict=True))


@pytest.mark.filterwarnings("ignore")
def test_the_end_of_a_run_may_be_left_unmixed(run):
    seen = run(tiny(augment=Augment(crop="none", mixup_alpha=1.0, unmixed=0.4)))["train"]
    pure = [bool((labels.max(1).values == 1).all()) for _, labels in seen]
    assert len(pure) == 10 and not any(pure[:6]) and all(pure[6:])
    assert all(images.dtype == torch.float32 and labels.shape == (4, 3) for images, labels in seen)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("unmixed", [0, 1])
def test_mixed_labels_are_smoothed_once_and_finished_targets_never(run, monkeypatch, unmixed):
    monkeypatch.setattr(Recorder, "smooth", lambda model, targets: targets * 0.9 + 0.1 / 3)
    augment = Augment(crop="none", cutmix_alpha=1.0, unmixed=unmixed)
    labels = torch.cat([batch for _, batch in run(tiny(augment=augment))["train"]])
    assert torch.allclose(labels.sum(1), torch.ones(len(labels)))
    assert labels.min().item() == pytest.approx(0.1 / 3)
    assert labels.max().item() == pytest.approx(0.9 + 0.1 / 3)
    data = tiny(augment=augment)
    finished = torch.eye(3)[torch.zeros(4, dtype=torch.int64)]
    data.trainer = Trainer(logger=False, accelerator="cpu")
    data.trainer.strategy.connect(Recorder())
    assert torch.equal(data._targets(finished), finished)


# Flags at their limits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ({"image_size": 1}, {"image_size": 0}, "--data.image_size is 0, expected 1 or more"),
        ({"image_size": (1, 9)}, {"image_size": (9, 0)}, "--data.image_size is 0, expected 1 or more"),
        (
            {"image_size": 10**6},
            {"image_size": (8, 10**6 + 1)},
            "--data.image_size is 1000001, expected at most 1000000",
        ),
        ({"batch_size": 1}, {"batch_size": 0}, "--data.batch_size is 0, expected 1 or more"),
        ({"num_workers": 0}, {"num_workers": -1}, "--data.num_workers is -1, expected 0 or more"),
        ({"per_class": 1}, {"per_class": 0}, "--data.per_class is 0, expected 1 or more"),
        (
            {"std": (0.5, 1e-9, 0.5)},
            {"std": (0.5, 0.0, 0.5)},
            r"--data.std is \[0.5,0,0.5\], expected a value above 0",
        ),
        ({"channels": 1}, {"channels": 0}, "--data.channels is 0, expected 1 or more"),
        ({"window": (1.0, 2.0)}, {"window": (1.0, 1.0)}, r"--data.window is \[1,1\], expected \[low,high\] with low"),
        ({"window": (-5.0, 2.0)}, {"window": (2.0, -5.0)}, r"--data.window is \[2,-5\], expected"),
        ({"window": (0.0, 1e30)}, {"window": (0.0, math.inf)}, r"--data.window is \[0,inf\], expected"),
        ({"window": (-1e30, 0.0)}, {"window": (-math.inf, 0.0)}, r"--data.window is \[-inf,0\], expected"),
        ({"window": (0.0, 1.0)}, {"window": (0.0, math.nan)}, r"--data.window is \[0,nan\], expected"),
        (
            {"channels": 2, "mean": (0.5, 0.5), "std": (0.5, 0.5)},
            {"channels": 2, "mean": (0.5,) * 3},
            r"--data.mean is .*, expected one value for each of the 2 channels",
        ),
        (
            {"channels": 1, "mean": (0.5,), "std": (0.5,)},
            {"channels": 1, "mean": (0.5,), "std": (0.5, 0.5)},
            r"--data.std is .* each of the 1 chan",
        ),
        ({"max_broken": 0.0}, {"max_broken": -0.1}, "--data.max_broken is -0.1, expected a share from 0 to 1"),
        ({"max_broken": 1.0}, {"max_broken": 1.1}, "--data.max_broken is 1.1, expected a share from 0 to 1"),
        (
            {"fraction": 1.0, "per_class": 2},
            {"fraction": 0.5, "per_class": 2},
            "0.5 and --data.per_class 2 cannot both",
        ),
        ({"fraction": 1e-3}, {"fraction": 0.0}, "--data.fraction is 0.0, expected a share above 0 and at most 1"),
        ({"fraction": 1.0}, {"fraction": 1.01}, "--data.fraction is 1.01, expected a share above 0 and at most 1"),
    ],
)
def test_each_flag_has_its_limit(right, wrong, said):
    Synthetic(**right)
    with pytest.raises(InputError, match=said):
        Synthetic(**wrong)


def test_sides_are_height_and_width():
    assert Synthetic(image_size=(8, 16)).size == (8, 16) and Synthetic(image_size=8).size == (8, 8)


@pytest.mark.parametrize(
    ("cores", "devices", "workers"), [(64, 1, 16), (64, 8, 8), (7, 2, 3), (1, 4, 1), (17, 1, 16), (15, 1, 15)]
)
def test_each_device_has_its_share_of_the_cores(monkeypatch, cores, devices, workers):
    monkeypatch.setattr(module, "cores", lambda: cores)
    data = Synthetic(num_workers=None)
    data.trainer = SimpleNamespace(num_devices=devices)
    assert data.workers == workers and data.cores_per_device == max(1, cores // devices)
    data.num_workers = 5
    assert data.workers == 5


@pytest.mark.parametrize(
    ("unmixed", "step", "over"),
    [(0.0, 100, False), (0.25, 74, False), (0.25, 75, True), (0.25, 99, True), (1.0, 0, True)],
)
def test_the_end_that_is_left_unmixed_is_a_share_of_the_run(unmixed, step, over):
    data = Synthetic(augment=Augment(crop="none", mixup_alpha=0.2, unmixed=unmixed))
    trainer = SimpleNamespace(global_step=step, estimated_stepping_batches=100)
    assert data._mixing_is_over(trainer) == over


def test_a_fault_of_one_file_ends_the_run_unless_all_are_wanted():
    data = Synthetic()
    with pytest.raises(InputError, match="one"):
        data.report(InputError("one"))
    data.faults = []
    data.report(InputError("one"))
    data.report(InputError("two"))
    assert [str(fault) for fault in data.faults] == ["one", "two"]
    for text in ("a", "b", "a"):
        data.notice(text)
    assert data.notices == ["a", "b"]


@pytest.mark.parametrize(
    ("facts", "count", "said"),
    [
        (
            {},
            3,
            "the training set has 3 images, too few for one batch of 4 on each of 2 devices; give --data.batch_size 1",
        ),
        (
            {"per_class": 1},
            30,
            "with --data.per_class 1 the training set has 3 images, .* give more --data.per_class, or",
        ),
        ({"fraction": 0.1}, 60, r"with --data.fraction 0.1 the training set has 6 .* --data.fraction 0.15 or more, or"),
    ],
)
def test_too_few_images_name_what_would_give_more(facts, count, said):
    """On two devices: 0.1 of 60 leaves three images for each, where four are wanted; a third more, and a tenth."""
    data = Synthetic(train_size=count, num_classes=3, batch_size=4, image_size=8, **facts)
    data.setup("fit")
    data.trainer = SimpleNamespace(
        distributed_sampler_kwargs={"num_replicas": 2, "rank": 0},
        num_devices=2,
        training=False,
        strategy=SimpleNamespace(root_device=torch.device("cpu")),
    )
    with pytest.raises(InputError, match=said):
        loaders.training_loader(data)


class Known:
    """A model that keeps what its training images were."""

    pixel_facts = 4, (0.0, 4095.0)


@pytest.mark.parametrize(
    ("stated", "form"),
    [
        ({}, PixelForm(4, (0.0, 4095.0), "the net takes 4")),
        ({"channels": 1}, PixelForm(1, (0.0, 4095.0))),
        ({"window": (5.0, 6.0)}, PixelForm(4, (5.0, 6.0), "the net takes 4")),
        ({"window": "auto"}, PixelForm(4, (0.0, 4095.0), "the net takes 4")),
    ],
)
def test_what_is_stated_of_pixels_comes_before_what_the_model_keeps(stated, form):
    data = tiny(**stated)
    data.trainer = SimpleNamespace(lightning_module=Known())
    assert data.pixel_form == form
    data.trainer = None
    if stated.get("window") != "auto":
        assert data.pixel_form == PixelForm(stated.get("channels"), stated.get("window"))


def test_the_test_set_is_predicted_else_the_validation_set():
    data = tiny(batch_size=2)
    data.setup("fit")
    data.val_set, data.test_set = [(torch.zeros(3, 8, 8), 0)] * 5, None
    assert data.predict_set is data.val_set and len(data.predict_dataloader().dataset) == 5
    data.test_set = [(torch.zeros(3, 8, 8), 0)] * 7
    assert data.predict_set is data.test_set and len(data.predict_dataloader().dataset) == 7
    data.predict_from = 4
    assert [draw.index for draw in data.predict_dataloader().sampler] == [4, 5, 6]


def test_a_data_module_counts_its_classes_where_it_has_some():
    data = tiny()
    data.train_set = [(torch.zeros(3, 8, 8), label) for label in (0, 2, 2)]
    assert data.class_counts.per_class.tolist() == [1, 0, 2] and data.class_counts.images == 3
    data.fraction = 0.34
    assert data.class_counts.images == 1
    data.train_set = None
    assert data.class_counts is data.train_subset is None
