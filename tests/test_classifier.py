"""The model's losses, metrics and freezing, held against hand-computed values."""

import math
from contextlib import nullcontext
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F

from vit_lightning.classifier import Classifier
from vit_lightning.data import ImageDataModule
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig
from vit_lightning.models.lora import Lora
from vit_lightning.training.optim import Optim, Schedule
from vit_lightning.training.recipe import RecipeModel
from vit_lightning.weights import load
from vit_lightning.weights.archive import open_archive

NET = NetConfig(variant="mu/8")


def classifier(**settings) -> Classifier:
    model = Classifier(**{"net": NET, "num_classes": 4, "image_size": 16} | settings)
    model.configure_model()
    model.log = lambda *args, **kwargs: None
    return model


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.tensor([[2.0, 0.5, -1.0, 0.0], [0.0, 3.0, 1.0, -2.0], [1.0, 0.0, 0.0, 4.0]])


def test_softmax_loss_smooths_integer_targets_once(logits):
    labels, smoothing = torch.tensor([0, 1, 0]), 0.1
    target = torch.full((3, 4), smoothing / 4)
    target[torch.arange(3), labels] += 1 - smoothing
    assert target.max() == pytest.approx(0.9 + 0.1 / 4)
    expected = -(target * logits.log_softmax(-1)).sum(-1).mean()
    model = classifier(label_smoothing=smoothing)
    assert model.loss(logits, labels, smoothing).item() == pytest.approx(expected.item(), rel=1e-6)
    assert model.loss(logits, target, smoothing).item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("kind", ["softmax", "sigmoid"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_targets_smoothed_before_mixing_give_the_loss_of_smoothed_labels(logits, kind, smoothing):
    """Case C13: once, and the same wherever it happens."""
    labels, model = torch.tensor([0, 1, 0]), classifier(loss=kind, label_smoothing=smoothing)
    targets = model.smooth(F.one_hot(labels, 4).float())
    assert targets.max() == pytest.approx(1 - smoothing + (smoothing / 4 if kind == "softmax" else 0))
    expected = model.loss(logits, labels, smoothing)
    assert model.loss(logits, targets, smoothing).item() == pytest.approx(expected.item(), rel=1e-6)


def test_sigmoid_loss_is_summed_over_classes(logits):
    labels = torch.tensor([0, 1, 3])
    total = 0.0
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        for index, logit in enumerate(row):
            y = 0.9999 if index == label else 0.0001
            p = 1 / (1 + math.exp(-logit))
            total -= y * math.log(p) + (1 - y) * math.log(1 - p)
    loss = classifier(loss="sigmoid").loss(logits, labels, smoothing=1e-4)
    assert loss.item() == pytest.approx(total / 3, rel=1e-6)


@pytest.mark.parametrize("classes", [1000, 21843])
def test_initial_losses_of_the_spec(classes):
    """Spec 12: sigmoid with bias -10 and one positive, softmax with a zero head."""
    model = classifier(loss="sigmoid", net=NetConfig(variant="mu/8", head_bias=-10), num_classes=classes)
    logits = model(torch.zeros(2, 3, 16, 16))
    assert model.loss(logits, torch.tensor([3, 5])).item() == pytest.approx(
        10.0000454 + (classes - 1) * 4.53989e-5, rel=1e-6
    )
    model = classifier(num_classes=classes)
    loss = model.loss(model(torch.zeros(2, 3, 16, 16)), torch.tensor([3, 5]))
    assert loss.item() == pytest.approx(math.log(classes), rel=1e-6)


def test_normalise_maps_bytes_and_floats_alike():
    model = classifier(mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 1.0))
    images = torch.randint(0, 256, (2, 3, 16, 16), dtype=torch.uint8)
    expected = (images.double() / 255 - torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1)) / torch.tensor(
        [0.5, 0.25, 1.0]
    ).view(3, 1, 1)
    torch.testing.assert_close(model.normalise(images), expected.float())
    torch.testing.assert_close(model.normalise(images.float() / 255), expected.float())
    black_and_white = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).expand(2, 3, 16, 16)
    assert classifier().normalise(black_and_white).unique().tolist() == [-1, 1]


