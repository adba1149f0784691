import pytest

from datamodules.reading.class_map import read_class_map
from vit_lightning.errors import InputError


def test_names_in_order_and_files_that_hold_none(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("zebra\n\n ant \n", encoding="utf-8")
    assert read_class_map(path) == ["zebra", "ant"]
    path.write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(InputError, match=r"names\.txt cannot be read: it is not UTF-8 text"):
        read_class_map(path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_class_map(tmp_path / "nowhere")
