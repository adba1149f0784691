"""What the settings of a run change in what is noted of a record, and what stands where nothing is said."""

import io

import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer
from PIL import Image

from vit_lightning.commands.doctor import duplicates
from vit_lightning.commands.doctor.findings import scaled, slurm
from vit_lightning.commands.doctor.likeness import Prints, Twins
from vit_lightning.commands.doctor.machine import Machine
from vit_lightning.commands.doctor.survey import RecordFacts, Survey, examine, survey
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.data.sampling import IGNORE


def deep(value: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.full((40, 40), value, np.uint16)).save(buffer, "PNG")
    return buffer.getvalue()


def test_the_peak_of_deep_images_counts_where_no_window_maps_them():
    source = [(deep(1000), 0), (Image.new("RGB", (40, 40)), 0)]
    assert [examine(source, number, "x").peak for number in range(2)] == [1000, 0]
    assert examine(source, 0, "x", form=PixelForm(window=(0.0, 2000.0))).peak == 0
    assert survey(source, "training", 1).peaks == {0: 1000}


def test_floats_within_one_are_noted_where_a_window_maps_raw_counts():
    films = [torch.rand(1, 40, 40), torch.rand(1, 40, 40) * 4095, torch.zeros(1, 40, 40), Image.new("L", (40, 40))]
    source = [(film, 0) for film in films]
    wide = survey(source, "training", 1, form=PixelForm(1, (0.0, 4095.0)))
    assert list(wide.scaled) == [0] and "raw counts" in wide.scaled[0] and not wide.faults
    assert not survey(source, "training", 1, form=PixelForm(1, (0.0, 1.0))).scaled
    (finding,) = scaled(wide)
    assert finding.severity == "warning" and finding.items == ("0",)
    (finding,) = scaled(survey(source[:1], "training", 1, form=PixelForm(1, (0.0, 4095.0))))
    assert finding.severity == "error" and "raw counts" in finding.fix


@pytest.mark.parametrize("needs", [True, False, None])
def test_a_vector_must_name_a_class_where_that_is_asked(needs):
    pixels = torch.zeros(3, 40, 40, dtype=torch.uint8)
    source = [(pixels, torch.zeros(3)), (pixels, torch.tensor([0.0, 1, 0])), (pixels, torch.full((3,), float(IGNORE)))]
    words = {} if needs is None else {"needs_class": needs}
    found = [examine(source, number, "x", 3, **words).mislabelled for number in range(3)]
    assert [bool(each) for each in found] == [bool(needs), False, False]
    assert list(survey(source[:2], "training", 3, **words).mislabelled) == [0] * bool(needs)


@pytest.mark.parametrize(("split", "refused"), [("training", True), ("validation", False), ("test", False)])
def test_labels_may_be_hidden_but_in_training(split, refused):
    pixels = torch.zeros(3, 40, 40, dtype=torch.uint8)
    found = survey([(pixels, IGNORE), (pixels, 2)], split, 3)
    assert list(found.mislabelled) == [0] * refused and found.counts.tolist() == [0, 0, 1]


def test_what_is_noted_by_default():
    facts = RecordFacts("")
    assert (facts.damage, facts.classes, facts.mislabelled, facts.peak, facts.print) == ("", (), "", 0, None)
    here = Machine(cores=3)
    assert (here.accelerator, here.precision, here.devices, here.nodes, here.accumulation) == (
        "cpu",
        "32-true",
        1,
        1,
        1,
    )
    assert here.gpus == () and here.bf16 is False and here.slurm == {}


@pytest.mark.parametrize(("workers", "topics"), [(1, ["note"]), (2, ["warning"])])
def test_a_task_has_one_core_where_slurm_says_nothing(workers, topics):
    found = slurm(Machine(cores=64, slurm={"SLURM_NTASKS": "1"}), workers)
    assert [finding.severity for finding in found] == topics


# Likenesses ----------------------------------------------------------------------------------------------------------


def seen(split: str, classes: list[int]) -> Survey:
    size = len(classes)
    found = Survey(
        split,
        [f"{split[0]}{n}" for n in range(size)],
        np.array(classes),
        np.zeros(3),
        np.ones((size, 2)),
        np.arange(size),
    )
    found.class_sets = {number: (number,) for number in classes}
    found.prints = Prints(size)
    return found


def test_likenesses_of_three_sets_are_told_by_the_sets_that_have_them(monkeypatch):
    """Records 0 to 2 are of training, 3 and 4 of validation, 5 to 7 of test."""
    sets = [seen("training", [0, 1, 0]), seen("validation", [0, 1]), seen("test", [1, 1, 0])]
    by_set = np.full((3, 8), -1)
    by_set[0, [2, 4, 5, 7]] = [0, 1, 1, 2]
    by_set[1, [4, 7]] = [3, 3]
    by_set[2, 6] = 5
    contrary = np.full(8, -1)
    contrary[[4, 7]] = [3, 1]
    monkeypatch.setattr(duplicates, "twins", lambda *words: Twins(by_set, contrary))
    found = duplicates.likenesses(sets, ["cat", "dog", "owl"])
    assert [(each.severity, each.topic, each.items) for each in found] == [
        ("note", "near duplicates", ("t2 (cat) ~ t0 (cat)",)),
        ("warning", "near leak", ("v1 (dog) ~ t1 (dog)",)),
        ("note", "near duplicates", ("v1 (dog) ~ v0 (cat)",)),
        ("warning", "near leak", ("t0 (dog) ~ t1 (dog)", "t2 (cat) ~ t2 (cat)")),
        ("warning", "near leak", ("t2 (cat) ~ v0 (cat)",)),
        ("note", "near duplicates", ("t1 (dog) ~ t0 (dog)",)),
        (
            "warning",
            "near contradictions",
            ("validation v1 (dog) ~ validation v0 (cat)", "test t2 (cat) ~ training t1 (dog)"),
        ),
    ]
    assert found[1].text == "1 validation image nearly equal to a training image"
    assert (
        found[3].text == "2 test images nearly equal to a training image" and "test figures that count" in found[3].fix
    )
    assert found[-1].text == "2 images nearly equal to one with another label"


def test_equal_images_of_sets_in_which_some_cannot_be_read():
    train, val = seen("training", [0, 1, 0, 2]), seen("validation", [0, 1, 1])
    train.digests, val.digests = np.array([5, 7, 5, 0]), np.array([9, 7, 0])
    train.faults, val.faults = {3: "empty"}, {2: "empty"}
    found = duplicates.duplicates([train, val])
    assert [(each.topic, each.text, each.items) for each in found] == [
        ("duplicates", "1 training image equal to an earlier one", ("t2 = t0",)),
        ("leak", "1 validation image equal to a training image", ("v1 = t1",)),
    ]
    assert duplicates.contradictions([train, val]) == []
    val.classes[1] = 2
    (finding,) = duplicates.contradictions([train, val])
    assert finding.items == ("training t1 = validation v1",)
    assert finding.text == "equal images with different labels: 1 pair"


def test_the_machine_of_a_plain_trainer():
    from vit_lightning.commands.doctor.machine import machine

    plain = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    assert machine(Trainer(accelerator="cpu", **plain)).precision == "32-true"
