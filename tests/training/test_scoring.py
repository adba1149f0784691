"""Scores of validate, test and fit, on one process and two, against scikit-learn on the same predictions."""

import csv
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn import metrics

from tests.evaluation.test_calibration import by_loops
from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError
from vit_lightning.evaluation import confusion
from vit_lightning.training import kept_answers
from vit_lightning.training.scoring import SplitScores

CLASSES = 7
IMAGES = 37
"""A prime: no batch and no number of processes divides it."""
ANSWERED = f'''
import torch
from vit_lightning.classifier import Classifier
from vit_lightning.data import ImageDataModule


class Known(ImageDataModule):
    """Images of which each pixel is the image's number."""

    num_classes = {CLASSES}

    def __init__(self, several: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.several = several

    @property
    def class_names(self):
        return ["=cat", "dog", "owl", "eel", "fox", "ape", "a$b"]

    def setup(self, stage):
        known = torch.load("known.pt")
        images = [torch.full((3, 8, 8), number, dtype=torch.uint8) for number in range({IMAGES})]
        labels = known["several"] if self.several else known["labels"].tolist()
        self.train_set = list(zip(images, labels))[:30]
        self.val_set = self.test_set = list(zip(images, labels))


class Beside(Known):
    """The same images, and beside them those from number 14 on: 23, of other labels; as ReaL has them, of several."""

    def setup(self, stage):
        super().setup(stage)
        known, later = torch.load("known.pt"), self.test_set[14:]
        night = [(image, known["night"][place].item()) for place, (image, _) in enumerate(later)]
        pairs = torch.tensor([[label % 5, 6] for _, label in later if label >= 0])
        several = torch.zeros(len(pairs), 7).scatter_(1, pairs, 1)
        real = [(image, shares) for (image, _), shares in zip((one for one in later if one[1] >= 0), several)]
        self.further_sets = {{"night": night, "real": real}}


class Reader(Classifier):
    def forward(self, images):
        return torch.load("known.pt")["logits"][images[:, 0, 0, 0].long()]
'''
DDP = ("--trainer.devices", 2, "--trainer.strategy", "ddp")
WORDS = ("--data", "known_set.Known", "--data.image_size", 8, "--data.batch_size", 4, "--data.num_workers", 0)
WORDS += ("--model", "known_set.Reader", "--trainer.accelerator", "cpu", "--ckpt_path", "kept/net.ckpt")
WORDS += ("--trainer.logger", "CSVLogger", "--trainer.logger.save_dir")


