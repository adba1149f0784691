"""Labels of chunks against what was written into them."""

import numpy as np
import pytest

from datamodules.reading.chunk_labels import check_labels, read_labels
from datamodules.reading.shared_sequences import Ragged
from vit_lightning.data import chunks
from vit_lightning.data.chunks import MULTI_LABEL, Layout
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError

ONE = Layout(("bytes", "int", "str"), 0, 1, 2)
MANY = Layout(("bytes", MULTI_LABEL, "str"), 0, 1, 2)
LABELS = [[4, 0, -100], [2**40], [7, 7]]
LISTS = [[[4, 0], []], [[1, 2, 3]], [[], [-100]]]


def written(folder, labels, made=lambda label: label):
    """Chunks of records whose images are of different sizes."""
    files = []
    for number, some in enumerate(labels):
        files.append(folder / f"{number}.bin")
        items = [
            chunks.item(b"x" * (3 * number + place), made(one), f"{number}.{place}") for place, one in enumerate(some)
        ]
        chunks.write(files[-1], items)
    return files


def test_a_class_of_each_record(tmp_path):
    found = read_labels(written(tmp_path, LABELS), ONE)
    assert found.values.tolist() == [4, 0, -100, 2**40, 7, 7] and found.ends.tolist() == list(range(7))


def test_several_classes_of_each_record(tmp_path):
    found = read_labels(written(tmp_path, LISTS, lambda some: np.array(some, np.int32)), MANY)
    assert [row.tolist() for row in found] == [[4, 0], [], [1, 2, 3], [], [-100]]
    assert found.values.dtype == np.int32


def test_fields_in_another_order(tmp_path):
    """The label first, and the label last."""
    for place, formats in ((0, ("int", "bytes")), (2, ("str", "bytes", "int"))):
        items = []
        for number in (5, 6):
            fields = [b"image" * number] * len(formats)
            fields[place] = np.int64(number).tobytes()
            items.append(np.array([len(field) for field in fields], np.uint32).tobytes() + b"".join(fields))
        chunks.write(tmp_path / "x.bin", items)
        found = read_labels([tmp_path / "x.bin"], Layout(formats, 1, place, None))
        assert found.values.tolist() == [5, 6]


def test_no_chunk_has_no_labels(tmp_path):
    assert read_labels([], ONE) is None


@pytest.mark.parametrize("layout", [ONE, MANY])
def test_a_damaged_chunk_has_no_labels(tmp_path, layout):
    several = layout is MANY
    files = written(
        tmp_path, LISTS if several else LABELS, (lambda x: np.array(x, np.int32)) if several else (lambda x: x)
    )
    assert read_labels(files, layout) is not None
    whole = files[0].read_bytes()
    first = 4 * int(np.frombuffer(whole, np.uint32, 1)[0] + 2)  # where the first record begins
    sizes = np.frombuffer(whole, np.uint32, 3, first).copy()
    sizes[1] += 1 if several else 4
    for damaged in (
        b"",
        whole[:3],
        whole[:6],
        whole[: first - 4],
        np.uint32(len(whole)).tobytes() + whole[4:],
        whole[:first] + sizes.tobytes() + whole[first + 12 :],
        whole[:-9] if not several else whole[: first + 13],
    ):
        files[0].write_bytes(damaged)
        assert read_labels(files, layout) is None
    files[0].unlink()
    assert read_labels(files, layout) is None


def check(values, ends=None, several=False, num_classes=3, may_hide=False):
    labels = Ragged(np.array(values), np.arange(len(values) + 1) if ends is None else np.array(ends))
    check_labels(labels, several, num_classes, "the set", lambda number: f"record {number}", may_hide)


@pytest.mark.parametrize(
    ("values", "said"),
    [([0, 2, 3, 4], "record 2 has label 3, outside the 3 classes"), ([0, -1], "record 1 has label -1, outside the 3")],
)
def test_labels_outside_the_classes_name_the_first_record(values, said):
    for may_hide in (False, True):
        with pytest.raises(InputError, match=said):
            check(values, may_hide=may_hide)


def test_labels_may_be_hidden_where_that_is_said():
    check([0, IGNORE, 2], may_hide=True)
    with pytest.raises(InputError, match="record 1 has label -100"):
        check([0, IGNORE, 2])


def test_the_record_of_a_label_among_several():
    check([0, 1, 2, 2], [0, 3, 3, 4], several=True)
    with pytest.raises(InputError, match="record 2 has label 5"):
        check([0, 1, 2, 5], [0, 3, 3, 4], several=True)


def test_vectors_are_told_where_images_may_have_several():
    with pytest.raises(InputError, match="record 1 has a 0 or 1 for each class"):
        check([2, 0, 1, 0], [0, 1, 4], several=True)
    check([2, 0, 1, 0], several=False)
    with pytest.raises(InputError, match="the set has the list 0, 1 or 1, 0 for every image"):
        check([0, 1, 1, 0], [0, 2, 4], several=True, num_classes=2)
