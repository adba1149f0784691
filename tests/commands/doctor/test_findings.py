"""Each finding by itself, from facts made by hand."""

import numpy as np
import pytest

from vit_lightning.commands.doctor import duplicates, findings
from vit_lightning.commands.doctor.findings import Finding
from vit_lightning.commands.doctor.machine import Machine
from vit_lightning.commands.doctor.survey import Survey
from vit_lightning.data.pixel_form import NO_WHITE

NAMES = ("cat", "dog", "bird")


def survey(classes=(0, 1, 2), split="training", digests=None, sides=(100, 100), **facts) -> Survey:
    """A set of one image per class number given, all different and readable unless said otherwise."""
    size = len(classes)
    first = {"training": 0, "validation": 1000, "test": 2000}[split]
    return Survey(
        split,
        [f"{split[:2]}{index}" for index in range(size)],
        np.array(classes),
        np.bincount(classes, minlength=3),
        np.full((size, 2), sides),
        np.array(range(first, first + size) if digests is None else digests, dtype=np.uint64),
        **facts,
    )


def only(found: list[Finding]) -> Finding:
    (finding,) = found
    return finding


def test_a_sound_set_has_no_findings():
    one, other = survey(), survey(split="validation")
    assert findings.unreadable(one, "raise", 0.01) == []
    assert findings.unusual(one) == []
    assert findings.wrong_labels(one) == []
    assert findings.sizes(one, (100, 100)) == []
    assert duplicates.duplicates([one, other]) == []
    assert duplicates.contradictions([one, other]) == []
    assert findings.absent_classes([one, other], NAMES) == []
    assert findings.imbalance(one, NAMES) == []
    assert findings.hidden([]) == []


@pytest.mark.parametrize(
    ("on_error", "max_broken", "severity"),
    [("raise", 0.5, "error"), ("skip", 0.5, "warning"), ("skip", 0.1, "error"), ("fix", 0.5, "error")],
)
def test_unreadable_images_are_judged_by_the_policy(on_error, max_broken, severity):
    finding = only(findings.unreadable(survey(faults={1: "empty"}), on_error, max_broken))
    assert (finding.severity, finding.text) == (severity, "1 training image of 3 cannot be read")
    assert finding.items == ("tr1: empty",)
    assert ("--data.on_error skip" in finding.fix) == (on_error != "skip")
    assert ("--data.max_broken 0.34" in finding.fix) == (max_broken < 0.34)


def test_data_may_know_a_better_remedy():
    finding = only(findings.unreadable(survey(faults={1: "empty"}), "skip", 1, "fetch them again"))
    assert finding.fix == "fetch them again"


def test_damaged_images_are_broken_unless_fixed():
    damaged = survey(faults={2: "empty"}, damages={0: "premature end"})
    assert only(findings.unreadable(damaged, "raise", 0)).items == ("tr0: premature end", "tr2: empty")
    broken, shown = findings.unreadable(damaged, "fix", 0)
    assert broken.fix.endswith(
        "fix shows JPEGs that are damaged inside, and no file that is cut short or of an unknown format"
    )
    assert (broken.severity, broken.items) == ("error", ("tr2: empty",))
    assert (shown.severity, shown.items) == ("note", ("tr0: premature end",))


def test_odd_images_are_grouped_by_kind():
    found = findings.unusual(survey(oddities={"CMYK": [0, 2], "16 bits": [1]}))
    assert [(finding.severity, finding.text) for finding in found] == [
        ("note", "1 training image: 16 bits"),
        ("note", "2 training images: CMYK"),
    ]
    assert found[1].items == ("tr0", "tr2")


