"""Classes that the metadata of a Parquet file list, and a column that calls them by each other's names."""

import json

import pyarrow
import pytest
from pyarrow import parquet

from datamodules.parquet import Parquet
from tests.datamodules.test_labels import picture
from vit_lightning.errors import InputError


def ready(place, texts: str, listed: str = "cat dog owl", **options) -> Parquet:
    """A set of six images, two of each class in turn, with some texts beside them."""
    columns = {"image": [picture(n) for n in range(6)], "label": [0, 1, 2] * 2, "label_name": texts.split() * 2}
    feature = {"label": {"names": listed.split(), "_type": "ClassLabel"}}
    metadata = {"huggingface": json.dumps({"info": {"features": feature}})}
    parquet.write_table(pyarrow.table(columns).replace_schema_metadata(metadata), place / "train.parquet")
    data = Parquet(root=place, image_size=8, **options)
    data.setup("fit")
    return data


@pytest.mark.parametrize(
    ("texts", "row", "own", "name"), [("dog owl cat", 1, "cat", "dog"), ("cat Owl dog", 2, "dog", "Owl")]
)
def test_names_of_other_classes(tmp_path, texts, row, own, name):
    said = rf"train\.parquet has in row {row} the class '{own}' by its metadata and '{name}' in the column 'label_name'"
    with pytest.raises(InputError, match=rf"{said}; give --data\.label_column label_name to go by .* label if the met"):
        ready(tmp_path, texts)
    data = ready(tmp_path, texts, label_column="label")
    assert data.class_names == ["cat", "dog", "owl"]
    assert any(text.endswith("'label_name', and the metadata count") for text in data.notices)
    assert sorted(ready(tmp_path, texts, label_column="label_name").class_names) == sorted(texts.split())


@pytest.mark.parametrize("texts", ["cat dog owl", "CAT Dog owl", "Katze Hund Eule", "ann bob eve", "dog dog dog"])
def test_names_that_fit_or_are_others(tmp_path, texts):
    assert ready(tmp_path, texts).train_set is not None
