import io
import os
import pickle
import socket
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from torch.nn import functional as F

from vit_lightning.data import images
from vit_lightning.data.images import BrokenImage, decode, load, pixmap
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.errors import InputError


def encode(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def photo(mode: str = "RGB", size: tuple[int, int] = (48, 32)) -> Image.Image:
    x, y = np.meshgrid(*(np.linspace(0, 255, side) for side in size))
    return Image.fromarray(np.stack([x, y, 255 - x], -1).astype(np.uint8)).convert(mode)


def colour(data: bytes) -> list[int]:
    """The one colour of a picture."""
    pixels = decode(data, name="picture")
    assert pixels.dtype == torch.uint8
    assert pixels.shape[0] == 3
    assert (pixels == pixels[:, :1, :1]).all()
    return pixels[:, 0, 0].tolist()


def test_sixteen_bits_are_scaled_and_not_clipped():
    assert colour(encode(Image.fromarray(np.full((4, 4), 20000, np.uint16)))) == [78] * 3
    for kind in ("PNG", "TIFF"):
        ends = decode(encode(Image.fromarray(np.array([[0, 65535]], np.uint16)), kind), name="ends")
        assert ends[0, 0].tolist() == [0, 255]


def test_sixteen_bit_graymap():
    assert colour(b"P5 2 1 65535\n" + np.full(2, 20000, ">u2").tobytes()) == [78] * 3


@pytest.mark.parametrize(
    ("image", "options", "expected"),
    [
        (Image.new("RGB", (3, 2), (1, 2, 3)), {}, [1, 2, 3]),
        (Image.new("L", (3, 2), 7), {}, [7, 7, 7]),
        (Image.new("1", (3, 2), 1), {}, [255, 255, 255]),
        (Image.new("CMYK", (3, 2), (0, 255, 255, 0)), {"kind": "TIFF"}, [255, 0, 0]),
        (Image.new("RGBA", (3, 2), (255, 0, 0, 0)), {}, list(images.BACKGROUND)),
        (Image.new("RGBA", (3, 2), (255, 0, 0, 255)), {}, [255, 0, 0]),
        (Image.new("RGBA", (3, 2), (255, 0, 0, 51)), {}, [255, 204, 204]),  # a fifth of red on white
        (Image.new("LA", (3, 2), (0, 0)), {}, list(images.BACKGROUND)),
        (Image.new("LA", (3, 2), (90, 255)), {}, [90, 90, 90]),
        (Image.new("P", (3, 2), 0), {"transparency": 0}, list(images.BACKGROUND)),
        (Image.new("L", (3, 2), 7), {"transparency": 7}, list(images.BACKGROUND)),
        (Image.new("RGB", (3, 2), (1, 2, 3)), {"transparency": (1, 2, 3)}, list(images.BACKGROUND)),
        (Image.new("RGB", (3, 2), (9, 9, 9)), {"kind": "BMP"}, [9, 9, 9]),
        (Image.new("RGB", (3, 2), (9, 9, 9)), {"kind": "WEBP", "lossless": True}, [9, 9, 9]),
    ],
)
def test_every_pixel_form_becomes_rgb(image, options, expected):
    assert colour(encode(image, **options)) == expected


def test_cmyk_jpeg():
    red = colour(encode(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", quality=100))
    assert np.allclose(red, [255, 0, 0], atol=2)


def test_first_frame_of_an_animation():
    red, blue = (Image.new("RGB", (4, 4), name) for name in ("red", "blue"))
    for kind, options in (("GIF", {}), ("WEBP", {"lossless": True}), ("TIFF", {}), ("PNG", {})):
        assert colour(encode(red, kind, save_all=True, append_images=[blue], **options)) == [255, 0, 0], kind


def test_exif_orientation_is_applied():
    halves = np.zeros((8, 16, 3), np.uint8)
    halves[:, 8:] = 255
    exif = Image.Exif()
    exif[0x0112] = 6
    for kind in ("JPEG", "PNG", "WEBP", "TIFF"):
        pixels = decode(encode(Image.fromarray(halves), kind, exif=exif), name=kind)
        assert pixels.shape == (3, 16, 8), kind
        assert pixels[:, :7].max() < 30, kind
        assert pixels[:, 9:].min() > 225, kind


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_every_orientation_is_pillows(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encode(photo(), kind, exif=exif)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    assert torch.equal(decode(data, name="x"), torch.from_numpy(np.array(expected)).permute(2, 0, 1))


def test_damaged_exif_data_do_not_matter():
    for exif in (b"Exif\0\0garbage", b"Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12", b"Exif\0\0MM\0*\xff\xff\xff\xff"):
        data = encode(photo(), "JPEG", exif=exif)
        assert torch.equal(decode(data, name="x"), decode(encode(photo(), "JPEG"), name="x"))


@pytest.mark.parametrize(
    "options", [{}, {"progressive": True}, {"subsampling": 0}, {"subsampling": 1}, {"quality": 20}]
)
def test_fast_jpeg_path_gives_pillows_pixels(options):
    data = encode(photo(), "JPEG", **options)
    expected = torch.from_numpy(np.array(Image.open(io.BytesIO(data)))).permute(2, 0, 1)
    assert torch.equal(decode(data, name="photo"), expected)


@pytest.mark.parametrize("header", [b"P6\n60 40\n255\n", b"P6\n# made by hand\n60 40 255\n"])
def test_pixmaps_are_what_pillow_reads_and_writes(header):
    """The second header is left to Pillow."""
    pixels = torch.randint(256, (3, 40, 60), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    data = pixmap(pixels)
    assert data == encode(Image.fromarray(pixels.permute(1, 2, 0).numpy()), "PPM")
    body = data[-pixels.numel() :]
    assert torch.equal(decode(header + body + b"of another image", name="x"), pixels)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_truncated_files_name_the_file_and_the_reason(kind):
    data = encode(photo(), kind)
    with pytest.raises(BrokenImage, match=r"^photos/7: .+") as caught:
        decode(data[: len(data) // 2], name="photos/7")
    assert caught.value.name == "photos/7"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"", "empty"), (b"<html>404</html>", "not an image"), (bytes(1000), "not an image")],
)
def test_what_is_no_image(data, reason):
    with pytest.raises(BrokenImage, match=reason):
        decode(data, name="page.jpg")


def test_changed_bytes_of_a_png_are_noticed():
    data = bytearray(encode(photo()))
    for place in range(len(data) - 30, len(data) - 20):  # inside the compressed pixels
        changed = data.copy()
        changed[place] ^= 1
        with pytest.raises(BrokenImage):
            decode(bytes(changed), name="photo.png")


def test_decompression_bomb_is_refused_before_decoding():
    huge = encode(Image.new("1", (10_000, 9_000)))
    assert len(huge) < 20_000
    with pytest.raises(BrokenImage, match="10000 x 9000 pixels"):
        decode(huge, name="bomb.png")
    with pytest.raises(BrokenImage, match=r"^bomb\.ppm: Token too long"):  # Pillow says it in bytes
        decode(b"P6\n" + b"9" * 12 + b" 1\n255\n", name="bomb.ppm")
    with pytest.raises(BrokenImage, match="99999 x 99999 pixels"):
        decode(b"P6\n99999 99999\n255\n", name="bomb.ppm")


def test_pixels_without_a_defined_white_are_refused():
    for values in (np.ones((2, 2), np.float32), np.full((2, 2), 70000, np.int32), np.full((2, 2), -1, np.int32)):
        with pytest.raises(BrokenImage, match="16 bits"):
            decode(encode(Image.fromarray(values), "TIFF"), name="science.tif")


def test_any_form_of_image_loads_alike(tmp_path):
    picture = photo()
    data = encode(picture)
    path = tmp_path / "a picture.png"
    path.write_bytes(data)
    expected = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    for form in (data, path, str(path), picture, expected):
        assert torch.equal(load(form, name="x"), expected)
    with pytest.raises(BrokenImage, match=r"^gone\.png: No such file"):
        load(tmp_path / "gone.png", name="gone.png")


def test_tensors_must_be_uint8_channels_first():
    assert load(torch.zeros(5, 4, 4, dtype=torch.uint8), name="x").shape == (5, 4, 4)
    for wrong in (torch.zeros(3, 4, 4, dtype=torch.int32), torch.zeros(4, 4, dtype=torch.uint8), torch.zeros(4, 4)):
        with pytest.raises(InputError, match=r"^x: .*uint8"):
            load(wrong, name="x")


def test_error_survives_pickling_and_a_loaders_worker():
    error = pickle.loads(pickle.dumps(BrokenImage("a.jpg", "truncated")))
    assert (str(error), error.name, error.reason) == ("a.jpg: truncated", "a.jpg", "truncated")
    assert str(BrokenImage("the whole message")) == "the whole message"


ORIGINALS = [
    encode(photo(), "JPEG"),
    encode(photo(), "JPEG", progressive=True),
    encode(photo("RGBA"), "PNG"),
    encode(photo("P"), "PNG"),
    encode(photo(), "PPM"),
    encode(photo("P"), "GIF"),
    encode(photo(), "WEBP"),
    encode(photo(), "TIFF"),
    encode(photo(), "BMP"),
]


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=400)
@given(
    original=st.sampled_from(ORIGINALS),
    places=st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=8), st.integers(0, 8)), min_size=1, max_size=6),
)
def test_mutated_files_decode_or_are_broken(original, places):
    data = bytearray(original)
    for place, put, drop in places:
        start = int(place * len(data))
        data[start : start + drop] = put
    with suppress(BrokenImage):  # and nothing else
        pixels = decode(bytes(data), name="mutant")
        assert pixels.dtype == torch.uint8
        assert pixels.shape[0] == 3


