"""When pictures of a fit are drawn, of what, and for how long, without a fit."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from vit_lightning.callbacks import pictures as module
from vit_lightning.callbacks.pictures import TrainingPictures
from vit_lightning.classifier import Classifier
from vit_lightning.evaluation.confusion import Confusion
from vit_lightning.runs.loggers import TensorBoard
from vit_lightning.training.scoring import Summed


class Board(TensorBoard):
    """A board that keeps what it is shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, np.ndarray, int]] = []
        self.opened = False

    @property
    def experiment(self) -> SimpleNamespace:
        return SimpleNamespace(add_image=self.add)

    def add(self, name: str, picture: np.ndarray, step: int, dataformats: str) -> None:
        assert dataformats == "HWC"
        self.shown.append((name, picture, step))


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def fit(*boards: Board, **facts: object) -> SimpleNamespace:
    usual = {"loggers": [*boards, object()], "is_global_zero": True, "global_step": 0, "sanity_checking": False}
    usual |= {"log_every_n_steps": 3, "strategy": object()}
    return SimpleNamespace(**usual | facts)


def model(**facts: object) -> Classifier:
    made = Classifier({"variant": "mu/8"}, num_classes=3, image_size=16, **facts)
    made.configure_model()
    return made.eval()


IMAGES = torch.arange(40, dtype=torch.uint8)[:, None, None, None].expand(40, 3, 16, 16)


def test_the_sheet_is_of_the_first_batch_of_the_run_alone(clock):
    boards, callback = (Board(), Board()), TrainingPictures()
    for step, batch in ((0, 1), (1, 0), (0, 0)):
        callback.on_train_batch_start(fit(*boards, global_step=step), None, (IMAGES, None), batch)
    for board in boards:
        ((name, picture, step),) = board.shown
        assert (name, step, board.opened) == ("train/images", 0, True)
        np.testing.assert_array_equal(picture, module.sheet(IMAGES[:32]))
    for trainer, batch in ((fit(is_global_zero=False), (IMAGES, 1)), (fit(Board()), IMAGES), (fit(Board()), [[1], 2])):
        callback.on_train_batch_start(trainer, None, batch, 0)
        assert all(not board.shown for board in trainer.loggers[:-1])


@pytest.mark.parametrize(("every", "steps"), [(3, [2, 5]), (1, [0, 1, 2, 3, 4, 5]), (0, [])])
def test_the_norm_is_that_of_the_whole_gradient_in_the_steps_that_are_logged(monkeypatch, every, steps):
    logged: list[tuple[int, str, float]] = []
    net = model()
    for step in range(6):
        net.gradient_norms = torch.tensor([3.0, 4.0]) * (step + 1)
        monkeypatch.setattr(net, "log", lambda name, value, step=step: logged.append((step, name, float(value))))
        trainer = fit(global_step=step, log_every_n_steps=every)
        TrainingPictures().on_before_optimizer_step(trainer, net, None)
    assert logged == [(step, "train/gradient_norm", 5.0 * (step + 1)) for step in steps]
    net.gradient_norms = None
    TrainingPictures().on_before_optimizer_step(fit(global_step=2), net, None)
    assert len(logged) == len(steps)


def drawn(callback: TrainingPictures, clock, monkeypatch, seconds: float) -> list[str]:
    """Let both kinds of pictures take so long each; which were drawn in this validation."""
    names: list[str] = []

    def show(name: str):
        def one(trainer, net) -> None:
            names.append(name)
            clock.now += seconds

        one.__name__ = name
        return one

    for name in ("_show_rollout", "_show_confusion"):
        monkeypatch.setattr(callback, name, show(name))
    callback.on_validation_end(fit(Board()), None)
    return [name.removeprefix("_show_") for name in names]


def test_each_kind_is_drawn_as_long_as_it_takes_its_share(clock, monkeypatch):
    callback = TrainingPictures()
    clock.now += 1000
    callback.on_train_start(fit(), None)  # what was before counts for nothing
    assert drawn(callback, clock, monkeypatch, 5.0) == ["rollout", "confusion"]
    clock.now += 900
    assert drawn(callback, clock, monkeypatch, 5.0) == []
    clock.now += 90 + 0.5  # 5 s are half a hundredth of 1,000 s
    assert drawn(callback, clock, monkeypatch, 0.0) == ["rollout", "confusion"]
    clock.now += 1e6
    callback.on_train_start(fit(), None)
    assert drawn(callback, clock, monkeypatch, 0.0) == ["rollout", "confusion"]  # another fit begins with none spent


