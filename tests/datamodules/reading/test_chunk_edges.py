"""Chunks at their edges: without records, and with records of no bytes."""

import numpy as np
import pytest

from datamodules.reading.chunk_labels import check_labels, read_labels
from datamodules.reading.chunk_records import ChunkRecords
from datamodules.reading.remote_files import RemoteFile, RemoteFiles
from datamodules.reading.shared_sequences import Ragged
from vit_lightning.data import chunks
from vit_lightning.data.chunks import Layout
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError

ONE = Layout(("bytes", "int", "str"), 0, 1, 2)


def test_a_chunk_without_records_between_others(tmp_path):
    for number, some in enumerate(([3, 1], [], [2])):
        chunks.write(tmp_path / f"{number}.bin", [chunks.item(b"x", label, "a") for label in some])
    found = read_labels([tmp_path / f"{number}.bin" for number in range(3)], ONE)
    assert found.values.tolist() == [3, 1, 2] and found.ends.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("digest", "error", "said"),
    [
        ("x" * 64, BrokenImage, r"record 1 of .*0\.bin: its sizes do not add up; the shard is damaged"),
        (None, InputError, r"0\.bin holds no records but Arrow rows, which LitData alone reads"),
    ],
)
def test_a_record_of_no_bytes_is_damage_in_a_shard_of_ours_and_else_an_arrow_row(tmp_path, digest, error, said):
    file = tmp_path / "0.bin"
    chunks.write(file, [chunks.item(b"x", label, "a") for label in (0, 1, 2)])
    places = np.frombuffer(file.read_bytes()[:20], np.uint32).copy()
    places[2] = places[3]  # the second ends where it begins
    file.write_bytes(places.tobytes() + file.read_bytes()[20:])
    files = RemoteFiles([RemoteFile(str(file), file.stat().st_size, digest)], tmp_path)
    records = ChunkRecords(files, [3], ONE, 3, None)
    assert records[2] == (b"x", 2)
    with pytest.raises(error, match=said):
        records[1]


def test_the_first_record_with_a_wrong_label_is_named_behind_rows_of_any_length():
    rows = Ragged.of([[0, 1], [], [2], [], [IGNORE], [0, 3]])
    for may_hide, said in (
        (False, "record 4 has label -100, outside the 3 classes"),
        (True, "record 5 has label 3, out"),
    ):
        with pytest.raises(InputError, match=said):
            check_labels(rows, True, 3, "set", lambda number: f"record {number}", may_hide)
