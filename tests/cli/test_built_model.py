"""What a checkpoint or weights say stands where the data leave it open: the head's classes, the images' size."""

from types import SimpleNamespace

import pytest

from vit_lightning.cli import built_model
from vit_lightning.cli.built_model import take_facts_of_weights, take_whole_head
from vit_lightning.errors import InputError

NET = ["cat", "dog", "bird"]


def model(weights: str | None = None, **hparams: object) -> SimpleNamespace:
    held = {"num_classes": 2, "image_size": None, "weights_raw": True} | hparams
    return SimpleNamespace(weights=weights, hparams=held, chosen="config", class_names=["own"])


def trained(names: list[str], classes: int) -> dict:
    return {"class_names": names, "hyper_parameters": {"num_classes": classes}}


def head_of(ours: list[str], facts: dict, net: SimpleNamespace | None = None) -> tuple[int, list[str]]:
    net = net or model()
    take_whole_head(net, SimpleNamespace(class_names=ours), facts)
    return net.hparams["num_classes"], getattr(net, "class_names", ["own"])


KEPT = (2, ["own"])


@pytest.mark.parametrize("ours", [["bird", "cat"], ["Dog"], ["dog", "bird", "cat"], NET])
def test_data_with_some_of_the_classes_are_scored_by_the_whole_head(ours):
    assert head_of(ours, trained(NET, 3)) == (3, NET)


@pytest.mark.parametrize(
    ("ours", "facts"),
    [
        (["a", "b", "c"], trained(NET, 3)),  # as many: their order is looked at elsewhere
        ([], trained(NET, 3)),
        (["cat"], trained([], 3)),
        (["cat"], trained(NET, 4)),  # names that are not the head's
        (["cat"], {}),
    ],
)
def test_other_heads_are_left(ours, facts):
    assert head_of(ours, facts) == KEPT


@pytest.mark.parametrize("ours", [["cat", "dog", "cls_3"], ["dog", "cls_3"]])
def test_a_folder_that_a_class_map_lacks_is_named(ours):
    said = "^'cls_3' is no class of the net \\(1 such\\): --data.class_map map.csv lacks it, or misspells its class"
    with pytest.raises(InputError, match=said):
        take_whole_head(model(), SimpleNamespace(class_names=ours, class_map="map.csv"), trained(NET, 3))
    take_whole_head(model(), SimpleNamespace(class_names=["bird", "Dog"], class_map="map.csv"), trained(NET, 3))


def test_a_model_without_names_is_left():
    net = model()
    del net.class_names
    assert head_of(["cat"], trained(NET, 3), net) == KEPT


@pytest.mark.parametrize("ours", [["cat", "fish"], ["fish"], ["cat", "dog", "bird", "fish"]])
def test_a_class_that_the_net_lacks_is_named(ours):
    said = (
        rf"^the data has {len(ours)} classes, the net 3, and 'fish' is none of these, or one of two.*--data\.class_map"
    )
    with pytest.raises(InputError, match=said):
        head_of(ours, trained(NET, 3))
    with pytest.raises(InputError, match="'brid' is none of these, or one of two; did you mean bird"):
        head_of(["cat", "brid"], trained(NET, 3))


def test_two_folders_of_one_class_name_the_first():
    with pytest.raises(InputError, match="and 'cat' is none of these"):
        head_of(["cat", "Cat"], trained(NET, 3))


def test_weights_are_asked_where_no_checkpoint_is(monkeypatch):
    asked: list[tuple] = []

    def opened(*words: object) -> SimpleNamespace:
        asked.append(words)
        return SimpleNamespace(class_names=NET, num_classes=3, image_size=(8, 16))

    monkeypatch.setattr(built_model, "open_weights", opened)
    assert head_of(["cat"], {}, model("x.npz")) == (3, NET)
    assert head_of([], {}, model("x.npz")) == KEPT
    assert asked == [("x.npz", True, "config")]
    assert head_of(["dog", "bird", "cat"], {}, model("x.npz")) == KEPT  # as many: their order is looked at elsewhere
    asked.clear()
    for given, taken in (
        ({"num_classes": None}, {"num_classes": 3, "image_size": (8, 16)}),
        ({"num_classes": 5}, {"num_classes": 5, "image_size": (8, 16)}),
        ({"num_classes": None, "image_size": 4}, {"num_classes": 3, "image_size": 4}),
        ({"num_classes": 5, "image_size": 4}, {"num_classes": 5, "image_size": 4}),
    ):
        net = model("x.npz", **given)
        take_facts_of_weights(net)
        assert net.hparams == taken | {"weights_raw": True}
    assert len(asked) == 3  # only where something is open
    net = model(None, num_classes=None)
    take_facts_of_weights(net)
    assert net.hparams["num_classes"] is None
