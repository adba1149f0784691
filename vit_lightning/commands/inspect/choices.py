"""What the verb `inspect` was asked for, held against what a net can show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.inspection.ablation import Replacement
from vit_lightning.inspection.embeddings import FEWEST, Method, is_installed
from vit_lightning.inspection.position import positions_of
from vit_lightning.models.vit import ViT
from vit_lightning.terminal import counted
from vit_lightning.weights.heads import is_empty

FigureName = Literal[
    "rollout",
    "heads",
    "distance",
    "position",
    "filters",
    "pca",
    "artefacts",
    "relevance",
    "embedding",
    "ablation",
]
COSTLY = ("ablation",)
"""Figures that are drawn where they are asked for alone."""
REPLACEMENTS: tuple[Replacement, ...] = get_args(Replacement)


@dataclass(frozen=True)
class Choices:
    """What is drawn, and of how many images; the fields are the flags of their names."""

    asked: tuple[FigureName, ...] | None
    layers: tuple[int, ...]
    heads: tuple[int, ...] | None
    images: int
    maps: int
    relevance_class: str | None
    embeddings: tuple[Method, ...] | None
    ablation_images: int
    formats: tuple[str, ...]

    def __post_init__(self) -> None:
        for name, values in (
            ("figures", self.asked),
            ("layers", self.layers),
            ("heads", self.heads),
            ("embeddings", self.embeddings),
            ("formats", self.formats),
        ):
            if values is not None and not values:
                raise InputError(f"--{name} is empty; give one or more, or leave the flag away")
        for name, least, value in (
            ("images", 1, self.images),
            ("maps", 1, self.maps),
            ("ablation_images", 2, self.ablation_images),
        ):
            if value < least:
                raise InputError(f"--{name} is {value}, expected {least} or more")
        if self.asked and self.relevance_class is not None and "relevance" not in self.asked:
            raise InputError("--relevance_class goes with the figure relevance; add it to --figures")
        if "umap" in (self.embeddings or ()) and not is_installed("umap"):
            raise InputError("--embeddings umap needs umap-learn: pip install umap-learn, or choose pca or tsne")

    @property
    def figures(self) -> tuple[FigureName, ...]:
        """Names of the figures that are wanted, where the net can show them."""
        usual = tuple(name for name in get_args(FigureName) if name not in COSTLY)
        return usual if self.asked is None else tuple(dict.fromkeys(self.asked))

    @property
    def methods(self) -> tuple[Method, ...]:
        """Methods of the map of images; without the flag those that are installed."""
        return self.embeddings or tuple(method for method in get_args(Method) if is_installed(method))

    def check(self, net: ViT, images: int) -> None:
        """Refuse figures, asked for by name, of which a net or so many images can give none.

        Of several that are asked for, the others are drawn.

        Raises:
            InputError: naming the first of them.
        """
        hindered, asked = hindrances(net, images), self.asked or ()
        if asked and hindered.keys() >= {*asked}:
            raise InputError(f"the figure {asked[0]} cannot be drawn: {hindered[asked[0]]}")

    def layers_of(self, net: ViT) -> list[int]:
        """Return the layers whose heads are drawn, counted from 0.

        Raises:
            InputError: the net has no such layer.
        """
        count = len(net.blocks)
        return [_place("layers", layer, count, f"{count} attention layers") for layer in self.layers]

    def heads_of(self, net: ViT) -> list[int]:
        """Return the heads that are drawn; all without the flag.

        Raises:
            InputError: the net has no such head.
        """
        count = net.config.heads
        given = range(count) if self.heads is None else self.heads
        return [_place("heads", head, count, f"{count} heads in each layer") for head in given]

    def class_number(self, names: Sequence[str], num_classes: int) -> int | None:
        """Return the class whose relevance is drawn; None: the best one of each image.

        Raises:
            InputError: the net has no such class.
        """
        word = self.relevance_class
        if word is None:
            return None
        if word in names:
            return list(names).index(word)
        if word.isdecimal() and int(word) < num_classes:
            return int(word)
        named = f"{num_classes} classes, none of them {word!r:.60}{did_you_mean(word, names)}"
        raise InputError(f"--relevance_class {word:.60}: the net has {named}; give a name, or a number from 0")


def hindrances(net: ViT, images: int) -> dict[FigureName, str]:
    """Return why a net and so many images cannot give some of the figures."""
    found: dict[FigureName, str] = {}
    if positions_of(net).vectors is None:
        found["position"] = positions_of(net).said
    if images < FEWEST:
        found["embedding"] = f"a map of {counted(images, 'image')} shows nothing; give {FEWEST} or more"
    if images < 2:
        found["ablation"] = "what is lost is measured on two images or more; give more images"
    if not net.num_classes:
        found["relevance"] = "the net has no head, and so no class to speak for"
    elif is_empty(net.head):
        found["relevance"] = "the head of the net is all zeros, and so tells no class apart"
    return found


def _place(flag: str, number: int, count: int, what: str) -> int:
    if not -count <= number < count:
        raise InputError(f"--{flag} {number}: the net has {what}; give 0 to {count - 1}, or -1 for the last")
    return number % count