@pytest.mark.parametrize(("peak", "bits"), [(4095, 12), (2048, 12), (1000, 10), (16383, 14)])
def test_values_of_fewer_bits_than_their_file_has(peak, bits):
    finding = only(findings.depth(survey(peaks={0: 7, 2: peak})))
    assert (finding.severity, finding.fix) == ("warning", f"give --data.window '[0,{2**bits - 1}]', or auto")
    assert f"{bits}-bit values (up to {peak:,}) in 16 bits" in finding.text
    assert f"1/{2 ** (16 - bits)} of their brightness" in finding.text


def test_sixteen_bits_that_are_used_and_eight_bits_are_no_finding():
    for peaks in ({}, {0: 65535, 1: 100}, {0: 20000}, {0: 255}):
        assert findings.depth(survey(peaks=peaks)) == []


def test_floats_without_a_window_are_not_to_be_removed():
    finding = only(findings.unreadable(survey(faults={1: NO_WHITE}), "raise", 0.01))
    assert finding.fix.startswith("give --data.window auto, or [low,high]") and "mend" not in finding.fix
    finding = only(findings.unreadable(survey(faults={1: NO_WHITE, 2: "empty"}), "raise", 1))
    assert finding.fix.startswith("give --data.window auto, or [low,high]; mend or remove them, of the others")


def test_labels_outside():
    finding = only(findings.wrong_labels(survey(outside={2: 3, 0: -1})))
    assert (finding.severity, finding.items) == ("error", ("tr0: -1", "tr2: 3"))
    assert "2 training images with a label outside the classes 0 to 2" in finding.text


def test_tiny_and_huge_images():
    found = survey()
    found.sides = np.array([[25, 400], [24, 400], [801, 800]])
    tiny, huge = findings.sizes(found, (100, 100))
    assert (tiny.severity, tiny.items) == ("warning", ("tr1",))
    assert (huge.severity, huge.items) == ("note", ("tr2",))
    found.sides = np.array([[100, 100], [0, 0], [60_000, 60_000]])  # more pixels than 32 bits count
    found.faults = {1: "empty"}
    assert only(findings.sizes(found, (100, 100))).items == ("tr2",)


def test_duplicates_within_and_across_splits():
    train = survey((0, 0, 1, 1), digests=[7, 8, 7, 7])
    val, test = survey((0, 1), "validation", digests=[8, 9]), survey((0,), "test", digests=[9])
    found = {finding.text: finding for finding in duplicates.duplicates([train, val, test])}
    assert {text: finding.items for text, finding in found.items()} == {
        "2 training images equal to an earlier one": ("tr2 = tr0", "tr3 = tr0"),
        "1 validation image equal to a training image": ("va0 = tr1",),
        "1 test image equal to a validation image": ("te0 = va1",),
    }
    assert [finding.severity for finding in found.values()] == ["note", "warning", "warning"]


def test_unreadable_images_are_no_duplicates():
    broken = survey((0, 0, 1), digests=[0, 0, 5], faults={0: "empty", 1: "empty"})
    assert duplicates.duplicates([broken, survey((0,), "test", digests=[0], faults={0: "empty"})]) == []
    assert duplicates.contradictions([broken]) == []
    assert duplicates.duplicates([survey((0,), faults={0: "x"}), survey((0,), "test", digests=[0])]) == []


def test_contradictions():
    train, val = survey((0, 1), digests=[5, 6]), survey((1, 1), "validation", digests=[5, 6])
    finding = only(duplicates.contradictions([train, val]))
    assert (finding.severity, finding.items) == ("warning", ("training tr0 = validation va0",))


def test_case_c8_classes_of_one_split_only():
    extra, missing = findings.absent_classes([survey((0, 1)), survey((0, 2), "validation")], NAMES)[1:]
    assert (extra.severity, extra.items) == ("error", ("bird",))
    assert "1 of 3 classes with validation images but without training images" in extra.text
    assert (missing.severity, missing.items) == ("note", ("dog",))
    empty = only(findings.absent_classes([survey((0, 1))], NAMES))
    assert (empty.severity, empty.items) == ("warning", ("bird",))
    assert findings.absent_classes([survey((0,), "test")], NAMES) == []


