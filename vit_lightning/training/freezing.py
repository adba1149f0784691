"""Which parameters of a net are trained: all, or the head beside nothing, the biases, or low-rank updates."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from vit_lightning.errors import InputError
from vit_lightning.models import Net, TimmNet
from vit_lightning.models.lora import PART, Lora, add_lora

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def check_tuning(settings: Mapping[str, Any]) -> None:
    """Refuse two answers to what is trained.

    Args:
        settings: `freeze_trunk`, `bias_only` and `lora`, as a model's hyper-parameters hold them.

    Raises:
        InputError: naming their flags.
    """
    given = [f"--model.{name} true" for name in ("freeze_trunk", "bias_only") if settings[name]]
    given += [f"--model.lora.rank {rank}"] if (rank := settings["lora"]["rank"]) else []
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} train different parts of the net; give one of them")


def is_partial(settings: Mapping[str, Any]) -> bool:
    """Whether a model's hyper-parameters freeze a part of the net."""
    return bool(settings.get("freeze_trunk") or settings.get("bias_only") or settings.get("lora", {}).get("rank"))


def freeze(net: Net, settings: Mapping[str, Any]) -> None:
    """Add low-rank updates if they are asked for, and freeze what is not trained.

    Args:
        net: the net, filled with its first weights.
        settings: as for `check_tuning`.

    Raises:
        InputError: the net has nothing of the kind that is to be trained.
    """
    if not is_partial(settings):
        return
    if settings["lora"]["rank"]:
        add_lora(net, Lora(**settings["lora"]))
    head = net.head_names if isinstance(net, TimmNet) else ["head.weight", "head.bias"]
    biases = [name for name, _ in net.named_parameters() if name.endswith("bias") and name not in head]
    if settings["bias_only"] and not biases:
        raise InputError(
            f"{net.config.variant} has no biases before its head, which --model.bias_only true would train; give "
            "--model.freeze_trunk true for the head alone"
        )
    trained = {*head, *(biases if settings["bias_only"] else ())}
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(name in trained or PART in name)


def hold_still(net: Net, settings: Mapping[str, Any]) -> None:
    """Put into evaluation mode what is frozen as a whole.

    The net before a linear probe is, dropout and stochastic depth included. Biases and low-rank updates learn as the
    whole net would, with both, on batch norm's statistics as they are.
    """
    if settings["freeze_trunk"]:
        net.eval()
    elif is_partial(settings):
        for module in net.modules():
            if isinstance(module, BATCH_NORMS):
                module.eval()
