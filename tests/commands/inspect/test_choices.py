"""What `inspect` was asked for, without the command line."""

from types import SimpleNamespace

import pytest
import torch

from vit_lightning.commands.inspect import choices as module
from vit_lightning.commands.inspect.choices import Choices, hindrances
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build

USUAL = {"asked": None, "layers": (-1,), "heads": None, "images": 8, "maps": 2, "relevance_class": None}
USUAL |= {"embeddings": None, "ablation_images": 4, "formats": ("png",)}
NET = SimpleNamespace(blocks=[None] * 4, config=SimpleNamespace(heads=3))


def test_without_a_flag_every_figure_but_the_costly_ones():
    usual = Choices(**USUAL).figures
    assert len(usual) == 9 and usual[0] == "rollout" and "ablation" not in usual
    assert Choices(**USUAL | {"asked": ("pca", "ablation", "pca")}).figures == ("pca", "ablation")


def test_layers_and_heads_count_from_either_end():
    chosen = Choices(**USUAL | {"layers": (0, 3, -1, -4), "heads": (2, -3)})
    assert chosen.layers_of(NET) == [0, 3, 3, 0] and chosen.heads_of(NET) == [2, 0]
    assert Choices(**USUAL).heads_of(NET) == [0, 1, 2]
    for flag, number, ask in (("layers", 4, "layers_of"), ("layers", -5, "layers_of"), ("heads", 3, "heads_of")):
        with pytest.raises(InputError, match=f"--{flag} {number}: "):
            getattr(Choices(**USUAL | {flag: (number,)}), ask)(NET)


@pytest.mark.parametrize(("word", "number"), [(None, None), ("cat", 1), ("2", 0), ("1", 1), ("0", 0)])
def test_a_class_is_a_name_first_and_then_a_number(word, number):
    assert Choices(**USUAL | {"relevance_class": word}).class_number(["2", "cat"], 2) == number


@pytest.mark.parametrize("word", ["3", "-1", "ca", "1.0"])
def test_no_class_of_the_net(word):
    with pytest.raises(InputError, match="the net has 3 classes, none of them"):
        Choices(**USUAL | {"relevance_class": word}).class_number(["ant", "cat", "dog"], 3)


@pytest.mark.parametrize(("name", "least"), [("images", 1), ("maps", 1), ("ablation_images", 2)])
def test_the_least_numbers(name, least):
    assert getattr(Choices(**USUAL | {name: least}), name) == least
    with pytest.raises(InputError, match=f"--{name} is {least - 1}, expected {least} or more"):
        Choices(**USUAL | {name: least - 1})


def test_umap_is_offered_where_it_is_installed(monkeypatch):
    for there in (True, False):
        monkeypatch.setattr(module, "is_installed", lambda method, there=there: there or method != "umap")
        assert Choices(**USUAL).methods == (("pca", "tsne", "umap") if there else ("pca", "tsne"))
        assert Choices(**USUAL | {"embeddings": ("tsne",)}).methods == ("tsne",)
    with pytest.raises(InputError, match="--embeddings umap needs umap-learn"):
        Choices(**USUAL | {"embeddings": ("pca", "umap")})


@pytest.mark.parametrize(
    ("classes", "images", "filled", "hindered"),
    [
        (3, 4, True, set()),
        (3, 3, True, {"embedding"}),
        (3, 2, True, {"embedding"}),
        (3, 1, True, {"embedding", "ablation"}),
        (3, 4, False, {"relevance"}),
        (0, 4, False, {"relevance"}),
    ],
)
def test_what_a_net_and_so_many_images_cannot_give(classes, images, filled, hindered):
    net = build(NetConfig("mu/8", depth=1), 16, classes)
    if filled:
        torch.nn.init.normal_(net.head.weight)
    assert set(hindrances(net, images)) == hindered
    for name in hindered:
        with pytest.raises(InputError, match=f"the figure {name} cannot be drawn"):
            Choices(**USUAL | {"asked": (name,)}).check(net, images)
        Choices(**USUAL | {"asked": ("rollout", name)}).check(net, images)  # the other one is drawn
    if hindered:
        with pytest.raises(InputError, match="cannot be drawn"):
            Choices(**USUAL | {"asked": tuple(sorted(hindered))}).check(net, images)
    Choices(**USUAL).check(net, images)  # unasked, it is left out
