"""Nets of other libraries that `benchmark --compare` times in the recipe of a model: LIBRARY/NAME, at random."""

import difflib
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.models.config import ResolvedConfig, as_pair, check_images
from vit_lightning.models.variants import SIZES, TIMM
from vit_lightning.training.net_model import NetModel

COMPLAINTS = (AssertionError, ArithmeticError, IndexError, RuntimeError, ValueError)
"""What layers raise of images that they cannot take."""


class PeerFacts(NamedTuple):
    """What a net of another library is built for."""

    name: str
    """LIBRARY/NAME."""
    config: ResolvedConfig
    """Says channels, dropout and stochastic depth."""
    image_size: tuple[int, int]
    num_classes: int

    @property
    def short_name(self) -> str:
        """The name in its library."""
        return self.name.partition("/")[2]


class PeerNet(nn.Module):
    """A net of another library, whose logits are all that is asked of it.

    Args:
        facts: Its name, and what it is built for.

    Raises:
        InputError: the library is missing, knows no such net, or cannot build it so.
    """

    def __init__(self, facts: PeerFacts) -> None:
        super().__init__()
        self.facts = facts
        make = LIBRARIES[facts.name.partition("/")[0]](facts)
        self.macs = _tried(make, facts)
        """Multiply-accumulates of one image's forward pass; None: not known."""
        self.body = make()

    def forward(self, images: Tensor) -> Tensor:
        """Returns the logits `b classes` of normalised images `b c height width`."""
        check_images(self.facts.config, self.facts.image_size, images.shape)
        return logits_of(self.body(images))


class PeerModel(NetModel):
    """What a model becomes whose net is another library's: a base in front of the model's own class.

    Args:
        peer: LIBRARY/NAME.
        settings: Those of the model.
    """

    def __init__(self, peer: str, **settings: Any) -> None:
        super().__init__(**settings)
        self.config = replace(self.config, variant=peer)

    def build_net(self) -> PeerNet:  # type: ignore[override]  # nothing but its logits is asked for
        size, classes = as_pair(self.hparams.image_size), self.hparams.num_classes
        return PeerNet(PeerFacts(self.hparams.peer, self.config, size, classes))


def is_peer(name: str) -> bool:
    """Whether a name is LIBRARY/NAME of a library here.

    Raises:
        InputError: it is of a library that nobody here knows.
    """
    library, slash, _ = name.partition("/")
    if library in LIBRARIES:
        return bool(slash)
    if slash and re.fullmatch(r"[a-z][\w.-]{2,}", library) and f"{library}/" != TIMM and library not in SIZES:
        known = sorted([*LIBRARIES, TIMM.rstrip("/")])
        raise InputError(
            f"--compare {name}: there is no library {library}{did_you_mean(library, known)}; "
            f"choose one of {', '.join(known)}, or a net of ours such as B/16"
        )
    return False


def peer_class(model: LightningModule, name: str) -> type[PeerModel]:
    """Return the class of a model with another library's net, and with the loss of `model`.

    Args:
        model: Its recipe serves the peer.
        name: LIBRARY/NAME.

    Raises:
        InputError: the recipe needs to know the net's layers, or no logits.
    """
    from vit_lightning.classifier import Classifier

    if not isinstance(model, Classifier):
        raise InputError(f"--compare {name} gives logits, which {type(model).__name__} has no use for: take Classifier")
    hparams = model.hparams
    needs_layers = {
        "model.freeze_trunk": hparams.freeze_trunk,
        "model.bias_only": hparams.bias_only,
        "model.lora.rank": hparams.lora["rank"],
        "model.recompute": hparams.recompute,
        "model.optim.layer_decay": hparams.optim["layer_decay"] < 1,
        "model.optim.name muon": hparams.optim["name"] == "muon",
    }
    for flag in (flag for flag, is_on in needs_layers.items() if is_on):
        raise InputError(f"--compare {name} is trained whole, as one layer: drop --{flag}, or compare with a timm net")
    return type("PeerModel", (PeerModel, type(model)), {})


def logits_of(answer: Any) -> Tensor:
    """Return the logits that a net answers, alone or among other things."""
    return answer if isinstance(answer, Tensor) else answer.logits


