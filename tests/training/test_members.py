"""Several nets and views that answer as one, from answers made by hand."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vit_lightning.errors import InputError
from vit_lightning.training.members import Alone, Answering, Members

FACTS = {"num_classes": 2, "mean": (0.5, 0.5, 0.5), "window": None, "loss": "softmax"}


def members(*nets: object, **report: object) -> Members:
    """Nets `a.ckpt`, `b.ckpt`, ... of which the report says the same."""
    made = object.__new__(Members)
    made.paths = [f"{letter}.ckpt" for letter, _ in zip("abc", nets, strict=False)]
    made.nets = list(nets)
    usual = {"window": None, "loss": None, "class_names": None}
    made.reports = [SimpleNamespace(**usual | report) for _ in nets]
    return made


def member(num_classes: int = 2, channels: int = 3) -> SimpleNamespace:
    return SimpleNamespace(net=SimpleNamespace(num_classes=num_classes, config=SimpleNamespace(channels=channels)))


def model(flip: bool = False, loss: str = "softmax", shifted: object = None) -> nn.Module:
    """A net whose logits are the first and the last pixel of a row, doubled."""
    made = nn.Module()
    made.forward = lambda images: 2 * images[:, 0, 0, [0, -1]]
    made.hparams, made.shifted = SimpleNamespace(flip=flip, loss=loss), shifted
    made.trainer, made.weights, made.device = SimpleNamespace(ckpt_path=None), None, torch.device("cpu")
    return made


IMAGES = torch.tensor([[1.0, 0.25, 0.0], [0.5, 0.0, 1.0]]).reshape(2, 1, 1, 3)
OWN = 2 * IMAGES[:, 0, 0, [0, 2]]


def test_one_net_answers_alone():
    logits, alone = Answering(model())(IMAGES)
    assert alone == [] and torch.equal(logits, OWN)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_both_views_are_averaged_in_probability_and_the_first_stands_alone(loss):
    logits, alone = Answering(model(flip=True, loss=loss))(IMAGES)
    shares = torch.sigmoid if loss == "sigmoid" else lambda values: values.softmax(-1)
    torch.testing.assert_close(shares(logits), (shares(OWN) + shares(OWN.flip(-1))) / 2)
    assert len(alone) == 1 and torch.equal(alone[0], OWN)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
@pytest.mark.parametrize("flip", [False, True])
def test_each_net_answers_alone_as_all_do_together(flip, loss):
    answering = Answering(model(flip, loss))
    answering.members = members(lambda images: images[:, 0, 0, :2], lambda images: -images[:, 0, 0, :2])
    logits, alone = answering(IMAGES)
    shares = torch.sigmoid if loss == "sigmoid" else lambda values: values.softmax(-1)
    expected = [shares(each) for each in (OWN, IMAGES[:, 0, 0, :2], -IMAGES[:, 0, 0, :2])]
    if flip:
        mirrored = IMAGES.flip(-1)
        others = [shares(each) for each in (OWN.flip(-1), mirrored[:, 0, 0, :2], -mirrored[:, 0, 0, :2])]
        expected = [(one + other) / 2 for one, other in zip(expected, others, strict=True)]
    for found, one in zip(alone, expected, strict=True):
        torch.testing.assert_close(shares(found), one)
    torch.testing.assert_close(shares(logits), torch.stack(expected).mean(0))


def test_further_nets_see_images_in_the_unit_interval():
    whole = members(lambda images: images)(torch.tensor([255, 51], dtype=torch.uint8))
    torch.testing.assert_close(whole[0], torch.tensor([1.0, 0.2]))


def test_of_some_classes_every_answer_has_these_alone():
    shifted = SimpleNamespace(logits=lambda logits: logits[:, 1:])
    answering = Answering(model(shifted=shifted))
    answering.members = members(lambda images: images[:, 0, 0, :2])
    logits, alone = answering(IMAGES)
    assert [one.shape for one in (logits, *alone)] == [(2, 1)] * 3
    assert torch.equal(alone[1], IMAGES[:, 0, 0, 1:2])


def test_what_is_scored_by_itself():
    answering = Answering(model(flip=True))
    answering.alone = {"test": {}}
    answering.prepare(fits=False)
    assert answering.names == {"member1": "without flip"} and answering.alone == {} and answering.sources == []
    answering.prepare(fits=True)
    assert answering.names == {}
    answering.members = members(member(), member())
    answering.prepare(fits=False)
    assert answering.names == {"member1": "the first net", "member2": "a.ckpt", "member3": "b.ckpt"}
    assert answering.sources == ["the first net", "a.ckpt", "b.ckpt"]
    single = Answering(model())
    single.prepare(fits=False)
    assert single.names == {}


@pytest.mark.parametrize(
    ("checkpoint", "weights", "first"),
    [("kept.ckpt", "net.npz", "kept.ckpt"), (None, "net.npz", "net.npz"), (None, None, "the first net")],
)
def test_the_first_net_is_called_by_its_file(checkpoint, weights, first):
    made = model()
    made.class_names, made.hparams = [], SimpleNamespace(flip=False)
    made.trainer.ckpt_path, made.weights = checkpoint, weights
    answering, seen = Answering(made), []
    answering.members = SimpleNamespace(
        paths=["b.ckpt"],
        reports=[SimpleNamespace(of_data={})],
        check=lambda *facts: seen.append("checked"),
        to=lambda device: seen.append(device),
    )
    answering.prepare(fits=False)
    answering.begin()
    assert answering.sources == [first, "b.ckpt"] and seen == ["checked", torch.device("cpu")]


@pytest.mark.parametrize(
    ("net", "report", "what"),
    [
        (member(3), {}, "other classes than the first net, 3 where that has 2"),
        (member(channels=1), {}, "other channels than the first net, 1 where that has 3"),
        (member(), {"window": (0, 4095)}, r"other window than the first net, \(0, 4095\) where that has None"),
        (member(), {"loss": "sigmoid"}, "other loss than the first net, sigmoid where that has softmax"),
        (member(), {"class_names": ["cat", "ant"]}, "other class names than the first net"),
    ],
)
def test_nets_of_other_answers_are_refused_by_name(net, report, what):
    with pytest.raises(InputError, match=rf"^a\.ckpt has {what}"):
        members(net, **report).check(["ant", "cat"], FACTS)


def test_what_a_file_does_not_say_is_no_difference():
    members(member()).check(["ant", "cat"], FACTS)
    members(member(), loss="softmax", class_names=["ant", "cat"]).check(["ant", "cat"], FACTS)
    members(member(), window=(0, 4095)).check([], FACTS | {"window": [0, 4095]})


@pytest.mark.parametrize(
    ("together", "said"),
    [
        (0.75, "25.00 points of top-1 better than the best alone, b.ckpt"),
        (0.25, "25.00 points of top-1 worse than the best alone, b.ckpt"),
        (0.5, "as good in top-1 as the best alone, b.ckpt"),
    ],
)
def test_the_mean_is_held_against_the_best_alone(together, said):
    made = model()
    made.scores = {"test": {"top1": SimpleNamespace(compute=lambda: torch.tensor(together))}}
    answering = Answering(made)
    answering.alone["test"] = {
        "member1": Alone("a.ckpt", {"top1": 0.25}),
        "member2": Alone("b.ckpt", {"top1": 0.5}),
        "member3": Alone("c.ckpt", {"top1": 0.375}),
    }
    assert answering.beside_best_alone("val") == []
    assert answering.beside_best_alone("test") == [f"both views together are {said}"]
    answering.members = members(member(), member())
    assert answering.beside_best_alone("test") == [f"the 3 nets together are {said}"]