@pytest.fixture
def known(tmp_path: Path, monkeypatch) -> dict[str, torch.Tensor]:
    """Answers of a net, beside which lies its checkpoint; class 5 has no image, and two images have no label."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("known_set.py").write_text(ANSWERED)
    random = torch.Generator().manual_seed(3)
    labels = torch.randint(0, CLASSES, (IMAGES,), generator=random)
    labels[labels == 5] = 2
    logits = 2 * torch.randn(IMAGES, CLASSES, generator=random)
    logits[torch.arange(IMAGES), labels] += 1.5
    several = (torch.rand(IMAGES, CLASSES, generator=random) < 0.3).float()
    several[:, 5] = 0
    labels[[4, 36]], several[[4, 36]] = -100, -100
    night = torch.where(torch.arange(IMAGES) % 5 == 0, -100, torch.randint(0, CLASSES, (IMAGES,), generator=random))
    found = {"logits": logits, "labels": labels, "several": several, "night": night[14:]}
    torch.save(found, "known.pt")
    return found


def checkpoint(**settings) -> None:
    Path("kept").mkdir(exist_ok=True)
    model = Classifier(net={"variant": "mu/8"}, num_classes=CLASSES, image_size=8, **settings)
    model.configure_model()
    facts = {"hyper_parameters": dict(model.hparams), "model": "known_set.Reader", "pytorch-lightning_version": "2.6.0"}
    torch.save({"state_dict": model.state_dict()} | facts, "kept/net.ckpt")


def scored(folder: str, split: str) -> dict[str, float]:
    with next(Path(folder).rglob("metrics.csv")).open(newline="") as file:
        row = list(csv.DictReader(file))[-1]
    return {name.removeprefix(f"{split}/"): float(row[name]) for name in row if name.startswith(split)}


def table(name: str, folder: str = "kept") -> list[list[str]]:
    with Path(folder, name).open(newline="") as file:
        return list(csv.reader(file))


def one_label(known: dict[str, torch.Tensor], loss: str) -> dict[str, float]:
    """What scikit-learn says of the images that have a label."""
    logits, labels = known["logits"][known["labels"] >= 0].double(), known["labels"][known["labels"] >= 0].numpy()
    shares = (logits.softmax(-1) if loss == "softmax" else logits.sigmoid()).numpy()
    predicted = shares.argmax(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a class that is predicted and has no image
        balanced = metrics.balanced_accuracy_score(labels, predicted)
    classes = range(CLASSES)
    return {
        "top1": metrics.accuracy_score(labels, predicted),
        "top5": metrics.top_k_accuracy_score(labels, shares, k=5, labels=classes),
        "mean_class_accuracy": balanced,
        "macro_f1": metrics.f1_score(labels, predicted, average="macro"),
        "ece": by_loops(shares.max(1), predicted == labels),
    }


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_scores_of_one_label_are_scikit_learns_on_one_process_and_two(app, together, known, loss):
    checkpoint(loss=loss)
    expected = one_label(known, loss)
    for verb, split in (("validate", "val"), ("test", "test")):
        single = app(verb, *WORDS, f"one {verb}")
        assert single.code == 0, single.err
        assert "note     1 of 7 classes have no" in single.out and "35 of 37" in single.err
        assert not list(Path("kept").glob("*.csv"))  # there is no run, and nobody asked
        assert "sync_dist" not in together(verb, *WORDS, f"two {verb}", *DDP)
        for found in (scored(f"one {verb}", split), scored(f"two {verb}", split)):
            assert found.keys() == expected.keys() | {"loss"}
            for name, value in expected.items():
                assert found[name] == pytest.approx(value, abs=1e-6), name


def test_further_sets_have_every_score_on_one_process_and_two(app, together, known):
    checkpoint()
    expected = one_label(known, "softmax")
    night = one_label({"logits": known["logits"][14:], "labels": known["night"]}, "softmax")
    expected |= {"night" if name == "top1" else f"night/{name}": value for name, value in night.items()}
    words = ("test", "--data", "known_set.Beside", *WORDS[2:])
    single = app(*words, "one")
    assert single.code == 0, single.err
    assert "sync_dist" not in together(*words, "two", *DDP)
    for found in (scored("one", "test"), scored("two", "test")):
        assert found.keys() == expected.keys() | {"loss", "night/loss", "real"}
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, abs=1e-6), name
    assert scored("one", "test")["night/loss"] == pytest.approx(scored("two", "test")["night/loss"], abs=1e-6)
    row = next(line for line in single.out.splitlines() if line.startswith("night"))
    assert row.count("%") == 5 and f"{100 * night['macro_f1']:.2f} %" in row
    real = next(line for line in single.out.splitlines() if line.startswith("ReaL labels"))
    assert real.count("%") == 1  # its images have several labels, and the net chooses one


def test_tables_by_class_are_scikit_learns_on_one_process_and_two(app, together, known):
    checkpoint(scores=["classes", "confusion"])
    done = app("test", *WORDS, "one")
    assert done.code == 0, done.err
    assert "tables   kept/test.classes.csv, test.confusion.csv, test.confusion.png" in done.out
    assert scored("one", "test").keys() == {"loss", "top1", "top5"}
    assert Path("kept/test.confusion.png").read_bytes().startswith(b"\x89PNG")
    first = [table("test.classes.csv"), table("test.confusion.csv")]
    for path in Path("kept").glob("*.csv"):
        path.unlink()
    together("test", *WORDS, "two", *DDP)
    assert [table("test.classes.csv"), table("test.confusion.csv")] == first

    kept = known["labels"] >= 0
    labels, predicted = known["labels"][kept].numpy(), known["logits"][kept].argmax(1).numpy()
    classes, confusion = first
    assert classes[0] == ["class", "support", "precision", "recall", "f1"]
    theirs = metrics.precision_recall_fscore_support(labels, predicted, labels=range(CLASSES), zero_division=np.nan)
    for row, *values, support in zip(classes[1:], *theirs, strict=True):
        assert int(row[1]) == support
        found = [float(cell or "nan") for cell in row[2:]]
        np.testing.assert_allclose(found, values, atol=1e-6)
    assert classes[1][0] == "'=cat"  # no spreadsheet computes it
    square = [[int(cell) for cell in row[1:]] for row in confusion[1:]]
    assert square == metrics.confusion_matrix(labels, predicted, labels=range(CLASSES)).tolist()
    assert confusion[0] == ["true", "'=cat", "dog", "owl", "eel", "fox", "ape", "a$b"]


@pytest.mark.parametrize("most", [1_000, 5])
def test_mistakes_are_the_images_that_are_wrong_on_one_process_and_two(app, together, known, monkeypatch, most):
    checkpoint(scores=["mistakes"])
    labels, (confidence, predicted) = known["labels"], known["logits"].softmax(-1).max(-1)
    wrong = [image for image in range(IMAGES) if labels[image] >= 0 and labels[image] != predicted[image]]
    wrong = sorted(wrong, key=lambda image: -float(confidence[image]))[:most]
    monkeypatch.setattr(confusion, "MOST_MISTAKES", most)
    runs = [lambda: app("test", *WORDS, "one")] + [lambda: together("test", *WORDS, "two", *DDP)] * (most > IMAGES)
    for run in runs:
        run()
        header, *rows = table("test.mistakes.csv")
        Path("kept/test.mistakes.csv").unlink()
        assert header == ["image", "label", "predicted", "probability"] and len(wrong) > 0
        names = ["'=cat", "dog", "owl", "eel", "fox", "ape", "a$b"]
        assert [row[:3] for row in rows] == [[str(i), names[labels[i]], names[predicted[i]]] for i in wrong]
        assert [float(row[3]) for row in rows] == pytest.approx(confidence[wrong].tolist(), abs=1e-6)


def calibration_by_loops(shares: np.ndarray, labels: np.ndarray) -> float:
    """The expected calibration error of one label's probability, in 15 bins that hold their upper edges."""
    bins = np.ceil(shares * 15)
    return sum(abs((labels[bins == one] - shares[bins == one]).sum()) for one in set(bins)) / len(labels)


