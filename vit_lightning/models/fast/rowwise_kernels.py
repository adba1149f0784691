"""Triton kernels for the row-wise work of a block, which is bound by memory traffic.

Each reads and writes every tensor of tokens once, computes in fp32, and takes the sums over rows that biases and norms
need for their gradients on the way. Tensors of tokens are `rows width` and contiguous; parameters may be of any
floating type. The plain net is the reference: tests/models/fast/test_fused.py.

Dropout's masks are never stored: each kernel that needs one draws it again, by Philox (Salmon et al., 2011; seven
rounds pass BigCrush) with the seed as the key and row, column and use as the counter.
"""

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

ROW_ELEMENTS = 4096
"""Elements of a tile of whole rows: four rows of width 768, padded to 1024, ran fastest on an H100."""
AHEAD = tl.constexpr(3)
"""Tiles of a loop on their way at once; Triton itself sends no loads ahead but a product's."""
LEVELS = tl.constexpr(2**16)
"""Steps of a dropout rate: 16 random bits an element, so that one Philox call serves eight."""


class DropoutMask(NamedTuple):
    """One mask of dropout in a forward pass; equal fields give equal masks.

    Args:
        seed: of all masks of the pass, one int64 on the device; None: no dropout.
        rate: share of the elements that become zero.
        use: number of the mask.
    """

    seed: Tensor | None = None
    rate: float = 0.0
    use: int = 0

    @property
    def levels(self) -> int:
        """The rate in steps, below 1."""
        return min(round(self.rate * LEVELS.value), LEVELS.value - 1)

    def later(self, uses: int) -> "DropoutMask":
        """Return the mask that is used so many uses later."""
        return self._replace(use=self.use + uses)


NO_DROPOUT = DropoutMask()


