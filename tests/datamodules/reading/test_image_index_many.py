"""An index of more folders than are asked for at a time."""

import pytest

from datamodules.reading.image_index import open_index
from vit_lightning.errors import InputError

COUNT = 520  # the root beside them: a third batch of 256 with nine


def test_the_first_change_in_any_of_many_folders_is_found(tmp_path):
    root = tmp_path / "set"
    for number in range(COUNT):
        (root / f"{number:03}").mkdir(parents=True)
    (root / "519/a.png").touch()
    index = open_index(root, tmp_path / "cache")
    assert list(index) == ["519/a.png"] and len(index.sources) == COUNT + 1
    index.check()
    for changed in (519, 511, 510, 256, 255, 254, 0):
        (root / f"{changed:03}/more").mkdir()
        with pytest.raises(InputError, match=rf"set/{changed:03} has changed since it was indexed"):
            index.check()
