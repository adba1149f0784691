"""Several wrong labels of one table are told at once."""

from pathlib import Path

import pytest
from PIL import Image

from datamodules.manifest import Manifest
from vit_lightning.errors import InputError

WRONG = ("", "Cat1", "", "dgo", "owl", "", "dgo", "emu", "")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (WRONG, r"'Cat1' in row 2 .* \(5 rows in all, next 'dgo' in row 4, 'owl' in row 5, 'dgo' in row 7\)$"),
        (WRONG[:4], r"'Cat1' in row 2 .* \(2 rows in all, next 'dgo' in row 4\)$"),
        (WRONG[:2], r"'Cat1' in row 2 (?!.*rows in all)"),
    ],
)
def test_an_error_names_the_next_rows_too_and_counts_them(tmp_path, wrong, said):
    names = [label or ("cat", "dog")[number % 2] for number, label in enumerate(wrong)]
    rows = []
    for number, name in enumerate(names):
        Image.new("RGB", (4, 4), (20 * number, 0, 0)).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,{name}\n")
    (tmp_path / "labels.csv").write_text("path,label\n" + "".join(rows))
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    data = Manifest(tmp_path, Path("labels.csv"), class_map=tmp_path / "classes.txt", val_fraction=0.0)
    with pytest.raises(InputError, match=said):
        data.setup("fit")
