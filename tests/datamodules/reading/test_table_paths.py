"""Where the files of a table's paths lie, and what is said where none of them does."""

import copy
import pickle
import re
from pathlib import Path

import pytest

from datamodules.reading import array_cache
from datamodules.reading.shared_sequences import Strings
from datamodules.reading.table_paths import LOOKED_FOR, Paths
from vit_lightning.data.images import BrokenImage


def paths(root: Path, names: list[str], *folders: Path) -> Paths:
    array_cache.save(root / "table.safetensors", {"paths": Strings(names)})
    return Paths(root / "table.safetensors", list(folders) or [root])


def test_paths_start_from_one_of_the_folders(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images/a.png").touch()
    (tmp_path / "b.png").touch()
    found = paths(tmp_path, ["a.png", "b.png", "c.png"], tmp_path, tmp_path / "images")
    for each in (found, pickle.loads(pickle.dumps(found)), copy.copy(found)):
        assert [each.image(0), each.image(1)] == [tmp_path / "images/a.png", tmp_path / "b.png"]
        with pytest.raises(BrokenImage, match=r"row 3 of its table: No such file as c\.png in"):
            each.image(2)


def test_one_file_that_is_there_is_enough(tmp_path):
    found = paths(tmp_path, [f"{number}.png" for number in range(100)])
    said = found.fault(Path("t.csv"))
    assert said.startswith("t.csv: no path leads to a file. No such file as 0.png in ")
    assert "; give --data.image_folder, --data.image_prefix or --data.image_ending" in said and "Windows" not in said
    (tmp_path / "99.png").touch()  # the last one is looked for
    assert found.fault(Path("t.csv")) == ""
    (tmp_path / "99.png").unlink()
    (tmp_path / "1.png").touch()  # and not each
    assert found.fault(Path("t.csv"))


def test_eight_images_are_looked_for_from_the_first_to_the_last(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(Paths, "image", lambda self, number: asked.append(number))
    paths(tmp_path, list(map(str, range(71)))).fault(Path("t.csv"))
    assert asked == list(range(0, 71, 10)) and len(asked) == LOOKED_FOR
    asked.clear()
    paths(tmp_path, ["a", "b", "c"]).fault(Path("t.csv"))
    assert asked == [0, 1, 2]


def test_two_files_that_a_path_may_mean_are_worse_than_none(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "b.png").write_text(folder)
    (tmp_path / "one/a.png").touch()
    found = paths(tmp_path, ["a.png", "c.png", "b.png"], tmp_path / "one", tmp_path / "two")
    said = found.fault(Path("t.csv"))
    assert re.match(
        r"t\.csv: b\.png may be .*one/b\.png or .*two/b\.png, which differ; remove one; or give --data\.im", said
    )
    (tmp_path / "two/b.png").write_text("one")
    assert found.fault(Path("t.csv")) == ""


def test_paths_of_windows_are_told(tmp_path):
    said = paths(tmp_path, ["C:\\photos\\a.png"]).fault(Path("t.csv"))
    assert said.endswith("begins at a drive of Windows: give its folder there, as --data.image_prefix 'C:\\photos\\'")
