"""Triton kernels that scale tensors, round them to fp8, and write them in both orders in one pass.

A product of fp8 matrices reads both along the dimension that it sums over. Every tensor enters two products that sum
over different ones, so each is written by rows and by columns. Values beyond the type's largest are cut to it, but
what is no finite number stays none. In the interpreter, which rounds to fp8 wrongly, tests let the kernels write fp32.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from vit_lightning.models.fast.fp8_scales import HEADROOM, LARGEST_FACTOR, Site
from vit_lightning.models.fast.rowwise_kernels import _gelu_gate, _load, _programs, add_up

TILE = 64
"""Rows and columns of a tile."""
ALIGNED = 16
"""A product sums over a multiple of so many elements; zeros fill columns up."""
LARGEST = tl.constexpr(LARGEST_FACTOR)
_WORD = """{{
    .reg .b16 low, high;
    cvt.rn.satfinite.{0}x2.f32 low, $2, $1;
    cvt.rn.satfinite.{0}x2.f32 high, $4, $3;
    mov.b32 $0, {{low, high}};
}}"""
E4M3_WORD, E5M2_WORD = (tl.constexpr(_WORD.format(name)) for name in ("e4m3", "e5m2"))
"""PTX that rounds four fp32 values into the bytes of a word, the first lowest."""


class Quantised(NamedTuple):
    """A matrix in fp8.

    Args:
        rows: it, `rows width`.
        columns: its transpose, `width rows`, filled up with zeros to a multiple of 16 rows.
        inverse: what its elements are to be multiplied by.
    """

    rows: Tensor
    columns: Tensor
    inverse: Tensor


def quantise(values: Tensor, site: Site) -> Quantised:
    """Return a contiguous matrix in fp8."""
    measure(values, site)
    return _launch(_quantise, (values,), site)


def gelu(hidden: Tensor, bias: Tensor, exact: bool, site: Site) -> Quantised:
    """Return the GELU of `hidden + bias` in fp8."""
    measure(hidden, site)  # at least what GELU leaves of it
    return _launch(_gelu, (hidden, bias), site, EXACT=exact)


def gelu_backward(grad: Tensor, hidden: Tensor, bias: Tensor, exact: bool, site: Site) -> tuple[Quantised, Tensor]:
    """Return the gradient of `hidden` in fp8, and that of `bias` in fp32."""
    measure(grad, site)  # GELU's slope is at most 1.13
    sums = grad.new_empty(triton.cdiv(len(grad), TILE), grad.shape[1], dtype=torch.float32)
    return _launch(_gelu_backward, (grad, hidden, bias, sums), site, EXACT=exact), add_up(sums)


def measure(values: Tensor, site: Site) -> None:
    """Find the largest value if the site has no factor yet."""
    _measure[_programs(values.device, 1),](
        values, site.scale, site.first, site.place, values.numel(), BLOCK=4096, num_warps=8
    )


def stored_as(dtype: torch.dtype) -> torch.dtype:
    """Return the type that kernels write a type of fp8 in."""
    return dtype


def _launch(kernel: triton.JITFunction, tensors: tuple[Tensor, ...], site: Site, **constants: bool) -> Quantised:
    rows, width = tensors[0].shape
    padded, dtype = triton.cdiv(rows, ALIGNED) * ALIGNED, stored_as(site.dtype)
    out, columns = (tensors[0].new_empty(shape, dtype=dtype) for shape in ((rows, width), (width, padded)))
    inverse = site.scale.new_empty(1)
    info = torch.finfo(site.dtype)
    kernel[triton.cdiv(width, TILE), triton.cdiv(padded, TILE)](
        *(*tensors, out, columns, site.scale, site.first, site.amax, inverse, site.place, rows, padded),
        WIDTH=width,
        MOST=info.max,
        ROOM=info.max / HEADROOM[site.tensor],
        TILE=TILE,
        **constants,
    )
    return Quantised(out.to(site.dtype), columns.to(site.dtype), inverse)


@triton.jit
def _places(rows, WIDTH: tl.constexpr, TILE: tl.constexpr):
    """A program's columns, their elements' places in memory, and which of them exist."""
    column = tl.program_id(0) * TILE + tl.arange(0, TILE)
    row = tl.program_id(1).to(tl.int64) * TILE + tl.arange(0, TILE)
    return column, row[:, None] * WIDTH + column[None, :], _within(row, rows, column, WIDTH)


@triton.jit
def _write(
    values, places, inside, Out, Columns, Scale, First, Amax, Inverse, site, padded,
    WIDTH: tl.constexpr, MOST: tl.constexpr, ROOM: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Scale, round and write a tile of values, which are zero where nothing exists."""
    tl.atomic_max(Amax + site, tl.max(tl.max(tl.abs(values), 1), 0), sem="relaxed")
    scale = tl.load(Scale + site)
    if scale == 0:
        first = tl.load(First + site)
        scale = tl.where(first > 0, tl.minimum(ROOM / first, LARGEST), 1.0)
    if (tl.program_id(0) == 0) & (tl.program_id(1) == 0):
        tl.store(Inverse, 1 / scale)
    cut = tl.minimum(tl.maximum(values * scale, -MOST), MOST) + (values - values)  # NaN of what is not finite
    tl.store(Out + places, cut.to(Out.dtype.element_ty), mask=inside)
    across = tl.trans(cut)
    line = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    if Columns.dtype.element_ty == tl.float32:  # in the interpreter
        row = tl.program_id(1) * TILE + tl.arange(0, TILE)
        tl.store(Columns + line[:, None] * padded + row[None, :], across, mask=_within(line, WIDTH, row, padded))
    else:
        word, words = tl.program_id(1) * (TILE // 4) + tl.arange(0, TILE // 4), padded // 4
        target = Columns.to(tl.pointer_type(tl.int32), bitcast=True) + line[:, None] * words + word[None, :]
        packed = _words(across, Columns.dtype.element_ty == tl.float8e5)
        tl.store(target, packed, mask=_within(line, WIDTH, word, words))


@triton.jit
def _within(row, rows, column, columns):
    return (row < rows)[:, None] & (column < columns)[None, :]


@triton.jit
def _words(values, E5M2: tl.constexpr):
    """Four neighbours of a row in fp8, as one word.

    ptxas 12.9 and older, which Triton brings, goes wrong where single bytes of just rounded values change their place
    (triton-lang/triton issue 11111): a transpose of them then holds NaN. So it is taken before, or of whole words.
    """
    pairs = tl.reshape(values, (values.shape[0], values.shape[1] // 4, 2, 2))
    even, odd = tl.split(pairs)
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    four = (first, second, third, fourth)
    return tl.inline_asm_elementwise(
        E5M2_WORD if E5M2 else E4M3_WORD, "=r,f,f,f,f", four, dtype=tl.int32, is_pure=True, pack=1
    )


@triton.jit(do_not_specialize=["site"])
def _quantise(
    Values, Out, Columns, Scale, First, Amax, Inverse, site, rows, padded,
    WIDTH: tl.constexpr, MOST: tl.constexpr, ROOM: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    _, places, inside = _places(rows, WIDTH, TILE)
    values = _load(Values, places, inside)
    _write(values, places, inside, Out, Columns, Scale, First, Amax, Inverse, site, padded, WIDTH, MOST, ROOM, TILE)


@triton.jit(do_not_specialize=["site"])
def _gelu(
    Hidden, Bias, Out, Columns, Scale, First, Amax, Inverse, site, rows, padded,
    WIDTH: tl.constexpr, MOST: tl.constexpr, ROOM: tl.constexpr, TILE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    column, places, inside = _places(rows, WIDTH, TILE)
    x = _load(Hidden, places, inside) + _load(Bias, column, column < WIDTH)[None, :]
    share, _ = _gelu_gate(x, EXACT)
    values = tl.where(inside, x * share, 0.0)
    _write(values, places, inside, Out, Columns, Scale, First, Amax, Inverse, site, padded, WIDTH, MOST, ROOM, TILE)


@triton.jit(do_not_specialize=["site"])
def _gelu_backward(
    Grad, Hidden, Bias, Sums, Out, Columns, Scale, First, Amax, Inverse, site, rows, padded,
    WIDTH: tl.constexpr, MOST: tl.constexpr, ROOM: tl.constexpr, TILE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    column, places, inside = _places(rows, WIDTH, TILE)
    x = _load(Hidden, places, inside) + _load(Bias, column, column < WIDTH)[None, :]
    share, slope = _gelu_gate(x, EXACT)
    values = tl.where(inside, _load(Grad, places, inside) * (share + slope), 0.0)
    tl.store(Sums + tl.program_id(1) * WIDTH + column, tl.sum(values, 0), mask=column < WIDTH)
    _write(values, places, inside, Out, Columns, Scale, First, Amax, Inverse, site, padded, WIDTH, MOST, ROOM, TILE)


@triton.jit(do_not_specialize=["site"])
def _measure(Values, Scale, First, site, size, BLOCK: tl.constexpr):
    if tl.load(Scale + site) == 0:
        largest = tl.zeros((BLOCK,), tl.float32)
        for start in tl.range(tl.program_id(0).to(tl.int64) * BLOCK, size, tl.num_programs(0) * BLOCK):
            place = start + tl.arange(0, BLOCK)
            largest = tl.maximum(largest, tl.abs(_load(Values, place, place < size)))
        tl.atomic_max(First + site, tl.max(largest, 0), sem="relaxed")