def test_imbalance():
    finding = only(findings.imbalance(survey((0,) * 20 + (1, 1)), NAMES))
    assert "cat, has 20 training images, the smallest, dog, 2" in finding.text
    assert findings.imbalance(survey((0,) * 19 + (1, 1)), NAMES) == []


def test_one_class_alone():
    finding = only(findings.one_class(survey((1, 1, 1)), NAMES))
    assert finding.severity == "warning" and finding.text == "all 3 training images are of one class, dog"
    assert findings.one_class(survey((1, 1, 0)), NAMES) == findings.one_class(survey(()), NAMES) == []
    unlabelled = survey((1, 1))
    unlabelled.counts[1] = 1
    assert findings.one_class(unlabelled, NAMES) == []


def test_hidden_folders():
    finding = only(findings.hidden(["b/.git", "a/.x"]))
    assert (finding.text, finding.items) == ("2 hidden folders ignored", ("a/.x", "b/.git"))


def test_effective_batch():
    machine = Machine(cores=8, devices=4, nodes=2, accumulation=3)
    finding = only(findings.batch(1000, 16, machine))
    assert (finding.severity, finding.topic) == ("note", "batch")
    assert "effective batch 384: 16 per device x 4 devices x 2 nodes x 3 accumulated; 7 batches" in finding.text
    finding = only(findings.batch(100, 16, machine))
    assert (finding.severity, finding.fix) == ("error", "give --data.batch_size 12 or less")


@pytest.mark.parametrize(("free", "severity"), [(None, None), (1000, None), (999, "warning"), (499, "error")])
def test_shared_memory(free, severity):
    found = findings.shared_memory(Machine(cores=2, shared_memory=free, devices=2), 5, 25, loaders=1)
    assert [finding.severity for finding in found] == [severity] * (severity is not None)
    if found:
        assert "10 workers" in found[0].text
        assert "--shm-size 1g or --ipc=host" in found[0].fix


def test_the_shared_memory_to_ask_for_is_enough():
    """Three workers with 2 batches of 1 GiB each: 6 GiB, twice of which is no more worth a word."""
    machine = Machine(cores=8, shared_memory=5 * 2**30, devices=1)
    finding = only(findings.shared_memory(machine, 3, 2**30, loaders=1))
    assert "keep 6.00 GiB of batches ready, and /dev/shm has 5.00 GiB free" in finding.text
    assert "--shm-size 12g" in finding.fix
    machine = Machine(cores=8, shared_memory=12 * 2**30, devices=1)
    assert findings.shared_memory(machine, 3, 2**30, loaders=1) == []


def test_more_workers_than_cores():
    assert findings.processors(Machine(cores=8, devices=2), 4) == []
    finding = only(findings.processors(Machine(cores=8, devices=2), 5))
    assert (finding.severity, finding.fix) == ("warning", "give --data.num_workers 4, or ask for more cores")


@pytest.mark.parametrize(
    ("facts", "severity", "said"),
    [
        ({}, "note", "runs on cpu with 8 cores"),
        ({"gpus": ("H100",)}, "warning", "--trainer.accelerator gpu"),
        ({"gpus": ("T4",), "accelerator": "cuda", "precision": "bf16-mixed"}, "error", "--trainer.precision 16-mixed"),
        ({"gpus": ("T4",), "accelerator": "cuda"}, "note", "1 x T4"),
        ({"gpus": ("H100",), "accelerator": "cuda", "bf16": True}, "note", "bf16-mixed is faster"),
        ({"gpus": ("H100",), "accelerator": "cuda", "bf16": True, "precision": "bf16-mixed"}, "note", "bf16-mixed"),
    ],
)
def test_devices_and_precision(facts, severity, said):
    finding = only(findings.devices(Machine(cores=8, **facts)))
    assert finding.severity == severity
    assert said in finding.text + finding.fix