def thumbnail(pixels: torch.Tensor) -> torch.Tensor:
    return F.interpolate(pixels[None].float(), (8, 8), mode="area")[0]


@pytest.mark.parametrize(
    ("file", "tolerance"),
    [("cmyk.JPEG", 3), ("exif_orientation6.jpg", 3), ("progressive.jpg", 3), ("anim.gif", 6), ("photo.webp", 4)],
)
def test_odd_files_of_the_kit_show_the_same_photo(kit, file, tolerance):
    expected = decode((kit / "odd-made/png_in_jpg.JPEG").read_bytes(), name="png")
    pixels = decode((kit / "odd-made" / file).read_bytes(), name=file)
    assert pixels.shape == expected.shape == (3, 256, 154)
    assert (thumbnail(pixels) - thumbnail(expected)).abs().max() < tolerance


@pytest.mark.parametrize(("file", "tolerance"), [("gray16.png", 1), ("la.png", 1), ("bilevel.png", 16)])
def test_gray_files_of_the_kit_show_the_same_photo(kit, file, tolerance):
    red, green, blue = decode((kit / "odd-made/png_in_jpg.JPEG").read_bytes(), name="png").float()
    luma = (0.299 * red + 0.587 * green + 0.114 * blue).expand(3, -1, -1)
    pixels = decode((kit / "odd-made" / file).read_bytes(), name=file)
    assert (thumbnail(pixels) - thumbnail(luma)).abs().max() < tolerance