def test_a_linear_probe_trains_the_head_alone():
    model = classifier(freeze_trunk=True)
    assert [name for name, parameter in model.named_parameters() if parameter.requires_grad] == [
        "net.head.weight",
        "net.head.bias",
    ]


def test_a_frozen_trunk_is_as_in_evaluation_in_every_epoch():
    """Its dropout is off; validation gives the net back in training mode."""
    model = classifier(freeze_trunk=True, net={"variant": "mu/8", "dropout": 0.5})
    images = torch.rand(2, 3, 16, 16)
    for _ in range(2):
        model.train()
        model.on_train_epoch_start()
        assert torch.equal(model.net.features(images), model.net.features(images))
    trained = classifier(net={"variant": "mu/8", "dropout": 0.5}).train()
    trained.on_train_epoch_start()
    assert not torch.equal(trained.net.features(images), trained.net.features(images))


def test_hyperparameters_are_plain_and_rebuild_the_model():
    model = classifier(optim=Optim(lr=0.5), schedule=Schedule(warmup_steps=3))
    again = Classifier(**model.hparams)
    assert again.optim == model.optim and again.schedule == model.schedule and again.config == model.config
    assert isinstance(model.hparams["optim"], dict)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"label_smoothing": 1.0}, "label_smoothing is 1.0"),
        (
            {"label_smoothing": 0.5, "loss": "sigmoid"},
            r"label_smoothing is 0.5; with sigmoid it must lie in \[0, 0.5\)",
        ),
        ({"mean": (0.5,)}, "1 values for a net of 3 channels"),
        ({"num_classes": None}, "num_classes unknown"),
        ({"net": {"variant": "mu/8", "pool": "gop"}}, "gop"),
    ],
)
def test_impossible_settings_are_refused(settings, said):
    with pytest.raises(InputError, match=said):
        classifier(**settings)


def test_compiling_keeps_the_keys():
    """Case C14: compiled in place, by a backend that needs no compiler."""
    plain = classifier()
    compiled = classifier(compile=True)
    assert plain.state_dict().keys() == compiled.state_dict().keys()
    plain.load_state_dict(compiled.state_dict(), strict=True)


@pytest.fixture
def trained(tmp_path):
    """A checkpoint of a net with a hidden layer and a normalisation of its own."""
    model = classifier(net=NetConfig(variant="mu/8", representation=16), mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
    torch.nn.init.normal_(model.net.head.weight)
    path = tmp_path / "trained.ckpt"
    facts = {"hyper_parameters": dict(model.hparams), "pytorch-lightning_version": "2.5.0"}
    torch.save({"state_dict": model.state_dict()} | facts, path)
    return path, model


def test_weights_bring_their_net_and_normalisation(trained):
    path, model = trained
    again = classifier(net=NetConfig(), weights=str(path))
    assert again.config == model.config
    assert again.hparams.mean == (0.4, 0.5, 0.6)
    images = torch.rand(2, 3, 16, 16)
    torch.testing.assert_close(again.eval()(images), model.eval()(images))
    assert again.hparams.weights is None


def test_weights_that_bring_their_net_are_opened_once(trained, monkeypatch):
    opened = []
    monkeypatch.setattr(load, "open_archive", lambda *place: opened.append(place) or open_archive(*place))
    classifier(net=NetConfig(), weights=str(trained[0]))
    assert len(opened) == 1


def test_a_new_head_drops_the_hidden_layer(trained):
    path, model = trained
    again = classifier(net=NetConfig(), weights=str(path), weights_head="reset", num_classes=7)
    assert again.config.representation == 0
    assert again.net.head.weight.shape == (7, 32)
    assert again.net.head.weight.count_nonzero() == 0
    assert torch.equal(again.net.patches.proj.weight, model.net.patches.proj.weight)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"mean": (0.5, 0.5, 0.5)}, r"data\.mean is \(0\.5, 0\.5, 0\.5\), but the weights were trained with \(0\.4"),
        ({"num_classes": 7}, "for 4 classes, the net's for 7"),
        ({"net": NetConfig(variant="mu/8")}, r"net\.representation=16, but the net has 0"),
    ],
)
def test_weights_that_disagree_are_refused(trained, settings, said):
    with pytest.raises(InputError, match=said):
        classifier(**{"net": NetConfig(), "weights": str(trained[0])} | settings)


