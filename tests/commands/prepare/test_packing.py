"""What a stopped prepare goes on from: the same images with the same labels, and a journal that is whole."""

import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.commands.prepare import verb
from vit_lightning.commands.prepare.packing import Encoding, Form, Packing, _Batches
from vit_lightning.data import chunks, images
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.sampling import IGNORE
from vit_lightning.data.subsets import Subset
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


class Vectors:
    """Two white images, of which each may show several of three classes."""

    def __init__(self, first: list[float]) -> None:
        self.vectors = torch.tensor([first, [0.0, 1.0, 0.0]])

    def __len__(self) -> int:
        return 2

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.full((3, 4, 4), 255, dtype=torch.uint8), self.vectors[number]


@pytest.mark.parametrize("half", [False, True])
def test_other_vectors_of_labels_are_another_set(tmp_path, half):
    def packed(*first: float) -> Packing:
        source = Vectors(list(first))
        part = Subset(source, np.arange(2)) if half else source
        return Packing(Encoding(part, 3, Form(None, 90, 2), "raise", may_hide=True), tmp_path, 0, 0)

    packed(1, 0, 1).run(lambda done: None)
    assert packed(1, 0, 1).images_done == 2
    for other in ((0, 0, 1), (1, 1, 1), (IGNORE, IGNORE, IGNORE)):
        with pytest.raises(InputError, match="holds shards of images with other names or labels; remove it or give"):
            packed(*other)


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


class Shapes(Squares):
    """Images of (3, number + 2, 5) pixels."""

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, number + 2, 5), 255, dtype=torch.uint8), int(self.labels[number])


def test_the_manifest_adds_up_what_the_shards_hold(tmp_path):
    told: list[int] = []
    facts = Packing(Encoding(Shapes(LABELS), 3, Form(None, 90, 3), "raise"), tmp_path / "a", 0, 0).run(told.append)
    files = [tmp_path / "a" / f"chunk-0-{number}.bin" for number in range(3)]
    assert facts == {
        "folder": "a",
        "images": 8,
        "skipped": 0,
        "bytes": sum(file.stat().st_size for file in files),
        "mean_size": [sum(range(2, 10)) // 8, 5],
        "index_sha256": hashlib.sha256((tmp_path / "a" / "index.json").read_bytes()).hexdigest(),
        "labels_sha256": hashlib.sha256((tmp_path / "a" / "labels.npy").read_bytes()).hexdigest(),
    }
    assert told == [3, 3, 2]
    assert np.load(tmp_path / "a" / "labels.npy").tolist() == LABELS
    assert not (tmp_path / "a" / "chunk-0-3.bin").exists()


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (Form(8, 90, 2), "with short_side 9, not 8"),
        (Form(None, 90, 2), "with short_side 9, not null"),
        (Form(9, None, 2), "with quality 90, not null"),
        (Form(9, 91, 2), "with quality 90, not 91"),
        (Form(9, 90, 4), "with shard_images 2, not 4"),
    ],
)
def test_shards_of_another_form_are_refused(tmp_path, form, said):
    Packing(Encoding(Squares(LABELS), 3, Form(9, 90, 2), "raise"), tmp_path, 0, 0)
    with pytest.raises(InputError, match=f"holds shards {said}; remove it or give another --out"):
        Packing(Encoding(Squares(LABELS), 3, form, "raise"), tmp_path, 0, 0)


def test_shards_of_more_images_are_another_set(tmp_path):
    class Unlabelled(Squares):
        """Its labels are known from its records alone."""

        labels = property(lambda self: None, lambda self, labels: setattr(self, "_size", len(labels)))

        def __len__(self) -> int:
            return self._size

        def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
            return torch.full((3, 4, 4), 255, dtype=torch.uint8), 0

    Packing(Encoding(Unlabelled(LABELS), 3, Form(9, 90, 2), "raise"), tmp_path, 0, 0)
    Packing(Encoding(Unlabelled(LABELS), 3, Form(9, 90, 2), "raise"), tmp_path, 0, 0)
    with pytest.raises(InputError, match="holds shards with images 8, not 6"):
        Packing(Encoding(Unlabelled(LABELS[:6]), 3, Form(9, 90, 2), "raise"), tmp_path, 0, 0)


