"""Whether a net's tensors are numbers that it can compute with."""

from collections.abc import Mapping

from torch import Tensor
from torch.distributed.tensor import DTensor

from vit_lightning.errors import InputError


def check_finite(tensors: Mapping[str, Tensor], source: str) -> None:
    """Refuse weights that hold NaN or infinity: a net would give NaN for every image.

    Args:
        tensors: weights and buffers by name.
        source: where they come from, in the message.

    Raises:
        InputError: a tensor is not finite.
    """
    counts = {name: _faults(tensor) for name, tensor in tensors.items() if tensor.is_floating_point()}
    if bad := {name: count for name, count in counts.items() if count}:
        name, count = next(iter(bad.items()))
        more = len(bad) - 1
        others = f", and {more} other tensor{' holds' if more == 1 else 's hold'} more" if more else ""
        raise InputError(
            f"{source} holds weights that are not finite: {count:,} of {tensors[name].numel():,} values of {name} are "
            f"NaN or infinite{others}; take weights of before, such as an earlier checkpoint"
        )


def _faults(tensor: Tensor) -> int:
    own = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    finite = own.detach().isfinite()
    return 0 if bool(finite.all()) else int((~finite).sum())
