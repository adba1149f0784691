"""Any net of the optional timm, with ViT's interface as far as it goes: the paper's other baselines."""

import difflib
from typing import NoReturn

from torch import Tensor, nn

from vit_lightning.errors import InputError
from vit_lightning.models.config import TIMM, NetConfig, check_images


class TimmNet(nn.Module):
    """A net that timm builds, such as EfficientNet-L2 or MLP-Mixer; its recipe is ours.

    Args:
        config: a resolved config of a `timm/<name>` variant.
        image_size: (y, x) in pixels.
        num_classes: size of the logits.

    Raises:
        InputError: timm is not installed, knows no such net, or cannot build it so.
    """

    num_prefix_tokens = 0
    grid = (1, 1)

    def __init__(self, config: NetConfig, image_size: tuple[int, int], num_classes: int) -> None:
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
        card = timm.get_pretrained_cfg(name)
        wanted = {"img_size": image_size} if card is not None and card.fixed_input_size else {}
        if config.stochastic_depth:
            wanted["drop_path_rate"] = config.stochastic_depth
        try:
            self.body = timm.create_model(
                name, num_classes=num_classes, in_chans=config.channels, drop_rate=config.dropout, **wanted
            )
        except (TypeError, AssertionError) as error:
            raise InputError(f"timm cannot build {name} for these settings ({error}).") from error
        if config.head_bias and num_classes:
            nn.init.constant_(self.head.bias, config.head_bias)
        self.layers: dict[str, int] = group_parameters(self.body, self.body.group_matcher(), reverse=True)

    @property
    def head(self) -> nn.Module:
        """The last layer."""
        return self.body.get_classifier()

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