def test_a_shard_of_another_size_is_made_anew_and_of_two_lines_the_last_counts(tmp_path):
    run(tmp_path)
    whole = (tmp_path / "chunk-0-1.bin").read_bytes()
    (tmp_path / "chunk-0-1.bin").write_bytes(whole + b"x")
    (tmp_path / "chunk-0-3.bin").unlink()
    assert sorted(packing(tmp_path).done) == [0, 2]
    run(tmp_path)
    assert (tmp_path / "chunk-0-1.bin").read_bytes() == whole
    journal = tmp_path / "prepared.jsonl"
    assert [json.loads(line)["shard"] for line in journal.read_text().splitlines()[1:]] == [0, 1, 2, 3, 1, 3]
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join([*lines, json.dumps(json.loads(lines[-1]) | {"chunk_bytes": 1})]) + "\n")
    assert sorted(packing(tmp_path).done) == [0, 1, 2]
    assert packing(tmp_path).images_done == 6


def some_broken(*numbers: int) -> type[Squares]:
    class Some(Squares):
        def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
            if number in numbers:
                raise BrokenImage("x.png", "it is empty")
            return super().__getitem__(number)

    return Some


def test_as_many_may_be_left_out_as_max_broken_allows(tmp_path):
    """Two of eight are a quarter; one shard is left without an image, and the index without that shard."""
    source = some_broken(2, 3)(LABELS)
    facts = Packing(Encoding(source, 3, Form(None, 90, 2), "skip"), tmp_path / "a", 0, 0.25).run(lambda done: None)
    assert (facts["images"], facts["skipped"]) == (6, 2)
    assert np.load(tmp_path / "a" / "labels.npy").tolist() == [0, 1, 1, 2, 0, 1]
    listed = json.loads((tmp_path / "a" / "index.json").read_text())["chunks"]
    assert [(entry["filename"], entry["chunk_size"]) for entry in listed] == [
        (f"chunk-0-{number}.bin", 2) for number in (0, 2, 3)
    ]
    with pytest.raises(InputError, match=r"2 of 8 images cannot be read, a larger share than --data.max_broken 0.24"):
        Packing(Encoding(source, 3, Form(None, 90, 2), "skip"), tmp_path / "b", 0, 0.24).run(lambda done: None)
    with pytest.raises(InputError, match=r"x\.png: it is empty; --data.on_error skip goes on without it"):
        Packing(Encoding(source, 3, Form(None, 90, 2), "fix"), tmp_path / "c", 0, 1).run(lambda done: None)


def test_batches_end_with_their_shard():
    batches = _Batches([range(0, 70), range(70, 102), range(102, 103)])
    assert list(batches) == [range(0, 32), range(32, 64), range(64, 70), range(70, 102), range(102, 103)]
    assert len(batches) == 5


@pytest.mark.parametrize(
    ("label", "stored"),
    [
        (2, np.int64(2).tobytes()),
        (IGNORE, np.int64(IGNORE).tobytes()),
        (torch.tensor([1.0, 0.0, 1.0]), np.array([0, 2], np.int32).tobytes()),
        (torch.tensor([0.0, 0.0, 0.0]), b""),
        (torch.full((3,), float(IGNORE)), np.array([IGNORE], np.int32).tobytes()),
        (3, "a has label 3, outside the 3 classes"),
        (-5, "a has label -5, outside the 3 classes"),
        (torch.tensor([1.0, 0.5, 1.0]), r"a has a label of \(3,\) that is not a 0 or 1 for each class"),
        (torch.tensor([1.0, 0.0]), None),
    ],
)
def test_labels_are_stored_as_classes(label, stored):
    class One(Squares):
        def __getitem__(self, number: int) -> tuple[torch.Tensor, object]:
            return torch.zeros(3, 2, 4, dtype=torch.uint8), label

    found = Encoding(One([0], "a"), 3, Form(None, 90, 2), "raise", may_hide=True)[0]
    if isinstance(stored, bytes):
        _, classes, key = chunks.fields(found.item, 3)
        assert (classes, key) == (stored, b"a")
        assert found.label == (label if isinstance(label, int) else None) and found.sides == (2, 4)
    else:
        with pytest.raises(InputError, match=stored):
            raise found


@pytest.mark.parametrize("label", [IGNORE, torch.full((3,), float(IGNORE)), np.array([0, 1, 0])])
def test_labels_that_no_reader_takes_are_not_packed(label):
    fault = Encoding([(torch.zeros(3, 2, 4, dtype=torch.uint8), label)], 3, Form(None, 90, 2), "raise")[0]
    assert isinstance(fault, InputError)
    assert "stands for one that is not told" in str(fault) or "expected an int or 3 floats" in str(fault)


def test_a_set_has_labels_of_one_kind(tmp_path):
    class Mixed(Squares):
        def __getitem__(self, number: int) -> tuple[torch.Tensor, object]:
            return torch.zeros(3, 2, 4, dtype=torch.uint8), torch.tensor([1.0, 0, 0]) if number == 1 else 0

    with pytest.raises(InputError, match="some images have one class and some a vector of them"):
        Packing(Encoding(Mixed(LABELS), 3, Form(None, 90, 2), "raise"), tmp_path, 0, 0).run(lambda done: None)


