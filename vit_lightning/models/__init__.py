"""Plain torch nets: build one from a config; nothing here imports lightning."""

import warnings

from vit_lightning.models.config import NetConfig, ResolvedConfig, as_pair, is_resnet, is_timm
from vit_lightning.models.config_rules import resolve
from vit_lightning.models.fast.fast_path import half_on_gpu
from vit_lightning.models.memory import check_fits
from vit_lightning.models.resnet import ResNet, Stem
from vit_lightning.models.timm_net import TimmNet, at_random
from vit_lightning.models.vit import ViT

__all__ = ["Net", "NetConfig", "ResNet", "TimmNet", "ViT", "assemble", "build", "half_on_gpu", "resolve"]

Net = ViT | ResNet | TimmNet


def build(config: NetConfig, image_size: int | tuple[int, int], num_classes: int) -> Net:
    """Returns an initialised net, at random; a `timm/NAME.TAG` is warned about, since its tag names weights.

    Args:
        config: variant and overridden fields.
        image_size: side in pixels, or (y, x).
        num_classes: size of the logits.

    Raises:
        InputError: unknown variant, contradicting fields, or a size that the patch does not divide.
    """
    net = assemble(resolve(config), as_pair(image_size), num_classes)
    said = at_random(net.config.variant, "load_into(net, {!r}) fills it with them")
    if said and not any(tensor.is_meta for tensor in net.parameters()):
        warnings.warn(said, stacklevel=2)
    return net


def assemble(config: ResolvedConfig, image_size: tuple[int, int], num_classes: int) -> Net:
    """Returns the net of a resolved config, which a caller fills with weights or trains: `build` has the arguments."""
    check_fits(config, num_classes)
    if is_timm(config):
        return TimmNet(config, image_size, num_classes)
    if is_resnet(config):
        return ResNet(config, image_size, num_classes)
    stem = Stem(config.channels, config.stages, config.resnet_code) if config.stages else None
    return ViT(config, image_size, num_classes, stem)