def test_other_odd_files_of_the_kit(kit):
    shapes = {
        "rgba.png": (256, 154),
        "palette_transparency.png": (256, 154),
        "photo.bmp": (64, 64),
        "tiny_1x1.png": (1, 1),
    }
    for file, shape in shapes.items():
        assert decode((kit / "odd-made" / file).read_bytes(), name=file).shape == (3, *shape)
    rgba = decode((kit / "odd-made/rgba.png").read_bytes(), name="rgba")
    assert rgba[:, 0, 0].tolist() == list(images.BACKGROUND)
    for file in ("truncated.jpg", "not_an_image.jpg", "empty.jpg"):
        with pytest.raises(BrokenImage, match=file):
            decode((kit / "odd-made" / file).read_bytes(), name=file)


@pytest.fixture(params=["fifo", "device", "socket", "large"])
def endless(request, tmp_path) -> tuple[Path, str]:
    """A file called like an image whose reading would never end, and what is said of it."""
    file = tmp_path / "x.jpg"
    match request.param:
        case "fifo":
            os.mkfifo(file)
            return file, "it is a FIFO, not a regular file"
        case "device":
            file.symlink_to("/dev/zero")
            return file, "it is a device, not a regular file"
        case "socket":
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(os.path.relpath(file))
            return file, "No such device or address"
        case _:
            with file.open("wb") as opened:
                opened.truncate(2**40)  # with no block on the disk
            return file, "1,099,511,627,776 bytes are more than the 1,073,741,824 that an image may have"


