"""Arrays kept in a file: whole, or an error that names it."""

import os
import pickle
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from datamodules.reading import array_cache
from datamodules.reading.shared_sequences import Ragged, Strings
from vit_lightning.errors import InputError

ARRAYS = {
    "numbers": np.arange(5, dtype=np.int32),
    "none": np.zeros((0, 2)),
    "names": Strings(["ä", ""]),
    "rows": Ragged.of([[1], []]),
}


def read(file) -> dict[str, np.ndarray]:
    array_cache._compared.clear()  # as in a new process
    return array_cache.load(file)


def test_what_is_saved_is_loaded(tmp_path):
    file = tmp_path / "x.safetensors"
    array_cache.save(file, ARRAYS)
    found = read(file)
    assert found["numbers"].tolist() == [0, 1, 2, 3, 4] and found["none"].shape == (0, 2)
    assert list(array_cache.MappedStrings(file, "names")) == ["ä", ""]


def test_a_file_has_changed_by_its_time_or_its_size_and_a_folder_by_its_time(tmp_path):
    """Copies keep the time of what they are made of, and clocks of some file systems tick once in two seconds."""
    file = tmp_path / "x.csv"
    states = []
    for content, moment in (("a", 5), ("ab", 5), ("ab", 7)):
        file.write_text(content)
        os.utime(file, (moment, moment))
        states.append(array_cache.file_state(file))
    assert len(set(states)) == 3 and array_cache.file_state(file) == states[-1]
    os.utime(tmp_path, (5, 5))
    assert array_cache.file_state(tmp_path) == (5 * 10**9, 0)
    assert array_cache.file_state(tmp_path / "absent") == (0, 0)


def test_a_file_has_changed_where_its_time_and_its_size_stay(tmp_path):
    file, other = tmp_path / "x.csv", tmp_path / "y.csv"
    for path, content in ((file, "a"), (other, "b")):
        path.write_text(content)
        os.utime(path, (5, 5))
    before = array_cache.content_state(file)
    assert before == array_cache.content_state(file) and before[:2] == array_cache.content_state(other)[:2]
    os.replace(other, file)
    assert array_cache.content_state(file) != before
    assert not any(array_cache.content_state(tmp_path / "absent"))


def test_any_wrong_byte_is_noticed(tmp_path):
    file = tmp_path / "x.safetensors"
    array_cache.save(file, ARRAYS)
    whole, expected = file.read_bytes(), read(file)
    faults = []
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 1
        file.write_bytes(data)
        try:
            found = read(file)
        except InputError as error:
            faults.append(str(error))
        else:  # a byte that says nothing
            assert found.keys() == expected.keys()
            assert all(np.array_equal(found[name], expected[name]) for name in found)
    assert len(faults) > 0.9 * len(whole)
    assert all(
        fault.startswith(f"{file} is damaged (") and "remove it to have it made anew" in fault for fault in faults
    )


def test_a_change_is_noticed_in_the_same_process(tmp_path):
    file = tmp_path / "x.safetensors"
    array_cache.save(file, ARRAYS)
    array_cache.load(file)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    os.utime(file, ns=(time.time_ns() + 10**9,) * 2)
    with pytest.raises(InputError, match="its checksum is another"):
        array_cache.load(file)


def test_files_of_earlier_versions_have_no_checksum(tmp_path):
    save_file({"numbers": ARRAYS["numbers"]}, tmp_path / "x.safetensors")
    assert read(tmp_path / "x.safetensors")["numbers"].tolist() == [0, 1, 2, 3, 4]


def test_each_source_and_version_has_a_file_of_its_own_in_the_folder_that_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(array_cache, "CACHE_FOLDER", tmp_path / "own")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    source, other = Path("/data/a/set.csv"), Path("/data/b/set.csv")
    file = array_cache.cache_file(None, source, "1")
    assert file.parent == tmp_path / "own" and file.name.startswith("set.csv-") and file.suffix == ".safetensors"
    assert file == array_cache.cache_file(None, source, "1")
    assert len({file, array_cache.cache_file(None, source, "2"), array_cache.cache_file(None, other, "1")}) == 3
    assert array_cache.cache_file(tmp_path, source, "1") == tmp_path / file.name
    assert array_cache.cache_file(Path("~/x"), source, "1") == tmp_path / "home/x" / file.name


@pytest.mark.parametrize(
    ("greatest", "kind"), [(0, np.uint32), (2**32 - 1, np.uint32), (2**32, np.int64), (2**40, np.int64)]
)
def test_numbers_are_kept_in_32_bits_where_they_fit(greatest, kind):
    found = array_cache.compact(np.array([0, greatest]))
    assert found.dtype == kind and found.tolist() == [0, greatest]
    assert array_cache.compact(np.array([], dtype=np.int64)).dtype == np.uint32


def test_strings_travel_to_a_worker_as_the_name_of_their_file(tmp_path):
    file = tmp_path / "x.safetensors"
    array_cache.save(file, {"a": Strings(["one", "two", "three"]), "b": Strings(["x"])})
    data = pickle.dumps(array_cache.MappedStrings(file, "a"))
    assert len(data) < 200 + len(str(file)) and list(pickle.loads(data)) == ["one", "two", "three"]


def test_a_file_is_compared_once_in_each_of_its_states(tmp_path, monkeypatch):
    file = tmp_path / "x.safetensors"
    array_cache.save(file, ARRAYS)
    compared: list[int] = []
    whole = array_cache._checksum
    monkeypatch.setattr(array_cache, "_checksum", lambda arrays: compared.append(1) or whole(arrays))
    array_cache._compared.clear()
    for _ in range(3):
        array_cache.load(file)
    assert len(compared) == 1
    os.utime(file, (5, 5))
    array_cache.load(file)
    assert len(compared) == 2
    other = tmp_path / "y.safetensors"
    other.write_bytes(file.read_bytes())
    os.utime(other, (5, 5))
    other.replace(file)  # of the same time and size
    array_cache.load(file)
    assert len(compared) == 3


def test_a_checksum_stands_for_names_types_forms_and_bytes():
    base = {"a": np.arange(6, dtype=np.int32), "b": np.zeros(2, np.int32)}
    others = [
        {"a": base["b"], "b": base["a"]},
        {"a": base["a"], "c": base["b"]},
        {"a": base["a"].view(np.uint32), "b": base["b"]},
        {"a": base["a"].reshape(2, 3), "b": base["b"]},
        {"a": base["a"][::-1], "b": base["b"]},
        {"a": base["a"]},
    ]
    found = [array_cache._checksum(arrays) for arrays in (base, *others)]
    assert len(set(found)) == len(found)
    assert array_cache._checksum(dict(reversed(base.items()))) == found[0]


def test_a_folder_that_is_there_is_no_hindrance_and_nothing_else_is_left(tmp_path):
    file = tmp_path / "deep" / "x.safetensors"
    for _ in range(2):
        array_cache.save(file, ARRAYS)
    assert [path.name for path in file.parent.iterdir()] == ["x.safetensors"]
    (tmp_path / "mode").touch()
    assert file.stat().st_mode == (tmp_path / "mode").stat().st_mode  # others may read it
