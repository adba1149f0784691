"""The pictures that a fit has left in TensorBoard's files."""

from pathlib import Path
from typing import NamedTuple

from vit_lightning.files import in_utf8


class BoardImage(NamedTuple):
    """A picture as it was logged."""

    step: int
    png: bytes


def last_images(folder: Path, names: tuple[str, ...]) -> dict[str, BoardImage]:
    """Return the last picture of each of some names; a file that is cut is read up to there.

    Args:
        folder: Where the files lie.
        names: What the pictures are called, such as train/images.
    """
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    found: dict[str, BoardImage] = {}
    wanted = [name.encode() for name in names]
    with in_utf8(folder) as place:
        records = (
            record for path in sorted(place.glob("*tfevents*")) for record in RawEventFileLoader(str(path)).Load()
        )
        for record in records:
            if not any(name in record for name in wanted):  # most are numbers, which take long to parse
                continue
            event = Event.FromString(record)
            for value in event.summary.value:
                picture = value.image.encoded_image_string
                if picture and value.tag in names:
                    found[value.tag] = BoardImage(event.step, picture)
    return found
