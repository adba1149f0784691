"""Names of class folders that may be one name."""

import pytest

from datamodules.folder import ImageFolder
from datamodules.reading.folder_spelling import alike_but_for_signs, padded_numbers
from tests.datamodules.test_folder import put
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    "pair", [("TCGA-01", "TCGA01"), ("tcga_01", "TCGA-01"), ("t-shirt", "tshirt"), ("v neck", "v_neck"), ("1-a", "1a")]
)
def test_two_names_that_may_be_one(pair):
    assert alike_but_for_signs(["other", *pair, "last"]) == pair


@pytest.mark.parametrize(
    "names", [["1-2", "12"], ["1_0", "10"], ["C", "C++", "C#"], ["a1", "a-2"], ["-1", "1"], ["1.5", "15"], ["ä", "a"]]
)
def test_names_of_two_classes(names):
    assert alike_but_for_signs(names) is None


def test_numbers_with_zeros_before_them():
    numbers = {"0", "1", "14"}
    assert padded_numbers(["00000", "00014", "099", "x", "7"], numbers) == {"00000": "0", "00014": "14", "099": "99"}
    assert padded_numbers(["007", "008"], numbers) == {}
    assert padded_numbers(["01", "001"], numbers) == padded_numbers(["01", "1"], numbers) == {}
    assert padded_numbers(["01", "1"], {"01", "1"}) == {}


def fit(root, class_map) -> ImageFolder:
    data = ImageFolder(root=root, image_size=8, class_map=class_map, val_fraction=0, test_fraction=0)
    data.setup("fit")
    return data


@pytest.fixture
def signs(tmp_path):
    for place in ("Train/00000", "Train/00001", "Train/00002", "Test/00002"):
        put(tmp_path / "set" / place / "1.png", len(place))
    return tmp_path / "set"


@pytest.mark.parametrize("first", [0, 1])
def test_a_table_of_the_names_of_numbered_folders(signs, first):
    lines = ["ClassId,SignName", *(f"{number},sign {number}" for number in range(first, first + 3))]
    (signs / "signnames.csv").write_text("\n".join(lines))
    if first:
        with pytest.raises(InputError, match=r"class folder '00000', which --data\.class_map .* lacks; it has 1, 2, 3"):
            fit(signs, signs / "signnames.csv")
        return
    data = fit(signs, signs / "signnames.csv")
    assert data.class_names == ["sign 0", "sign 1", "sign 2"] and not data.notices
    assert data.train_set.labels.tolist() == [0, 1, 2] and data.test_set.labels.tolist() == [2]


def test_a_table_of_numbers_with_gaps(signs):
    (signs / "names.csv").write_text("ClassId,SignName\n0,stop\n1,yield\n2,left\n9,right")
    data = fit(signs, signs / "names.csv")
    assert sorted(data.class_names) == ["left", "stop", "yield"]
    assert [data.class_names[label] for label in data.train_set.labels.tolist()] == ["stop", "yield", "left"]


def test_names_that_may_be_one_are_said(tmp_path):
    for name in ("TCGA-01", "TCGA01", "x"):
        put(tmp_path / "set" / name / f"{name}.jpg")
    (said,) = [text for text in fit(tmp_path / "set", None).notices if "differ in signs alone" in text]
    assert "the classes 'TCGA-01' and 'TCGA01' differ" in said
    (tmp_path / "names.txt").write_text("TCGA-01\nTCGA01\nx")
    assert not fit(tmp_path / "set", tmp_path / "names.txt").notices
    (tmp_path / "map.csv").write_text("TCGA01,TCGA-01")
    assert fit(tmp_path / "set", tmp_path / "map.csv").class_names == ["TCGA-01", "x"]
