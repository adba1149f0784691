"""A report of a run whose images have several labels: scores have their own names, and the telling one leads."""

import json
from pathlib import Path

import pytest

from vit_lightning.commands.report import scores, wording
from vit_lightning.commands.report.collect import collect
from vit_lightning.commands.report.page import page_of_run

SCORES = {"loss": 0.4, "top1": 0.46, "top5": 0.9, "micro_f1": 0.3, "map_macro": 0.625, "mean_auroc": 0.875}


def scored(folder: Path, *left_out: str) -> Path:
    values = {f"test/{name}": value for name, value in SCORES.items() if name not in left_out}
    (folder / "test.json").write_text(json.dumps({"scores": values, "images": 30}))
    (folder / "test.mistakes.csv").unlink()
    return folder


@pytest.mark.parametrize(
    ("left_out", "lead"),
    [
        ((), "test area under the ROC curve 87.50 %"),
        (("mean_auroc",), "test macro mAP 62.50 %"),
        (("mean_auroc", "map_macro"), "best validation loss 0.5"),
    ],
)
def test_the_score_that_says_most_leads(make_run, left_out, lead):
    run = collect(scored(make_run(), *left_out))
    assert f": {lead} after" in wording.sentence(run)


def test_scores_have_their_own_names(make_run):
    run = collect(scored(make_run()))
    names = [row.name for row in scores.score_rows(run) if row.of.startswith("test")]
    assert names == ["loss", "precision at 1", "hit at 5", "micro F1", "macro mAP", "area under the ROC curve"]


def test_mistakes_which_there_are_none_of_are_not_advised(make_run, page):
    said = page(page_of_run(collect(scored(make_run())), with_images=False)).text
    assert "No mistakes are listed of images of several labels." in said and "among --model.scores" not in said
    one = make_run("pets/1")
    (one / "test.mistakes.csv").unlink()
    assert "with mistakes among --model.scores" in page(page_of_run(collect(one), with_images=False)).text
