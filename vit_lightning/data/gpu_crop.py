"""Cutting, resizing and mirroring decoded images of different sizes on a GPU, a whole batch in one launch."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256
"""Pixels that one program makes."""


def cut(images: Sequence[Tensor], cuts: Tensor, places: Tensor, batch: Tensor, antialias: bool) -> None:
    """Do to each image what `RandomCut.apply` does, and put it into a batch.

    The filter is the same triangle, with the weights in fp32 and one rounding at the end. torch on a CPU rounds the
    weights too, and the pixels after each axis: values may differ by 1, where it antialiases by 2.

    Args:
        images: uint8 `(3, y, x)`, contiguous, on the device of the batch.
        cuts: int64 `(n, 9)` in the host's memory: the fields of each `Cut`.
        places: int64 `(n,)` likewise: where in the batch each image goes.
        batch: uint8 `(b, 3, y, x)`, contiguous.
        antialias: whether the triangle grows with what is shrunk.
    """
    sources = torch.tensor([(image.shape[1] * image.shape[2], image.shape[2], image.data_ptr()) for image in images])
    table = torch.cat([cuts, places[:, None], sources], dim=1)
    if batch.is_cuda:
        table = table.pin_memory()  # else the host would wait for the device
    table = table.to(batch.device, non_blocking=True)
    height, width = batch.shape[2:]
    grid = len(images), triton.cdiv(height * width, BLOCK)
    _cut[grid](table, batch, height, width, FIELDS=table.shape[1], ANTIALIAS=antialias, BLOCK=BLOCK)


@triton.jit
def _cut(table, batch, height, width, FIELDS: tl.constexpr, ANTIALIAS: tl.constexpr, BLOCK: tl.constexpr):
    row = table + tl.program_id(0) * FIELDS
    y, x = tl.load(row), tl.load(row + 1)
    tall, wide = tl.load(row + 2).to(tl.int32), tl.load(row + 3).to(tl.int32)
    to_tall, to_wide = tl.load(row + 4).to(tl.int32), tl.load(row + 5).to(tl.int32)
    top, left = tl.load(row + 6).to(tl.int32), tl.load(row + 7).to(tl.int32)
    mirrored = tl.load(row + 8) != 0
    place, plane, stride = tl.load(row + 9), tl.load(row + 10), tl.load(row + 11)
    window = tl.load(row + 12).to(tl.pointer_type(tl.uint8)) + y * stride + x

    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    down, right = pixel // width, pixel % width
    right = tl.where(mirrored, width - 1 - right, right)
    down, right = down + top, right + left
    inside = (down >= 0) & (down < to_tall) & (right >= 0) & (right < to_wide)

    step_y, step_x = tall.to(tl.float32) / to_tall.to(tl.float32), wide.to(tl.float32) / to_wide.to(tl.float32)
    reach_y = tl.maximum(step_y, 1.0) if ANTIALIAS else step_y * 0 + 1
    reach_x = tl.maximum(step_x, 1.0) if ANTIALIAS else step_x * 0 + 1
    centre_y, centre_x = (down + 0.5) * step_y - 0.5, (right + 0.5) * step_x - 0.5
    first_y, first_x = tl.floor(centre_y - reach_y).to(tl.int32) + 1, tl.floor(centre_x - reach_x).to(tl.int32) + 1

    total = tl.zeros([BLOCK], tl.float32)
    red, green, blue = total, total, total
    for tap_y in range(0, tl.ceil(2 * reach_y).to(tl.int32)):
        at_y = first_y + tap_y
        weight_y = tl.maximum(1 - tl.abs(at_y - centre_y) / reach_y, 0.0)
        inside_y = inside & (at_y >= 0) & (at_y < tall)
        for tap_x in range(0, tl.ceil(2 * reach_x).to(tl.int32)):
            at_x = first_x + tap_x
            weight = weight_y * tl.maximum(1 - tl.abs(at_x - centre_x) / reach_x, 0.0)
            mask = inside_y & (at_x >= 0) & (at_x < wide)
            total += tl.where(mask, weight, 0.0)
            source = window + at_y * stride + at_x
            red += weight * tl.load(source, mask=mask, other=0)
            green += weight * tl.load(source + plane, mask=mask, other=0)
            blue += weight * tl.load(source + 2 * plane, mask=mask, other=0)

    total = tl.where(total > 0, total, 1.0)
    size = height * width
    target = batch + place * 3 * size + pixel
    exists = pixel < size
    tl.store(target, (red / total + 0.5).to(tl.uint8), mask=exists)
    tl.store(target + size, (green / total + 0.5).to(tl.uint8), mask=exists)
    tl.store(target + 2 * size, (blue / total + 0.5).to(tl.uint8), mask=exists)
