"""Losses against imbalance, held against other libraries and float64 arithmetic, and in runs."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback, Trainer
from PIL import Image
from sklearn.utils.class_weight import compute_class_weight
from torch.nn import functional as F
from torchvision.ops import sigmoid_focal_loss

from datamodules.synthetic import Synthetic
from tests.training.test_distributed import DDP, distance, experiment, fsdp, logged, state
from vit_lightning.classifier import Classifier
from vit_lightning.data import ImageDataModule
from vit_lightning.data.subsets import ClassCounts
from vit_lightning.errors import InputError
from vit_lightning.training.imbalance import ImbalanceLoss, StepTotals, remedy

CHANCE = np.random.default_rng(0)
LOGITS = torch.from_numpy(3 * CHANCE.standard_normal((6, 4)))
LABELS = torch.tensor([0, 0, 0, 1, 3, 2])
WEIGHTS = torch.tensor([0.25, 1.5, 2.0, 4.0])
SHARES = torch.from_numpy(CHANCE.dirichlet(np.ones(4), 6))
COUNTS = [60, 10, 20, 10]


class Labelled(list):
    """Records of which the labels alone matter."""

    def __init__(self, counts) -> None:
        self.labels = np.repeat(np.arange(len(counts)), counts)
        super().__init__((None, label) for label in self.labels)


def data_of(counts, **facts) -> ImageDataModule:
    """Data whose training set has so many images of each class."""

    class Counted(ImageDataModule):
        num_classes = len(counts)

        def setup(self, stage: str) -> None:
            self.train_set = Labelled(counts)

    data = Counted(**facts)
    data.setup("fit")
    return data


def settings(**given) -> dict:
    plain = {"class_weights": None, "focal_gamma": 0.0, "logit_adjustment": 0.0}
    return {"loss": "softmax", "num_classes": 4} | plain | given


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_class_weights_give_torchs_weighted_mean(smoothing):
    expected = F.cross_entropy(LOGITS, LABELS, weight=WEIGHTS.double(), label_smoothing=smoothing)
    found = ImbalanceLoss("softmax", WEIGHTS, 0, None)(LOGITS, LABELS, smoothing)
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("gamma", [0, 0.5, 2])
def test_shares_of_classes_are_weighed_by_their_class(gamma):
    t, w, z = (each.double().numpy() for each in (SHARES, WEIGHTS, LOGITS))
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    expected = (-t * w * (1 - p) ** gamma * np.log(p)).sum() / (t * w).sum()
    found = ImbalanceLoss("softmax", WEIGHTS, gamma, None)(LOGITS, SHARES, 0.1)
    assert found.item() == pytest.approx(expected, rel=1e-6)


def test_focal_loss_of_softmax_is_the_papers():
    p = np.exp(LOGITS.numpy()) / np.exp(LOGITS.numpy()).sum(1, keepdims=True)
    p = p[np.arange(6), LABELS]
    found = ImbalanceLoss("softmax", None, 2, None)(LOGITS, LABELS, 0)
    assert found.item() == pytest.approx((-((1 - p) ** 2) * np.log(p)).mean(), rel=1e-6)


def test_focal_loss_of_sigmoid_is_torchvisions():
    hot = F.one_hot(LABELS, 4).double()
    expected = sigmoid_focal_loss(LOGITS, hot, alpha=-1, gamma=2).sum(-1).mean()
    for labels in (LABELS, hot):
        found = ImbalanceLoss("sigmoid", None, 2, None)(LOGITS, labels, 0)
        assert found.item() == pytest.approx(expected.item(), rel=1e-6)


def test_class_weights_of_sigmoid_are_torchs_pos_weight():
    several = (SHARES > 0.2).double()
    expected = F.binary_cross_entropy_with_logits(LOGITS, several, pos_weight=WEIGHTS.double(), reduction="sum") / 6
    assert ImbalanceLoss("sigmoid", WEIGHTS, 0, None)(LOGITS, several, 0).item() == pytest.approx(
        expected.item(), rel=1e-6
    )


@pytest.mark.parametrize("kind", ["softmax", "sigmoid"])
@pytest.mark.parametrize("gamma", [0.5, 1, 2])
def test_gradients_are_finite_where_the_net_is_sure(kind, gamma):
    logits = torch.tensor([[200.0, -200, 0], [-200, 200, 0]], requires_grad=True)
    ImbalanceLoss(kind, None, gamma, None)(logits, torch.tensor([0, 0]), 0).backward()
    assert logits.grad.isfinite().all()


def test_balanced_weights_are_scikit_learns():
    data = data_of(COUNTS)
    expected = compute_class_weight("balanced", classes=np.arange(4), y=data.train_set.labels)
    loss, counts = remedy(settings(class_weights="balanced"), data)
    np.testing.assert_allclose(loss.weights, expected, rtol=1e-6)
    assert (counts.images, counts.per_class.tolist()) == (100, COUNTS)


def test_balanced_weights_of_sigmoid_are_negatives_over_positives():
    loss, _ = remedy(settings(class_weights="balanced", loss="sigmoid"), data_of(COUNTS))
    np.testing.assert_allclose(loss.weights, [40 / 60, 9, 4, 9], rtol=1e-6)


def test_logit_adjustment_adds_the_log_prior():
    """Menon et al., equation 10, in float64."""
    loss, _ = remedy(settings(logit_adjustment=1.5), data_of(COUNTS))
    shifted = LOGITS.numpy() + 1.5 * np.log(np.array(COUNTS) / 100)
    log_p = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    assert loss(LOGITS, LABELS, 0).item() == pytest.approx(-log_p[np.arange(6), LABELS].mean(), rel=1e-6)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"class_weights": [1.0, 0.0]}, "--model.class_weights has 0, expected a number above 0"),
        ({"class_weights": [1.0, float("nan")]}, "--model.class_weights has nan, expected a number above 0"),
        ({"class_weights": "even"}, "--model.class_weights is 'even', expected balanced or a list"),
        ({"focal_gamma": -1.0}, "--model.focal_gamma is -1, expected a number from 0"),
        ({"logit_adjustment": float("nan")}, "--model.logit_adjustment is nan, expected a number from 0"),
        ({"logit_adjustment": 1.0, "loss": "sigmoid"}, "shifts the logits of a softmax, and --model.loss is sigmoid"),
    ],
)
def test_settings_that_cannot_be_are_refused(given, said):
    with pytest.raises(InputError, match=said):
        Classifier(**given)


def test_a_loss_of_ones_own_is_not_passed_by():
    class Own(Classifier):
        def loss(self, *args, **kwargs):
            return args[0].sum()

    with pytest.raises(InputError, match="Own has a loss of its own"):
        Own(focal_gamma=2)
    assert Own().hparams.focal_gamma == 0


@pytest.mark.parametrize(
    ("given", "data", "said"),
    [
        (
            {"class_weights": [1.0] * 3},
            data_of(COUNTS),
            "has 3 numbers for 4 classes; give one per class, in this order",
        ),
        ({"class_weights": "balanced"}, SimpleNamespace(), "which SimpleNamespace does not know"),
        ({"class_weights": "balanced"}, data_of([5, 0, 1, 1]), "1 of 4 classes, which have no training images: 1; add"),
        ({"class_weights": "balanced"}, data_of([5, 1, 1, 1, 1]), "counts 5 classes .* but the model has 4"),
        ({"class_weights": "balanced", "logit_adjustment": 1.0}, data_of(COUNTS), "correct the same imbalance twice"),
        (
            {"class_weights": "balanced", "loss": "sigmoid", "num_classes": 1},
            data_of([5]),
            "every training image shows",
        ),
    ],
)
def test_data_that_do_not_suit_a_remedy_are_refused(given, data, said):
    with pytest.raises(InputError, match=said):
        remedy(settings(**given), data)


def test_a_weight_for_every_class_is_taken_as_given():
    loss, counts = remedy(settings(class_weights=[0.5, 1, 2, 4]), SimpleNamespace())
    assert loss.weights.tolist() == [0.5, 1, 2, 4] and counts is None
    assert loss.weights.dtype == torch.float32 and (loss.gamma, loss.shift) == (0, None)


@pytest.mark.parametrize("given", [{"focal_gamma": 0}, {"focal_gamma": 100}, {"logit_adjustment": 100}])
def test_the_ends_of_a_range_belong_to_it(given):
    assert Classifier(**given).hparams[next(iter(given))] == next(iter(given.values()))
    for beyond in (-0.01, 100.01):
        with pytest.raises(InputError, match="expected a number from 0"):
            Classifier(**{next(iter(given)): beyond})


def test_nothing_is_counted_for_a_run_without_remedies():
    assert remedy(settings(), SimpleNamespace()) == (None, None)
    assert remedy(settings(focal_gamma=2.0), SimpleNamespace())[1] is None


def test_shares_of_batches_make_one_weighted_mean():
    means, totals = torch.tensor([2.0, 5.0, 1.0]), torch.tensor([4.0, 1.0, 3.0])
    step = StepTotals()
    shares = torch.stack([step.share(total, place == 0) for place, total in enumerate(totals)])
    found = (means * shares).mean() * step.factor()
    assert found.item() == pytest.approx(((means * totals).sum() / totals.sum()).item(), rel=1e-6)


# In runs -------------------------------------------------------------------------------------------------------------

FIT = ("fit", "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.log_every_n_steps", 1)
FIT += ("--trainer.max_epochs", 2, "--model.optim.name", "sgd", "--model.optim.lr", 0.05, "--model.schedule.decay")
FIT += ("constant", "--model.schedule.warmup_steps", 0)
WEIGHED = ("--model.class_weights", "balanced")


@pytest.fixture
def data(tmp_path) -> tuple:
    """Flags of 40 training images, of which 4 show the small class, and 8 for validation."""
    for split, counts in (("train", {"a": 28, "b": 4, "c": 8}), ("val", {"a": 4, "b": 2, "c": 2})):
        for name, count in counts.items():
            (tmp_path / "set" / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = CHANCE.integers(0, 256, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "set" / split / name / f"{number}.png")
    words = ("--data", "ImageFolder", "--data.root", tmp_path / "set", "--data.image_size", 16)
    return *words, "--data.num_workers", 0, "--data.augment.crop", "none", "--data.augment.flip", "false"


def test_a_step_is_one_weighted_mean_however_it_is_made(app, together, data):
    """One process, accumulated batches and two processes take the same steps, though each batch has other classes."""
    said = app(*FIT, *data, *WEIGHED, "--data.batch_size", 8, *experiment("alone"))
    assert said.code == 0, said.err
    assert "class weights balanced (a 0.4762, b 3.333, c 1.667)" in said.out  # 40 images: 28, 4 and 8
    accumulate = ("--data.batch_size", 4, "--trainer.accumulate_grad_batches", 2)
    assert app(*FIT, *data, *WEIGHED, *accumulate, *experiment("accumulated")).code == 0
    together(*FIT, *data, *WEIGHED, *DDP, "--data.batch_size", 4, *experiment("ddp"))
    together(*FIT, *data, *WEIGHED, *fsdp(), "--data.batch_size", 2, *accumulate[2:], *experiment("fsdp"))
    for run in ("accumulated/0", "ddp/0", "fsdp/0"):
        assert distance(state(run), state("alone/0")) < 1e-5
    for (_, a), (_, b) in zip(logged("ddp/0", "train/loss"), logged("alone/0", "train/loss"), strict=True):
        assert a == pytest.approx(b, rel=1e-5)
    assert app(*FIT, *data, "--data.batch_size", 8, *experiment("plain")).code == 0
    assert distance(state("plain/0"), state("alone/0")) > 1e-3


def test_mixed_labels_are_weighed(app, data):
    mixed = ("--data.augment.mixup_alpha", 0.5, "--model.label_smoothing", 0.1, "--model.focal_gamma", 1)
    done = app(*FIT, *data, *WEIGHED, *mixed, "--data.batch_size", 8)
    assert done.code == 0, done.err
    assert len(logged("default/0", "train/loss")) == 10


def test_a_resumed_run_goes_on_with_its_weights(app, data):
    words = (*FIT, *data, "--data.batch_size", 8, "--model.logit_adjustment", 1, "--model.focal_gamma", 2)
    assert app(*words, *experiment("whole")).code == 0
    assert app(*words, *experiment("parts"), "--trainer.max_epochs", 1).code == 0
    file = torch.load("runs/parts/0/checkpoints/last.ckpt", weights_only=True)
    assert file["class_counts"] == [28, 4, 8]
    assert app(*FIT, *data, "--data.batch_size", 8, *experiment("parts"), "--ckpt_path", "last").code == 0
    assert distance(state("parts/0"), state("whole/0")) == 0


def test_scores_are_those_of_the_plain_loss(app, data):
    assert app(*FIT, *data, "--data.batch_size", 8, *WEIGHED, "--model.focal_gamma", 2).code == 0
    done = app("validate", *data, "--data.batch_size", 8, "--ckpt_path", "last")
    assert done.code == 0, done.err
    model = Classifier({"variant": "mu/8"}, num_classes=3, image_size=16)
    model.load_state_dict(state("default/0"))
    files = sorted(Path("set/val").rglob("*.png"))
    pixels = torch.stack([torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1) for file in files])
    with torch.no_grad():
        labels = torch.tensor(["abc".index(file.parent.name) for file in files])
        expected = F.cross_entropy(model.eval()(pixels).double(), labels).item()
    assert logged("default/0", "val/loss")[-1][1] == pytest.approx(expected, rel=1e-5)


def test_a_missing_class_and_a_wrong_list_are_one_sentence(app, data):
    done = app(*FIT, *data, "--data.batch_size", 8, "--model.class_weights", "[1, 2]")
    assert done.code == 1
    assert "--model.class_weights has 2 numbers for 3 classes; give one per class, in this order: a, b, c" in done.err
    done = app(*FIT, *data, "--data.batch_size", 2, "--data.fraction", 0.05, *WEIGHED)
    assert done.code == 1
    assert "--model.class_weights balanced cannot weigh" in done.err


def test_other_counts_on_resume_are_said(caplog):
    from vit_lightning.training.imbalance import report_counts

    with caplog.at_level("INFO"):
        report_counts([28, 4, 8], ClassCounts(41, np.array([28.0, 5, 8])))
    assert "differs from the checkpoint: training images of class 1: 4 -> 5" in caplog.text


class WholeSteps(Callback):
    """Compares each optimiser step's gradients with those of the weighted mean over all images of the step."""

    def on_train_start(self, trainer, pl_module):
        self.batches, self.counts = [], []

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.batches.append(batch)

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        parameters = list(pl_module.parameters())
        whole = pl_module.batch_loss(*map(torch.cat, zip(*self.batches, strict=True)))
        for own, parameter in zip(torch.autograd.grad(whole, parameters), parameters, strict=True):
            torch.testing.assert_close(parameter.grad, own, atol=1e-6, rtol=1e-4)
        self.counts.append(len(self.batches))
        self.batches = []


@pytest.mark.parametrize(("accumulation", "counts"), [(1, [1] * 7), (2, [2, 2, 2, 1]), (3, [3, 3, 1]), (4, [4, 3])])
def test_accumulated_batches_make_the_gradient_of_one_weighted_mean(accumulation, counts):
    torch.manual_seed(0)
    check = WholeSteps()
    data = Synthetic(train_size=28, eval_size=4, image_size=8, batch_size=4, num_workers=0)
    weights = [0.1, 3.0, 0.5, 8.0, 0.2, 1.0, 2.0, 5.0, 0.3, 0.7]
    model = Classifier({"variant": "mu/8"}, num_classes=10, image_size=8, class_weights=weights)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    quiet |= {"enable_model_summary": False, "limit_val_batches": 0}
    Trainer(accelerator="cpu", max_epochs=1, accumulate_grad_batches=accumulation, callbacks=[check], **quiet).fit(
        model, data
    )
    assert check.counts == counts
