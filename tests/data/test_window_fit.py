"""Sets whose values a window does not suit: said before they are scored, predicted or learnt from."""

import io
import warnings

import numpy as np
import pytest
from PIL import Image

from tests.data.test_window import Tiny
from vit_lightning.commands.doctor import windows
from vit_lightning.commands.doctor.survey import survey
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.data.window_fit import sample

WINDOW = (800.0, 2600.0)


def film(low: int, high: int, kind=np.uint16) -> tuple[bytes, int]:
    """Values that rise evenly."""
    file = io.BytesIO()
    Image.fromarray(np.linspace(low, high, 400).reshape(20, 20).astype(kind)).save(file, "PNG")
    return file.getvalue(), 0


GOOD, WHITE, BLACK = film(850, 2550), film(12800, 41600), film(50, 162)
DIM, EIGHT = film(100, 250), film(0, 255, np.uint8)


def said(records, window=WINDOW, verb="test") -> list[str]:
    data = Tiny(records, channels=1, window=window, batch_size=1)
    data.setup(verb)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        {"train": data.train_dataloader, "test": data.test_dataloader, "val": data.val_dataloader}.get(
            verb, data.predict_dataloader
        )()
    return [str(one.message) for one in caught]


@pytest.mark.parametrize(
    ("verb", "split"), [("test", "test"), ("val", "validation"), ("predict", "test"), ("train", "training")]
)
def test_values_of_another_site_that_the_window_clips_are_told_before_they_are_read(verb, split):
    assert said([WHITE] * 30 + [GOOD] * 10, verb=verb) == [
        f"the window [800,2600] clips more than half of the values of 18 of 24 {split} images looked at, which lie "
        "from 12,800 to 41,600: 100 % of them become black or white, so that what is said of these images is worth "
        "little; give images of the range of those in training, or --data.window '[low,high]' for theirs"
    ]


def test_values_below_black_are_clipped_too():
    assert "which lie from 50 to 162" in "".join(said([BLACK] * 12))


def test_values_that_stay_dark_in_the_window_are_told():
    assert said([DIM] * 12, (0.0, 4095.0)) == [
        "12 of 12 test images looked at with values up to 250 in the window [0,4095], shown at 1/16 of their "
        "brightness at most; give images of the range of those in training, or --data.window '[low,high]' for theirs"
    ]


def test_images_of_8_bits_under_a_window_for_more_are_told():
    assert said([EIGHT] * 12) == [
        "12 of 12 test images looked at are divided by 255 though they have 8 bits and the window [800,2600] is for "
        "values of more, so that a net trained on these sees them otherwise; give the images with all their bits"
    ]


@pytest.mark.parametrize(
    ("records", "window"),
    [
        ([GOOD] * 12, WINDOW),
        ([GOOD] * 8 + [WHITE] * 4, WINDOW),
        ([EIGHT] * 12, (0.0, 255.0)),
        ([EIGHT] * 12, None),
        ([EIGHT] * 6 + [GOOD] * 6, WINDOW),
    ],
)
def test_sets_that_most_images_of_suit_their_window_say_nothing(records, window):
    assert said(records, window) == []


def test_a_single_image_among_a_few_is_told():
    (line,) = said([GOOD, WHITE, GOOD], verb="predict")
    assert "1 of 3 test images looked at" in line


def test_some_tens_of_images_from_everywhere_are_looked_at():
    found = sample([GOOD] * 1000 + [EIGHT] * 1000, PixelForm(1, WINDOW))
    assert (len(found.windowed), found.eight_bit, found.scaled) == (12, 12, 0)
    assert sample([(b"broken", 0)] * 12, PixelForm(1, WINDOW)).images == 0  # the loader says what is wrong with it


@pytest.mark.parametrize(("records", "names"), [([EIGHT, EIGHT, GOOD], ("0", "1")), ([EIGHT, GOOD], None)])
def test_doctor_names_images_of_8_bits_under_a_window_for_more(records, names):
    found = windows.windows([survey(records, "test", 1, form=PixelForm(1, WINDOW))])
    assert [finding.items for finding in found] == ([names] if names else [])
    assert all(f.text.startswith("2 test images are divided by 255") and f.severity == "warning" for f in found)
