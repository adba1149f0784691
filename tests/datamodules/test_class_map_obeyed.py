"""A class map that the user gives is obeyed, and what it says about its lines is true."""

import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from datamodules.parquet import Parquet
from tests.datamodules.test_class_map_merges import folders
from tests.datamodules.test_labels import (
    READERS,
    manifest,
    picture,
    read,
    root,  # noqa: F401  # a fixture
    setup,
    shown,
)
from vit_lightning.errors import InputError

TURNED = "the wrong way round"


@pytest.mark.parametrize(
    ("text", "labels", "said"),
    [
        ("kity,cat\n", ["kitty", "cat", "dog"], "has a line for 'kity', which no image has as its label, and none for"),
        ("tumour,tumor\n", ["tumor", "normal"], "renames nothing: "),
        ("cat,kitty\ndog,puppy\n", ["kitty", "puppy"], TURNED),
    ],
)
@pytest.mark.parametrize("reader", READERS)
def test_a_slip_of_the_pen_is_not_called_turned_round(root, reader, text, labels, said):  # noqa: F811
    (root / "map.csv").write_text(text)
    data = read(root, reader, train=labels, class_map=root / "map.csv")
    (notice,) = [one for one in data.notices if "map.csv" in one]
    assert said in notice and notice.endswith(TURNED) == (said == TURNED)
    assert shown(data, len(labels)) == [{label} for label in labels]


def test_a_slip_of_the_pen_beside_folders(tmp_path):
    (tmp_path / "map.csv").write_text("kity,cat\n")
    (said,) = folders(tmp_path / "set", "kitty", "cat", "dog", class_map=tmp_path / "map.csv").notices
    assert "none for 'kitty', which stays a class of its own (1 such lines, 2 such labels)" in said


def test_other_numbers_are_no_slip_of_the_pen(tmp_path):
    (tmp_path / "map.csv").write_text("n01440764,tench\nn01443537,goldfish\n")
    (said,) = folders(tmp_path / "set", "n01484850", "n01491361", class_map=tmp_path / "map.csv").notices
    assert "renames nothing" in said and TURNED not in said


@pytest.fixture(params=["Manifest", "Parquet"])
def listed(request, root):  # noqa: F811
    """Return what reads images by their paths and labels, 6 of them."""

    def ready(paths, labels, **options):
        for number, path in enumerate(paths):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(picture(number))
        if request.param == "Parquet":
            images = [{"bytes": picture(number), "path": path} for number, path in enumerate(paths)]
            parquet.write_table(pa.table({"image": images, "label": labels}), root / "train.parquet")
            return setup(Parquet(root=root, val_fraction=0.0, image_size=8, **options))
        rows = [f"{path},{label}" for path, label in zip(paths, labels, strict=True)]
        (root / "train.csv").write_text("\n".join(["path,label", *rows]))
        return manifest(root, **options)

    return ready


def test_folders_are_called_as_the_class_map_says(listed, tmp_path):
    (tmp_path / "map.csv").write_text("Katze,cat\n")
    paths = ["cat/0.png", "cat/1.png", "Katze/2.png", "Katze/3.png", "dog/4.png", "dog/5.png"]
    data = listed(paths, ["cat", "Katze", "cat", "Katze", "dog", "dog"], class_map=tmp_path / "map.csv")
    assert data.class_names == ["cat", "dog"] and shown(data, 6) == [{"cat"}] * 4 + [{"dog"}] * 2
    said = (
        r"in row 4 the label 'dog' in the column 'label' for Katze/3\.png, whose folder is called as another label is"
    )
    with pytest.raises(InputError, match=said):
        listed(paths, ["cat", "Katze", "cat", "dog", "Katze", "dog"], class_map=tmp_path / "map.csv")


def test_folders_that_are_numbers_are_not_renamed(listed, tmp_path):
    (tmp_path / "map.csv").write_text("1,cat\n2,dog\n")
    paths = [f"{1 + number // 3}/{number}.png" for number in range(6)]  # numbered for another reason
    data = listed(paths, ["1", "2"] * 3, class_map=tmp_path / "map.csv")
    assert shown(data, 6) == [{"cat"}, {"dog"}] * 3


def write_numbers(place, labels, names=None) -> None:
    table = pa.table({"image": [picture(number) for number in range(len(labels))], "label": labels})
    features = {"info": {"features": {"label": {"_type": "ClassLabel", "names": names}}}}
    metadata = {"huggingface": json.dumps(features)} if names else None
    parquet.write_table(table.replace_schema_metadata(metadata), place / "train.parquet")


MAPS = {
    "map.csv": "0,zero\n1,one\n2,two\n",
    "map.json": '{"0": "zero", "1": "one", "2": "two"}',
    "map.txt": "zero\none\ntwo\n",
}


@pytest.mark.parametrize(
    ("labels", "names", "name"),
    [
        (["0", "2", "1"], None, "map.csv"),
        (["0", "2", "1"], None, "map.json"),
        ([0, 2, 1], ["0", "1", "2"], "map.csv"),
        ([0, 2, 1], ["0", "1", "2"], "map.txt"),  # as the Hub's MNIST
    ],
)
def test_numbers_as_text_are_places_in_a_map(tmp_path, name, labels, names):
    (tmp_path / name).write_text(MAPS[name])
    write_numbers(tmp_path, labels, names)
    data = setup(Parquet(root=tmp_path, val_fraction=0.0, image_size=8, class_map=tmp_path / name))
    assert data.class_names == ["zero", "one", "two"] and data.train_set.labels.tolist() == [0, 2, 1]


def test_numbers_as_text_may_be_no_places(tmp_path):
    (tmp_path / "map.csv").write_text("0,zero\n1,one\n2,two\n")
    write_numbers(tmp_path, [0, 1], ["1", "2"])
    with pytest.raises(InputError, match=r"train\.parquet has in row 1 the label '1', which .*map\.csv lacks"):
        setup(Parquet(root=tmp_path, val_fraction=0.0, image_size=8, class_map=tmp_path / "map.csv"))


@pytest.mark.parametrize("reader", READERS)
def test_a_label_that_a_list_lacks_names_the_way_out(root, reader):  # noqa: F811
    (root / "names.txt").write_text("tumor\nnormal\n")
    said = (
        r"'tumour'.*, which .*names\.txt lacks.*; add it there, or, .*, give --data\.class_map a \.csv with the line "
    )
    with pytest.raises(InputError, match=f"{said}tumour,NAME with that one in place of NAME"):
        read(root, reader, train=["tumor", "tumour", "normal"], class_map=root / "names.txt")
    (root / "names.csv").write_text("tumour,tumor\n")
    data = read(root, reader, train=["tumor", "tumour", "normal"], class_map=root / "names.csv")
    assert shown(data, 3) == [{"tumor"}, {"tumor"}, {"normal"}]