def several_labels(known: dict[str, torch.Tensor], threshold: float) -> dict[str, float]:
    """What scikit-learn says of the images that have labels, of the classes that have images."""
    kept = known["several"][:, 0] >= 0
    labels, shares = known["several"][kept].numpy().astype(int), known["logits"][kept].double().sigmoid().numpy()
    predicted = (shares > threshold).astype(int)
    has = labels.any(0)
    return {
        "map_macro": metrics.average_precision_score(labels[:, has], shares[:, has], average="macro"),
        "map_micro": metrics.average_precision_score(labels, shares, average="micro"),
        "mean_auroc": metrics.roc_auc_score(labels[:, has], shares[:, has], average="macro"),
        "macro_f1": metrics.f1_score(labels, predicted, average="macro", zero_division=np.nan),
        "micro_f1": metrics.f1_score(labels, predicted, average="micro"),
        "exact_match": metrics.accuracy_score(labels, predicted),
        "ece": np.mean([calibration_by_loops(shares[:, each], labels[:, each]) for each in np.flatnonzero(has)]),
    }


@pytest.mark.parametrize("threshold", [0.5, 0.3])
def test_scores_of_several_labels_are_scikit_learns_on_one_process_and_two(app, together, known, threshold):
    checkpoint(loss="sigmoid")
    expected = several_labels(known, threshold)
    words = ("test", *WORDS)
    rest = ("--data.several", "true", "--model.threshold", threshold)
    single = app(*words, "one", *rest)
    assert single.code == 0, single.err
    together(*words, "two", *rest, *DDP)
    for found in (scored("one", "test"), scored("two", "test")):
        assert found.keys() == expected.keys() | {"loss", "top1", "top5"}
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, abs=1e-6), name


