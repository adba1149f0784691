"""Arrays kept in a file: whole, or an error that names it."""

import os
import time

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
