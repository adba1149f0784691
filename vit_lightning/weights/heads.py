"""The head of a net that weights fill: left as the net has it, or found empty."""

from torch import Tensor, nn

from vit_lightning.models import Net, TimmNet
from vit_lightning.weights.layouts.tensor_mapping import TensorMapping
from vit_lightning.weights.report import Report

HEAD = ("head.", "representation.", "pool.")
"""The head, and the parts before it that a new head may lose or begin anew."""


def leave_head(wanted: dict[str, Tensor], held: dict[str, TensorMapping], own: Net, report: Report) -> None:
    """Leaves the net its own head, and what comes before it unless the weights have the same."""
    shapes = {name: tensor.shape for name, tensor in own.state_dict().items()}
    last = own.head_names if isinstance(own, TimmNet) else [name for name in held | wanted if name.startswith("head.")]
    for name in [name for name in held | wanted if name in last or name.startswith(HEAD)]:
        if name not in last and name in held and name in wanted and shapes[name] == wanted[name].shape:
            continue
        if held.pop(name, None) is not None:
            report.dropped[name] = "the head is reset"
        if wanted.pop(name, None) is not None:
            report.missing[name] = "the head is reset"
    report.class_names = []


def is_empty(head: nn.Module) -> bool:
    """Whether a head begins at zero."""
    weight = getattr(head, "weight", None)
    return isinstance(weight, Tensor) and not weight.count_nonzero()


def note_empty_head(net: Net, report: Report) -> None:
    """Reports a head of zeros: the published files of nets whose head was kept back."""
    if net.num_classes and is_empty(net.head):
        report.missing |= {"head.weight": "not released: zeros", "head.bias": "not released: zeros"}
