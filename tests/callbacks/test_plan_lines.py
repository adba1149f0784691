"""What the plan counts, from facts made by hand."""

from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch

from vit_lightning.callbacks.plan import plan_lines, shared_cores
from vit_lightning.classifier import Classifier
from vit_lightning.compute.cost import macs
from vit_lightning.contracts import ImageData
from vit_lightning.data import ImageDataModule
from vit_lightning.errors import listing
from vit_lightning.models import NetConfig


def planned(data: object = None, **facts: object) -> SimpleNamespace:
    """A trainer of 3 devices, 4 batches of 5 images an epoch each, two of which accumulate."""
    loader = SimpleNamespace(batch_size=5, dataset=range(67))
    usual = {"train_dataloader": loader, "world_size": 3, "accumulate_grad_batches": 2, "num_training_batches": 4}
    usual |= {"max_epochs": 7, "estimated_stepping_batches": 14, "datamodule": data, "optimizers": [], "precision": "x"}
    usual |= {"strategy": SimpleNamespace(root_device=torch.device("cpu")), "logger": None, "log_dir": "theirs"}
    usual |= {"ckpt_path": None}
    return SimpleNamespace(fit_loop=SimpleNamespace(setup_data=lambda: None), **usual | facts)


def model(**facts: object) -> Classifier:
    made = Classifier({"variant": "mu/8", "depth": 3}, num_classes=3, image_size=(16, 24), **facts)
    made.configure_model()
    return made


def test_every_line_adds_up():
    net = model(schedule={"warmup_steps": 2, "decay": "linear"})
    cost = 2 * macs(NetConfig("mu/8", depth=3), (16, 24), 3) / 1e9
    parameters = sum(parameter.numel() for parameter in net.parameters())
    first, *lines = plan_lines(planned(), net, Path("ours"))
    assert first == f"net      mu/8 with depth 3, {parameters:,} parameters, {cost:.3g} GFLOPs per image forward"
    assert lines == [
        "batch    5 per device x 3 devices x 2 = 30",
        "data     67 training images, 7 dropped per epoch",
        "steps    7 epochs of 4 batches, 14 optimiser steps, warm-up 2, then linear",
        "pixels   mean 0.5, 0.5, 0.5, std 0.5, 0.5, 0.5, from the default",
        "device   cpu, precision x",
        "loss     softmax cross-entropy, label smoothing 0",
        "run      ours",
    ]


@pytest.mark.parametrize(
    ("threads", "load", "said"),
    [
        (1, 9.0, "threads  1 on 4 cores"),
        (4, 1.0, "threads  4 on 4 cores"),
        (2, 3.5, "threads  2 on 4 cores; the load is 4, and threads that wait for a core slow every step: set OMP_NUM"),
    ],
)
def test_threads_that_others_leave_no_cores_are_told(monkeypatch, threads, load, said):
    monkeypatch.setattr("vit_lightning.callbacks.plan.cores", lambda: 4)
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0, 0))
    (line,) = shared_cores(planned())
    assert line.startswith(said) and ("OMP_NUM_THREADS" in line) == ("OMP" in said)
    assert shared_cores(planned(strategy=SimpleNamespace(root_device=torch.device("cuda")))) == []


@pytest.mark.parametrize("tuned", [{"freeze_trunk": True}, {"bias_only": True}, {"lora": {"rank": 2}}])
def test_a_net_that_is_frozen_at_random_is_warned_of(tuned):
    said = "warning  most of the net is frozen as it begins, at random; give --model.weights"
    net = model(**tuned)
    assert said in plan_lines(planned(), net)
    assert said not in plan_lines(planned(ckpt_path="last.ckpt"), net) + plan_lines(planned(), model())
    net.weights = "hf://timm/vit_small_patch16_224.augreg_in21k"
    assert said not in plan_lines(planned(), net)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"max_epochs": -1}, "steps    epochs of 4 batches, 14 optimiser steps"),
        ({"max_epochs": None}, "steps    epochs of 4 batches, 14 optimiser steps"),
        ({"estimated_stepping_batches": 3}, "steps    2 epochs of 4 batches, 3 optimiser steps"),
        ({"accumulate_grad_batches": 5}, "warning  accumulation 5 exceeds the 4 batches of an epoch: one step each"),
        ({"num_training_batches": 5}, "data     67 training images, 0 dropped per epoch"),
        ({"logger": object()}, "run      theirs"),
    ],
)
def test_lines_follow_their_facts(facts, said):
    assert any(line.startswith(said) for line in plan_lines(planned(**facts), model()))


