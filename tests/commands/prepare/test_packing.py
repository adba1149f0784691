"""What a stopped prepare goes on from: the same images with the same labels, and a journal that is whole."""

from pathlib import Path

import numpy as np
import pytest
import torch

from vit_lightning.commands.prepare.packing import Encoding, Form, Packing
from vit_lightning.data.images import BrokenImage
from vit_lightning.errors import InputError


class Squares:
    """Eight white images, of given classes."""

    def __init__(self, labels: list[int], names: str = "abcdefgh") -> None:
        self.labels = np.array(labels)
        self.keys = list(names)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, 4, 4), 255, dtype=torch.uint8), int(self.labels[number])


LABELS = [0, 1, 2, 0, 1, 2, 0, 1]


def packing(folder: Path, labels: list[int] = LABELS, names: str = "abcdefgh") -> Packing:
    return Packing(Encoding(Squares(labels, names), 3, Form(None, 90, 2), "raise"), folder, 0, 0)


def run(folder: Path, **options) -> dict:
    return packing(folder, **options).run(lambda done: None)


def test_other_labels_or_names_are_another_set(tmp_path):
    run(tmp_path)
    assert packing(tmp_path).images_done == 8
    for options in ({"labels": [*LABELS[:-1], 2]}, {"labels": LABELS[::-1]}, {"names": "abcdefgx"}):
        with pytest.raises(InputError, match="holds shards of images with other names or labels; remove it or give"):
            packing(tmp_path, **options)


def test_the_mean_size_is_that_of_the_images_that_are_there(tmp_path):
    class Half(Squares):
        def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
            if number % 2:
                raise BrokenImage("x.png", "it is empty")
            return torch.full((3, 4, 6), 255, dtype=torch.uint8), 0

    facts = Packing(Encoding(Half(LABELS), 3, Form(None, 90, 3), "skip"), tmp_path, 0, 0.5).run(lambda done: None)
    assert (facts["images"], facts["skipped"], facts["mean_size"]) == (4, 4, [4, 6])


@pytest.mark.parametrize("data", [b"{", b"[]", b"3", b"{}", b'{"shard": 1}', b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_line_of_the_journal_is_named(tmp_path, data):
    run(tmp_path)
    journal = tmp_path / "prepared.jsonl"
    lines = journal.read_bytes().splitlines()
    whole = [(tmp_path / f"chunk-0-{number}.bin").read_bytes() for number in range(4)]
    for number, remedy in ((0, f"remove {tmp_path}"), (2, "remove that line: its shard is then made anew")):
        journal.write_bytes(b"\n".join([*lines[:number], data, *lines[number + 1 :], b""]))
        with pytest.raises(InputError) as caught:
            packing(tmp_path)
        assert str(caught.value) == f"line {number + 1} of {journal} is damaged; {remedy}, and run prepare again"
    journal.write_bytes(b"\n".join([*lines[:2], *lines[3:], b""]))
    assert packing(tmp_path).images_done == 6
    run(tmp_path)  # the remedy
    assert packing(tmp_path).images_done == 8
    assert [(tmp_path / f"chunk-0-{number}.bin").read_bytes() for number in range(4)] == whole
