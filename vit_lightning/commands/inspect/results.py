"""What the verb `inspect` leaves: figures and arrays in a folder, images for TensorBoard, and a table of them."""

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.table import Table

from vit_lightning.files import write_atomically
from vit_lightning.inspection.drawing.style import pixels, save
from vit_lightning.runs import folders
from vit_lightning.terminal import near

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Results:
    """Files in a folder, each written whole or not at all.

    Args:
        folder: the folder.
        formats: of figures.
        loggers: those that take images get every figure but those of single images.
    """

    def __init__(self, folder: Path, formats: Sequence[str], loggers: Sequence[Any] = ()) -> None:
        self.folder, self.formats = folder, formats
        writers = [getattr(logger, "experiment", None) for logger in loggers]
        self.writers = [writer for writer in writers if hasattr(writer, "add_image")]
        self.rows: list[tuple[str, str, str]] = []
        """Name, file and what it says, of each figure."""

    def figure(self, name: str, figure: "Figure", said: str, arrays: dict[str, Any] | None = None) -> None:
        """Keep a figure, and the arrays that it shows."""
        place = self._place(name)
        save(figure, place, self.formats)
        endings = list(self.formats)
        if arrays:
            self.arrays(name, arrays)
            endings.append("npz")
        for writer in self.writers:
            writer.add_image(f"inspection/{name}", pixels(figure), 0, dataformats="HWC")
        ending = f"{{{','.join(endings)}}}" if endings[1:] else endings[0]
        self.rows.append((name, f"{near(place)}.{ending}", said))

    def single(self, name: str, figure: "Figure") -> None:
        """Keep a figure of one image, which the table does not list by itself."""
        save(figure, self._place(name), self.formats)

    def arrays(self, name: str, arrays: dict[str, Any]) -> None:
        """Keep arrays as NAME.npz."""
        place = self._place(name)
        content = io.BytesIO()
        np.savez_compressed(content, **{key: np.asarray(value) for key, value in arrays.items()})
        write_atomically(place.with_name(f"{place.name}.npz"), content.getvalue())

    def listed(self, name: str, said: str) -> None:
        """List a folder of files in the table."""
        self.rows.append((name, f"{near(self.folder / name)}/", said))

    def facts(self, content: dict[str, Any]) -> None:
        """Keep numbers as inspection.json."""
        write_atomically(self.folder / "inspection.json", json.dumps(content, indent=2) + "\n")
        self.rows.append(("numbers", str(near(self.folder / "inspection.json")), "all of the above that is a number"))

    def table(self) -> Table:
        """Return what lies where."""
        shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for column in ("figure", "file", "shows"):
            shown.add_column(column, no_wrap=column == "figure", overflow="fold")
        for row in self.rows:
            shown.add_row(*row)
        return shown

    def _place(self, name: str) -> Path:
        place = self.folder / name
        folders.make(place.parent)
        return place


def file_stem(number: int, name: str) -> str:
    """Return a name for the files of an image: its number, and what of its own name is safe in one."""
    safe = re.sub(r"[^\w.-]+", "_", Path(name).stem, flags=re.ASCII).strip("._")[:60]
    return f"{number:05d}_{safe}" if safe and safe != str(number) else f"{number:05d}"