def test_only_regular_files_of_a_sane_size_are_images(endless):
    file, reason = endless
    with pytest.raises(BrokenImage) as caught:
        load(file, name="x")
    assert str(caught.value) == f"x: {reason}"


def test_what_is_no_regular_file_is_skipped_by_every_verb(app, tmp_path):
    for split in ("train", "val"):
        for number in range(4):
            file = tmp_path / "set" / split / f"class{number % 2}" / f"{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            photo().save(file)
    os.mkfifo(tmp_path / "set/train/class0/fifo.jpg")
    (tmp_path / "set/train/class1/zero.jpg").symlink_to("/dev/zero")
    words = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data.num_workers", 0)
    words += ("--data.image_size", 8, "--data.batch_size", 2)
    labelled = (*words, "--data", "ImageFolder", "--data.root", tmp_path / "set")
    done = app("doctor", *labelled, "--json", "found.json")
    assert done.code == 1
    found = (tmp_path / "found.json").read_text()
    assert "fifo.jpg: it is a FIFO, not a regular file" in found
    assert "zero.jpg: it is a device, not a regular file" in found
    fit = ("fit", *labelled, "--trainer.max_epochs", 1, "--data.max_broken", 0.5)
    assert "not a regular file" in app(*fit).err
    assert app(*fit, "--data.on_error", "skip").code == 0
    unlabelled = (*words, "--data", "Images", "--data.files", tmp_path / "set")
    done = app("predict", *unlabelled, "--ckpt_path", "last")
    assert done.code == 0, done.err
    rows = next(tmp_path.glob("runs/default/*/predictions.csv")).read_text()
    assert rows.count("not a regular file") == 2


def test_every_form_that_a_set_may_yield_is_the_same_image():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    expected = torch.from_numpy(pixels).permute(2, 0, 1)
    for dtype in (np.float16, np.float32, np.float64):
        floats = (pixels / 255).astype(dtype)
        assert torch.equal(images.load(floats, name=""), expected)
        assert torch.equal(images.load(torch.from_numpy(floats).permute(2, 0, 1), name=""), expected)
    for image in (pixels, pixels[::1], expected, Image.fromarray(pixels)):
        assert torch.equal(images.load(image, name=""), expected)
    assert images.load(pixels[:, ::-1], name="").flip(2).equal(expected)
    assert images.load(pixels[..., :1], name="").shape == (1, 5, 7)


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (
            np.zeros((4, 4), np.uint8),
            r"x: a grey array \(y, x\) of uint8 \(4, 4\) needs --data.channels 1, or 3 to repeat the grey",
        ),
        (np.zeros((4, 4, 3), np.int64), r"x: an image array must be uint8 or float .* not int64 \(4, 4, 3\); convert"),
        (np.array(["a"]), r"x: an image array must be uint8 or float .* not <U1 \(1,\)"),
        (torch.zeros(3, 4, 4, dtype=torch.int16), r"x: an image tensor must be uint8 or float .* not int16"),
        (np.full((4, 4, 3), 255.0), r"x: float images must lie in \[0, 1\], .* from 255 to 255; the model normalises"),
        (torch.full((3, 4, 4), torch.nan), r"x: float images must lie in \[0, 1\], .* has values that are NaN; leave"),
        (torch.full((3, 4, 4), -1.0), r"x: float images must lie in \[0, 1\]"),
        (torch.zeros(3, 4, 4).to_sparse(), r"x: an image tensor must be .*, not one that is sparse or has no values"),
        (torch.zeros(3, 4, 4, device="meta"), r"x: an image tensor must be .*, not one that is sparse or has no val"),
        (7, r"x: an image of the type int; expected encoded bytes, a path, a Pillow image, a tensor"),
        (None, r"x: an image of the type NoneType; expected"),
        ([1, 2], r"x: an image of the type list; expected"),
    ],
)
def test_another_form_is_refused_in_a_sentence(image, said):
    with pytest.raises(InputError, match=said):
        images.load(image, name="x")


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_floats_are_rounded_to_the_nearest_of_256_values(kind):
    values = np.array([0.0, 0.4, 0.6, 1.4, 127.6, 254.4, 254.6, 255.0], kind)[None, :, None] / kind(255)
    assert load(values, name="x")[0, 0].tolist() == [0, 0, 1, 1, 128, 254, 255, 255]


