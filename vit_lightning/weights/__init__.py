"""Weights from anywhere: `load_net` builds the net that a file is for, `load_into` fills a net that exists."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.models import Net, NetConfig, build
from vit_lightning.models.config import as_pair, is_timm
from vit_lightning.weights.archive import open_archive
from vit_lightning.weights.layouts import checkpoint, google, huggingface, timm, torchvision
from vit_lightning.weights.layouts.table import Row, Weights, shape_of, to_ours
from vit_lightning.weights.report import Report
from vit_lightning.weights.resize import Fitting, Resampling
from vit_lightning.weights.source import fetch

__all__ = ["Report", "load_into", "load_net", "understand"]

LAYOUTS = (checkpoint, google, timm, huggingface, torchvision)
# The head, and the parts before it that a new head may lose or begin anew.
HEAD = ("head.", "representation.", "pool.")
# A net's size, fields that change what it computes but not the shape of any tensor, and those that the head relies on.
MEANING = ("depth", "width", "mlp", "heads", "gelu", "swiglu", "norm_eps")
MEANING += ("attention", "position", "position_at", "position_temperature")
MEANING_TO_HEAD = ("pool", "norm_after_pool", "representation")
ALIKE = "set the net's fields as the weights have them"


def understand(
    source: str | Path, heads: int | None = None, image_size: int | tuple[int, int] | None = None, raw: bool = False
) -> tuple[Weights, Net]:
    """Returns what a source holds, and the net that it is for, still without storage.

    Args:
        source: local path, https address or hf://owner/repo[/file].
        heads: number of attention heads, for a file that does not say it.
        image_size: pixels per side, or (y, x), for a file whose position table fits no square grid.
        raw: of a checkpoint with averaged weights, take those that were trained.

    Raises:
        InputError: the source cannot be read, or is not a whole net of a known layout.
    """
    archive = open_archive(fetch(source), raw)
    layout = next((layout for layout in LAYOUTS if layout.recognises(archive)), None)
    if layout is None:
        names = ", ".join(list(archive.stored)[:3])
        raise InputError(f"{source} holds tensors of no known layout ({names}, ...): its net is not one of ours.")
    weights = layout.understand(archive, heads, None if image_size is None else as_pair(image_size))
    net = _skeleton(weights.config, weights.image_size, weights.num_classes)
    _check(weights, net, source)
    return weights, net


def load_net(
    source: str | Path,
    *,
    heads: int | None = None,
    image_size: int | tuple[int, int] | None = None,
    raw: bool = False,
    resampling: Resampling = "bilinear",
) -> tuple[Net, Report]:
    """Builds the net that a weights file is for, and fills it.

    Args:
        source: local path, https address or hf://owner/repo[/file].
        heads: number of attention heads, for a file that does not say it.
        image_size: pixels per side, or (y, x), to use the net at; None: the file's own.
        raw: of a checkpoint with averaged weights, take those that were trained.
        resampling: how positions get to another grid: bilinear is the paper's, bicubic suits DINOv2.

    Returns:
        The net in float32 on the CPU, and what became of every tensor.

    Raises:
        InputError: the source cannot be read, or is not a whole net of a known layout.
    """
    weights, own = understand(source, heads, image_size, raw)
    if heads not in (None, weights.config.heads):
        raise InputError(f"The file's net has {weights.config.heads} heads, but heads is {heads}: leave heads out.")
    size = weights.image_size if image_size is None else as_pair(image_size)
    net = own if size == weights.image_size else _skeleton(weights.config, size, weights.num_classes)
    report, fitting = _report(source, weights), Fitting(own, net, resampling)
    state = {name: _take(name, row, weights, fitting, report) for name, row in _rows(weights, net).items()}
    net.load_state_dict(state, assign=True)
    _give_storage(net)
    _note_empty_head(net, report)
    return net, report


def load_into(
    net: Net,
    source: str | Path,
    head: Literal["reset", "keep"] = "keep",
    *,
    raw: bool = False,
    resampling: Resampling = "bilinear",
    adapt: bool = False,
) -> Report:
    """Fills a net with weights; positions are fitted to its grid.

    Args:
        net: the net.
        source: local path, https address or hf://owner/repo[/file].
        head: keep takes the head of the weights, whose classes must be the net's; reset leaves the net its own head,
            and drops a hidden layer of the weights that the net lacks.
        raw: of a checkpoint with averaged weights, take those that were trained.
        resampling: how positions get to another grid: bilinear is the paper's, bicubic suits DINOv2.
        adapt: also fit the first layer to another patch size or another number of channels.

    Raises:
        InputError: the weights are for another net, or their head is for other classes.
    """
    weights, own = understand(source, net.config.heads, net.image_size, raw)
    report = _report(source, weights)
    _compare(weights, net, MEANING if head == "reset" else MEANING + MEANING_TO_HEAD)
    wanted, held = net.state_dict(), _rows(weights, own)
    if head == "reset":
        _reset(wanted, held, own, report)
    elif weights.num_classes != net.num_classes:
        raise InputError(
            f"The head of the weights is for {weights.num_classes} classes, the net's for {net.num_classes}: "
            "begin a new head with --model.weights_head reset, or take data of the same classes."
        )
    if lacking := [name for name in wanted if name not in held]:
        raise InputError(f"The weights lack {_some(lacking)}, which the net has: {ALIKE}.")
    if surplus := [name for name in held if name not in wanted]:
        raise InputError(f"The net lacks {_some(surplus)}, which the weights have: {ALIKE}.")
    fitting = Fitting(own, net, resampling, adapt)
    with torch.no_grad():
        for name, tensor in wanted.items():
            tensor.copy_(_take(name, held[name], weights, fitting, report))
    if head == "keep":
        _note_empty_head(net, report)
    return report


def _skeleton(config: NetConfig, image_size: tuple[int, int], num_classes: int) -> Net:
    # timm's nets compute tables of their own while they are built, which only storage can hold.
    with torch.device("cpu" if is_timm(config) else "meta"):
        return build(config, image_size, num_classes)


def _give_storage(net: Net) -> None:
    """Computes the tables that no file holds, such as fixed sine and cosine positions."""
    for module in net.modules():
        if any(buffer.is_meta for buffer in module.buffers(recurse=False)):
            module.to_empty(device="cpu", recurse=False)
            module.reset_parameters()


def _rows(weights: Weights, net: Net) -> dict[str, Row]:
    """The table's rows for the tensors of a net."""
    table = {row.ours: row for row in weights.rows}
    return {name: table[name] for name in net.state_dict() if name in table}