@pytest.fixture
def named(tmp_path):
    """The head of a net whose four classes have names."""
    model = classifier()
    torch.nn.init.normal_(model.net.head.weight)
    path = tmp_path / "named.ckpt"
    facts = {"hyper_parameters": dict(model.hparams), "pytorch-lightning_version": "2.5.0"}
    torch.save({"state_dict": model.state_dict(), "class_names": ["a", "b", "c", "d"]} | facts, path)
    return path


def begun_with(path, names, stage, **settings):
    """Return a model as Lightning readies it for data of these classes."""
    model = Classifier(weights=str(path), num_classes=4, image_size=16, **settings)
    model._trainer = SimpleNamespace(datamodule=SimpleNamespace(class_names=names), fast_dev_run=False)
    model.setup(stage)
    model.configure_model()
    return model


@pytest.mark.parametrize("stage", ["fit", "validate", "test", "predict"])
@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["d", "b", "c", "a"], "class 0 is 'd' in the data but 'a' in the weights.*order of the weights.*_head reset"),
        (
            ["a", "x", "c", "d"],
            "the data alone have 'x'; the weights alone have 'b'; .*same classes.*weights_head reset",
        ),
    ],
)
def test_weights_that_name_their_classes_serve_no_others(named, stage, names, said):
    with pytest.raises(InputError, match=said):
        begun_with(named, names, stage)
    if stage == "fit":
        assert begun_with(named, names, stage, weights_head="reset").class_names == names


@pytest.mark.parametrize("stage", ["fit", "test", "predict"])
def test_weights_hand_on_the_names_of_their_classes(named, stage):
    assert begun_with(named, [], stage).class_names == ["a", "b", "c", "d"]
    assert begun_with(named, ["a", "b", "c", "d"], stage).class_names == ["a", "b", "c", "d"]


def test_a_head_that_was_filled_before_is_held_against_the_data(named):
    model = classifier(weights=str(named))
    model._trainer = SimpleNamespace(datamodule=SimpleNamespace(class_names=["b", "a", "c", "d"]))
    for stage in ("fit", "test"):
        with pytest.raises(InputError, match="class 0 is 'b' in the data but 'a' in the weights"):
            model.setup(stage)


TINY = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
SYNTHETIC = ("--data", "Synthetic", "--data.train_size", 32, "--data.eval_size", 8, "--data.batch_size", 16)
SYNTHETIC += ("--data.num_workers", 0)
SEVERAL = """
import torch
from vit_lightning.data import ImageDataModule


class Several(ImageDataModule):
    num_classes = 3

    def __init__(self, label: list[float], **kwargs):
        super().__init__(**kwargs)
        self.label = label

    def setup(self, stage):
        self.train_set = [(torch.zeros(3, 16, 16, dtype=torch.uint8), torch.tensor(self.label))] * 8
"""


def warnings(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith("warning")]


@pytest.mark.parametrize(
    ("label", "words", "warned"),
    [
        ("[1, 1, 0]", (), True),
        ("[1, 1, 0]", ("--data.augment.mixup_alpha", 0.2), True),
        ("[1, 1, 0]", ("--model.loss", "sigmoid"), False),
        ("[0, 0, 0]", ("--model.loss", "sigmoid"), False),
        ("[0.3, 0.7, 0]", (), False),  # one class, of which a teacher is not sure
    ],
)
def test_softmax_over_several_classes_is_a_warning(app, tmp_path, monkeypatch, label, words, warned):
    (tmp_path / "several.py").write_text(SEVERAL)
    monkeypatch.syspath_prepend(str(tmp_path))
    data = ("--data", "several.Several", "--data.label", label, "--data.image_size", 16, "--data.batch_size", 4)
    done = app("fit", *TINY, *data, "--data.num_workers", 0, *words, "--trainer.fast_dev_run", "true")
    assert done.code == 0, done.err
    assert ("give --model.loss sigmoid" in "".join(warnings(done.out))) == warned


