"""What is said of classes that no image of a split has, by what each mean makes of them."""

import pytest
import torch

from vit_lightning.training.scoring import SplitScores


@pytest.mark.parametrize(
    ("second", "macro", "but"),
    [
        (9.0, 0.5, ", but macro F1 counts the 1 of them that some image is taken for as 0"),  # the mean of 1 and 0
        (-9.0, 1.0, ""),
    ],
)
def test_macro_f1_of_several_labels_is_not_among_the_means_that_leave_out_what_is_predicted(second, macro, but):
    scores = SplitScores(0.5)
    scores.begin()
    logits = torch.tensor([[9.0, second, -9.0]] * 2)
    labels = torch.tensor([[1.0, 0.0, 0.0]] * 2)
    scores.update(logits, labels, torch.tensor([True, True]), torch.zeros(2).long(), are_independent=True)
    assert scores.sum_up().values["macro_f1"] == pytest.approx(macro)
    (said,) = [note for note in scores.explain("test") if "classes" in note]
    assert said == f"2 of 3 classes have no test image; means over classes leave them out{but}"