def test_classes_of_several_labels_have_their_rankings(app, known):
    checkpoint(loss="sigmoid", scores=["map_macro", "classes"])
    done = app("test", *WORDS, "one", "--data.several", "true")
    assert done.code == 0, done.err
    assert scored("one", "test").keys() == {"loss", "top1", "top5", "map_macro"}
    rows = table("test.classes.csv")
    assert rows[0] == ["class", "support", "precision", "recall", "f1", "average_precision", "auroc"]
    kept = known["several"][:, 0] >= 0
    labels, logits = known["several"][kept].numpy(), known["logits"][kept].numpy()
    assert float(rows[1][5]) == pytest.approx(metrics.average_precision_score(labels[:, 0], logits[:, 0]), abs=1e-6)
    assert float(rows[1][6]) == pytest.approx(metrics.roc_auc_score(labels[:, 0], logits[:, 0]), abs=1e-6)
    assert rows[6][1] == "0" and rows[6][5:] == ["", ""]
    assert not Path("kept/test.confusion.csv").exists()


def test_of_classes_that_compete_several_may_be_right_and_no_ranking_is_taken_unasked(app, known):
    """As of ReaL's labels: a net of softmax has F1 and exact match, which cost nothing."""
    known["several"][known["several"].sum(1) == 0, 0] = 1  # softmax expects a class
    torch.save(known, "known.pt")
    checkpoint()
    words = ("test", *WORDS)
    done = app(*words, "one", "--data.several", "true")
    assert done.code == 0, done.err
    assert scored("one", "test").keys() == {"loss", "top1", "top5", "macro_f1", "micro_f1", "exact_match", "ece"}
    done = app(*words, "two", "--data.several", "true", "--model.scores", "[map_micro]")
    assert done.code == 0, done.err
    kept = known["several"][:, 0] >= 0
    labels, shares = known["several"][kept].numpy(), known["logits"][kept].double().softmax(-1).numpy()
    expected = metrics.average_precision_score(labels, shares, average="micro")
    assert scored("two", "test")["map_micro"] == pytest.approx(expected, abs=1e-6)


def test_a_table_that_cannot_be_written_costs_no_score(app, known):
    checkpoint(scores=["macro_f1", "classes"])
    Path("kept/test.classes.csv").mkdir(parents=True)
    with pytest.warns(UserWarning, match=r"test\.classes\.csv cannot be written"):
        done = app("test", *WORDS, "one")
    assert done.code == 0, done.err
    assert "macro F1" in done.out and "tables" not in done.out


@pytest.mark.parametrize("hidden", ["-1", ""])
def test_rows_of_a_table_without_a_label_are_left_out_and_counted(app, hidden):
    Path("set").mkdir()
    for number in range(11):
        Image.new("RGB", (8, 8), (20 * number, 0, 0)).save(f"set/{number}.png")
    rows = [f"{number}.png,{('cat', 'dog')[number % 2]}\n" for number in range(11)]
    Path("set/train.csv").write_text("path,label\n" + "".join(rows[7:]))
    Path("set/test.csv").write_text("path,label\n" + "".join(rows[:5]) + f"5.png,{hidden}\n6.png,{hidden}\n")
    words = ("--data", "Manifest", "--data.root", "set", "--data.train", "train.csv", "--data.test", "test.csv")
    words += ("--data.image_size", 8, "--data.batch_size", 2, "--data.num_workers", 0, "--data.val_fraction", 0.0)
    words += ("--trainer.accelerator", "cpu")
    done = app("fit", *words, "--model.net.variant", "mu/8")
    assert done.code == 0, done.err
    done = app("test", *words, "--ckpt_path", "last")
    assert done.code == 0 and "5 of 7 test images have a label" in done.out + done.err, done.err
    found = table("test.classes.csv", "runs/default/0")
    assert [row[:2] for row in found[1:]] == [["cat", "3"], ["dog", "2"]]
    Path("runs/default/0/test.classes.csv").unlink()
    Path("set/test.csv").write_text(f"path,label\n5.png,{hidden}\n6.png,{hidden}\n")
    done = app("test", *words, "--ckpt_path", "last")
    assert done.code == 1 and "test.csv has no labels, which test needs" in done.err.splitlines()[-1], done.err
    assert not Path("runs/default/0/test.classes.csv").exists()


