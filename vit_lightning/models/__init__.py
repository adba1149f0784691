"""Plain torch nets: build one from a config; nothing here imports lightning."""

from vit_lightning.models.config import NetConfig, as_pair, is_resnet, is_timm
from vit_lightning.models.config_rules import resolve
from vit_lightning.models.fast.fast_path import half_on_gpu
from vit_lightning.models.resnet import ResNet, Stem
from vit_lightning.models.timm_net import TimmNet
from vit_lightning.models.vit import ViT

__all__ = ["Net", "NetConfig", "ResNet", "TimmNet", "ViT", "build", "half_on_gpu", "resolve"]

Net = ViT | ResNet | TimmNet


def build(config: NetConfig, image_size: int | tuple[int, int], num_classes: int) -> Net:
    """Returns an initialised net.

    Args:
        config: variant and overridden fields.
        image_size: side in pixels, or (y, x).
        num_classes: size of the logits.

    Raises:
        InputError: unknown variant, contradicting fields, or a size that the patch does not divide.
    """
    resolved, size = resolve(config), as_pair(image_size)
    if is_timm(resolved):
        return TimmNet(resolved, size, num_classes)
    if is_resnet(resolved):
        return ResNet(resolved, size, num_classes)
    stem = Stem(resolved.channels, resolved.stages) if resolved.stages else None
    return ViT(resolved, size, num_classes, stem)
