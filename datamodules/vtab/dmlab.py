"""DMLab's frames, asked for the distance and the worth of the nearest object."""

from pathlib import Path

from datamodules.reading.published import Labelled, PublishedSet, own_folder
from datamodules.vtab.tfrecord import checked, example, records
from vit_lightning.data.images import BrokenImage


class Frames:
    """Encoded images in TFRecord files, read and checked one by one.

    Args:
        places: file and byte of each record.
    """

    def __init__(self, places: list[tuple[Path, int]]) -> None:
        self.places = places

    def __getitem__(self, index: int) -> bytes:
        file, start = self.places[index]
        try:
            return example(checked(file, start))["image"][0]
        except (ValueError, LookupError) as error:
            raise BrokenImage(f"{file} at byte {start}", str(error)) from error


def _read(root: Path, split: str) -> Labelled:
    places, labels, keys = [], [], []
    for file in sorted(own_folder(root, "dmlab").glob(f"dmlab-{split}.tfrecord*")):
        for start, record in records(file):
            features = example(record)
            places.append((file, start))
            labels += features["label"]
            keys.append(features["filename"][0].decode())
    return Labelled(Frames(places), labels, keys)


DMLAB = PublishedSet(
    "DMLab",
    "dmlab-{train,validation,test}.tfrecord*, in a folder dmlab or loose,",
    {"train": 65_550, "validation": 22_628, "test": 22_735},
    _read,
)