@pytest.mark.parametrize(
    ("sides", "short", "resized"),
    [((10, 30), 10, (10, 30)), ((11, 33), 10, (10, 30)), ((44, 20), 10, (22, 10)), ((9, 99), 10, (9, 99))],
)
def test_the_shorter_side_is_brought_to_the_one_asked_for(sides, short, resized):
    pixels = torch.randint(256, (3, *sides), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    data, found = Form(short, 90, 1).encode(pixels, "x")
    image = Image.open(io.BytesIO(data))
    assert found == resized and image.size == resized[::-1]
    assert image.format == ("PNG" if sides == resized else "JPEG")


@pytest.mark.parametrize("sides", [(1, 5), (5, 1), (1, 1)])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("quality", [90, None])
def test_an_image_of_one_row_or_column_is_kept_as_it_is(sides, channels, quality):
    pixels = torch.randint(256, (channels, *sides), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    data, found = Form(8, quality, 1).encode(pixels, "x")
    assert found == sides
    assert torch.equal(images.load(data, name="x").expand(3, -1, -1), pixels.expand(3, -1, -1))


def test_jpegs_have_the_quality_asked_for():
    pixels = torch.randint(256, (3, 96, 160), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    for channels in (pixels, pixels[:1]):
        small, large = (Form(64, quality, 1).encode(channels, "x")[0] for quality in (30, 95))
        assert len(small) < 0.8 * len(large)
        assert Image.open(io.BytesIO(large)).mode == ("RGB" if len(channels) == 3 else "L")


@pytest.mark.parametrize(
    ("channels", "kind", "short", "quality", "refused"),
    [
        (2, torch.uint8, None, 90, True),
        (5, torch.uint8, 8, None, True),
        (3, torch.float32, None, None, True),
        (1, torch.float32, 4, 90, True),
        (4, torch.uint8, 4, 90, False),
    ],
)
def test_pixels_that_neither_form_holds_are_refused(monkeypatch, channels, kind, short, quality, refused):
    pixels = torch.zeros(channels, 8, 8, dtype=kind)
    monkeypatch.setattr(images, "load", lambda *words, **facts: pixels)
    if not refused:
        assert Form(short, quality, 1).encode(pixels, "x")[1] == (4, 4)
        return
    said = f"x has {channels} channels of {str(kind)[6:]}, which JPEG and PNG do not hold; give --short_side null"
    with pytest.raises(InputError, match=said):
        Form(short, quality, 1).encode(pixels, "x")


# The verb's own parts ------------------------------------------------------------------------------------------------


def test_another_order_is_the_same_in_every_version_and_of_every_record_once():
    source = Squares(LABELS)
    mixed = verb._mixed(source)
    assert mixed.indices.tolist() == [2, 6, 0, 3, 7, 5, 1, 4]
    assert mixed.labels.tolist() == [LABELS[number] for number in mixed.indices]
    assert list(mixed.keys) == ["abcdefgh"[number] for number in mixed.indices]


@pytest.mark.parametrize(
    ("names", "foreign"),
    [
        (
            ["train/prepared.jsonl", "train/index.json", "train/labels.npy", "train/chunk-0-1.bin", "manifest.json"],
            None,
        ),
        (["train/prepared.jsonl", "val/chunk-0-0.bin", "notes.txt"], None),  # beside shards
        (["train/prepared.jsonl", "train/chunk-0-0.bin.part", "train/.x", ".hidden"], None),
        (["notes.txt"], "notes.txt"),
        (["manifest.json", "extra/x"], "extra"),
        (["train/prepared.jsonl", "train/cat/x.jpg"], "train/cat"),
        (["train/prepared.jsonl", "train/photo.bin"], "train/photo.bin"),
        (["val/photo.png"], "val/photo.png"),
    ],
)
def test_what_prepare_has_not_written_is_named(tmp_path, names, foreign):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert next(verb._foreign_files(tmp_path), None) == foreign
    assert next(verb._foreign_files(tmp_path / "absent"), None) is None


@pytest.mark.parametrize(
    ("out", "root", "how"),
    [("a", "a", "is"), ("a/b", "a", "lies in"), ("a", "a/b", "contains"), ("a/../b", "b", "is"), ("b", "a", None)],
)
def test_shards_lie_apart_from_the_images(tmp_path, out, root, how):
    if how is None:
        verb._check_apart(tmp_path / out, tmp_path / root)
        verb._check_apart(tmp_path / out, None)
    else:
        with pytest.raises(InputError, match=rf" {how} --data.root .*; give a folder beside it"):
            verb._check_apart(tmp_path / out, tmp_path / root)