def test_softmax_over_no_class_is_an_error(app, tmp_path, monkeypatch):
    (tmp_path / "several.py").write_text(SEVERAL)
    monkeypatch.syspath_prepend(str(tmp_path))
    data = ("--data", "several.Several", "--data.label", "[0, 0, 0]", "--data.image_size", 16, "--data.batch_size", 4)
    done = app("fit", *TINY, *data, "--data.num_workers", 0, "--trainer.fast_dev_run", "true")
    assert done.code == 1 and "training image 0 has a label of zeros, and softmax expects a class" in done.err


def test_mixed_labels_of_one_class_are_no_warning(app):
    for name in ("mixup_alpha", "cutmix_alpha"):
        done = app("fit", *TINY, *SYNTHETIC, f"--data.augment.{name}", 1, "--trainer.fast_dev_run", "true")
        assert done.code == 0 and not warnings(done.out), done.err


def test_softmax_smooths_no_finished_target_and_gives_each_loss():
    model = classifier(num_classes=7, label_smoothing=0.1)
    targets = torch.full((2, 7), 1 / 7)
    ranks = torch.tensor([[0.0, 3.0, 6.0, 1.0, 5.0, 2.0, 4.0]])
    logits = torch.cat([ranks, ranks.flip(1)])
    expected = -(targets * logits.log_softmax(-1)).sum(-1)
    torch.testing.assert_close(model.loss(logits, targets, 0.1, reduction="none"), expected)
    model = classifier(num_classes=7, loss="sigmoid")
    expected = F.binary_cross_entropy_with_logits(logits, targets, reduction="none").sum(-1)
    torch.testing.assert_close(model.loss(logits, targets, 0.1, reduction="none"), expected)
    torch.testing.assert_close(model.loss(logits, targets, 0.1), expected.mean())


@pytest.mark.parametrize(
    ("names", "data_names", "carried", "said"),
    [
        (["ant", "bee", "cat"], ["ant", "bee", "cat"], True, ""),
        (
            ["cat", "bee", "ant"],
            ["cat", "bee", "ant"],
            True,
            "class 0 is 'cat' in the data but 'ant' in the checkpoint; give the data that order",
        ),
        (["0", "1", "2"], ["ant", "bee", "cat"], True, ""),
        (["0", "1"], ["0", "1"], True, "the data has 2 classes, the checkpoint 3"),
        (
            ["ant", "bee", "cat"],
            ["ant", "bee", "cat"],
            False,
            "the data alone have 'ant', 'bee', 'cat'; the checkpoint alone",
        ),
        (["0", "1", "2"], ["0", "1", "2"], False, ""),
        ([], [], True, ""),
        ([], [], False, ""),
    ],
)
def test_numbers_in_a_checkpoint_stand_for_the_names_that_its_set_carried(
    monkeypatch, names, data_names, carried, said
):
    model = loaded(monkeypatch, names, data_names)
    seen = {"class_names": {0: ["ant"], 1: ["bee"], 2: ["cat"]}} if carried else {}
    with pytest.raises(InputError, match=said) if said else nullcontext():
        model.on_load_checkpoint({"class_names": ["0", "1", "2"], "seen_labels": seen})
    if not said:  # Classifier.load_from_checkpoint has neither data nor a trainer
        assert model.class_names == (names or (["ant", "bee", "cat"] if carried else ["0", "1", "2"]))


class Unstated(ImageDataModule):
    """Data whose sets may carry names of their classes."""

    num_classes = 3

    def setup(self, stage: str) -> None:
        pass


class Stated(Unstated):
    """Data that states them."""

    class_names: ClassVar = ["cat", "bee", "ant"]


