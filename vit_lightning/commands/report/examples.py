"""The most confident mistakes with what the net looked at, and what its first layers have learned."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jsonargparse import ArgumentParser

from vit_lightning.commands.report import images
from vit_lightning.commands.report.curves import Picture
from vit_lightning.commands.report.run import Run, as_dict
from vit_lightning.commands.report.state import BEST
from vit_lightning.commands.report.tables import Mistake
from vit_lightning.contracts import KnowsRun
from vit_lightning.data import ImageDataModule
from vit_lightning.data.image_set import ImageSet, keys_of, record_of
from vit_lightning.data.images import load
from vit_lightning.errors import InputError
from vit_lightning.inspection.attention import Rollout, reads_of
from vit_lightning.inspection.drawing import charts
from vit_lightning.inspection.drawing.photographs import as_picture, stretched
from vit_lightning.inspection.drawing.style import pixels
from vit_lightning.inspection.filters import filters_of, principal_filters
from vit_lightning.inspection.position import positions_of, similarity
from vit_lightning.models.vit import ViT
from vit_lightning.predictor import Predictor
from vit_lightning.runs import folders
from vit_lightning.runs.checkpoint_names import LAST, NEW, PREVIOUS, is_complete

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 12
"""Mistakes of which the image is shown."""
SIDE = 192
"""Pixels of a shown image's longer side."""
PLACES = ("root", "class_map")
"""Settings of the data that are paths from where the run was started."""


class Example(NamedTuple):
    """A mistake and its pictures."""

    mistake: Mistake
    picture: str
    """Address of the image as the net saw it."""
    rollout: str
    """Address of the image times its attention rollout; empty for a net without attention."""


def net_of(run: Run) -> Predictor:
    """Return the trained net of a run: of its best checkpoint, or of the newest where that is damaged or missing.

    Raises:
        InputError: it has none that can be opened.
    """
    place = run.folder / folders.CHECKPOINTS
    whole = next((name for name in (BEST, LAST, NEW, PREVIOUS) if is_complete(place / name)), None)
    if whole is None:
        raise InputError("the run has no whole checkpoint")
    if whole != BEST:
        lacks = "is damaged" if (place / BEST).exists() else "is missing"
        run.notes.append(f"The figures of the net are of {whole}: {BEST} {lacks}.")
    return Predictor(place / whole)


def learned(net: Any) -> list[Picture]:
    """Draw what can be seen of a ViT without images: its filters and its position embeddings."""
    if not isinstance(net, ViT):
        return []
    tiles, shares = principal_filters(filters_of(net))
    said = f"{len(tiles)} components, {100 * float(shares.sum()):.0f} % of the variance"
    alt = f"Tiles of the first principal components of the filters that read the image: {said}."
    pictures = [_picture("Principal components of the filters", charts.filters(tiles, shares, said), alt)]
    positions = positions_of(net)
    if positions.vectors is not None:
        figure = charts.positions(similarity(positions.vectors, net.grid), positions.said)
        alt = (
            "A tile for each patch, whose colours say how alike its position embedding is to that of every other "
            f"patch; {positions.said}."
        )
        pictures.append(_picture("Similarity of position embeddings", figure, alt))
    return pictures


def _picture(title: str, figure: "Figure", alt: str) -> Picture:
    return Picture(title, images.of_array(pixels(figure) / 255, 1000), alt, wide=True)


def examples(run: Run, predictor: Predictor | None) -> list[Example]:
    """Return the most confident mistakes with their images.

    Args:
        run: the run, which has mistakes.
        predictor: its net; None: no rollouts are shown.

    Raises:
        Exception: of any kind, from the run's data, which may be anybody's code.
    """
    data, source = _data(run)
    numbers = {str(key): number for number, key in enumerate(keys_of(source))}
    found = []
    for mistake in (run.mistakes or [])[:SHOWN]:
        if (number := numbers.get(mistake.image)) is None:
            continue
        image, _ = record_of(source, number)
        seen = data.eval_transform()(load(image, name=mistake.image, form=data.pixel_form))
        picture = as_picture(seen)
        rolled = "" if predictor is None else _rollout(predictor, image, picture)
        found.append(Example(mistake, images.of_array(picture, SIDE), rolled))
    if not found:
        raise InputError("none of the images has the name of a mistake")
    return found


def _rollout(predictor: Predictor, image: Any, picture: np.ndarray) -> str:
    net = predictor.net
    if not isinstance(net, ViT):
        return ""
    taker = Rollout(net.grid, net.num_prefix_tokens, reads_of(net.config))
    for layer in predictor.attention(image):
        taker.append(layer)
    seen = stretched(taker.result()[0].numpy(), picture.shape)
    return images.of_array(picture * (seen if picture.ndim == 2 else seen[..., None]), SIDE)


def _data(run: Run) -> tuple[ImageDataModule, ImageSet]:
    """Return the data of a run, and the set on which its mistakes were made.

    Raises:
        Exception: of any kind.
    """
    stage, attribute = ("test", "test_set") if run.tables_of.startswith("test") else ("validate", "val_set")
    data = _module(run)
    data.setup(stage)
    source = getattr(data, attribute)
    if source is None:
        raise InputError(f"the run's data have no {stage} images")
    return data, source


def _module(run: Run) -> ImageDataModule:
    config = as_dict(run.config.get("data"))
    if not config.get("class_path"):
        raise InputError("the run's config names no data")
    told = dict(as_dict(config.get("init_args")))
    start = run.environment.get("folder")
    for name in PLACES if isinstance(start, str) else ():
        if isinstance(given := told.get(name), str) and "://" not in given and (whole := Path(start, given)).exists():
            told[name] = str(whole)
    if told.get("split_file") and (own := run.folder / folders.SPLIT_TABLE).is_file():
        told["split_file"] = str(own)
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(ImageDataModule, "data")
    parsed = parser.parse_object({"data": {"class_path": config["class_path"], "init_args": told}})
    made: ImageDataModule = parser.instantiate_classes(parsed).data
    if isinstance(made, KnowsRun):
        made.run_folder = run.folder
    return made