def test_one_kind_that_takes_too_long_or_fails_leaves_the_other(clock, monkeypatch):
    callback, names = TrainingPictures(), []
    callback.on_train_start(fit(), None)

    def failing(trainer, net) -> None:
        raise RuntimeError("no room")

    def quick(trainer, net) -> None:
        names.append("confusion")

    failing.__name__, quick.__name__ = "_show_rollout", "_show_confusion"
    monkeypatch.setattr(callback, "_show_rollout", failing)
    monkeypatch.setattr(callback, "_show_confusion", quick)
    said: list[str] = []
    monkeypatch.setattr(module, "rank_zero_warn", said.append)
    for _ in range(3):
        clock.now += 1e9
        callback.on_validation_end(fit(Board()), None)
    assert names == ["confusion"] * 3
    assert said == ["a picture for TensorBoard is left out from now on (no room)"]
    for trainer in (fit(Board(), sanity_checking=True), fit(), fit(Board(), is_global_zero=False)):
        callback.on_validation_end(trainer, None)
    assert len(names) == 3


def test_rollouts_stand_under_the_step_and_are_of_the_watched_images(clock):
    callback, board, net = TrainingPictures(), Board(), model()
    callback._watched = IMAGES[[0, 20]]
    precision = SimpleNamespace(forward_context=torch.no_grad, convert_input=lambda images: images)
    trainer = fit(board, global_step=7, precision_plugin=precision)
    callback._show_rollout(trainer, net)
    ((name, picture, step),) = board.shown
    assert (name, step) == ("val/rollout", 7) and picture.shape == (2 * 16 + module.GAP, 2 * 16 + module.GAP, 3)
    assert (picture[:16, :16] == 0).all() and (picture[:16, 16 + module.GAP :] == 20).all()
    callback._watched = None
    callback._show_rollout(trainer, net)
    callback._watched = IMAGES[[0]]
    callback._show_rollout(trainer, object())
    assert len(board.shown) == 1


@pytest.mark.parametrize(("entries", "images"), [(2 * 2 * 25, 2), (2 * 2 * 25 - 1, 1), (49, 0)])
def test_fewer_images_are_watched_where_their_attention_is_large(clock, monkeypatch, entries, images):
    """Two heads of five tokens: 50 entries an image."""
    net = model()
    assert net.net.config.heads == 2 and net.net.num_prefix_tokens + 4 == 5
    monkeypatch.setattr(module, "MOST_ENTRIES", entries)
    callback, board = TrainingPictures(), Board()
    callback._watched = IMAGES[[0, 20, 30]]
    precision = SimpleNamespace(forward_context=torch.no_grad, convert_input=lambda given: given)
    callback._show_rollout(fit(board, precision_plugin=precision), net)
    assert [picture.shape[1] for _, picture, _ in board.shown] == [images * (16 + module.GAP) - module.GAP] * bool(
        images
    )


@pytest.mark.parametrize(
    ("scores", "summed", "most", "shows"),
    [
        (["confusion"], True, 3, True),
        (["confusion"], True, 2, False),
        (["classes"], True, 3, False),
        (None, True, 3, False),
        (["confusion"], False, 3, False),
    ],
)
def test_the_confusion_of_the_validation_is_drawn_where_it_is_asked_for(
    clock, monkeypatch, scores, summed, most, shows
):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(module, "MOST_IN_A_SQUARE", most)
    asked = []

    def picture(confusion: Confusion, names: list[str]) -> bytes:
        import io

        from PIL import Image

        asked.append((confusion.true.tolist(), names))
        file = io.BytesIO()
        Image.new("RGBA", (4, 2), (10, 20, 30, 255)).save(file, "PNG")
        return file.getvalue()

    monkeypatch.setattr(module, "confusion_picture", picture)
    net, board = model(scores=scores), Board()
    for split, true in (("val", [0, 2]), ("test", [1, 1])):
        confusion = Confusion.of(np.array(true), np.array([0, 0]), 3)
        net.split_scores[split].summed = Summed({}, confusion.counts, confusion, None, {}) if summed else None
    TrainingPictures()._show_confusion(fit(board, global_step=4), net)
    if not shows:
        assert board.shown == [] and asked == []
        return
    ((name, shown, step),) = board.shown
    assert (name, step, shown.shape) == ("val/confusion", 4, (2, 4, 3)) and asked == [([0, 2], ["0", "1", "2"])]