def test_a_file_may_be_as_large_as_the_limit_says_and_no_larger(tmp_path, monkeypatch):
    data = encode(photo())
    (tmp_path / "x.png").write_bytes(data)
    monkeypatch.setattr(images, "MAX_BYTES", len(data))
    assert images.read(tmp_path / "x.png", name="x") == data
    monkeypatch.setattr(images, "MAX_BYTES", len(data) - 1)
    with pytest.raises(BrokenImage, match=f"^x: {len(data):,} bytes are more than the {len(data) - 1:,} "):
        images.read(tmp_path / "x.png", name="x")


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's files that say no size")
def test_a_file_that_holds_more_than_its_size_says_is_refused_too(monkeypatch):
    monkeypatch.setattr(images, "MAX_BYTES", 10)
    with pytest.raises(BrokenImage, match=r"^x: 11 bytes are more than the 10 "):
        images.read("/proc/self/status", name="x")


def test_files_of_systems_are_no_images_however_their_names_are_written():
    names = ["__MACOSX", "Thumbs.db", "desktop.ini", "$RECYCLE.BIN", "System Volume Information", "lost+found"]
    names += ["@eaDir", "#recycle", "#snapshot", "@Recycle", "@Recently-Snapshot", ".DS_Store", ".cat.jpg"]
    assert all(images.is_hidden(name) for name in names)
    assert not any(images.is_hidden(name) for name in ("cat.jpg", "recycle", "thumbs", "a.db", "Snapshot"))


def test_the_first_picture_of_several_in_a_jpeg_is_decoded_as_strictly_as_one_alone():
    noise = np.random.default_rng(0).integers(0, 256, (32, 48, 3), dtype=np.uint8)
    whole = encode(Image.fromarray(noise), "MPO", save_all=True, append_images=[photo()])
    assert Image.open(io.BytesIO(whole)).format == "MPO"
    assert torch.equal(decode(whole, name="x"), decode(encode(Image.fromarray(noise), "JPEG"), name="x"))
    scan = whole.index(b"\xff\xda") + 40
    damaged = whole[:scan] + b"\xff\xd9" + whole[scan + 400 :]
    with pytest.raises(BrokenImage):
        decode(damaged, name="x")


@pytest.mark.parametrize(
    ("dtype", "form", "said"),
    [
        (np.uint8, PixelForm(), r"x: a grey array \(y, x\) of uint8 \(4, 6\) needs --data.channels 1, or 3"),
        (np.uint16, PixelForm(), r"needs --data.channels 1, or 3 to repeat the grey; and --data.window '\[low,high\]'"),
        (np.uint16, PixelForm(1), r"of uint16 \(4, 6\) needs --data.window '\[low,high\]', the values that become"),
        (np.uint16, PixelForm(4, (0, 4095)), "x has 1 channel, but --data.channels asks for 4; an array is"),
    ],
)
def test_what_a_grey_array_lacks_is_said(dtype, form, said):
    with pytest.raises(InputError, match=said):
        load(np.zeros((4, 6), dtype), name="x", form=form)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_grey_array_has_one_channel(channels):
    values = np.arange(24, dtype=np.uint16).reshape(4, 6) * 100
    pixels = load(values, name="x", form=PixelForm(channels, (0, 2300)))
    assert pixels.shape == (channels, 4, 6) and torch.allclose(pixels[0] * 23, torch.arange(24.0).reshape(4, 6))
    assert load(values.astype(np.uint8), name="x", form=PixelForm(channels)).shape == (channels, 4, 6)


def test_values_that_are_not_finite_are_said_behind_the_name():
    values = np.full((4, 6, 1), np.nan, np.float32)
    with pytest.raises(InputError, match=r"^x: some of its pixels are no finite numbers; give"):
        load(values, name="x", form=PixelForm(1, (0, 1)))
