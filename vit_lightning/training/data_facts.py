"""What the data tells a model that nobody else has told it: classes, image size, channels, window, mean and std."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Protocol

import torch

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig
from vit_lightning.models.config import as_pair

NORMALISATION = ("mean", "std")
PIXELS = ("channels", "window")
DATA_FACTS = ("num_classes", "image_size", *PIXELS, *NORMALISATION)


class TakesFacts(Protocol):
    """A model whose hyper-parameters hold the facts of the data."""

    hparams: Any
    assumed: set[str]
    """Which of window, mean and std nobody has stated yet."""

    shifted: Any
    """What scores data that have some of the net's classes alone; None: they have all."""

    @property
    def fixed(self) -> Collection[str]:
        """Hyper-parameters that a checkpoint's tensors depend on."""

    def state_fact(self, name: str, value: Any) -> None:
        """Take a fact that nobody had stated."""


def take_facts(model: TakesFacts, data: Any) -> None:
    """Let a model take from its data what nobody has stated, as the command line's links do.

    Args:
        model: the model.
        data: any LightningDataModule, or None.

    Raises:
        InputError: model and data state different facts.
    """
    pixels = PIXELS if hasattr(data, "pixel_form") else ()  # elsewhere these names may mean anything
    for name in DATA_FACTS:
        ours, theirs = model.hparams[name], getattr(data, name, None)
        found = name == "window" and ours is None and getattr(data, "finds_window", False)
        if found:
            theirs = data.found_window
        if name == "num_classes" and model.shifted is not None:
            continue
        if theirs is None or name not in (*NORMALISATION, *pixels, *model.fixed):
            continue
        if ours is None or name in model.assumed:
            model.state_fact(name, theirs)
            model.assumed |= {name} if found else set()  # the checkpoint of a resumed run knows better
        elif not _same(name, ours, theirs):
            raise InputError(
                f"the model's {name} is {ours}, but that of {type(data).__name__} is {theirs}; give one of them alone, "
                "or both the same"
            )


def with_channels(net: NetConfig, channels: int | None) -> NetConfig:
    """Return a net's config with the channels of the data.

    Raises:
        InputError: the config states others.
    """
    if channels is None or net.channels == channels:
        return net
    if net.channels is not None:
        raise InputError(
            f"--data.channels is {channels}, but the net has channels={net.channels}, by --model.net.channels or its "
            "checkpoint; give one of them alone, or both the same"
        )
    return replace(net, channels=channels)


def _same(name: str, ours: Any, theirs: Any) -> bool:
    """Whether two statements of a fact agree."""
    if name in (*NORMALISATION, "window"):
        return len(ours) == len(theirs) and torch.allclose(torch.tensor(ours), torch.tensor(theirs), atol=1e-3)
    return as_pair(ours) == as_pair(theirs) if name == "image_size" else ours == theirs
