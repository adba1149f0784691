"""Rows that do not say with which others they stay together: how many they are, and what to do."""

import pytest

from datamodules.manifest import Manifest
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    ("patients", "count"), [(["a", "", "b", "n/a", " ", "c"], "3 rows have"), (["a", "", "b"], "1 row has")]
)
def test_all_rows_without_a_patient_are_counted_and_the_remedy_is_told(tmp_path, patients, count):
    rows = [f"{number}.png,{'ab'[number % 2]},{patient}" for number, patient in enumerate(patients)]
    (tmp_path / "train.csv").write_text("\n".join(["path,label,patient", *rows]) + "\n")
    data = Manifest(tmp_path, group_column="patient", cache=tmp_path / "cache")
    with pytest.raises(InputError) as error:
        data.prepare_data()
    assert str(error.value).endswith(
        f"has nothing in the column 'patient' in row 2 (1.png); {count} none, of which --data.group_column cannot tell "
        "what they belong to; write it there, a value of its own for an image that belongs to no other, or leave the "
        "row out"
    )


@pytest.mark.parametrize(("faults", "printed"), [(None, True), ([], False)])
def test_what_doctor_lists_is_not_printed_beside_its_list(tmp_path, caplog, faults, printed):
    caplog.set_level("INFO")
    data = Manifest(tmp_path, cache=tmp_path / "cache")
    data.faults = faults
    data.notice("the table has the column patient")
    assert data.notices == ["the table has the column patient"]
    assert ("has the column patient" in caplog.text) is printed
