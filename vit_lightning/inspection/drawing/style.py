"""One look for all figures, and how they become files."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import category

import numpy as np
from PIL import Image

from vit_lightning.errors import InputError
from vit_lightning.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 150
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "vit-lightning",
    "font.size": 9,
    "axes.titlesize": 9,
    "figure.titlesize": 11,
    "figure.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "text.parse_math": False,  # names of files and classes are no formulas
}
AMOUNT = "magma"
"""Colours of what begins at 0."""
SIGNED = "RdBu_r"
"""Colours of what has two sides."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's, told apart by colour-blind readers."""


def check_installed() -> None:
    """Refuse figures where matplotlib is missing."""
    if find_spec("matplotlib") is None:
        raise InputError('figures need matplotlib: pip install "vit-lightning[figures]"')


@contextmanager
def styled() -> Iterator[None]:
    """Draws in the look of all figures, and lets letters that the font lacks be boxes in silence."""
    check_installed()
    import matplotlib

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        yield


def new_figure(width: float, height: float, title: str, note: str = "") -> "Figure":
    """Returns an empty figure of a size in inches, with a title and what explains it below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=DPI)
    figure.suptitle(printable(title), fontweight="bold")
    if note:
        figure.supxlabel(note, fontsize=8, color="#444444")
    return figure


def printable(text: str, longest: int = 200) -> str:
    r"""Returns a name as a page or a figure can show it, not too long.

    Control signs, signs that turn the direction of letters, and bytes that are no UTF-8 are escaped, as \x1b or \u202e.
    """
    shown = "".join(sign if sign.isprintable() or category(sign) == "Zs" else _escaped(sign) for sign in text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def _escaped(sign: str) -> str:
    byte = ord(sign) - 0xDC00  # of bytes that are no UTF-8, as Python keeps them
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else sign.encode("unicode_escape").decode()


def save(figure: "Figure", place: Path, formats: Iterable[str]) -> list[Path]:
    """Writes a figure whole or not at all, a file for each format.

    Args:
        figure: the figure.
        place: path without an ending.
        formats: png, svg, or both.
    """
    paths = []
    for kind in formats:
        paths.append(place.with_name(f"{place.name}.{kind}"))
        write_atomically(paths[-1], _drawn(figure, kind))
    return paths


def pixels(figure: "Figure") -> np.ndarray:
    """Returns a figure as uint8 `(y, x, 3)`, as TensorBoard takes it."""
    with Image.open(BytesIO(_drawn(figure, "png"))) as image:
        return np.asarray(image.convert("RGB"))


def plain(axes: Any, title: str = "", size: float = 7.0) -> None:
    """Takes ticks and frame off, for a picture, and writes above it."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    if title:
        axes.set_title(printable(title, 26), fontsize=size, pad=3)


def _drawn(figure: "Figure", kind: str) -> bytes:
    drawing = BytesIO()
    with styled():
        figure.savefig(drawing, format=kind, dpi=DPI, metadata={"Date": None} if kind == "svg" else None)
    return drawing.getvalue()