def add_norm(
    tokens: Tensor,
    branch: Tensor | None,
    bias: Tensor | None,
    keep: Tensor | None,
    norm: tuple[Tensor, Tensor, float],
    drop: DropoutMask = NO_DROPOUT,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Add a branch to the tokens and normalise the sum.

    Args:
        tokens: residual stream, `rows width`.
        branch: what a sub-layer adds before its bias, or None at the start of the stream.
        bias: the sub-layer's bias, `width`.
        keep: factor on the branch per image (stochastic depth), or None; an image has rows / len(keep) rows.
        norm: weight, bias and epsilon of the LayerNorm.
        drop: dropout of branch and bias.

    Returns:
        Sum, normalised sum, and the mean and reciprocal deviation of each row.
    """
    rows, width = tokens.shape
    weight, shift, eps = norm
    total = tokens if branch is None else torch.empty_like(tokens)
    normed = torch.empty_like(tokens)
    mean, rstd = torch.empty(2, rows, dtype=torch.float32, device=tokens.device)
    block = triton.next_power_of_2(width)
    tile = max(1, ROW_ELEMENTS // block)
    _add_norm[triton.cdiv(rows, tile),](
        *(tokens, branch, bias, keep, drop.seed, weight, shift, total, normed, mean, rstd),
        *(rows, rows // len(keep) if keep is not None else rows, drop.use, eps),
        DROP=drop.levels,
        WIDTH=width,
        BLOCK=block,
        TILE=tile,
    )
    return total, normed, mean, rstd


def add_norm_backward(
    grad_total: Tensor | None,
    grad_normed: Tensor,
    total: Tensor,
    moments: tuple[Tensor, Tensor],
    weight: Tensor,
    keep: Tensor | None,
    drop: DropoutMask = NO_DROPOUT,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the tokens, of the branch, and, as three rows, of norm weight, norm bias and bias."""
    rows, width = total.shape
    grad = torch.empty_like(total)
    grad_branch = torch.empty_like(total) if drop.levels or keep is not None else grad
    programs = _programs(total.device, 2)
    sums = torch.empty(3, programs, width, dtype=torch.float32, device=total.device)
    block = triton.next_power_of_2(width)
    warps = 4 if block > 512 else 2
    _add_norm_backward[programs,](
        *(grad_total, grad_normed, total, *moments, weight, keep, drop.seed, grad, grad_branch, sums),
        *(rows, rows // len(keep) if keep is not None else rows, drop.use),
        DROP=drop.levels,
        WIDTH=width,
        BLOCK=block,
        TILE=max(1, ROW_ELEMENTS // 4 * warps // block),
        num_warps=warps,
    )
    return grad, grad_branch, add_up(sums)


def gelu(hidden: Tensor, bias: Tensor, exact: bool, drop: DropoutMask = NO_DROPOUT) -> Tensor:
    """Return the GELU of `hidden + bias`, by the error function or its tanh approximation, after dropout."""
    rows, width = hidden.shape
    out = torch.empty_like(hidden)
    grid = triton.cdiv(rows, 4), triton.cdiv(width, 1024)
    _gelu[grid](
        *(hidden, bias, drop.seed, out, rows, drop.use),
        DROP=drop.levels,
        WIDTH=width,
        BLOCK=1024,
        TILE=4,
        EXACT=exact,
        num_warps=8,
    )
    return out


def gelu_backward(
    grad: Tensor, hidden: Tensor, bias: Tensor | None, exact: bool, drop: DropoutMask = NO_DROPOUT
) -> tuple[Tensor, Tensor]:
    """Return the gradients of `hidden` and of `bias`, which is None where `hidden` holds it."""
    rows, width = hidden.shape
    out, programs = torch.empty_like(hidden), _programs(hidden.device, 2)
    sums = torch.empty(programs, width, dtype=torch.float32, device=hidden.device)
    grid = programs, triton.cdiv(width, 512)
    _gelu_backward[grid](
        *(grad, hidden, bias, drop.seed, out, sums, rows, drop.use),
        DROP=drop.levels,
        WIDTH=width,
        BLOCK=512,
        TILE=8,
        EXACT=exact,
    )
    return out, add_up(sums)


def column_sums(rows: Tensor) -> Tensor:
    """Return the sum over rows in fp32: a bias's gradient."""
    count, width = rows.shape
    programs = _programs(rows.device, 1)
    sums = torch.empty(programs, width, dtype=torch.float32, device=rows.device)
    _column_sums[programs, triton.cdiv(width, 512)](rows, sums, count, WIDTH=width, BLOCK=512, TILE=16)
    return add_up(sums)


def add_up(sums: Tensor) -> Tensor:
    """Return the sum over the last dimension but one of few fp32 rows: torch's own takes two to three times as long."""
    *_, rows, width = sums.shape
    out = sums.new_empty(*sums.shape[:-2], width)
    _add_up[triton.cdiv(width, 16), out.numel() // width](sums, out, rows, WIDTH=width, BLOCK=16, TILE=128)
    return out


def normalise(images: Tensor, mean: Tensor, std: Tensor, dtype: torch.dtype) -> Tensor:
    """Return images `b c height width`, uint8 or in [0, 1], as `(images - mean) / std` in another type."""
    images = images.contiguous()
    out, size = torch.empty_like(images, dtype=dtype), images.numel()
    largest = 1.0 if images.is_floating_point() else 255.0
    plane = images.shape[2] * images.shape[3]
    _normalise[triton.cdiv(size, 4096),](images, mean, std, out, size, plane, images.shape[1], largest, BLOCK=4096)
    return out


@cache
def _programs(device: torch.device, per_processor: int) -> int:
    """Programs that walk over all rows, and so the partial sums that are left to add."""
    if device.type != "cuda":  # Triton's interpreter, in tests
        return 3
    return per_processor * torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def _tile(start, rows, columns, WIDTH: tl.constexpr, TILE: tl.constexpr):
    row = start + tl.arange(0, TILE)
    inside = (row < rows)[:, None] & (columns < WIDTH)[None, :]
    return row, row.to(tl.int64)[:, None] * WIDTH + columns[None, :], inside


@triton.jit
def _load(pointer, places, inside):
    return tl.load(pointer + places, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _store(pointer, places, values, inside):
    tl.store(pointer + places, values.to(pointer.dtype.element_ty), mask=inside)


@triton.jit
def _mask(Seed, use, row, first, DROP: tl.constexpr, BLOCK: tl.constexpr):
    """Dropout's factors for BLOCK columns from `first`, a multiple of 8, on: zero, or what keeps the mean."""
    eighth = first // 8 + tl.arange(0, BLOCK // 8)
    a, b, c, d = tl.philox(tl.load(Seed), row[:, None], eighth[None, :], use, 0, 7)
    words = tl.join(tl.join(a, b), tl.join(c, d))
    bits = tl.reshape(tl.join(words % LEVELS, words // LEVELS), (row.shape[0], BLOCK))
    return tl.where(bits < DROP, 0.0, LEVELS / (LEVELS - DROP))


@triton.jit(do_not_specialize=["use"])
def _add_norm(
    Tokens, Branch, Bias, Keep, Seed, Weight, Shift, Total, Normed, Mean, Rstd,
    rows, rows_per_image, use, eps,
    DROP: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, BLOCK)
    row, places, inside = _tile(tl.program_id(0) * TILE, rows, columns, WIDTH, TILE)
    total = _load(Tokens, places, inside)
    if Branch is not None:
        branch = _load(Branch, places, inside) + _load(Bias, columns, columns < WIDTH)[None, :]
        if DROP:
            branch *= _mask(Seed, use, row, 0, DROP, BLOCK)
        if Keep is not None:
            branch *= _load(Keep, row // rows_per_image, row < rows)[:, None]
        total = (total + branch).to(Total.dtype.element_ty)
        tl.store(Total + places, total, mask=inside)
        total = total.to(tl.float32)
    mean = tl.sum(total, 1) / WIDTH
    centred = tl.where(inside, total - mean[:, None], 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, 1) / WIDTH + eps)
    weight = _load(Weight, columns, columns < WIDTH)
    shift = _load(Shift, columns, columns < WIDTH)
    _store(Normed, places, centred * rstd[:, None] * weight[None, :] + shift[None, :], inside)
    tl.store(Mean + row, mean, mask=row < rows)
    tl.store(Rstd + row, rstd, mask=row < rows)


@triton.jit(do_not_specialize=["use"])
def _add_norm_backward(
    GradTotal, GradNormed, Total, Mean, Rstd, Weight, Keep, Seed, Grad, GradBranch, Sums,
    rows, rows_per_image, use, DROP: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    program, programs = tl.program_id(0), tl.num_programs(0)
    columns = tl.arange(0, BLOCK)
    weight = _load(Weight, columns, columns < WIDTH)
    for_weight = tl.zeros((TILE, BLOCK), tl.float32)
    for_shift = tl.zeros((TILE, BLOCK), tl.float32)
    for_bias = tl.zeros((TILE, BLOCK), tl.float32)
    for start in tl.range(program * TILE, rows, programs * TILE, num_stages=AHEAD):
        row, places, inside = _tile(start, rows, columns, WIDTH, TILE)
        grad_out = _load(GradNormed, places, inside)
        mean, rstd = _load(Mean, row, row < rows)[:, None], _load(Rstd, row, row < rows)[:, None]
        scaled = tl.where(inside, (_load(Total, places, inside) - mean) * rstd, 0.0)
        for_weight += grad_out * scaled
        for_shift += grad_out
        grad_out *= weight[None, :]
        along = tl.sum(grad_out * scaled, 1)[:, None] / WIDTH
        grad = (grad_out - tl.sum(grad_out, 1)[:, None] / WIDTH - scaled * along) * rstd
        if GradTotal is not None:
            grad += _load(GradTotal, places, inside)
        grad = tl.where(inside, grad, 0.0)
        _store(Grad, places, grad, inside)
        if DROP:
            grad *= _mask(Seed, use, row, 0, DROP, BLOCK)
        if Keep is not None:
            grad *= _load(Keep, row // rows_per_image, row < rows)[:, None]
        if DROP or Keep is not None:
            _store(GradBranch, places, grad, inside)
        for_bias += grad
    _store(Sums, program * WIDTH + columns, tl.sum(for_weight, 0), columns < WIDTH)
    _store(Sums, (programs + program) * WIDTH + columns, tl.sum(for_shift, 0), columns < WIDTH)
    _store(Sums, (2 * programs + program) * WIDTH + columns, tl.sum(for_bias, 0), columns < WIDTH)


@triton.jit
def _gelu_gate(x, EXACT: tl.constexpr):
    """The share of x that GELU lets through, and the slope of that share times x."""
    if EXACT:
        share = 0.5 + 0.5 * tl.erf(x * 0.7071067811865476)
        slope = x * tl.exp(-0.5 * x * x) * 0.3989422804014327
    else:
        share = tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))  # 0.5 + 0.5 tanh(z) = sigmoid(2 z)
        slope = x * share * (1 - share) * 1.5957691216057308 * (1 + 0.134145 * x * x)
    return share, slope


@triton.jit(do_not_specialize=["use"])
def _gelu(
    Hidden, Bias, Seed, Out, rows, use,
    DROP: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(1) * BLOCK
    columns = first + tl.arange(0, BLOCK)
    row, places, inside = _tile(tl.program_id(0) * TILE, rows, columns, WIDTH, TILE)
    x = _load(Hidden, places, inside) + _load(Bias, columns, columns < WIDTH)[None, :]
    share, _ = _gelu_gate(x, EXACT)
    x *= share
    if DROP:
        x *= _mask(Seed, use, row, first, DROP, BLOCK)
    _store(Out, places, x, inside)


@triton.jit(do_not_specialize=["use"])
def _gelu_backward(
    Grad, Hidden, Bias, Seed, Out, Sums, rows, use,
    DROP: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    program, first = tl.program_id(0), tl.program_id(1) * BLOCK
    columns = first + tl.arange(0, BLOCK)
    if Bias is not None:
        bias = _load(Bias, columns, columns < WIDTH)[None, :]
    for_bias = tl.zeros((TILE, BLOCK), tl.float32)
    for start in tl.range(program * TILE, rows, tl.num_programs(0) * TILE, num_stages=AHEAD):
        row, places, inside = _tile(start, rows, columns, WIDTH, TILE)
        x = _load(Hidden, places, inside)
        if Bias is not None:
            x += bias
        share, slope = _gelu_gate(x, EXACT)
        grad = _load(Grad, places, inside) * (share + slope)
        if DROP:
            grad *= _mask(Seed, use, row, first, DROP, BLOCK)
        _store(Out, places, grad, inside)
        for_bias += grad
    _store(Sums, program * WIDTH + columns, tl.sum(for_bias, 0), columns < WIDTH)


@triton.jit
def _column_sums(Rows, Sums, rows, WIDTH: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr):
    program = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros((TILE, BLOCK), tl.float32)
    for start in tl.range(program * TILE, rows, tl.num_programs(0) * TILE, num_stages=AHEAD):
        _, places, inside = _tile(start, rows, columns, WIDTH, TILE)
        sums += _load(Rows, places, inside)
    _store(Sums, program * WIDTH + columns, tl.sum(sums, 0), columns < WIDTH)


@triton.jit
def _add_up(Sums, Out, rows, WIDTH: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr):
    table = tl.program_id(1).to(tl.int64)
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((TILE, BLOCK), tl.float32)
    for start in range(0, rows, TILE):
        _, places, inside = _tile(start, rows, columns, WIDTH, TILE)
        total += _load(Sums + table * rows * WIDTH, places, inside)
    _store(Out + table * WIDTH, columns, tl.sum(total, 0), columns < WIDTH)


@triton.jit
def _normalise(Images, Mean, Std, Out, size, plane, channels, largest, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    channel = place // plane % channels
    pixels = _load(Images, place, place < size) / largest
    mean, std = _load(Mean, channel, place < size), tl.load(Std + channel, mask=place < size, other=1.0)
    _store(Out, place, (pixels - mean) / std, place < size)
