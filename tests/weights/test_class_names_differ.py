"""Names of classes that differ between data and checkpoint: which they are, and the class map that mends them."""

import pytest

from vit_lightning.errors import InputError
from vit_lightning.weights.class_names import check_equal, check_order

TRAINED = ["effusion", "fibrosis", "nodule", "pleural_thickening"]
MAP = "give --data.class_map FILE.csv with the line"


def refused(check, *words) -> str:
    with pytest.raises(InputError) as found:
        check(*words)
    return str(found.value)


def test_evident_pairs_are_a_ready_class_map_whatever_their_order():
    ours = ["Fibrosis", "Pleural Thickening", "effusion", "nodules"]
    assert refused(check_equal, ours, TRAINED, "checkpoint") == (
        "the data alone have 'Fibrosis', 'Pleural Thickening', 'nodules'; the checkpoint alone has 'fibrosis', "
        f"'nodule', 'pleural_thickening'; {MAP}s 'Fibrosis,fibrosis', 'Pleural Thickening,pleural_thickening', "
        "'nodules,nodule'"
    )
    assert f"{MAP}s 'Fibrosis,fibrosis'" in refused(check_order, ours, TRAINED)
    assert refused(check_order, ours, TRAINED).endswith(", or begin a new head with fit and --model.weights_head reset")


@pytest.mark.parametrize(
    ("name", "other"),
    [("Nodules", "nodule"), ("cat", "CATS"), ("biopsy", "Biopsies"), ("a_b", "AB"), ("Glass", "glass")],
)
def test_spellings_that_are_evident(name, other):
    assert refused(check_equal, ["z", name], ["x", other], "model").endswith(
        f"{MAP} '{name},{other}'; of the others, if they are the same classes, call them so in the data, by "
        "--data.class_map or class_names"
    )


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(["cat", "x"], ["dog", "y"]), (["Cat", "CAT", "x"], ["cat", "cats", "y"]), (["glas", "x"], ["glass", "y"])],
)
def test_what_is_not_evident_is_not_guessed(ours, theirs):
    assert "FILE.csv" not in refused(check_equal, ours, theirs, "checkpoint")


def test_a_name_with_a_comma_is_a_cell_of_its_own():
    assert refused(check_equal, ["b", "Shoe, left"], ["shoe, left", "b"], "model").endswith(
        f"""{MAP} '"Shoe, left","shoe, left"'"""
    )
