"""A folder beside those of classes that holds a logo is left out, and this is said."""

import pytest

from tests.datamodules.reading.test_unread_images import put_other, read
from tests.datamodules.test_folder import put
from vit_lightning.errors import InputError


@pytest.fixture
def flat(tmp_path):
    for number in range(8):
        put(tmp_path / "set" / "ab"[number % 2] / f"{number}.jpg", number)
    return tmp_path / "set"


@pytest.mark.parametrize("names", [["docs/logo.svg"], ["assets/logo.svg", "assets/README.md"], ["design/cat.PSD"]])
def test_a_few_drawings_are_no_class(flat, names):
    for name in names:
        put_other(flat / name)
    data = read(flat)
    folder = names[0].partition("/")[0]
    assert data.class_names == ["a", "b"]
    assert f"{flat / folder} holds no images that are read, but 1 file of ." in "".join(data.notices)


@pytest.mark.parametrize("names", [[f"{n}.svg" for n in range(4)], ["1.svg", "1.heic"], ["1.dcm"]])
def test_more_pictures_may_be_a_class(flat, names):
    for name in names:
        put_other(flat / "docs" / name)
    with pytest.raises(InputError, match="docs holds no images that are read, but"):
        read(flat)


def test_a_folder_of_a_split_is_a_class(flat):
    flat.rename(flat.parent / "train")
    put_other(flat.parent / "train" / "c" / "logo.svg")
    with pytest.raises(InputError, match="c holds no images that are read, but 1 file of"):
        read(flat.parent)
