"""Records of chunks by their number, in files that are whole and in damaged ones."""

import numpy as np
import pytest
import torch

from datamodules.reading.chunk_records import ChunkRecords
from datamodules.reading.remote_files import RemoteFile, RemoteFiles
from vit_lightning.data import chunks
from vit_lightning.data.chunks import MULTI_LABEL, Layout
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError

ONE = Layout(("bytes", "int", "str"), 0, 1, 2)
MANY = Layout(("bytes", MULTI_LABEL, "str"), 0, 1, 2)


def records(folder, labels=(0, 1, 2, 1, 0), sizes=(2, 3), keys=None, layout=ONE, **facts) -> ChunkRecords:
    names, files = list(keys or (f"{n}.png" for n in range(len(labels)))), []
    for number, start in enumerate(np.cumsum([0, *sizes[:-1]])):
        some = range(start, start + sizes[number])
        path = folder / f"{number}.bin"
        digest = chunks.write(path, [chunks.item(b"%d" % n * (n + 1), labels[n], names[n]) for n in some])
        files.append(RemoteFile(str(path), path.stat().st_size, digest))
    return ChunkRecords(RemoteFiles(files, folder / "cache"), sizes, layout, 3, None, **facts)


def test_records_come_in_the_order_in_which_they_were_written(tmp_path):
    found = records(tmp_path)
    assert len(found) == 5
    assert [found[n] for n in range(5)] == [(b"0", 0), (b"11", 1), (b"222", 2), (b"3333", 1), (b"44444", 0)]
    assert list(found.keys) == ["0.png", "1.png", "2.png", "3.png", "4.png"] and found.keys.lie_in_records
    assert found.name(1) == f"record 1 of {tmp_path / '0.bin'}" and found.name(4) == f"record 2 of {tmp_path / '1.bin'}"
    assert not hasattr(found, "labels") and not hasattr(found, "blocks")


def test_a_damaged_place_asks_for_no_more_than_its_file_has(tmp_path, monkeypatch):
    found, asked = records(tmp_path), []
    file = tmp_path / "1.bin"
    data = bytearray(file.read_bytes())
    data[8:12] = (2**32 - 1).to_bytes(4, "little")  # where the first of its three records ends, and the next begins
    file.write_bytes(data)
    read = RemoteFiles.read
    monkeypatch.setattr(RemoteFiles, "read", lambda self, *place: asked.append(place) or read(self, *place))
    for number in (2, 3):
        with pytest.raises(BrokenImage, match="the shard is damaged"):
            found[number]
    assert max(size for _, _, size in asked) <= len(data) and min(size for _, _, size in asked) >= 0
    assert found[4] == (b"44444", 0)


def test_what_has_no_name_is_called_by_its_place(tmp_path):
    found = records(tmp_path, keys=["a", "", "b\nc", "d", "\udcff"])
    assert list(found.keys) == ["a", found.name(1), found.name(2), "d", found.name(4)]
    for place in (-1, 5):
        with pytest.raises(IndexError):
            found.keys[place]
    nameless = ChunkRecords(found.files, (2, 3), Layout(("bytes", "int"), 0, 1, None), 3, np.arange(5))
    assert not hasattr(nameless, "keys") and nameless.labels.tolist() == [0, 1, 2, 3, 4]


def test_several_classes_are_a_vector(tmp_path):
    some = [np.array(each, np.int32) for each in ([2, 0], [], [IGNORE], [1], [0, 1, 2])]
    found = records(tmp_path, some, layout=MANY)
    vectors = [[1, 0, 1], [0, 0, 0], [IGNORE] * 3, [0, 1, 0], [1, 1, 1]]
    for number, vector in enumerate(vectors):
        assert torch.equal(found[number][1], torch.tensor(vector, dtype=torch.float32))


@pytest.mark.parametrize("label", [3, -1, 2**33])
def test_a_label_outside_the_classes(tmp_path, label):
    found = records(tmp_path, (0, 1, label, 1, IGNORE))
    assert found[4][1] == IGNORE
    with pytest.raises(InputError, match=rf"^record 0 of .*1\.bin has label {label}, outside the 3 classes"):
        found[2]


def test_places_that_a_damaged_chunk_gives(tmp_path):
    found = records(tmp_path)
    path = tmp_path / "0.bin"
    whole = np.frombuffer(path.read_bytes(), np.uint8).copy()
    for end in (2**32 - 1, 0, 20):  # the end of the first record
        whole[8:12] = np.frombuffer(np.uint32(end).tobytes(), np.uint8)
        path.write_bytes(whole.tobytes())
        with pytest.raises(BrokenImage, match=r"record 0 of .*its sizes do not add up; the shard is damaged"):
            records_at(found)[0]
        assert found.keys[0] == found.name(0)


def records_at(found: ChunkRecords) -> ChunkRecords:
    """The same records from files that are opened anew."""
    return ChunkRecords(RemoteFiles(found.files.files, found.files.folder), (2, 3), found.layout, 3, None)


def test_a_label_of_another_size(tmp_path):
    path = tmp_path / "0.bin"
    for layout, label in ((ONE, b"1234"), (MANY, b"123")):
        chunks.write(path, [np.array([1, len(label), 0], np.uint32).tobytes() + b"x" + label])
        found = ChunkRecords(RemoteFiles([RemoteFile(str(path))], tmp_path), (1,), layout, 3, None)
        with pytest.raises(BrokenImage, match=f"its label has {len(label)} bytes; the shard is damaged"):
            found[0]


def test_rows_of_arrow_are_no_records(tmp_path):
    path = tmp_path / "0.bin"
    path.write_bytes(np.array([1, 12, 12], np.uint32).tobytes() + b"rows")
    files = RemoteFiles([RemoteFile(str(path))], tmp_path)
    with pytest.raises(InputError, match=r"0\.bin holds no records but Arrow rows, which LitData alone reads") as told:
        ChunkRecords(files, (1,), ONE, 3, None)[0]
    assert not isinstance(told.value, BrokenImage)


def test_what_comes_soon_is_fetched_chunk_by_chunk(tmp_path):
    found, asked = records(tmp_path, sizes=(2, 2, 1)), []
    found.files.announce = lambda numbers: asked.extend(numbers)
    found.announce(np.array([4, 0, 1, 3, 0, 4]))
    assert asked == [2, 0, 1]


def test_remote_records_are_drawn_in_blocks_of_a_chunk(tmp_path):
    files = RemoteFiles([RemoteFile("http://x/0.bin"), RemoteFile("http://x/1.bin")], tmp_path)
    assert ChunkRecords(files, (2, 3), ONE, 3, None).blocks.tolist() == [0, 0, 1, 1, 1]
