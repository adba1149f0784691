"""Training with the products of a net's blocks in fp8: where it can be done and pays, and its state in checkpoints."""

from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.models import ViT
from vit_lightning.models.fast.fast_path import fusible
from vit_lightning.models.fast.fp8_scales import Fp8Scales
from vit_lightning.models.finite import check_finite
from vit_lightning.training.averaging import replicates
from vit_lightning.training.freezing import is_partial

NARROWEST = 1024
"""Width of tokens from which fp8 pays: at 768 its casts take what its products save (models/fast/SPEED.md)."""
CAPABILITY = (8, 9)
"""Of the first GPUs that multiply in fp8."""
STATE = "fp8"
"""Key of a checkpoint for the largest values of its last passes, by process."""


class Fp8Training:
    """The factors of a model's fp8 products, from the beginning of a fit on.

    Every process has its own factors, which follow from its own images: each gradient is exact up to rounding whatever
    they are, so nothing is exchanged.

    Args:
        model: what is trained.
    """

    def __init__(self, model: LightningModule) -> None:
        self.model = model
        self.restored: list[dict[str, Tensor]] = []

    @property
    def blocks(self) -> str:
        """Which blocks compute in fp8, in words."""
        return f"blocks 2 to {len(self.model.net.blocks) - 1}"

    def begin(self) -> None:
        """Give the net its factors: those of the checkpoint if there is one.

        DDP has wrapped the model by now, so that it does not copy the first process's factors to the others.

        Raises:
            InputError: fp8 cannot be used here, or would not pay.
        """
        if missing := lacks(self.model):
            raise InputError(f"--model.fp8 true needs {' and '.join(missing)}; drop it")
        net = self.model.net
        net.fp8 = Fp8Scales(len(net.blocks) - 2).to(self.model.device)
        if self.restored:
            rank = self.model.global_rank
            net.fp8.restore(self.restored[rank if rank < len(self.restored) else 0])
            self.restored = []

    def store(self, checkpoint: dict[str, Any]) -> None:
        """Put the state of every process into a checkpoint."""
        scales = self.model.net.fp8
        if scales is None:
            return
        states: list[Any] = [scales.state()]
        if torch.distributed.is_initialized():
            states *= torch.distributed.get_world_size()
            torch.distributed.all_gather_object(states, scales.state())
        checkpoint[STATE] = states

    def restore(self, checkpoint: dict[str, Any]) -> None:
        """Keep a checkpoint's state until the fit begins; without one the factors begin anew.

        Raises:
            InputError: it is not that of this net.
        """
        self.restored = checkpoint.get(STATE, [])
        shapes = {name: tensor.shape for name, tensor in Fp8Scales(len(self.model.net.blocks) - 2).state().items()}
        for state in self.restored:
            if {name: tensor.shape for name, tensor in state.items()} != shapes:
                raise InputError("the checkpoint holds fp8 factors of another net; drop --model.fp8")
            check_finite(state, "the checkpoint")


def lacks(model: LightningModule) -> list[str]:
    """What an fp8 fit needs and this one has not, in words."""
    net, config, settings, device = model.net, model.config, model.hparams, model.device
    if not isinstance(net, ViT):
        return ["a plain vision transformer"]
    on_gpu = device.type == "cuda" and torch.version.cuda is not None
    found = {
        "a GPU that multiplies in fp8 (compute capability 8.9 or later, such as an H100)": on_gpu
        and torch.cuda.get_device_capability(device) >= CAPABILITY,
        "--trainer.precision bf16-mixed": model.trainer.precision == "bf16-mixed",
        f"a width of {NARROWEST} or more, below which it is no faster ({config.width} here)": config.width >= NARROWEST,
        f"a width and an MLP that 16 divides ({config.width} and {config.mlp} here)": config.width % 16 == 0
        and config.mlp % 16 == 0,
        f"three blocks or more ({len(net.blocks)} here)": len(net.blocks) > 2,
        f"--model.net.dropout 0 ({config.dropout:g} here)": not config.dropout,
        "one device, or a replica on each (--trainer.strategy ddp)": replicates(model.trainer.strategy),
        "a net that is not compiled": not settings.compile,
        "a trunk that trains as a whole": not is_partial(settings),
        "heads and parts that the fast path knows": not on_gpu or fusible(config, empty_tokens(device)),
    }
    return [need for need, met in found.items() if not met]


def empty_tokens(device: torch.device) -> Tensor:
    """No tokens, of the type and on the device of those that a fit in bf16 has."""
    return torch.empty(0, dtype=torch.bfloat16, device=device)
