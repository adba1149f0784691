"""What a pass over a set notes."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.commands.doctor.survey import classes_of, examine, oddities, survey
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError


def encoded(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def noise(seed: int, size: tuple[int, int] = (12, 8)) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8))


class Named(list):
    @property
    def keys(self) -> list[str]:
        return [f"{index}.png" for index in range(len(self))]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_every_record_is_noted(num_workers):
    damaged = encoded(noise(0, (64, 64)), "JPEG")[:-400] + b"\xff\xd9"
    images = [encoded(noise(1)), encoded(noise(2), "BMP"), b"", damaged, *[encoded(noise(1))] * 60]
    source = Named(zip(images, [0, 1, 0, 7, *[2] * 60], strict=True))
    told = []
    found = survey(source, "training", 3, num_workers, told.append)
    assert (len(found), sum(told), found.split) == (64, 64, "training")
    assert found.faults == {2: "the file is empty"}
    assert list(found.damages) == [3]
    assert "premature end" in found.damages[3]
    assert found.sides[:4].tolist() == [[8, 12], [8, 12], [0, 0], [64, 64]]
    assert found.counts.tolist() == [1, 1, 60]
    assert found.outside == {3: 7}
    assert not found.oddities  # what is no file may have any name
    assert found.readable.tolist() == [index != 2 for index in range(64)]
    assert len(np.unique(found.digests[found.readable])) == 3
    assert found.digests[0] == found.digests[63]


def test_files_have_the_ending_of_their_content(tmp_path):
    kinds = ["PNG", "BMP", "PNG", "JPEG"]
    for index, kind in enumerate(kinds):
        (tmp_path / f"{index}.png").write_bytes(encoded(noise(index), kind))
    source = Named((tmp_path / f"{index}.png", 0) for index in range(len(kinds)))
    found = survey(source, "training", 3, 0, lambda count: None)
    assert found.oddities == {"BMP under another ending": [1], "JPEG under another ending": [3]}


def test_equal_pixels_have_equal_digests_in_any_form(tmp_path):
    image = noise(3)
    (tmp_path / "a.png").write_bytes(encoded(image))
    tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    forms = [encoded(image), encoded(image, "BMP"), image, tensor, tmp_path / "a.png", str(tmp_path / "a.png")]
    examined = [examine([(form, 0)], 0, "x") for form in forms]
    assert len({facts.digest for facts in examined}) == 1
    assert examine([(tensor.mT, 0)], 0, "x").digest != examined[0].digest


def test_faults_of_the_set_are_noted(tmp_path):
    class Raising:
        def __init__(self, error: Exception) -> None:
            self.error = error

        def __getitem__(self, index: int) -> None:
            raise self.error

    assert examine(Raising(BrokenImage("row 3", "no bytes")), 0, "x").fault == "no bytes"
    assert examine(Raising(InputError("the tar has changed")), 0, "x").fault == "the tar has changed"
    assert examine([(tmp_path / "gone.png", 0)], 0, "x").fault == "No such file or directory"


def test_classes_of_labels():
    assert classes_of(3) == classes_of(np.int64(3)) == (3,)
    assert classes_of(IGNORE) == ()
    assert classes_of(torch.tensor([0.0, 1.0, 1.0])) == (1, 2)
    assert classes_of(np.zeros(3)) == ()


def test_several_classes_count_in_each():
    source = [(noise(0), np.array([1.0, 0.0, 1.0])), (noise(1), np.array([0.0, 0.0, 1.0])), (noise(2), IGNORE)]
    found = survey(source, "test", 3)
    assert found.counts.tolist() == [1, 0, 2]
    assert found.outside == {}
    assert found.classes[0] != found.classes[1]


@pytest.mark.parametrize(
    ("image", "key", "options", "expected"),
    [
        (noise(0), "a.png", {}, ()),
        (noise(0), "row 3", {}, ()),
        (noise(0), "a.JPEG", {}, ("PNG under another ending",)),
        (noise(0), "a.JPEG", {"kind": "JPEG"}, ()),
        (noise(0).convert("CMYK"), "a.jpg", {"kind": "JPEG"}, ("CMYK",)),
        (noise(0).convert("RGBA"), "a.png", {}, ("transparent",)),
        (Image.new("P", (3, 2)), "a.png", {"transparency": 0}, ("transparent",)),
        (Image.fromarray(np.zeros((2, 2), np.uint16)), "a.png", {}, ("16 bits",)),
        (noise(0), "a.gif", {"kind": "GIF", "save_all": True, "append_images": [noise(1)]}, ("several frames",)),
        (noise(0), "a.jpg", {"kind": "JPEG", "exif": b"Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"},
         ("turned by EXIF",)),
    ],
)  # fmt: skip
def test_oddities(image, key, options, expected):
    assert oddities(encoded(image, **options), key) == expected


def test_odd_files_of_the_kit(kit):
    found = {
        path.name: oddities(path.read_bytes(), path.name)
        for path in (kit / "odd-made").iterdir()
        if path.name not in ("empty.jpg", "not_an_image.jpg", "index.csv")
    }
    assert {name: odd for name, odd in found.items() if odd} == {
        "anim.gif": ("several frames",),
        "cmyk.JPEG": ("CMYK",),
        "exif_orientation6.jpg": ("turned by EXIF",),
        "gray16.png": ("16 bits",),
        "la.png": ("transparent",),
        "palette_transparency.png": ("transparent",),
        "png_in_jpg.JPEG": ("PNG under another ending",),
        "rgba.png": ("transparent",),
    }
    assert Path(kit / "odd-made/photo.webp").name in found


def test_class_numbers_are_from_0_to_one_below_their_number():
    found = survey([(noise(index), label) for index, label in enumerate((0, 2, 3, -7))], "training", 3)
    assert found.counts.tolist() == [1, 0, 1]
    assert found.outside == {2: 3, 3: -7}


def test_a_record_that_cannot_be_read_counts_nowhere():
    found = survey([(b"", 1), (noise(1), 1)], "training", 3)
    assert found.counts.tolist() == [0, 1, 0]
    assert found.faults.keys() == {0} and found.digests[0] == 0


def test_images_of_equal_bytes_and_other_shapes_differ():
    row = np.arange(24, dtype=np.uint8)
    wide, high = (Image.fromarray(row.reshape(*shape, 3)) for shape in ((2, 4), (4, 2)))
    assert examine([(wide, 0)], 0, "x").digest != examine([(high, 0)], 0, "x").digest
    assert examine([(wide, 0)], 0, "x").sides == (2, 4)
