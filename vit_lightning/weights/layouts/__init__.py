"""Whose names and axes a file's tensors have: one module per layout, and the one table of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vit_lightning.models import Net, ResNet, TimmNet
from vit_lightning.weights.archive import Archive
from vit_lightning.weights.layouts import checkpoint, google, huggingface, timm, timm_net, timm_resnet, torchvision
from vit_lightning.weights.layouts.tensor_mapping import Weights
from vit_lightning.weights.report import Report


@dataclass(frozen=True)
class Layout:
    """One way to store a net.

    Args:
        recognises: whether an opened file has this layout.
        read: the config of the net and the place of each tensor, of an opened file, the heads that the caller states,
            and the image size (y, x) that it works with.
        write: writes a net, and what its report knows besides, to a new file or folder.
    """

    recognises: Callable[[Archive], bool]
    read: Callable[[Archive, int | None, tuple[int, int] | None], Weights]
    write: Callable[[Net, Report, Path], None]


TIMMS = (timm, timm_resnet, timm_net)
"""Readers of timm's files; the last takes any net of timm that a config.json names."""


def _is_timm(archive: Archive) -> bool:
    return any(reader.recognises(archive) for reader in TIMMS)


def _read_timm(archive: Archive, heads: int | None, image_size: tuple[int, int] | None) -> Weights:
    return next(reader for reader in TIMMS if reader.recognises(archive)).read(archive, heads, image_size)


def _write_timm(net: Net, report: Report, path: Path) -> None:
    if isinstance(net, TimmNet):
        timm_net.write(net, report, path)
    elif isinstance(net, ResNet):
        timm_resnet.write(net, report, path)
    else:
        timm.write(net, report, path)


LAYOUTS = {
    "checkpoint": Layout(checkpoint.recognises, checkpoint.read, checkpoint.write),
    "safetensors": Layout(checkpoint.recognises, checkpoint.read, checkpoint.write_safetensors),
    "npz": Layout(google.recognises, google.read, google.write),
    "timm": Layout(_is_timm, _read_timm, _write_timm),
    "huggingface": Layout(huggingface.recognises, huggingface.read, huggingface.write),
    "torchvision": Layout(torchvision.recognises, torchvision.read, torchvision.write),
}
"""Every layout by the name that `convert --to` and `export --to` give it; the first that recognises a file reads it."""
