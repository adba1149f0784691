"""The report as people read it."""

import math

import pytest

from vit_lightning.errors import InputError
from vit_lightning.weights import Report


def test_table_groups_blocks_and_counts_the_rest():
    report = Report("w.npz", "Google's npz", loaded=["a", "b"])
    report.resampled = {"position.table": "14x14 -> 24x24 patches, bilinear"}
    report.missing = {"head.weight": "the head is reset", "head.bias": "the head is reset"}
    report.dropped = {f"opt/{i}/mu": "training state" for i in range(3)} | {f"x{i}": "training state" for i in range(4)}
    report.notes = ["the file holds no position table, and this note is longer than any name"]
    assert str(report).splitlines() == [
        "weights: w.npz (Google's npz)",
        "  loaded     2 tensors",
        "  resampled  position.table               14x14 -> 24x24 patches, bilinear",
        "  missing    head.weight, head.bias       the head is reset",
        "  dropped    opt/*/mu, x0, x1 and 2 more  training state",
        "  note       the file holds no position table, and this note is longer than any name",
    ]


def test_a_head_in_the_place_of_another_has_one_line():
    report = Report("w.npz", "Google's npz", loaded=["a"])
    report.missing = {"head.weight": "the head is reset", "head.bias": "the head is reset", "pool.query": "not there"}
    report.dropped = {"head.weight": "the head is reset", "head.bias": "the head is reset", "x": "training state"}
    assert str(report).splitlines()[2:] == [
        "  reset    head.weight, head.bias  the head is reset",
        "  missing  pool.query              not there",
        "  dropped  x                       training state",
    ]


def test_normalisation_that_nobody_knows_can_be_stated():
    report = Report("", "", std=(0.2, 0.2, 0.2))
    report.state_normalisation(None, (0.2, 0.2, 0.2), 3)
    assert report.mean is None
    assert "does not say the images' mean" in str(report)
    report.state_normalisation((0.1, 0.2, 0.3), None, 3)
    assert report.mean == (0.1, 0.2, 0.3)
    with pytest.raises(InputError, match=r"expect std=.*leave --std out"):
        report.state_normalisation(None, (0.5, 0.5, 0.5), 3)


@pytest.mark.parametrize("known", [None, (0.5, 0.5, 0.5)])
@pytest.mark.parametrize(
    ("mean", "std", "said"),
    [
        ((0.5,), None, r"--mean has 1 values for a net of 3 channels: give one per channel"),
        (None, (0.5,) * 4, r"--std has 4 values for a net of 3 channels: give one per channel"),
        (None, (0.5, 0.0, 0.5), r"--std is \[0\.5,0,0\.5\]: give finite numbers above 0"),
        (None, (0.5, 0.5, math.nan), r"--std is .*: give finite numbers above 0"),
        ((0.5, math.inf, 0.5), None, r"--mean is .*: give finite numbers\."),
    ],
)
def test_statistics_that_no_images_have_are_refused(known, mean, std, said):
    report = Report("", "", mean=known, std=known)
    with pytest.raises(InputError, match=said):
        report.state_normalisation(mean, std, 3)
    assert (report.mean, report.std) == (known, known)


def test_normalisation_is_the_weights_own_else_the_papers():
    assert Report("", "").normalisation(2) == ((0.5, 0.5), (0.5, 0.5))
    assert Report("", "", mean=(0.1,), std=(0.2,)).normalisation(1) == ((0.1,), (0.2,))


def test_statistics_are_those_of_the_weights_up_to_how_they_are_written():
    report = Report("x", "y", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    report.state_normalisation((0.4855, 0.456, 0.406), (0.229, 0.2245, 0.225), 3)
    assert report.mean == (0.485, 0.456, 0.406) and not report.notes
    for mean, std, name in (((0.485, 0.458, 0.406), None, "mean"), (None, (0.229, 0.224, 0.227), "std")):
        with pytest.raises(InputError, match=f"The weights expect {name}="):
            report.state_normalisation(mean, std, 3)


@pytest.mark.parametrize(
    ("channels", "mean", "std", "note"),
    [
        (1, (0.2,), (0.6,), "of 1 channel: mean (0.2) and std (0.6)"),
        (2, (0.1, 0.2), (0.5, 0.6), "of 2 channels: mean (0.1, 0.2) and std (0.5, 0.6)"),
        (3, (0.1, 0.2, 0.3), (0.5, 0.6, 0.7), None),
        (
            4,
            (0.1, 0.2, 0.3, 0.1),
            (0.5, 0.6, 0.7, 0.5),
            "of 4 channels: mean (0.1, 0.2, 0.3, 0.1) and std (0.5, 0.6, 0.7, 0.5)",
        ),
        (7, (0.1, 0.2, 0.3) * 2 + (0.1,), (0.5, 0.6, 0.7) * 2 + (0.5,), "of 7 channels: mean (0.1, 0.2, 0.3, "),
    ],
)
def test_statistics_follow_the_channels_as_the_kernel_does(channels, mean, std, note):
    report = Report("", "", mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
    report.adapt_normalisation(channels)
    assert report.mean == pytest.approx(mean) and report.std == pytest.approx(std)
    assert len(report.notes) == (note is not None) and "".join(report.notes).startswith(note or "")
    half = Report("", "", std=(0.5, 0.6, 0.7))
    half.adapt_normalisation(channels)
    assert half.mean is None and half.std == pytest.approx(std)
    assert all(text.startswith(f"of {channels} channel") and "mean" not in text for text in half.notes)


def test_statistics_may_be_a_thousandth_off_and_none_may_be_forgotten():
    report = Report("", "")
    report.state_normalisation(None, None, 3)
    assert [note.partition(":")[0] for note in report.notes] == [
        *("the file does not say the images' mean", "the file does not say the images' std"),
    ]
    assert all("0.5 per channel" in note for note in report.notes) and "--std states another" in report.notes[1]
    known = Report("", "", mean=(0.5,), std=(0.5,))
    known.state_normalisation((0.5009,), (0.4991,), 1)
    assert (known.mean, known.std, known.notes) == ((0.5,), (0.5,), [])
    for mean, std in (((0.5011,), None), (None, (0.4989,))):
        with pytest.raises(InputError, match="The weights expect"):
            known.state_normalisation(mean, std, 1)


@pytest.mark.parametrize(
    ("training", "loss"),
    [
        ({}, None),
        ({"recipe": {}}, None),
        ({"recipe": {"loss": "softmax"}}, "softmax"),
        ({"recipe": {"loss": "sigmoid"}}, "sigmoid"),
        ({"recipe": {"loss": "mine"}}, None),
    ],
)
def test_only_a_known_loss_makes_probabilities(training, loss):
    assert Report("", "", training=training).loss == loss


def test_names_of_blocks_are_shown_once_and_the_rest_is_counted():
    names = [f"blocks.{i}.{part}" for i in (0, 10) for part in "ab"] + ["layer1.0.x", "a/2/b", "v7", "end.3"]
    report = Report("s", "l", dropped=dict.fromkeys(names, "why"))
    assert str(report).splitlines()[2] == "  dropped  blocks.*.a, blocks.*.b, layer1.*.x and 3 more  why"
    for count, shown in ((3, "x0, x1, x2"), (4, "x0, x1, x2 and 1 more")):
        report = Report("s", "l", missing={f"x{i}": "w" for i in range(count)})
        assert str(report).splitlines()[2].split("  ")[2:] == [shown, "w"]
