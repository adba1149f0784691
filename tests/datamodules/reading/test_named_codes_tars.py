"""Numbers in .cls files with names in .json files beside them, which two tars may give anew."""

import io
import json
import tarfile

import pytest

from datamodules.webshards import WebShards
from tests.datamodules.test_labels import picture
from vit_lightning.errors import InputError


def pack(place, name: str, names: str, first: int, count: int = 6) -> None:
    """Write samples whose numbers count up and whose names are some words in turn."""
    words = names.split()
    with tarfile.open(place / name, "w") as tar:
        for row in range(count):
            number = row % len(words)
            facts = json.dumps({"label": words[number]}).encode()
            parts = {"png": picture(first + row), "cls": str(number).encode(), "json": facts}
            for ending, content in parts.items():
                info = tarfile.TarInfo(f"{first + row}.{ending}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def ready(place, **options) -> WebShards:
    data = WebShards(root=place, image_size=8, cache=place / "cache", **options)
    data.setup("fit")
    return data


@pytest.mark.parametrize(("other", "flag"), [("train-1.tar", {}), ("val.tar", {"val": "val.tar"})])
def test_tars_that_number_names_anew(tmp_path, other, flag):
    pack(tmp_path, "train-0.tar", "cat dog", 0)
    pack(tmp_path, other, "dog cat", 10)
    said = rf"train-0\.tar has in sample 2 the label 1 and 'dog' but .*{other} has in sample 1 the label 0 and 'dog'"
    with pytest.raises(InputError, match=rf"{said} in the field .label. of .*; give --data\.label_part json to"):
        ready(tmp_path, **flag)
    assert ready(tmp_path, label_part="json", **flag).class_names == ["cat", "dog"]
    assert ready(tmp_path, label_part="cls", **flag).class_names == ["0", "1"]


def test_a_class_map_of_other_names(tmp_path):
    pack(tmp_path, "train-0.tar", "cat dog", 0)
    (tmp_path / "names.txt").write_text("dog\ncat\n")
    with pytest.raises(InputError, match=r"names\.txt gives the number 1 the name 'cat' but .* sample 1 the label 0"):
        ready(tmp_path, class_map=tmp_path / "names.txt")
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    assert ready(tmp_path, class_map=tmp_path / "names.txt").class_names == ["cat", "dog"]


@pytest.mark.parametrize("names", ["cat dog", "Cat DOG", "a b c"])
def test_tars_that_agree(tmp_path, names):
    pack(tmp_path, "train-0.tar", names, 0)
    pack(tmp_path, "train-1.tar", names, 10)
    assert ready(tmp_path).num_classes == len(names.split())
