"""Features and labels as the probes take them: numpy arrays or tensors, checked, and gone through in parts."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from vit_lightning.errors import InputError

Array = np.ndarray | Tensor
AT_ONCE = 2**24
"""Numbers of a score matrix that are held at once: 64 MiB in fp32."""


def as_features(features: Array) -> Tensor:
    """Return features as a floating-point tensor `(n, d)`.

    Raises:
        InputError: they are of another shape, or not finite.
    """
    tensor = torch.as_tensor(features)
    if tensor.ndim != 2:
        raise InputError(f"features have the shape {tuple(tensor.shape)}; expected (images, features)")
    tensor = tensor if tensor.is_floating_point() else tensor.double()
    if bad := int((~tensor.isfinite().all(1)).sum()):
        raise InputError(f"the features of {bad:,} of {len(tensor):,} images are not finite")
    return tensor


def as_labels(labels: Array) -> Tensor:
    """Return labels as an int64 tensor `(n,)`.

    Raises:
        InputError: they are not one whole number per image.
    """
    tensor = torch.as_tensor(labels)
    if tensor.ndim != 1 or tensor.is_floating_point():
        raise InputError(f"labels have the shape {tuple(tensor.shape)} of {tensor.dtype}; expected a class per image")
    return tensor.long()


def as_classes(labels: Array, images: int, num_classes: int) -> Tensor:
    """Return the labels of training images as an int64 tensor `(images,)` of classes.

    Raises:
        InputError: there are more or less of them, or one is no class.
    """
    tensor = as_labels(labels)
    if len(tensor) != images:
        raise InputError(f"{images} images have features, but {len(tensor)} a label")
    if len(wrong := tensor[(tensor < 0) | (tensor >= num_classes)]):
        raise InputError(f"an image has label {int(wrong[0])}, outside the {num_classes} classes")
    return tensor


def chunks(rows: int, columns: int) -> Iterator[slice]:
    """Yield parts of a matrix's rows, `AT_ONCE` numbers or one row each."""
    step = max(1, AT_ONCE // max(1, columns))
    for start in range(0, rows, step):
        yield slice(start, start + step)


@contextmanager
def whole_products() -> Iterator[None]:
    """Multiply fp32 in fp32, and not in the TF32 that may suit a net's own products."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