@pytest.mark.parametrize("data", [Unstated(image_size=8), Stated(image_size=8), SimpleNamespace()])
def test_numbers_beside_names_that_a_set_carries_are_said_to_be_taken_by_number(monkeypatch, data):
    """Those that a datamodule states, or another library's, are other classes."""
    model = loaded(monkeypatch, ["cat", "bee", "ant"], ["cat", "bee", "ant"])
    model._trainer = SimpleNamespace(datamodule=data, state=SimpleNamespace(fn=None))
    said = "the data alone have 'cat', 'bee', 'ant'; the checkpoint alone has '0', '1', '2'"
    expected = pytest.raises(InputError, match=said)
    if type(data) is Unstated:
        expected = pytest.warns(UserWarning, match="by numbers, and the data cat, bee, ant: they are taken by number")
    with expected:
        model.on_load_checkpoint({"class_names": ["0", "1", "2"]})


def test_images_without_classes_bring_no_names_to_warn_of(monkeypatch, recwarn):
    """As those that predict takes in place of the data of a run."""
    model = loaded(monkeypatch, [], [])
    model._trainer = SimpleNamespace(datamodule=SimpleNamespace(), state=SimpleNamespace(fn=None))
    model.on_load_checkpoint({"class_names": ["0", "1", "2"]})
    assert not recwarn.list and model.class_names == ["0", "1", "2"]


def loaded(monkeypatch, names, data_names):
    monkeypatch.setattr(RecipeModel, "on_load_checkpoint", lambda self, checkpoint: None)
    model = classifier(num_classes=3)
    model.class_names, model.data_names = names, data_names
    return model


def test_a_checkpoint_tells_its_classes_and_where_its_weights_came_from(monkeypatch):
    model, checkpoint = classifier(), {}
    monkeypatch.setattr(RecipeModel, "on_save_checkpoint", lambda self, checkpoint: None)
    model._trainer = SimpleNamespace(datamodule=SimpleNamespace(class_names=("c", "a", "b", "d")), fast_dev_run=False)
    model.setup("fit")
    model.weights = "own.npz"
    model.on_save_checkpoint(checkpoint)
    assert checkpoint == {"class_names": ["c", "a", "b", "d"], "weights": "own.npz"}


@pytest.mark.parametrize(
    "settings",
    [
        {"weights_resampling": "bicubic", "weights_adapt": True, "weights_head": "reset"},
        {"weights_resampling": "bilinear", "weights_adapt": False, "weights_head": "keep"},
    ],
)
@pytest.mark.parametrize("raw", [True, False])
def test_every_flag_of_the_weights_reaches_them(trained, monkeypatch, settings, raw):
    opened: list[tuple] = []
    filled: list[tuple] = []

    class StopError(Exception): ...

    def fill(self, net, head, **options):
        filled.append((head, options))
        raise StopError

    whole = load.open_weights
    monkeypatch.setattr(
        "vit_lightning.training.pretrained_model.open_weights", lambda *words: opened.append(words) or whole(words[0])
    )
    monkeypatch.setattr(load.OpenedWeights, "fill", fill)
    with pytest.raises(StopError):
        classifier(net=NetConfig(), weights=str(trained[0]), weights_raw=raw, **settings)
    assert opened[0][:2] == (str(trained[0]), raw)
    assert filled == [
        (settings["weights_head"], {"resampling": settings["weights_resampling"], "adapt": settings["weights_adapt"]})
    ]


@pytest.mark.parametrize(("name", "near", "far"), [("mean", 0.4005, 0.402), ("std", 0.2005, 0.202)])
def test_a_normalisation_that_is_given_must_be_that_of_the_weights(trained, name, near, far):
    rest = {"mean": (0.5, 0.6), "std": (0.3, 0.4)}[name]
    model = classifier(net=NetConfig(), weights=str(trained[0]), **{name: (near, *rest)})
    assert model.hparams[name] == (near, *rest)
    with pytest.raises(InputError, match=rf"data\.{name} is .* drop --data.{name} to take theirs"):
        classifier(net=NetConfig(), weights=str(trained[0]), **{name: (far, *rest)})
    assert classifier(net=NetConfig(), weights=str(trained[0])).hparams.std == (0.2, 0.3, 0.4)


