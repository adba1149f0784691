"""Real image files, damaged at random: each is refused with a reason, or shows what it showed before."""

import io
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor

from vit_lightning.data.images import BrokenImage, decode

END = b"\xff\xd9"
SCAN = b"\xff\xda"


def cut(data: bytes, at: int, chance: random.Random) -> bytes:
    return data[:at]


def cut_and_ended(data: bytes, at: int, chance: random.Random) -> bytes:
    return data[:at] + END


def zeros_to_the_end(data: bytes, at: int, chance: random.Random) -> bytes:
    return data[:at] + bytes(len(data) - at)


def other_file_to_the_end(data: bytes, at: int, chance: random.Random) -> bytes:
    return data[:at] + chance.randbytes(len(data) - at)


def changed_byte(data: bytes, at: int, chance: random.Random) -> bytes:
    return data[:at] + bytes([data[at] ^ chance.randrange(1, 256)]) + data[at + 1 :]


def zeroed_sector(data: bytes, at: int, chance: random.Random) -> bytes:
    return data[:at] + bytes(512) + data[at + 512 :]


def lost_bytes(data: bytes, at: int, chance: random.Random) -> bytes:
    return data[:at] + data[at + chance.randrange(1, 500) :]


def further_bytes(data: bytes, at: int, chance: random.Random) -> bytes:
    return data[:at] + chance.randbytes(chance.randrange(1, 50)) + data[at:]


def changed_header(data: bytes, at: int, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(3):
        changed[chance.randrange(data.find(SCAN))] = chance.randrange(256)
    return bytes(changed)


Damage = Callable[[bytes, int, random.Random], bytes]
INCOMPLETE = (cut, cut_and_ended, zeros_to_the_end, other_file_to_the_end)
CHANGED = (changed_byte, zeroed_sector, lost_bytes, further_bytes, changed_header)


def photo(mode: str = "RGB", **options) -> bytes:
    """A picture without flat places, as a JPEG."""
    pixels = torch.rand(6, 8, 3, generator=torch.Generator().manual_seed(0)).mul(255).byte().numpy()
    buffer = io.BytesIO()
    image = Image.fromarray(pixels).resize((160, 120), Image.Resampling.BICUBIC).convert(mode)
    image.save(buffer, "JPEG", quality=90, **options)
    return buffer.getvalue()


def damaged(data: bytes, damage: Damage, chance: random.Random, first: float = 0.1, last: float = 0.95) -> bytes:
    """Damage a file at a random place between two shares of what follows its header."""
    header = data.find(SCAN) + 14
    return damage(data, header + int(chance.uniform(first, last) * (len(data) - header)), chance)


def outcome(data: bytes) -> Tensor | None:
    """The picture, or None if it is refused; nothing else may happen."""
    try:
        pixels = decode(data, name="mutant.jpg")
    except BrokenImage as error:
        fault = error
    else:
        fault = None
    if fault:
        assert fault.name == "mutant.jpg"
        assert fault.reason
        assert "\n" not in fault.reason
        return None
    assert pixels.dtype == torch.uint8
    assert pixels.shape[0] == 3
    return pixels


def flat_rows(pixels: Tensor) -> int:
    """Number of rows of one single colour at the bottom."""
    flat = (pixels == pixels[:, -1:, -1:]).all(0).all(-1).flip(0)
    return int(flat.int().cumprod(0).sum())


@pytest.mark.parametrize("damage", INCOMPLETE)
@pytest.mark.parametrize(
    "options", [{}, {"progressive": True}, {"mode": "L"}, {"restart_marker_rows": 1}, {"optimize": True}], ids=str
)
def test_incomplete_files_are_refused(options, damage):
    chance = random.Random(0)
    for _ in range(20):
        assert outcome(damaged(photo(**options), damage, chance)) is None


def test_decoder_names_the_damage():
    for data, reason in (
        (photo()[:-500] + END, "premature end of data segment"),
        (photo()[:-2], "Premature end of JPEG file"),
    ):
        with pytest.raises(BrokenImage, match=f"^x: .*{reason}"):
            decode(data, name="x")


def test_damage_inside_passes_on_request():
    """Oxford Pets holds files with bytes between the picture and its end."""
    data = photo()
    odd = data[:-2] + bytes(range(1, 240)) + END
    with pytest.raises(BrokenImage, match="236 extraneous bytes before marker 0xd9"):
        decode(odd, name="odd")
    assert torch.equal(decode(odd, name="odd", strict=False), decode(data, name="photo"))
    shown = decode(data[: len(data) // 2] + END, name="half", strict=False)
    assert flat_rows(shown) > 30
    with pytest.raises(BrokenImage, match="image file is truncated"):
        decode(data[: len(data) // 2], name="half", strict=False)


def test_harmless_oddities_pass():
    """Bytes after the picture's end; a future version of the header."""
    data = photo()
    expected = decode(data, name="photo")
    assert data[6:13] == b"JFIF\0\1\1"
    for odd in (
        data + b"<html>",
        data[:11] + b"\7" + data[12:],
    ):
        assert torch.equal(decode(odd, name="odd"), expected)


def samples(kit: Path, largest: int) -> list[bytes]:
    files = sorted((kit / "imagenet-sample/images").glob("*.JPEG"))
    found = (file.read_bytes() for file in files if file.stat().st_size <= largest)
    return [data for data in found if Image.open(io.BytesIO(data)).mode == "RGB"]


def test_real_files_are_not_refused(kit):
    folders = ("imagenet-sample/images", "vtab-layouts/real/oxford-iiit-pet/images", "vtab-layouts/real/dtd/dtd/images")
    files = [file for folder in folders for file in (kit / folder).rglob("*.[jJ][pP]*")]
    assert len(files) > 390
    for file in files:
        decode(file.read_bytes(), name=file.name)


def check_mutants(originals: list[bytes], count: int) -> None:
    """Incomplete files are all refused; of those changed inside, no decoder can know all that look wrong."""
    chance = random.Random(0)
    wrong = []
    for number in range(count):
        original = chance.choice(originals)
        damage = (INCOMPLETE + CHANGED)[number % 9]
        shown = outcome(damaged(original, damage, chance))
        if damage in INCOMPLETE:
            assert shown is None, (number, damage)
        else:
            wrong.append(shown is not None and differ(shown, decode(original, name="original")))
    assert sum(wrong) <= 0.15 * len(wrong)


def differ(one: Tensor, other: Tensor) -> bool:
    return one.shape != other.shape or bool((one.int() - other.int()).abs().float().mean() > 5)


def test_mutants_of_real_files(kit):
    check_mutants(samples(kit, 20_000), 270)


@pytest.mark.slow
def test_very_many_mutants_of_real_files(kit):
    check_mutants(samples(kit, 10**9), 5000)