@pytest.mark.parametrize(
    ("scores", "several", "said"),
    [
        (
            "[macro_f1,map_macro]",
            "false",
            "--model.scores map_macro is for images of several labels",
        ),
        (
            "[mean_class_accuracy]",
            "true",
            "--model.scores mean_class_accuracy is for images of one label each, and these have several labels",
        ),
        ("[confusion]", "true", "--model.scores confusion is for images of one label each"),
        ("[macrof1]", "false", "--model.scores macrof1 is no score; did you mean macro_f1?"),
    ],
)
def test_scores_that_the_images_cannot_have_are_refused(app, known, scores, several, said):
    checkpoint(loss="sigmoid")
    done = app("test", *WORDS, "one", "--model.scores", scores, "--data.several", several)
    assert done.code == 1 and said in done.err.splitlines()[-1], done.err
    assert not list(Path("kept").glob("*.csv"))


def test_a_threshold_has_bounds():
    with pytest.raises(InputError, match=r"--model.threshold is 1.0; it must lie in \[0, 1\)"):
        Classifier(threshold=1.0)


# In a fit -------------------------------------------------------------------------------------------------------------

FIT = ("fit", "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data", "Synthetic")
FIT += ("--data.train_size", 48, "--data.eval_size", 25, "--data.batch_size", 16, "--data.num_workers", 0)
FIT += ("--trainer.max_epochs", 3, "--model.optim.lr", 0.02)


def validations(name: str) -> list[float]:
    with Path("runs/default/0/metrics.csv").open(newline="") as file:
        return [float(row[name]) for row in csv.DictReader(file) if row.get(name)]


@pytest.mark.parametrize(("name", "best"), [("macro_f1", max), ("ece", min), ("mean_class_accuracy", max)])
def test_a_monitored_score_chooses_the_best_checkpoint(app, name, best):
    done = app(*FIT, "--checkpoint.monitor", f"val/{name}")
    assert done.code == 0, done.err
    values = validations(f"val/{name}")
    assert len(values) == 3
    epoch = torch.load("runs/default/0/checkpoints/best.ckpt", weights_only=True)["epoch"]
    assert values[epoch] == best(values)
    again = app("validate", "runs/default/0")
    assert again.code == 0, again.err
    facts = json.loads(Path("runs/default/0/validate.json").read_text())
    assert facts["scores"][f"val/{name}"] == pytest.approx(best(values), abs=1e-5)
    assert Path("runs/default/0/validate.classes.csv").exists()


def test_the_line_of_an_epoch_shows_what_is_monitored_and_no_more(app):
    done = app(*FIT, "--trainer.max_epochs", 1)
    assert done.code == 0 and "top-1" in done.out and "F1" not in done.out and "ECE" not in done.out
    assert not list(Path("runs/default/0").glob("*.classes.csv"))
    assert validations("val/macro_f1") and validations("val/ece")
    done = app(*FIT, "--early_stopping.patience", 1, "--early_stopping.monitor", "val/macro_f1")
    assert done.code == 0 and "macro F1" in done.out, done.err


def test_the_score_of_other_labels_is_refused_before_the_first_step(app):
    done = app(*FIT, "--checkpoint.monitor", "val/map_macro")
    assert done.code == 1 and "the monitored score map_macro is for images of several labels" in done.err
    assert "epoch 1" not in done.out


MANY = """
import torch
from datamodules.synthetic import Synthetic


class Many(Synthetic):
    def setup(self, stage):
        random = torch.Generator().manual_seed(0)
        images = torch.randint(0, 255, (25, 3, 16, 16), dtype=torch.uint8, generator=random)
        self.train_set = self.val_set = list(zip(images, torch.randint(0, 2, (25, 6), generator=random).float()))
"""


def test_a_ranking_is_computed_in_a_fit_where_it_is_monitored(app, tmp_path, monkeypatch):
    Path(tmp_path / "many.py").write_text(MANY)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ("--data", "many.Many", "--data.num_classes", 6, "--data.image_size", 16, "--data.batch_size", 8)
    words += ("--data.num_workers", 0, "--trainer.accelerator", "cpu", "--model.net.variant", "mu/8")
    words += ("--model.loss", "sigmoid")
    done = app("fit", *words)
    assert done.code == 0, done.err
    assert validations("val/micro_f1") and not validations("val/map_macro")
    assert "val micro F1" in done.out and "precision at 1" in done.out  # one right label is not the only figure
    done = app("fit", *words, "--checkpoint.monitor", "val/map_macro", "--name", "ranked")
    assert done.code == 0 and "best.ckpt (mAP" in done.out, done.err


