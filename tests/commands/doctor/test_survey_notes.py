"""What of several records a survey keeps beside each other, and how many processes look at them."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.commands.doctor import survey as module
from vit_lightning.commands.doctor.survey import Windowed, classes_of, examine, oddities, survey
from vit_lightning.data import images
from vit_lightning.data.pixel_form import PixelForm


def pattern(seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (40, 36, 3), dtype=np.uint8))


def deep(*values: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.array([values], np.uint16)).save(buffer, "PNG")
    return buffer.getvalue()


def test_every_set_of_classes_is_known_by_its_hash():
    labels = [torch.tensor([1.0, 0, 1]), torch.tensor([0.0, 1, 0]), torch.tensor([1.0, 0, 1]), torch.zeros(3)]
    found = survey([(pattern(seed), label) for seed, label in enumerate(labels)], "training", 3)
    assert [found.class_sets[int(number)] for number in found.classes] == [(0, 2), (1,), (0, 2), ()]
    assert len(found.class_sets) == 3 and found.counts.tolist() == [2, 1, 2]


def test_prints_stand_at_the_number_of_their_record():
    flat = Image.new("RGB", (40, 40))
    source = [(pattern(1), 0), (flat, 0), (b"", 0), (pattern(2), 0), (pattern(1), 0)]
    found = survey(source, "training", 1).prints
    assert found.known.tolist() == [True, False, False, True, True]
    assert found.hashes[0] == found.hashes[4] != found.hashes[3] and found.hashes[1] == 0
    np.testing.assert_array_equal(found.patterns[0], found.patterns[4])


@pytest.mark.parametrize(("size", "wanted", "workers"), [(31, 4, 0), (32, 4, 1), (95, 4, 2), (320, 4, 4), (320, 0, 0)])
def test_a_process_has_a_whole_chunk_to_look_at(monkeypatch, size, wanted, workers):
    asked: list[dict] = []

    def loader(records, **settings) -> list:
        asked.append(settings)
        return [[module.RecordFacts("gone")] * min(32, size - start) for start in range(0, size, 32)]

    monkeypatch.setattr(module, "DataLoader", loader)
    told: list[int] = []
    found = survey([(None, 0)] * size, "test", 1, wanted, told.append)
    assert (asked[0]["num_workers"], asked[0]["batch_size"]) == (workers, 32)
    assert list(found.faults) == list(range(size)) and sum(told) == size


def test_records_of_later_chunks_keep_their_numbers():
    source = [(SimpleNamespace(), 0)] * 70
    for place, image in ((31, pattern(1)), (32, b""), (69, pattern(2))):
        source[place] = image, place
    found = survey(source, "training", 100)
    assert found.faults.keys() == set(range(70)) - {31, 69}
    assert found.faults[32] == "the file is empty" and np.flatnonzero(found.counts).tolist() == [31, 69]
    assert np.flatnonzero(found.sides[:, 0]).tolist() == [31, 69] and found.sides[31].tolist() == [40, 36]


def test_values_at_either_end_of_a_window_are_within_it():
    form = PixelForm(1, (10.0, 20.0))
    source = [(deep(9, 10, 15, 20, 21), 0), (deep(12, 20), 0), (pattern(1).convert("L"), 0), (deep(0, 30, 30, 30), 0)]
    assert examine(source, 0, "x", form=form).windowed == Windowed(9.0, 21.0, 0.4)
    found = survey(source, "training", 1, form=form)
    assert found.windowed == {0: Windowed(9.0, 21.0, 0.4), 1: Windowed(12.0, 20.0, 0.0), 3: Windowed(0.0, 30.0, 1.0)}
    assert found.window == (10.0, 20.0) and found.peaks == {}
    bare = survey(source, "training", 1)
    assert bare.windowed == {} and bare.window is None


def test_the_peak_is_the_greatest_value_of_each_deep_image():
    source = [(deep(3, 900, 70), 0), (deep(5, 5), 0), (deep(0, 65535), 0), (pattern(1), 0)]
    assert survey(source, "training", 1).peaks == {0: 900, 1: 5, 2: 65535}


@pytest.mark.parametrize(
    ("label", "classes"),
    [([0.5, 0.51, 0.2], (1,)), ([1.0, 0.0, 1.0], (0, 2)), ([0.5, 0.5, 0.0], ()), (2, (2,)), ([[3]], (0,))],
)
def test_a_class_is_named_by_more_than_half_of_a_share(label, classes):
    assert classes_of(label if isinstance(label, int) else torch.tensor(label).flatten()) == classes


@pytest.mark.parametrize(
    ("kind", "name", "odd"),
    [
        ("MPO", "a.jpg", ("several frames",)),
        ("MPO", "a.mpo", ("several frames",)),
        ("JPEG", "a.png", ("JPEG under another ending",)),
        ("JPEG", "a.xyz", ()),
    ],
)
def test_cameras_call_their_pictures_of_two_lenses_jpeg(kind, name, odd):
    buffer = io.BytesIO()
    more = {"save_all": True, "append_images": [pattern(2)]} if kind == "MPO" else {}
    pattern(1).save(buffer, kind, **more)
    assert oddities(buffer.getvalue(), name) == odd


def test_what_is_left_of_a_damaged_image_has_the_form_that_the_run_asks_for():
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(buffer, "JPEG")
    damaged = buffer.getvalue()[:-400] + b"\xff\xd9"
    digests = set()
    for form in (PixelForm(1), PixelForm(3)):
        found = examine([(damaged, 0)], 0, "x", form=form)
        shown = images.load(damaged, name="x", strict=False, form=form)
        assert "premature end" in found.damage and not found.fault
        assert found.digest == examine([(shown, 0)], 0, "x", form=form).digest
        digests.add(found.digest)
    assert len(digests) == 2