def _check(weights: Weights, net: Net, source: str | Path) -> None:
    """Refuses a file that is not exactly its net: every tensor there, in its shape, and no other."""
    rows, wanted, held = _rows(weights, net), net.state_dict(), weights.stored
    if missing := [name for name in wanted if name not in rows]:
        raise InputError(f"{source} has no place for {_some(missing)} in the layout of {weights.layout}.")
    needed = [name for row in rows.values() for name in row.theirs]
    if lacking := [name for name in needed if name not in held]:
        raise InputError(f"{source} lacks {_some(lacking)}: it is cut down, or for another kind of net.")
    if surplus := held.keys() - set(needed):
        raise InputError(f"{source} holds {_some(surplus)}, unknown in the layout of {weights.layout}.")
    for name, row in rows.items():
        shape, expected = shape_of(row, held), tuple(wanted[name].shape)
        if shape != expected:
            raise InputError(
                f"{_some(row.theirs)} of {source} would make {name} {shape}, but its net needs {expected}."
            )


def _report(source: str | Path, weights: Weights) -> Report:
    return Report(
        str(source),
        weights.layout,
        dropped=dict(weights.dropped),
        notes=list(weights.notes),
        mean=weights.mean,
        std=weights.std,
        class_names=list(weights.class_names),
        training=dict(weights.training),
    )


def _take(name: str, row: Row, weights: Weights, fitting: Fitting, report: Report) -> Tensor:
    """Reads one tensor, fits it to the net and reports it."""
    tensor, how = fitting(name, to_ours(row, weights.stored))
    report.loaded.append(name)
    if how:
        report.resampled[name] = how
    return tensor.contiguous()


def _compare(weights: Weights, net: Net, fields: Iterable[str]) -> None:
    """Refuses weights whose numbers would mean something else in the net."""
    for field in fields:
        theirs, ours = getattr(weights.config, field), getattr(net.config, field)
        if theirs != ours:
            raise InputError(f"The weights are for net.{field}={theirs}, but the net has {ours}: set it to {theirs}.")


def _reset(wanted: dict[str, Tensor], held: dict[str, Row], own: Net, report: Report) -> None:
    """Leaves the net its own head, and what comes before it unless the weights have the same."""
    shapes = {name: tensor.shape for name, tensor in own.state_dict().items()}
    for name in [name for name in held | wanted if name.startswith(HEAD)]:
        if not name.startswith("head.") and name in held and name in wanted and shapes[name] == wanted[name].shape:
            continue
        if held.pop(name, None) is not None:
            report.dropped[name] = "the head is reset"
        if wanted.pop(name, None) is not None:
            report.missing[name] = "the head is reset"
    report.class_names = []


def _note_empty_head(net: Net, report: Report) -> None:
    """Reports a head of zeros: the published files of nets whose head was kept back."""
    if net.num_classes and not net.head.weight.count_nonzero():
        report.missing |= {"head.weight": "not released: zeros", "head.bias": "not released: zeros"}


def _some(names: Iterable[str], most: int = 3) -> str:
    """Names for a sentence: the first few, and how many more."""
    names = sorted(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
