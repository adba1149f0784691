"""Windows that do not suit the values of a set, and rare classes of images of several labels."""

import io

import numpy as np
import pytest
from PIL import Image

from tests.commands.doctor.test_findings import only
from tests.commands.doctor.test_findings import survey as made
from vit_lightning.commands.doctor import findings, windows
from vit_lightning.commands.doctor.survey import Survey, survey
from vit_lightning.data.pixel_form import PixelForm


def deep(low: int, high: int) -> bytes:
    """A film whose values rise evenly."""
    buffer = io.BytesIO()
    Image.fromarray(np.linspace(low, high, 1600).reshape(40, 40).astype(np.uint16)).save(buffer, "PNG")
    return buffer.getvalue()


def seen(window: tuple[float, float] | None, *films: tuple[int, int]) -> list[Survey]:
    return [survey([(deep(*film), 0) for film in films], "training", 1, form=PixelForm(1, window))]


def test_a_window_that_clips_most_values_is_named_and_hides_what_is_equal():
    found = seen((0.0, 255.0), (300, 4095), (500, 4000), (0, 300))
    finding = only(windows.windows(found))
    assert (finding.severity, finding.items) == ("warning", ("0", "1"))
    assert finding.text == (
        "the window [0,255] clips more than half of the values of 2 training images, which lie from 300 to 4,095"
    )
    assert finding.fix.startswith("give --data.window auto, or [low,high]") and windows.hides(found)


@pytest.mark.parametrize(
    ("window", "films"),
    [
        ((0.0, 4095.0), [(0, 4095), (0, 0)]),
        (None, [(300, 4095)]),
        ((0.0, 255.0), [(0, 300), (0, 200), (300, 900)]),
    ],
)
def test_windows_that_suit_most_images_are_no_finding(window, films):
    found = seen(window, *films)
    assert windows.windows(found) == [] and not windows.hides(found)


@pytest.mark.parametrize(
    ("window", "peak", "share", "fix"),
    [((0.0, 65535.0), 4095, "1/16", "[0,4095]"), ((100.0, 65535.0), 1000, "1/73", "[100,1023]")],
)
def test_values_that_are_dark_in_a_window_are_told(window, peak, share, fix):
    finding = only(windows.windows(seen(window, (0, 50), (200, peak))))
    assert finding.severity == "warning" and f"values up to {peak:,}" in finding.text
    assert f"shown at {share} of their brightness" in finding.text
    assert finding.fix == f"give --data.window '{fix}', or auto"


def test_values_of_an_eighth_of_a_window_are_bright_enough():
    assert windows.windows(seen((0.0, 8000.0), (0, 10), (0, 1000))) == []


NAMES = ["effusion", "fibrosis", "nodule"]


def of_several(*counts: int) -> Survey:
    """40 images that show classes so often, one or two of them each."""
    one = made((0,) * 40)
    one.counts, one.class_sets = np.array(counts), {0: (0,), 1: (0, 1)}
    return one


def test_rare_classes_of_images_of_several_labels_are_named_with_their_flag():
    finding = only(findings.imbalance(of_several(30, 4, 1), NAMES))
    assert finding.items == ("nodule (1 of 40)", "fibrosis (4 of 40)") and finding.severity == "note"
    assert finding.text == "2 of 3 classes are on 1 of 10 training images or fewer"
    assert finding.fix.startswith("give --model.class_weights balanced; ") and "sampler" not in finding.fix
    answered = only(findings.imbalance(of_several(30, 40, 4), NAMES, ["--model.class_weights balanced"]))
    assert answered.text == (
        "1 of 3 classes is on 1 of 10 training images or fewer, which --model.class_weights balanced answers"
    )


def test_classes_that_are_not_rare_or_not_there_are_no_finding():
    assert findings.imbalance(of_several(30, 5, 0), NAMES) == []


@pytest.mark.parametrize(("by_sigmoid", "flag"), [(True, "--model.class_weights balanced; "), (False, "one of --data")])
def test_images_without_a_class_are_of_several_labels_by_sigmoid(by_sigmoid, flag):
    one = made((0,) * 40)
    one.counts, one.class_sets = np.array([36, 3, 0]), {0: (0,), 1: ()}
    assert flag in only(findings.imbalance(one, NAMES, (), by_sigmoid)).fix
