"""The pictures of a page: of training, of the net, and of its mistakes; one that is missing becomes a sentence."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vit_lightning.commands.report import images
from vit_lightning.commands.report.boards import last_images
from vit_lightning.commands.report.curves import Picture
from vit_lightning.commands.report.damage import place_of, within
from vit_lightning.commands.report.run import Run
from vit_lightning.errors import InputError

SHEETS = {
    "train/images": (
        "Training images as the net saw them",
        "The first batch of the run, after augmentation and mixing.",
    ),
    "val/rollout": (
        "Where the net looks",
        "Some validation images, and below each the image times its attention rollout.",
    ),
}
"""Pictures of a fit in TensorBoard: title and what they show."""
INSPECTED = {
    "distance": "Mean attention distance of every head",
    "position": "Similarity of the position embeddings",
    "filters": "Principal components of the filters",
    "rollout": "Attention rollout",
    "pca_maps": "Principal components of the patches' features",
    "relevance": "Patches that speak for a class",
    "artefacts": "Norms of the patches",
    "embedding_tsne": "Map of the images by t-SNE",
    "embedding_pca": "Map of the images by PCA",
}
"""Figures of the verb inspect."""
WIDTH = 1100
"""Pixels of the longer side of a sheet or a figure."""
LINE = 240
"""Letters of a reason that is no sentence of ours."""


@dataclass
class Pictures:
    """What a page shows in pixels, and in `notes` what it does not."""

    sheets: list[Picture] = field(default_factory=list)
    net: list[Picture] = field(default_factory=list)
    confusion: Picture | None = None
    examples: list[Any] = field(default_factory=list)
    """`Example`s of mistakes."""
    notes: dict[str, str] = field(default_factory=dict)
    """Why there are none, by the name of the field."""


def pictures_of(run: Run, with_images: bool) -> Pictures:
    """Gather the pictures of a run.

    Args:
        run: the run.
        with_images: whether its data and its net are opened for more than what lies in the folder.
    """
    found = Pictures()
    found.sheets = _tried(run, found, "sheets", lambda: _sheets(run)) or []
    if not found.sheets:
        found.notes.setdefault("sheets", "The run kept no pictures of its training images: it had no TensorBoard log.")
    found.confusion = _tried(run, found, "confusion", lambda: _confusion(run))
    found.net = _tried(run, found, "net", lambda: _inspected(run)) or []
    if with_images:
        _open(run, found)
    else:
        found.notes["examples"] = "The images are left out, as --images false asks."
    if not found.net:
        found.notes.setdefault("net", f"python -m vit_lightning inspect {place_of(run.folder)} draws them.")
    return found


def _open(run: Run, found: Pictures) -> None:
    """Open the net and the data of a run."""
    from vit_lightning.commands.report import examples  # it imports torch

    with warnings.catch_warnings(record=True) as said:
        predictor = _tried(run, found, "net", lambda: examples.net_of(run))
        if predictor is not None and not found.net:
            found.net = _tried(run, found, "net", lambda: examples.learned(predictor.net)) or []
            if not found.net:
                found.notes.setdefault("net", "The net is no ViT: it has no patches to look at.")
        if run.mistakes:
            found.examples = _tried(run, found, "examples", lambda: examples.examples(run, predictor)) or []
    noted = {note.partition(" ")[0] for note in run.notes}  # files of which a note says the same already
    texts = (within(run.folder, " ".join(str(warning.message).split())) for warning in said)
    lines = dict.fromkeys(text[:LINE].rstrip(".") for text in texts)
    run.notes += [f"{line}." for line in lines if Path(line.partition(" ")[0]).name not in noted]


def _tried(run: Run, found: Pictures, name: str, make: Callable[[], Any]) -> Any:
    """Return what is made; None, with the reason in one line, where anything fails: data may be anybody's code."""
    try:
        return make()
    except Exception as error:
        reason = within(run.folder, " ".join(str(error).split()))[:LINE] or type(error).__name__
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        found.notes[name] = f"They cannot be shown: {kind}{reason.rstrip('.')}."
        return None


def _sheets(run: Run) -> list[Picture]:
    logged = last_images(run.folder / "tensorboard", tuple(SHEETS))
    made = []
    for name, (title, caption) in SHEETS.items():
        if name in logged:
            said = caption if name == "train/images" else f"{caption} After {logged[name].step:,} steps."
            source = images.of_file(logged[name].png, WIDTH)
            made.append(Picture(title, source, f"{title}: {caption}", wide=True, caption=said))
    return made


def _inspected(run: Run) -> list[Picture]:
    made = []
    for name, title in INSPECTED.items():
        path = run.folder / "inspection" / f"{name}.png"
        if path.is_file():
            made.append(
                Picture(title, images.of_file(path.read_bytes(), WIDTH), f"{title}, drawn by inspect.", wide=True)
            )
    return made


def _confusion(run: Run) -> Picture | None:
    """Return the picture of the confusion matrix that the scoring verb has drawn."""
    path = run.folder / f"{run.tables_of}.confusion.png"
    if run.confusion is None or not path.is_file():
        return None
    alt = (
        f"Confusion matrix of {len(run.confusion.names)} classes as a picture: rows are true classes, columns "
        "predicted ones; the most frequent confusions stand in the table."
    )
    return Picture("Confusion matrix", images.of_file(path.read_bytes(), WIDTH), alt)