def _tried(make: Callable[[], nn.Module], facts: PeerFacts) -> int | None:
    """Return the multiply-accumulates of a forward pass without storage; refuse images that the net cannot take."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        try:
            make().eval()(torch.empty(1, facts.config.channels, *facts.image_size))
        except NotImplementedError:  # it asks its tensors for numbers
            return None
        except COMPLAINTS as error:
            why = " ".join(str(error).split()).rstrip(".!") or type(error).__name__
            y, x = facts.image_size
            raise InputError(
                f"{facts.name} cannot take images of {y}x{x} pixels ({why}); give another --data.image_size, such as "
                "224, or choose another net"
            ) from error
    return counter.get_total_flops() // 2


def _missing(library: str, name: str, names: list[str], more: str = "") -> InputError:
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {library}/{near[0]}?" if near else f"choose for example {library}/{names[0]}{more}"
    return InputError(f"{library} has no net {name!r}; {hint}")


def _torchvision(facts: PeerFacts) -> Callable[[], nn.Module]:
    """How torchvision.models builds a net; some nets are told the size of their images."""
    from torchvision import models

    names, name = models.list_models(module=models), facts.short_name
    if name not in names:
        raise _missing("torchvision", name, ["vit_b_16", *names])
    if facts.config.channels != 3:
        raise InputError(f"torchvision's nets take 3 channels, not {facts.config.channels}; give --data.channels 3")
    y, x = facts.image_size
    sizes: list[dict[str, Any]] = [{"image_size": y}, {"input_size": facts.image_size}, {}]
    wanted: dict[str, Any] = {"weights": None, "num_classes": facts.num_classes}
    size = next(size for size in sizes if not size or _takes(partial(models.get_model, name, **wanted, **size)))
    if "image_size" in size and y != x:
        raise InputError(f"{facts.name} takes square images alone, not {y}x{x}; give --data.image_size {min(y, x)}")
    rates = {"dropout": facts.config.dropout, "stochastic_depth_prob": facts.config.stochastic_depth}
    given = {word: rate for word, rate in rates.items() if rate}

    for word in given:
        if not _takes(partial(models.get_model, name, **wanted, **size, **{word: given[word]})):
            raise _no_rate(facts, word)
    return partial(models.get_model, name, **wanted, **size, **given)


def _takes(make: Callable[[], nn.Module]) -> bool:
    """Whether a net has the settings that it is given; whether it can be built with their values is another thing."""
    with torch.device("meta"):
        try:
            with suppress(*COMPLAINTS):
                make()
        except TypeError:
            return False
    return True


def _no_rate(facts: PeerFacts, word: str) -> InputError:
    field = "dropout" if "dropout" in word else "stochastic_depth"
    return InputError(f"{facts.name} has no {word} that can be set: drop --model.net.{field}, or choose another net")


def _transformers(facts: PeerFacts) -> Callable[[], nn.Module]:
    """How transformers builds an image classifier, whose attention it chooses itself: sdpa where the net has it."""
    try:
        from transformers import MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING, AutoModelForImageClassification
    except ImportError as error:
        raise InputError(f"--compare {facts.name} needs transformers: pip install transformers") from error
    config = _transformers_config(facts)
    if type(config) not in MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING:
        raise InputError(f"transformers has no image classifier of the kind of {facts.name}; choose another folder")
    size = facts.image_size
    config.num_labels = facts.num_classes
    if hasattr(config, "image_size"):  # of another one some nets would resample their positions in every step
        config.image_size = size[0] if size[0] == size[1] else list(size)
    if (channels := facts.config.channels) != 3:
        config.num_channels = channels
    for word, rate in {
        "hidden_dropout_prob": facts.config.dropout,
        "drop_path_rate": facts.config.stochastic_depth,
    }.items():
        if rate and not hasattr(config, word):
            raise _no_rate(facts, word)
        if rate:
            setattr(config, word, rate)

    def make() -> nn.Module:
        net = AutoModelForImageClassification.from_config(config, trust_remote_code=False)
        return net.to(torch.get_default_dtype())  # a config may say that of its weights

    return make


def _transformers_config(facts: PeerFacts) -> Any:
    """A usual net's config, or that of a folder; nothing is downloaded and no code of a folder runs."""
    from transformers import AutoConfig, Dinov2Config, ViTConfig

    name = facts.short_name
    if name in VITS:
        size, patch = VITS[name]
        return ViTConfig(patch_size=patch, **_sized(size))
    if name in DINOV2:
        fields = _sized(DINOV2[name]) | (DINOV2_GIANT if name == "dinov2-giant" else {})
        del fields["intermediate_size"]  # four times the width
        return Dinov2Config(patch_size=14, **fields)
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise _missing("transformers", name, [*VITS, *DINOV2], ", or give a folder with a config.json")
    if not (folder / "config.json").is_file():
        raise InputError(f"--compare {facts.name}: there is no config.json in {folder}")
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the file may hold anything
        why = " ".join(str(error).split())[:200]
        raise InputError(f"transformers cannot read {folder / 'config.json'} ({why}); mend it") from error


def _sized(size: str) -> dict[str, int]:
    depth, width, mlp, heads = SIZES[size]
    return {
        "num_hidden_layers": depth,
        "hidden_size": width,
        "intermediate_size": mlp,
        "num_attention_heads": heads,
    }


VITS = {
    f"vit-{word}-patch{patch}-224": (size, patch)
    for word, size, patches in (
        ("base", "B", (16, 32)),
        ("tiny", "Ti", (16,)),
        ("small", "S", (16, 32)),
        ("large", "L", (16, 32)),
        ("huge", "H", (14,)),
    )
    for patch in patches
}
"""Usual names of transformers' ViTs: size and patch."""
DINOV2 = {"dinov2-small": "S", "dinov2-base": "B", "dinov2-large": "L", "dinov2-giant": "g-opt"}
DINOV2_GIANT = {"num_attention_heads": 24, "use_swiglu_ffn": True}
LIBRARIES: dict[str, Callable[[PeerFacts], Callable[[], nn.Module]]] = {
    "torchvision": _torchvision,
    "transformers": _transformers,
}
"""What builds a net, by the library that its name begins with."""
