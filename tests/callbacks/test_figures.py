"""What a person reads of a run while it goes."""

from types import SimpleNamespace

import pytest
import torch

from vit_lightning.callbacks.figures import figures, has_several_labels, speed, waiting

SHOWN = {"grad": 0.5, "val/top1": 0.25, "perf/mfu": 0.5, "val/own": 2.0}
LOGGED = {
    **{"cost/exaflops": 3.0, "val/loss": 1.5, "train/loss": 2.5, "val/also/own": 4.0, "val/mine": 7.0},
    **{"perf/images_per_s": 100.0, "other": 9.0},
}


def trainer(shown=SHOWN, logged=LOGGED) -> SimpleNamespace:
    model = SimpleNamespace(further_sets=("also",))
    return SimpleNamespace(progress_bar_metrics=shown, callback_metrics=logged, lightning_module=model)


def test_figures_stand_in_one_order():
    found = figures(trainer(), several=False)
    assert found == ["loss 2.5", "val top-1 25.0 %", "val own 2", "val mine 7", "grad 0.5"]
    assert figures(trainer(), several=False, scored=False) == ["loss 2.5", "grad 0.5"]
    measured = {"perf/images_per_s": 1234.5, "perf/data_wait": 0.25}
    assert figures(trainer(measured, {}), several=False) == ["1,234 images/s", "waiting for data 25 %"]


@pytest.mark.parametrize(("rate", "said"), [(100, "100 images/s"), (99.96, "100 images/s"), (0.1234, "0.123 images/s")])
def test_slow_rates_have_three_digits(rate, said):
    assert speed(rate) == said and waiting(0.5) == "waiting for data 50 %"


def test_several_labels_are_rows_of_a_tensor():
    images = torch.zeros(2, 3)
    assert has_several_labels((images, torch.zeros(2, 5))) and has_several_labels([images, torch.zeros(2, 5), 1])
    for batch in ((images, torch.zeros(2)), (images,), images, (images, [[1, 2]]), (images, torch.zeros(2, 5, 1))):
        assert not has_several_labels(batch)
