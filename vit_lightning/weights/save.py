"""Writing a net in another layout, and proving that what was written is the net."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vit_lightning.errors import InputError
from vit_lightning.files import written
from vit_lightning.models import Net, NetConfig, TimmNet
from vit_lightning.weights.heads import is_empty
from vit_lightning.weights.layouts import LAYOUTS
from vit_lightning.weights.load import load_net
from vit_lightning.weights.report import Report
from vit_lightning.weights.unheld import unheld

TOLERANCE = 1e-5
EPSILON = "norm_eps"
"""The field of which another value may be rounding: the outputs decide, and it is named in either case."""
# Fields that say how a net is named and trained, not what it computes.
UNSEEN = ("variant", "dropout", "stochastic_depth", "patch_dropout", "layer_scale", "head_bias", "attention_init")


def save(net: Net, report: Report, path: Path, to: str) -> float:
    """Writes a net, reads it back and compares; nothing stays if they differ.

    Args:
        net: the net.
        report: what is known besides: mean, std, names of the classes.
        path: file (npz, torchvision, checkpoint) or folder (timm, huggingface, safetensors) to make.
        to: name of the layout in LAYOUTS.

    Returns:
        Largest difference between the outputs of the net and of what was read back, relative to the largest output.

    Raises:
        InputError: the layout cannot hold this net, or something is at `path` already.
    """
    with written(path) as place:
        try:
            return _proven(net, report, place, to)
        except InputError as error:
            names_field = "net." in str(error) or isinstance(net, TimmNet)
            said = None if names_field else unheld(net, to, _proven)
            raise InputError(said or str(error)) from error


def _proven(net: Net, report: Report, place: Path, to: str) -> float:
    LAYOUTS[to].write(net, report, place)
    heads = None if isinstance(net, TimmNet) else net.config.heads or None
    stated = NetConfig(net.config.variant) if isinstance(net, TimmNet) else None
    try:
        copy, _ = load_net(place, heads=heads, image_size=net.image_size, stated=stated)
    except InputError as error:
        raise InputError(f"The layout of {to} cannot hold this net: convert to checkpoint, which holds any.") from error
    figure = compare(net, copy, to)
    ours, theirs = net.config.norm_eps, copy.config.norm_eps
    if not isinstance(net, TimmNet) and ours != theirs:
        report.notes.append(
            f"{to} cannot hold net.norm_eps={ours}: its readers take {theirs}, which changes outputs by {figure:.1e}"
        )
    return figure


def check_ending(path: Path, to: str, endings: dict[str, tuple[str, ...]]) -> None:
    """Refuse a name whose ending promises other formats than the one that will be written."""
    promised = endings.get(path.suffix)
    if promised is not None and to not in promised:
        fix = "".join(f"give --to {name}, or " for name in promised[:1]) + "name it otherwise"
        raise InputError(f"{path} ends in {path.suffix}, but --to {to} writes something else; {fix}")


def compare(net: Net, copy: Net, to: str) -> float:
    """Returns the parity of a net with its copy (see `parity`).

    Raises:
        InputError: a tensor or the function of the copy is another one.
    """
    tensors, copies = net.state_dict(), copy.state_dict()
    lost = [name for name in tensors if name not in copies or not torch.equal(tensors[name], copies[name])]
    # A head of zeros would hide every difference.
    blind = not net.num_classes or is_empty(net.head)
    figure = parity(net, copy.eval().features if blind else copy.eval(), features=blind)
    differ = _differing(net, copy)
    told = () if isinstance(net, TimmNet) else differ.keys() - {EPSILON}
    if lost or told or not figure <= TOLERANCE:
        fields = [f"net.{name}={ours}, where readers take {theirs}" for name, (ours, theirs) in differ.items()]
        what = "; ".join([*fields, *lost][:3])
        raise InputError(
            f"The layout of {to} cannot say all of this net ({what}): convert to checkpoint, which holds any."
        )
    return figure


def _differing(net: Net, copy: Net) -> dict[str, tuple[Any, Any]]:
    """Fields that a net and its copy have with other values, and that decide what the net computes."""
    ours, theirs = vars(net.config), vars(copy.config)
    idle = (*UNSEEN, "gelu") if net.config.swiglu and copy.config.swiglu else UNSEEN
    return {name: (ours[name], theirs[name]) for name in ours if name not in idle and ours[name] != theirs[name]}


@torch.no_grad()
def parity(net: Net, run: Callable[[Tensor], Tensor], batch: int = 2, features: bool = False) -> float:
    """Returns how far outputs for random images differ, relative to the largest one.

    Of a head that has hardly left its zeros, products cancel: they are relative to the largest sum of their sizes.

    Args:
        net: the net.
        run: what must compute the same of normalised images `b c y x`.
        batch: number of images.
        features: compare what the head reads in place of the logits.
    """
    images = torch.randn(batch, net.config.channels, *net.image_size, generator=torch.Generator().manual_seed(0))
    training = net.training
    net.eval()
    expected = net.features(images) if features else net(images)
    largest = expected.abs().max()
    if not features and isinstance(net.head, nn.Linear):
        largest = torch.maximum(largest, (net.features(images).abs() @ net.head.weight.abs().T).max())
    net.train(training)
    difference = (run(images) - expected).abs().max()
    return float(difference / largest.clamp_min(torch.finfo(expected.dtype).tiny))