@pytest.mark.parametrize(
    ("slurm", "severity", "said"),
    [
        ({"SLURM_NTASKS": "8", "SLURM_CPUS_PER_TASK": "9"}, "note", "8 tasks"),
        ({"SLURM_NTASKS": "1", "SLURM_CPUS_PER_TASK": "9"}, "error", "SLURM starts 1 task, "),
        ({"SLURM_NTASKS": "8", "SLURM_CPUS_PER_TASK": "2"}, "warning", "2 cores, and 8 workers"),
        ({"SLURM_NTASKS": "8"}, "warning", "1 cores"),
        ({"SLURM_JOB_NAME": "bash", "SLURM_NTASKS": "1"}, "note", "interactive"),
    ],
)
def test_slurm(slurm, severity, said):
    machine = Machine(cores=64, devices=4, nodes=2, gpus=("A100",) * 4, accelerator="cuda", slurm=slurm)
    finding = only(findings.slurm(machine, 8))
    assert finding.severity == severity
    assert said in finding.text
    if severity != "note":
        assert finding.fix == "#SBATCH --nodes=2 --ntasks-per-node=4 --cpus-per-task=9 --gpus-per-node=4"


def test_without_slurm():
    assert findings.slurm(Machine(cores=1), 8) == []


@pytest.mark.parametrize(
    ("on_error", "max_broken", "refused", "severity", "fix"),
    [
        ("raise", 0.34, False, "error", "mend or remove them, or give --data.on_error skip"),
        ("raise", 0.1, False, "error", "mend or remove them, or give --data.on_error skip --data.max_broken 0.25"),
        ("skip", 0.1, False, "error", "mend or remove them, or give --data.max_broken 0.25"),
        ("skip", 0.25, False, "warning", "mend or remove them"),  # its share is just allowed
        ("raise", 0.1, True, "error", "mend or remove them"),  # skipping would not help
    ],
)
def test_the_flags_to_give_are_those_that_are_missing(on_error, max_broken, refused, severity, fix):
    one_of_four = survey((0, 1, 2, 0), faults={3: "empty"})
    finding = only(findings.unreadable(one_of_four, on_error, max_broken, refused=refused))
    assert (finding.severity, finding.fix) == (severity, fix)


def test_each_side_is_held_against_its_own():
    """Of a model that sees 40 x 80: 10 x 20 is enlarged just four-fold, and 64 times its pixels are 204,800."""
    found = survey((0,) * 6)
    found.sides = np.array([[10, 20], [9, 20], [10, 19], [400, 512], [400, 513], [20, 10]])
    tiny, huge = findings.sizes(found, (40, 80))
    assert tiny.items == ("tr1", "tr2", "tr5") and tiny.text == "3 training images enlarged more than 4-fold to 40 x 80"
    assert huge.items == ("tr4",)


def test_pairs_are_named_rightly_behind_images_that_cannot_be_read():
    train = survey((0, 0, 1, 0, 2), digests=[0, 5, 6, 5, 7], faults={0: "empty"})
    val = survey((1, 2, 0), "validation", digests=[0, 9, 6], faults={0: "empty"})
    within, leak = duplicates.duplicates([train, val])
    assert (within.items, leak.items) == (("tr3 = tr1",), ("va2 = tr2",))
    assert leak.fix == "remove them from either split: validation figures that count them are too good"
    assert only(duplicates.contradictions([train, val])).items == ("training tr2 = validation va2",)
    assert only(duplicates.contradictions([val, train])).items == ("validation va2 = training tr2",)
    train = survey((0, 0, 1), digests=[0, 5, 6], faults={0: "empty"})
    first = survey((1, 2, 0), "validation", digests=[0, 6, 9], faults={0: "empty"})
    assert only(duplicates.contradictions([train, first])).items == ("training tr2 = validation va1",)