# The metrics ----------------------------------------------------------------------------------------------------------


def passed(scores: SplitScores, logits: torch.Tensor, labels: torch.Tensor, size: int = 5) -> SplitScores:
    scores.begin()
    for start in range(0, len(logits), size):
        batch = logits[start : start + size], labels[start : start + size]
        valid = (batch[1] if labels.ndim == 1 else batch[1][:, 0]) >= 0
        scores.update(batch[0], batch[1].clamp(min=0), valid, batch[0].argmax(1), are_independent=True)
    scores.sum_up()
    return scores


def test_a_ranking_of_too_many_numbers_is_left_out_and_said(known, monkeypatch):
    scores = SplitScores(0.5)
    scores.want(None, (), costly=True)
    passed(scores, known["logits"], known["several"])
    assert "mean_auroc" in scores.summed.values and len(scores.explain("test")) == 1
    monkeypatch.setattr(kept_answers, "MOST_RANKED", 7 * CLASSES)
    passed(scores, known["logits"], known["several"])
    assert scores.summed.values.keys() == {"macro_f1", "micro_f1", "exact_match", "ece"}
    assert "map_macro is left out: images times classes are more than 49" in scores.explain("test")
    scores.want(["map_macro"], (), costly=True)
    passed(scores, known["logits"], known["several"])
    with pytest.raises(InputError, match=r"--model.scores map_macro has no value: images times classes"):
        scores.explain("test")


def test_a_split_begins_anew_and_one_image_is_enough(known):
    scores = SplitScores(0.5)
    passed(scores, known["logits"], known["labels"])
    passed(scores, known["logits"][:1], torch.tensor([int(known["logits"][0].argmax())]))
    assert scores.summed.values["macro_f1"] == scores.summed.values["mean_class_accuracy"] == 1
    assert scores.summed.counts.support.sum() == 1


def test_one_logit_is_a_binary_head(known):
    """One class that an image has or has not."""
    scores, logits, labels = SplitScores(0.5), known["logits"][:, :1], known["several"][:, :1]
    scores.want(None, (), costly=True)
    passed(scores, logits, labels)
    kept = labels[:, 0] >= 0
    has, shares = labels[kept, 0].numpy(), logits[kept, 0].numpy()
    assert scores.summed.values["mean_auroc"] == pytest.approx(metrics.roc_auc_score(has, shares))
    assert scores.summed.values["macro_f1"] == pytest.approx(metrics.f1_score(has, shares > 0))


@pytest.mark.parametrize("classes", [5, CLASSES])
def test_one_class_against_the_rest_is_ranked_where_it_is_asked_for(known, classes):
    """Of 5 classes each has an image, as scikit-learn's mean over classes needs."""
    kept = known["labels"] < classes
    scores, logits, labels = SplitScores(0.5), known["logits"][kept][:, :classes], known["labels"][kept]
    scores.want(None, (), costly=True)
    assert "mean_auroc" not in passed(scores, logits, labels).summed.values
    scores.want(["mean_auroc"], (), costly=False)
    scores.begin()
    for part in (slice(0, 7), slice(7, None)):
        valid, best = labels[part] >= 0, logits[part].argmax(1)
        scores.update(logits[part], labels[part].clamp(min=0), valid, best, are_independent=False)
    summed, true = scores.sum_up(), labels[labels >= 0]
    shares = logits[labels >= 0].double().softmax(-1).numpy()
    there = true.unique().tolist()
    areas = [metrics.roc_auc_score((true == one).numpy(), shares[:, one]) for one in there]
    assert summed.values["mean_auroc"] == pytest.approx(np.mean(areas), abs=1e-12)
    np.testing.assert_allclose(summed.ranking.auroc[there], areas, rtol=0, atol=1e-12)
    if len(there) == classes:
        whole = metrics.roc_auc_score(true.numpy(), shares, multi_class="ovr", average="macro")
        assert summed.values["mean_auroc"] == pytest.approx(whole, abs=1e-12)