def test_softmax_over_several_classes_is_said_once_by_the_first_process(capsys):
    for first in (True, False):
        model = classifier()
        model._trainer = SimpleNamespace(is_global_zero=first, datamodule=None, fast_dev_run=False)
        several = (None, torch.tensor([[0.5, 0.5, 0.5, 0.0]]))
        for labels in (several, several):
            model.on_train_batch_start(labels, 0)
        assert capsys.readouterr().out.count("warning") == first
        model.setup("fit")
        model.on_train_batch_start(several, 0)
        assert capsys.readouterr().out.count("warning") == first
    model = classifier()
    model._trainer = SimpleNamespace(is_global_zero=True)
    model.on_train_batch_start((None, torch.tensor([3])), 0)
    assert not capsys.readouterr().out


@pytest.mark.parametrize(("loss", "most"), [("softmax", 1.0), ("sigmoid", 0.5)])
def test_smoothing_has_bounds(loss, most):
    assert classifier(loss=loss, label_smoothing=most - 0.01).objective == (
        f"{loss} cross-entropy, label smoothing {most - 0.01:g}"
    )
    for value in (most, -0.01):
        with pytest.raises(InputError, match="label_smoothing is"):
            classifier(loss=loss, label_smoothing=value)


@pytest.mark.parametrize("names", [("a", "b", "c"), tuple("abcde")])
@pytest.mark.parametrize("stage", ["fit", "predict"])
def test_data_that_name_other_classes_than_the_net_has_outputs_are_refused(names, stage):
    model = classifier()
    model._trainer = SimpleNamespace(datamodule=SimpleNamespace(class_names=names), fast_dev_run=False)
    with pytest.raises(InputError, match=f"the data has {len(names)} class_names, the net 4 outputs"):
        model.setup(stage)


def test_a_net_may_be_the_name_of_a_variant():
    assert classifier(net="mu/8").config == classifier(net=NetConfig("mu/8")).config
    with pytest.raises(InputError, match=r"no net variant 'mu8': did you mean mu/8\?"):
        classifier(net="mu8")


@pytest.mark.parametrize(
    ("loss", "shares", "warned"),
    [
        ("softmax", [0.5, 0.3, 0.2, 0.0], False),
        ("softmax", [0.5, 0.3, 0.195, 0.0], False),  # rounded
        ("softmax", [0.5, 0.3, 0.17, 0.0], True),
        ("softmax", [0.5, 0.3, 0.2, 0.03], True),
        ("softmax", [0.0, 0.0, 0.0, 0.0], True),
        ("sigmoid", [1.0, 1.0, 0.0, 0.0], False),
    ],
)
def test_shares_of_one_image_sum_to_one_up_to_a_hundredth(loss, shares, warned, capsys):
    model = classifier(loss=loss)
    model._trainer = SimpleNamespace(is_global_zero=True)
    model.on_train_batch_start((None, torch.tensor([[0.0, 1.0, 0.0, 0.0], shares])), 0)
    assert ("warning" in capsys.readouterr().out) == warned


def test_a_threshold_is_a_probability_below_one():
    assert classifier(threshold=0).hparams.threshold == 0
    for value in (1, -0.01, math.nan):
        with pytest.raises(InputError, match=f"--model.threshold is {value}; it must lie in"):
            classifier(threshold=value)


def test_low_rank_updates_are_kept_as_plain_numbers_all_of_them():
    for given in ({"rank": 2}, Lora(rank=2)):
        assert classifier(lora=given).hparams.lora == {"rank": 2, "alpha": 8.0}


def test_low_rank_updates_in_half_precision_are_refused_where_a_fit_starts(monkeypatch):
    monkeypatch.setattr(RecipeModel, "on_fit_start", lambda self: None)
    model = classifier(lora=Lora(rank=2))
    totals = model.step_totals
    model.on_fit_start()
    assert model.step_totals is not totals  # those of an earlier fit are none of this one's
    with pytest.raises(InputError, match="needs weights in fp32"):
        model.bfloat16().on_fit_start()
