"""What a person reads of each image: its best class, or all that are likely where classes are independent."""

import pytest

from tests.callbacks.test_predictions import written
from vit_lightning.callbacks.prediction_files import Answer, Columns, PartFile, shown

NAMES = ["effusion", "fibrosis", "nodule"]
SHARES = [
    {"nodule": 0.9126, "effusion": 0.5, "fibrosis": 0.4999},
    {"fibrosis": 0.145, "nodule": 0.1, "effusion": 0.05},
]
SAID = ["a.png  nodule 91.3 %, effusion 50.0 %\n", "b.png  none of 50 % or more; highest fibrosis 14.5 %\n"]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("top", [3, None])
def test_all_likely_classes_of_independent_ones_are_said(tmp_path, ending, top):
    columns = Columns(NAMES, top, has_labels=False)
    part = PartFile(tmp_path / ("p.csv" if ending == "csv" else "p.jsonl"))
    rows = [shares if top else {name: shares[name] for name in NAMES} for shares in SHARES]
    images = zip(["a.png", "b.png"], rows, strict=True)
    part.add_answers([Answer(image, None, shares) for image, shares in images], columns)
    part.finish(tmp_path / f"out.{ending}", columns)
    assert list(shown(tmp_path / f"out.{ending}", are_independent=True, classes=3)) == SAID
    assert list(shown(tmp_path / f"out.{ending}"))[1] == "b.png  fibrosis 14.5 %\n"


def test_likely_classes_beyond_those_written_are_hinted_at(tmp_path):
    columns = Columns(NAMES, 2, has_labels=False)
    part = PartFile(tmp_path / "p.csv")
    part.add_answers([Answer("a.png", None, {"nodule": 0.9, "effusion": 0.8})], columns)
    part.finish(tmp_path / "out.csv", columns)
    said = "a.png  nodule 90.0 %, effusion 80.0 %"
    assert list(shown(tmp_path / "out.csv", True, 3)) == [f"{said}; --top all shows whether others are\n"]
    assert list(shown(tmp_path / "out.csv", True, 2)) == [f"{said}\n"]


@pytest.mark.parametrize(
    ("loss", "said"), [("sigmoid", "x 90.0 %, y 80.0 %"), ("softmax", "x 90.0 %"), (None, "x 90.0 %")]
)
def test_the_loss_of_the_net_says_whether_classes_are_independent(tmp_path, capsys, loss, said):
    shares = [[0.0, 0.9, 0.8, 0.1]] * 5
    written(tmp_path, [(shares, [0] * 5)], [*"wxyz"], top=4, settings={"loss": loss})
    assert capsys.readouterr().out.splitlines()[:5] == [f"{image}  {said}" for image in "abcde"]
