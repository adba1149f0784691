"""Any net of the optional timm, with ViT's interface as far as it goes: the paper's other baselines."""

import difflib
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from vit_lightning.errors import InputError
from vit_lightning.models.config import ResolvedConfig, check_images
from vit_lightning.models.variants import TIMM


class TimmNet(nn.Module):
    """A net that timm builds, such as EfficientNet-L2 or MLP-Mixer; its recipe is ours.

    Args:
        config: a resolved config of a `timm/<name>` variant.
        image_size: (y, x) in pixels.
        num_classes: size of the logits.
        published: entries of timm's card, tensors (`state_dict`) included, that timm fills the net with; None: the net
            begins at random.

    Raises:
        InputError: timm is not installed, knows no such net, or cannot build it so.
    """

    num_prefix_tokens = 0
    grid = (1, 1)
    body: Any  # more than torch says of a module

    def __init__(
        self,
        config: ResolvedConfig,
        image_size: tuple[int, int],
        num_classes: int,
        published: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.config, self.image_size, self.num_classes = config, image_size, num_classes
        try:
            import timm
            from timm.models import group_parameters
        except ImportError as error:
            raise InputError(f'net.variant={config.variant} needs timm: pip install "vit-lightning[timm]".') from error
        name = config.variant.removeprefix(TIMM)
        if not timm.is_model(name):
            close = difflib.get_close_matches(name, timm.list_models(), n=1)
            hint = f"did you mean {TIMM}{close[0]}?" if close else "timm.list_models() lists them."
            raise InputError(f"timm has no net {name!r}: {hint}")
        card = _card(name)
        sized = card is not None and card.fixed_input_size
        wanted: dict[str, Any] = {"num_classes": num_classes, "in_chans": config.channels, "drop_rate": config.dropout}
        if config.stochastic_depth:
            wanted["drop_path_rate"] = config.stochastic_depth

        def make(size: tuple[int, int], **more: Any) -> nn.Module:
            return timm.create_model(name, **wanted | ({"img_size": size} if sized else {}) | more)

        if card is not None:
            _check_size(config, make, image_size, card.input_size[1:])
        try:
            filled = {"pretrained": True, "pretrained_cfg_overlay": published} if published else {}
            self.body = make(image_size, **filled)
        except (TypeError, AssertionError) as error:
            raise InputError(_unbuildable(name, str(error))) from error
        if not hasattr(self.body, "group_matcher"):
            raise InputError(f"timm does not tell the layers of {name}, by which ours are trained: choose another net.")
        if config.head_bias and num_classes:
            head = self.head
            if not isinstance(head, nn.Linear | nn.Conv2d) or head.bias is None:
                raise InputError(f"{config.variant} has no single last layer to bias: drop net.head_bias.")
            nn.init.constant_(head.bias, config.head_bias)
        self.layers: dict[str, int] = group_parameters(self.body, self.body.group_matcher(), reverse=True)

    @property
    def head(self) -> nn.Module:
        """The last layer."""
        return self.body.get_classifier()

    @property
    def head_names(self) -> list[str]:
        """Names of the tensors of the last layer, or of both where a net has two."""
        last = self.head if isinstance(self.head, tuple) else (self.head,)
        named = [name for name, module in self.named_modules() if any(module is one for one in last)]
        return [name for name in self.state_dict() if name.startswith(tuple(f"{part}." for part in named))]

    @property
    def first_layer(self) -> str:
        """Name of the kernel that reads the image."""
        first = self.body.pretrained_cfg.get("first_conv")
        return f"body.{first[0] if isinstance(first, tuple | list) else first}.weight"

    def forward(self, images: Tensor) -> Tensor:
        """Returns the logits `b classes` of normalised images `b c height width`; without classes, the features."""
        check_images(self.config, self.image_size, images.shape)
        return self.body(images)

    def features(self, images: Tensor) -> Tensor:
        """Returns what the head reads."""
        check_images(self.config, self.image_size, images.shape)
        return self.body.forward_head(self.body.forward_features(images), pre_logits=True)

    def tokens(self, images: Tensor) -> NoReturn:
        """Refuses: not every net of timm has tokens."""
        raise InputError(f"{self.config.variant} shows no tokens: choose a ViT or a hybrid.")

    def attention(self, images: Tensor) -> NoReturn:
        """Refuses: not every net of timm has attention."""
        raise InputError(f"{self.config.variant} shows no attention: choose a ViT or a hybrid.")

    def depth_of(self, name: str) -> int:
        """Returns the layer of a parameter as timm counts them, from 0 for the stem."""
        return self.layers[name.removeprefix("body.")]


def published_weights(variant: str) -> str | None:
    """Returns where the weights lie that the tag of a variant names (timm/resnet10t.c3_in1k); None: it has no tag.

    Raises:
        InputError: timm knows no such tag, or no place of its weights.
    """
    if not has_tag(variant):
        return None
    if (place := _place(variant)) is None:
        raise InputError(f"timm publishes no weights under the tag of {variant}: drop the tag to begin at random.")
    return place


def has_tag(variant: str) -> bool:
    """Whether a variant names published weights of a net of timm beside the net."""
    return variant.startswith(TIMM) and "." in variant


def at_random(variant: str, remedy: str) -> str | None:
    """Returns the sentence for a net that begins at random although its variant names weights; None: it names none.

    Args:
        variant: the net's.
        remedy: what begins with the weights, with {} for where they lie.
    """
    place = _place(variant) if has_tag(variant) else None
    return place and f"{variant} begins at random, not with the weights of its tag: {remedy.format(place)}"


def _place(variant: str) -> str | None:
    """Where the weights of a tag lie; None: timm publishes none."""
    card = _card(variant.removeprefix(TIMM))
    if card is None or not (card.hf_hub_id or card.url):
        return None
    return f"hf://{card.hf_hub_id}" if card.hf_hub_id else str(card.url)


def _card(name: str) -> Any:
    """What timm says of a net's weights; None: nothing.

    Raises:
        InputError: timm knows the net, but not the tag behind its name.
    """
    import timm

    try:
        return timm.get_pretrained_cfg(name)
    except RuntimeError as error:
        net, _, tag = name.partition(".")
        known = ", ".join(timm.list_models(f"{net}.*", pretrained=True)[:3])
        raise InputError(f"timm has no weights {tag!r} of {net}: drop the tag, or take one of {known}.") from error


def _check_size(
    config: ResolvedConfig, make: Callable[[tuple[int, int]], nn.Module], size: tuple[int, int], own: tuple[int, int]
) -> None:
    """Refuse images that the net cannot take, which timm tells only by the exceptions of its layers.

    A net that fails at its own size too cannot be tried without storage, and nothing is known.
    """
    why = _fault(make, config.channels, size)
    if why and not _fault(make, config.channels, own):
        fitting = f"{own[0]}" if own[0] == own[1] else f"[{own[0]}, {own[1]}]"
        raise InputError(
            f"{config.variant} cannot take images of {size[0]}x{size[1]} pixels ({why}): it was made for "
            f"{own[0]}x{own[1]}; set image_size {fitting}, or choose another net."
        )


def _fault(make: Callable[[tuple[int, int]], nn.Module], channels: int, size: tuple[int, int]) -> str:
    """Return what a forward pass without storage, which takes no time, complains of."""
    try:
        with torch.device("meta"), torch.no_grad():
            make(size).eval()(torch.empty(1, channels, *size))
    except TypeError:  # a setting, not the size
        return ""
    except (AssertionError, RuntimeError, ValueError) as error:
        return " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return ""


def _unbuildable(name: str, why: str) -> str:
    for setting, ours in (("drop_path_rate", "stochastic_depth"), ("drop_rate", "dropout"), ("in_chans", "channels")):
        if f"'{setting}'" in why:
            return f"timm's {name} has no {setting}: drop net.{ours}, or choose another net."
    return f"timm cannot build {name} for these settings ({why}): choose another net."