def test_a_part_of_the_set_is_told_from_the_whole():
    class Data(SimpleNamespace):
        class_names = ("a", "b", "c")
        further_sets: ClassVar[dict] = {}
        batch_size = 5
        num_classes = 3

    for whole, said in ((range(80), "67 of 80"), (range(67), "67"), (None, "67")):
        data = Data(train_set=whole)
        if not isinstance(data, ImageData):
            pytest.fail("the stand-in lacks something that ImageData offers")
        assert plan_lines(planned(data), model())[2] == f"data     {said} training images, 7 dropped per epoch"


def test_without_accumulation_over_the_epoch_and_a_folder_nothing_is_said_of_them():
    words = [line.split()[0] for line in plan_lines(planned(accumulate_grad_batches=4), model())]
    assert words == ["net", "batch", "data", "steps", "pixels", "device", "loss"]


@pytest.mark.parametrize(
    ("classes", "labels", "loss", "name"),
    [
        (2, [1, 1, 1], "softmax", "bee"),
        (1, None, "softmax", "ant"),  # whatever the labels are
        (2, [0, 1, 1], "softmax", None),
        (2, None, "softmax", None),  # they would have to be read
        (2, [1, 1, 1], "sigmoid", None),
    ],
)
def test_training_images_of_one_class_are_warned_of(classes, labels, loss, name):
    class Insects(ImageDataModule):
        num_classes = classes
        class_names = ("ant", "bee")[:classes]

        def setup(self, stage: str) -> None:
            pass

    data = Insects(image_size=16)
    data.train_set = Labelled([(torch.zeros(3, 16, 16, dtype=torch.uint8), 0)] * 3)
    data.train_set.labels = labels
    said = [line for line in plan_lines(planned(data), model(loss=loss)) if "of one class" in line]
    expected = f"warning  all training images are of one class, {name}, and a net that knows no other answers nothing "
    assert [line.startswith(expected) for line in said] == ([True] if name else [])


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        (
            3,
            1,
            ["3 channels, and --data.channels asks for 1: their luminance is taken"],
        ),
        (1, 3, ["1 channel, and --data.channels asks for 3: their grey is repeated"]),
        (3, 3, []),
        (3, None, []),
    ],
)
@pytest.mark.parametrize("kind", [torch.zeros, lambda c, y, x: np.zeros((y, x, c))])
def test_colours_that_are_taken_for_grey_are_told_and_the_reverse(kind, found, wanted, said):
    class Films(ImageDataModule):
        num_classes = 2

        def setup(self, stage: str) -> None: ...

    data = Films(image_size=16, channels=wanted)
    data.train_set = [(kind(found, 16, 16), 0)] * 3
    lines = [line for line in plan_lines(planned(data), model()) if "training images have" in line]
    kept = f"give --data.channels {found} to keep them as they are"
    assert lines == [f"warning  the training images have {line}; {kept}" for line in said]


class Labelled(list):
    """A set whose labels may be known at once."""


def test_a_name_with_a_line_break_stays_in_its_line():
    lines = plan_lines(planned(), model(), Path("a\nb\x1b[2J"))
    assert lines[-1] == r"run      a\nb\x1b[2J"
    assert listing(["two\nlines", "\u2028", "\N{ZERO WIDTH JOINER}"]) == "two\\nlines, \\u2028, \N{ZERO WIDTH JOINER}"
