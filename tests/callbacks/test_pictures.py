"""Pictures of a fit in TensorBoard."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from vit_lightning.callbacks.pictures import GAP, WATCHED, TrainingPictures, rollout_sheet, sheet

RUN = ("--data", "Synthetic", "--data.train_size", 64, "--data.eval_size", 8, "--data.batch_size", 8)
FIT = ("fit", *RUN, "--data.num_workers", 0, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")


def board() -> EventAccumulator:
    found = EventAccumulator("runs/default/0/tensorboard")
    found.Reload()
    return found


def test_a_fit_shows_images_gradient_and_confusion(app):
    pytest.importorskip("matplotlib")
    done = app(*FIT, "--model.scores", "[confusion]", "--trainer.log_every_n_steps", 4)
    assert done.code == 0, done.err
    found = board()
    assert set(found.Tags()["images"]) == {"train/images", "val/confusion", "val/rollout"}
    (first,) = found.Images("train/images")
    assert (first.step, first.width, first.height) == (0, 3 * 32 + 2 * GAP, 3 * 32 + 2 * GAP)
    assert [one.step for one in found.Images("val/confusion")] == [8]
    (rolled,) = found.Images("val/rollout")
    assert (rolled.step, rolled.width, rolled.height) == (8, WATCHED * 32 + (WATCHED - 1) * GAP, 2 * 32 + GAP)
    norms = [event.value for event in found.Scalars("train/gradient_norm")]
    assert len(norms) == 2 and all(norm > 0 for norm in norms)
    with Path("runs/default/0/metrics.csv").open() as file:
        assert sum(bool(row["train/gradient_norm"]) for row in csv.DictReader(file)) == 2


def test_one_flag_turns_it_off(app):
    done = app(*FIT, "--pictures", "false", "--model.scores", "[confusion]")
    assert done.code == 0, done.err
    assert board().Tags()["images"] == []
    assert "train/gradient_norm" not in Path("runs/default/0/metrics.csv").read_text()


def test_a_run_does_not_end_for_want_of_a_picture(app, monkeypatch):
    def fail(images, maps):
        raise RuntimeError("no room")

    monkeypatch.setattr("vit_lightning.callbacks.pictures.rollout_sheet", fail)
    with pytest.warns(UserWarning, match=r"is left out from now on \(no room\)") as warned:
        done = app(*FIT, "--trainer.max_epochs", 2)
    assert done.code == 0 and sum("no room" in str(one.message) for one in warned) == 1
    assert set(board().Tags()["images"]) == {"train/images"}


@pytest.mark.parametrize(("patches", "side"), [(1, 8), (1, 1), (2, 2), (8, 8), (1, 224)])
def test_a_grid_of_any_size_has_a_rollout(patches, side):
    found = rollout_sheet(torch.zeros(1, 1, side, side), torch.rand(1, patches, patches))
    assert found.shape == (2 * side + GAP, side, 3)


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
def test_a_sheet_holds_every_image_in_its_place(channels):
    images = torch.arange(5, dtype=torch.uint8)[:, None, None, None].expand(5, channels, 4, 6)
    found = sheet(images)
    assert found.shape == (2 * 4 + GAP, 3 * 6 + 2 * GAP, 3)
    assert (found[4 + GAP :, 6 + GAP : 12 + GAP] == 4).all() and (found[4 + GAP :, 12 + 2 * GAP :] == 255).all()
    assert np.array_equal(sheet(images.float() / 255), found)


def test_numbers_that_are_none_are_drawn_all_the_same():
    assert sheet(torch.tensor([float("nan"), -1.0, 2.0]).reshape(3, 1, 1, 1)).dtype == np.uint8


def test_rollouts_are_of_the_same_images_at_every_validation():
    callback = TrainingPictures()
    for shift in (0, 1):
        images = torch.arange(40, dtype=torch.uint8)[:, None, None, None] + shift
        callback.on_validation_batch_end(None, None, None, (images, None), batch_idx=1)
        callback.on_validation_batch_end(None, None, None, (images, None), batch_idx=0, dataloader_idx=1)
        callback.on_validation_batch_end(None, None, None, (images, None), batch_idx=0)
    assert callback._watched.flatten().tolist() == [0, 8, 16, 23, 31, 39]


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "bf16-true"])
def test_rollouts_at_any_precision(app, precision):
    done = app(*FIT, "--trainer.precision", precision, "--trainer.limit_train_batches", 2)
    assert done.code == 0, done.err
    assert len(board().Images("val/rollout")) == 1


def test_a_convolutional_net_has_no_rollout(app):
    done = app(*FIT, "--model.net.variant", "R50x1", "--trainer.limit_train_batches", 1)
    assert done.code == 0, done.err
    assert set(board().Tags()["images"]) == {"train/images"}


def test_below_each_image_lies_what_its_rollout_leaves_of_it():
    images = torch.full((2, 3, 8, 8), 200, dtype=torch.uint8)
    maps = torch.zeros(2, 4, 4)
    maps[:, :, 2:] = 1
    found = rollout_sheet(images, maps)
    assert found.shape == (16 + GAP, 16 + GAP, 3) and (found[:8, :8] == 200).all()
    below = found[8 + GAP :, :8].astype(int)
    assert (below[:, 0] < 60).all() and (below[:, 7] > 140).all()
    assert np.array_equal(rollout_sheet(images / 255, maps), found)


def test_nothing_more_is_drawn_once_drawing_has_taken_its_share(app, monkeypatch):
    monkeypatch.setattr("vit_lightning.callbacks.pictures.SHARE", 0.0)  # as if the first drawing had taken all of it
    done = app(*FIT, "--trainer.max_epochs", 3)
    assert done.code == 0, done.err
    assert [one.step for one in board().Images("val/rollout")] == [8]
