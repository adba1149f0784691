"""In which order a person reads the scores of images of several labels while a fit goes."""

from types import SimpleNamespace

import pytest

from vit_lightning.callbacks.figures import figures

METRICS = {"val/top1": 0.4, "val/micro_f1": 0.6, "val/mean_auroc": 0.9, "val/map_macro": 0.7, "val/loss": 0.5}


@pytest.mark.parametrize(
    ("several", "expected"),
    [
        (True, ["AUROC 90.0 %", "mAP 70.0 %", "micro F1 60.0 %", "loss 0.5", "precision at 1 40.0 %"]),
        (False, ["loss 0.5", "top-1 40.0 %", "mAP 70.0 %", "micro F1 60.0 %", "AUROC 90.0 %"]),
    ],
)
def test_scores_of_several_labels_lead_with_what_ranks_and_end_with_precision_at_1(several, expected):
    trainer = SimpleNamespace(progress_bar_metrics=METRICS, callback_metrics={}, lightning_module=None)
    assert figures(trainer, several) == [f"val {said}" for said in expected]