def test_one_batch_is_just_enough():
    machine = Machine(cores=8, devices=3, nodes=2, accumulation=5)
    finding = only(findings.batch(24, 4, machine))
    assert (finding.severity, finding.text.split("; ")[1]) == ("note", "1 batch per epoch")
    finding = only(findings.batch(23, 4, machine))
    assert finding.text == "23 training images are too few for one batch of 24"
    assert finding.fix == "give --data.batch_size 3 or less"
    assert only(findings.batch(1, 4, machine)).fix == "give --data.batch_size 1"


def test_every_loader_of_every_device_keeps_its_batches_ready():
    """5 devices, 2 loaders, 3 workers, 2 batches of 7 bytes each: 420 bytes, and as many again are to be free."""
    for free, severity in ((840, None), (839, "warning"), (420, "warning"), (419, "error")):
        found = findings.shared_memory(Machine(cores=99, shared_memory=free, devices=5), 3, 7, loaders=2)
        assert [finding.severity for finding in found] == [severity] * (severity is not None)
        assert all(finding.text.startswith("30 workers keep") for finding in found)


@pytest.mark.parametrize(
    ("slurm", "severities"),
    [
        ({"SLURM_JOB_ID": "1"}, ["error", "warning"]),  # what SLURM does not say is one task of one core
        ({"SLURM_NTASKS": "6", "SLURM_CPUS_PER_TASK": "4"}, ["note"]),
        ({"SLURM_NTASKS": "6", "SLURM_CPUS_PER_TASK": "3"}, ["warning"]),
        ({"SLURM_NTASKS": "3", "SLURM_CPUS_PER_TASK": "4"}, ["error"]),  # those of one node
        ({"SLURM_NTASKS": "6", "SLURM_CPUS_PER_TASK": "4", "SLURM_JOB_NAME": "interactive"}, ["note"]),
        ({"SLURM_NTASKS": "6", "SLURM_CPUS_PER_TASK": "4(x2)"}, ["warning"]),  # no number
    ],
)
def test_slurm_without_gpus(slurm, severities):
    found = findings.slurm(Machine(cores=64, devices=3, nodes=2, slurm=slurm), 4)
    assert [finding.severity for finding in found] == severities
    for finding in found if severities != ["note"] else []:
        assert finding.fix == "#SBATCH --nodes=2 --ntasks-per-node=3 --cpus-per-task=5"


def test_a_split_that_is_the_training_set_is_named():
    found = only(findings.trained_on(["validation"]))
    assert found.severity == "warning" and found.text.startswith("the validation set is the training set: its scores")
    assert findings.trained_on([]) == []


def test_a_device_without_bf16_is_not_told_to_use_it():
    finding = only(findings.devices(Machine(cores=8, gpus=("T4",), accelerator="cuda", precision="32-true")))
    assert finding.fix == ""


def test_slurm_without_numbers_starts_one_task_of_one_core():
    slurm = {"SLURM_JOB_NAME": "fit"}
    assert only(findings.slurm(Machine(cores=8, slurm=slurm), 1)).text == "1 task, as the trainer expects"
    tasks, cores = findings.slurm(Machine(cores=8, devices=2, slurm=slurm), 2)
    assert tasks.text == "SLURM starts 1 task, the trainer uses 1 node x 2 devices"
    assert cores.text == "SLURM gives a task 1 cores, and 2 workers share them"


def test_a_class_that_no_split_shows_lacks_training_images_alone():
    only(findings.absent_classes([survey((0, 1)), survey((0, 1), "validation")], NAMES))


@pytest.mark.parametrize(("scaled", "severity"), [((0, 1), "warning"), ((0, 1, 2), "error")])
def test_floats_within_one_are_an_error_in_more_than_half_of_a_set(scaled, severity):
    found = survey((0, 1, 2, 0), scaled=dict.fromkeys(scaled, "up to 0.9"))
    assert only(findings.scaled(found)).severity == severity
