"""Whose names and axes a file's tensors have: one module per layout, and the one table of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vit_lightning.models import Net
from vit_lightning.weights.archive import Archive
from vit_lightning.weights.layouts import checkpoint, google, huggingface, timm, torchvision
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


LAYOUTS = {
    "checkpoint": Layout(checkpoint.recognises, checkpoint.read, checkpoint.write),
    "safetensors": Layout(checkpoint.recognises, checkpoint.read, checkpoint.write_safetensors),
    "npz": Layout(google.recognises, google.read, google.write),
    "timm": Layout(timm.recognises, timm.read, timm.write),
    "huggingface": Layout(huggingface.recognises, huggingface.read, huggingface.write),
    "torchvision": Layout(torchvision.recognises, torchvision.read, torchvision.write),
}
"""Every layout by the name that `convert --to` and `export --to` give it; the first that recognises a file reads it."""
