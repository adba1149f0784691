"""Balanced draws in whole runs: of sets in memory and not, of parts, with broken images, resumed, on two processes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from datamodules.folder import ImageFolder
from tests.training.test_distributed import DDP, close, distance, experiment, logged, state
from vit_lightning.data import ImageDataModule
from vit_lightning.data.records import Records

CHANCE = np.random.default_rng(0)
COUNTS = {"a": 24, "b": 2, "c": 6}
FIT = ("fit", "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.log_every_n_steps", 1)
BALANCED = ("--data.sampler", "balanced", "--data.num_workers", 0)


@pytest.fixture
def root(tmp_path) -> Path:
    """32 training images, of which 24 show one class, and six for validation."""
    for split, counts in (("train", COUNTS), ("val", dict.fromkeys("abc", 2))):
        for name, count in counts.items():
            (tmp_path / "set" / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = CHANCE.integers(0, 256, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "set" / split / name / f"{number}.png")
    return tmp_path / "set"


@pytest.fixture
def data(root) -> tuple:
    return ("--data", "ImageFolder", "--data.root", root, "--data.image_size", 16, *BALANCED)


def loaded(root: Path, **settings) -> np.ndarray:
    """Class of each image of an epoch."""
    module = ImageFolder(root, image_size=16, batch_size=8, num_workers=0, sampler="balanced", **settings)
    module.setup("fit")
    return torch.cat([labels for _, labels in module.train_dataloader()]).numpy()


@pytest.mark.parametrize("in_memory", [True, False])
def test_classes_come_equally_often(root, in_memory):
    counts = np.bincount(loaded(root, in_memory=in_memory))
    assert sum(counts) == 32 and np.ptp(counts) <= 1


@pytest.mark.parametrize("in_memory", [True, False])
def test_classes_of_a_part_come_equally_often(root, in_memory):
    counts = np.bincount(loaded(root, in_memory=in_memory, fraction=0.75))
    assert sum(counts) == 24 and np.ptp(counts) <= 1


@pytest.mark.parametrize("in_memory", [True, False])
def test_an_image_of_the_same_class_takes_the_place_of_a_broken_one(root, in_memory):
    for name in ("a/23", "b/1", "c/5"):  # before the first of the next class
        (root / f"train/{name}.png").write_bytes(b"no image")
    counts = np.bincount(loaded(root, in_memory=in_memory, on_error="skip", max_broken=0.5))
    assert sum(counts) == 32 and np.ptp(counts) <= 1


def test_other_classes_stand_in_where_none_of_a_class_can_be_read(root):
    for file in root.glob("train/b/*"):
        file.write_bytes(b"no image")
    counts = np.bincount(loaded(root, on_error="skip", max_broken=0.5))
    assert sum(counts) == 32 and len(counts) == 3 and counts[1] == 0


def test_candidates_are_those_of_the_class_and_then_all():
    records = Records([(torch.zeros(3, 8, 8), label) for label in (0, 1, 0, 1, 0)], None, (8, 8), 2, "training")
    assert list(records.candidates(3)) == [3, 4, 0, 1, 2]
    records.draw_equally(np.array([0, 1, 0, 1, 0]))
    assert list(records.candidates(2))[:3] == [2, 4, 0]
    assert set(records.candidates(3)) == set(range(5))


def test_a_set_without_a_list_of_labels_is_read(caplog):
    class Own(ImageDataModule):
        num_classes = 2

        def setup(self, stage: str) -> None:
            self.train_set = [(torch.zeros(3, 8, 8, dtype=torch.uint8), int(number < 3)) for number in range(20)]

    module = Own(image_size=8, batch_size=4, num_workers=0, sampler="balanced", in_memory=False)
    module.setup("fit")
    labels = torch.cat([labels for _, labels in module.train_dataloader()])
    assert labels.bincount().tolist() == [10, 10]


def test_two_processes_do_the_mathematics_of_one(app, together, data):
    words = (*FIT, *data, "--trainer.max_epochs", 2)
    done = app(*words, "--data.batch_size", 8, *experiment("alone"))
    assert done.code == 0, done.err
    assert "32 training images, 0 dropped per epoch, drawn equally from all classes" in done.out
    together(*words, *DDP, "--data.batch_size", 4, *experiment("ddp"))
    assert close(logged("ddp/0", "train/loss"), logged("alone/0", "train/loss"))
    assert distance(state("ddp/0"), state("alone/0")) < 1e-4


def test_a_run_that_stops_inside_an_epoch_ends_with_the_same_weights(app, data):
    words = (*FIT, *data, "--data.batch_size", 8, "--model.schedule.decay", "constant")
    assert app(*words, "--trainer.max_steps", 7, *experiment("whole")).code == 0
    assert app(*words, "--trainer.max_steps", 3, *experiment("parts")).code == 0
    rest = (*experiment("parts"), "--ckpt_path", "last", "--trainer.max_steps", 7)
    done = app(*words, *rest, "--data.sampler", "shuffled")
    assert done.code == 1
    assert "goes on with the same sampler: balanced -> shuffled" in done.err
    assert app(*words, *rest).code == 0
    assert distance(state("parts/0"), state("whole/0")) == 0


def test_images_of_several_labels_are_refused(app, root):
    rows = [f"train/a/{number}.png,a|b" for number in range(20)]
    (root / "rows.csv").write_text("path,label\n" + "\n".join(rows) + "\n")
    words = ("--data", "Manifest", "--data.root", root, "--data.train", root / "rows.csv", "--data.multi_label", "true")
    words += ("--data.separator", "|", "--data.image_size", 16, "--data.batch_size", 4, "--model.loss", "sigmoid")
    done = app(*FIT, *words, *BALANCED)
    assert done.code == 1
    assert "--data.sampler balanced needs one class per image, and these may show several; give" in done.err


def test_two_answers_to_one_imbalance_are_refused(app, data):
    done = app(*FIT, *data, "--data.batch_size", 8, "--model.class_weights", "balanced")
    assert done.code == 1
    said = "--data.sampler balanced and --model.class_weights balanced correct the same imbalance twice; give one"
    assert said in done.err
