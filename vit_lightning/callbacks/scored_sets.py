"""Which images scores are of, so that scores of others are not compared with them."""

import hashlib
from typing import Any

from vit_lightning.data import ImageDataModule
from vit_lightning.data.image_set import ImageSet, blocks_of, keys_of, labels_of

SETS = {"val": "val_set", "test": "test_set"}
OWN = "split"
"""What the set of the split itself is called beside further ones."""


def scored_sets(data: Any, split: str) -> dict[str, dict[str, Any]]:
    """Return of each set that is scored whether its split is published, and a hash of its images' names and labels.

    The hash is None of images without names, and of those whose names lie in the files of the images.

    Args:
        data: the datamodule; of one that is not ours nothing is known.
        split: val or test.
    """
    if not isinstance(data, ImageDataModule):
        return {}
    sets = {OWN: getattr(data, SETS[split]), **data.further_sets}
    return {
        name: {"published": data.has_published_splits, "sha256": _digest(images, data.class_names)}
        for name, images in sets.items()
        if images is not None
    }


def _digest(images: ImageSet, class_names: list[str]) -> str | None:
    keys, labels = keys_of(images), labels_of(images)
    if isinstance(keys, range) or blocks_of(images) is not None:
        return None
    digest = hashlib.sha256()
    for name in (*class_names, "", *keys):
        digest.update(f"{name}\n".encode(errors="surrogateescape"))
    if labels is not None and labels.dtype.kind in "iu":
        digest.update(labels.astype("<i8").tobytes())
    return digest.hexdigest()
