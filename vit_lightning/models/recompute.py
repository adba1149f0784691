"""Activation checkpointing: less memory for one more forward pass."""

from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from vit_lightning.errors import InputError
from vit_lightning.models.blocks import Block
from vit_lightning.models.resnet import BiTUnit, HybridUnit
from vit_lightning.models.timm_net import TimmNet


def recompute(net: nn.Module) -> None:
    """Let every block of a net keep its input alone, and compute the rest again when gradients need it.

    The call of a block is wrapped, not the block, so that no parameter changes its name; and sharding a block
    afterwards still gathers its parameters before both passes. Dropout draws the same numbers twice.

    Args:
        net: the net; compile and shard it after this.

    Raises:
        InputError: timm offers it for this net in no way.
    """
    if isinstance(net, TimmNet):
        try:
            net.body.set_grad_checkpointing()
        except (AttributeError, AssertionError) as error:
            raise InputError(f"timm cannot recompute {net.config.variant}: drop --model.recompute.") from error
    for module in net.modules():
        if isinstance(module, (Block, BiTUnit, HybridUnit)):
            module.forward = partial(checkpoint, module.forward, use_reentrant=False)  # type: ignore[method-assign]
