"""TFRecord files of tf.train.Example messages, read without TensorFlow.

A record is its length as 64 bits, a checksum of these 8 bytes, its bytes, and a checksum of them; all little-endian.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from vit_lightning.files import open_regular

BLOCK = 1024
"""Bytes whose share of a checksum is looked up at once."""


def records(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the place in the file and the bytes of every record.

    Raises:
        ValueError: if the file is cut short, or damaged between the records; `checked` finds damage inside them.
    """
    with open_regular(file) as opened:
        while header := opened.read(12):
            start = opened.tell() - len(header)
            length = int.from_bytes(header[:8], "little")
            if len(header) < 12 or masked_crc(header[:8]) != int.from_bytes(header[8:], "little"):
                raise ValueError(f"{file} is damaged at byte {start}")
            record = opened.read(length + 4)
            if len(record) < length + 4:
                raise ValueError(f"{file} is cut short after byte {start}")
            yield start, record[:length]


def checked(file: Path, start: int) -> bytes:
    """Return the record at that place in the file.

    Raises:
        ValueError: if its bytes do not fit their checksum.
    """
    with open_regular(file) as opened:
        opened.seek(start)
        length = int.from_bytes(opened.read(12)[:8], "little")
        record, checksum = opened.read(length), opened.read(4)
    if masked_crc(record) != int.from_bytes(checksum, "little"):
        raise ValueError("the record does not fit its checksum")
    return record


def example(record: bytes) -> dict[str, list]:
    """Return the features of a tf.train.Example that hold bytes or integers, each a list."""
    (features,) = _fields(record)[1]
    found = {}
    for entry in map(_fields, _fields(features)[1]):
        ((name,), (feature,)) = entry[1], entry[2]
        for kind, values in _fields(feature).items():
            if kind in VALUES:
                found[bytes(name).decode()] = VALUES[kind](_fields(values[0])[1])
    return found


def _integers(values: list) -> list[int]:
    """Return integers that stand alone or, as TensorFlow writes them, packed in one string."""
    found = []
    for value in values:
        found += [value] if isinstance(value, int) else _varints(value)
    return found


VALUES = {1: lambda values: [bytes(value) for value in values], 3: _integers}
"""What makes a list of a feature's values, by the number of their kind; floats, of kind 2, are left out."""


def _fields(message: bytes | memoryview) -> dict[int, list]:
    """Return the values in a protocol buffer by the number of their field: integers, or views of longer values."""
    message, place, found = memoryview(message), 0, defaultdict(list)
    while place < len(message):
        tag, place = _varint(message, place)
        value, place = _varint(message, place)
        match tag & 7:
            case 0:
                pass
            case 2:
                value, place = message[place : place + value], place + value
            case kind:
                raise ValueError(f"wire type {kind} has no place in a tf.train.Example")
        found[tag >> 3].append(value)
    return found


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


def _varints(packed: memoryview) -> list[int]:
    values, place = [], 0
    while place < len(packed):
        value, place = _varint(packed, place)
        values.append(value)
    return values


def masked_crc(data: bytes) -> int:
    """Return a TFRecord's checksum of at least 4 bytes: CRC-32C, rotated and shifted."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli) of at least 4 bytes."""
    blocks = np.zeros(-(-len(data) // BLOCK) * BLOCK, dtype=np.uint8)
    blocks[-len(data) :] = np.frombuffer(data, dtype=np.uint8)
    # Starting from ones equals inverting the first 4 bytes, and then zeros in front change nothing.
    blocks[-len(data) :][:4] ^= 255
    table = _table()
    shares = np.bitwise_xor.reduce(table[np.arange(BLOCK), blocks.reshape(-1, BLOCK)], axis=1)
    crc = 0
    for share in shares.tolist():
        crc = share ^ int(np.bitwise_xor.reduce(table[range(4), list(crc.to_bytes(4, "little"))]))
    return crc ^ 0xFFFFFFFF


@cache
def _table() -> np.ndarray:
    """Return what each byte at each place of a block adds to the block's checksum, `(BLOCK, 256)` uint32."""
    last = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        last = last >> 1 ^ (last & 1) * np.uint32(0x82F63B78)
    rows = [last]
    for _ in range(BLOCK - 1):
        rows.append(rows[-1] >> 8 ^ last[rows[-1] & 255])
    return np.stack(rows[::-1])
