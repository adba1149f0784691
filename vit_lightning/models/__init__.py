"""Plain torch nets: build one from a config; nothing here imports lightning."""

from vit_lightning.models.config import NetConfig, as_pair, is_resnet, resolve
from vit_lightning.models.resnet import ResNet, Stem
from vit_lightning.models.vit import ViT

__all__ = ["NetConfig", "ResNet", "ViT", "build", "resolve"]


def build(config: NetConfig, image_size: int | tuple[int, int], num_classes: int) -> ViT | ResNet:
    """Returns an initialised net.

    Args:
        config: variant and overridden fields.
        image_size: side in pixels, or (y, x).
        num_classes: size of the logits.

    Raises:
        InputError: unknown variant, contradicting fields, or a size that the patch does not divide.
    """
    config, size = resolve(config), as_pair(image_size)
    if is_resnet(config):
        return ResNet(config, size, num_classes)
    stem = Stem(config.channels, config.stages) if config.stages else None
    return ViT(config, size, num_classes, stem)
