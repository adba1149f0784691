"""Sets in which one image shows several classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vit_lightning.data.image_set import ImageSet, keys_of
from vit_lightning.data.sampling import IGNORE


class MultiHot:
    """The images of a set with other labels: a float vector per image, 1 for each class that shows in it.

    Args:
        source: the images; their own labels are left aside.
        rows: lists of classes.
        row_of: which of the rows belongs to each image.
        num_classes: length of the vectors.
        hidden: which of the images have labels that are not told, and a vector of IGNORE; None: no image.
    """

    def __init__(
        self,
        source: ImageSet,
        rows: Sequence[np.ndarray],
        row_of: np.ndarray | Sequence[int],
        num_classes: int,
        hidden: np.ndarray | None = None,
    ) -> None:
        self.source = source
        self.rows = rows
        self.row_of = row_of
        self.num_classes = num_classes
        self.hidden = hidden

    @property
    def keys(self) -> Sequence[Any]:
        """The images' own names."""
        return keys_of(self.source)

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> tuple[Any, Tensor]:
        return self.source[index][0], self.label_at(index)

    def label_at(self, index: int) -> Tensor:
        """Return the label of an image."""
        if self.hidden is not None and self.hidden[index]:
            return torch.full((self.num_classes,), float(IGNORE))
        label = torch.zeros(self.num_classes)
        label[torch.as_tensor(self.rows[int(self.row_of[index])], dtype=torch.int64)] = 1
        return label
