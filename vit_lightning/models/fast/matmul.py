"""Matrix products by cuBLASLt itself, for what torch does not offer: GELU inside a product, and a measured choice.

torch asks cuBLASLt for one algorithm; here the first call with a shape times the best eight. On an H100 at B/16's
shapes that gains about 5 %, and GELU and its derivative inside the products save two passes over the widest tensors.
Where the library is not found, `available` is False and the caller goes on with torch.mm.
"""

import ctypes
from functools import cache, lru_cache

import torch
from torch import Tensor

# Enumerations of cublasLt.h and library_types.h.
COMPUTE_32F = 68
TYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 14}
TRANSPOSE_A, TRANSPOSE_B, EPILOGUE, BIAS, AUX, AUX_STRIDE, AUX_TYPE, BIAS_TYPE = 3, 4, 7, 8, 11, 12, 22, 26
NONE, ADD_BIAS, GELU, GELU_GRADIENT = 1, 4, 4 | 32 | 128, 64 | 128
MAX_WORKSPACE = 1

ONE, ZERO = ctypes.c_float(1), ctypes.c_float(0)
WORKSPACE = 64 << 20
CANDIDATES = 8
ALIGNED = 1 << 20
"""Stands for a pointer when algorithms are asked for: only its alignment counts."""


class _Candidate(ctypes.Structure):
    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@cache
def _library() -> ctypes.CDLL | None:
    """Return the copy of cuBLASLt that torch has loaded."""
    if not torch.version.cuda:
        return None
    torch.cuda.current_blas_handle()
    try:
        return ctypes.CDLL(f"libcublasLt.so.{torch.version.cuda.partition('.')[0]}")
    except OSError:
        return None


def _loaded() -> ctypes.CDLL:
    library = _library()
    if library is None:
        raise RuntimeError("torch has loaded no cuBLASLt")
    return library


@cache
def available(dtype: torch.dtype) -> bool:
    """Whether products with GELU can be made here: tried once on a small one."""
    if _library() is None or dtype not in TYPES:
        return False
    left, right = torch.randn(2, 64, 64, dtype=dtype, device="cuda")
    bias, hidden = left[0].clone(), torch.empty_like(left)
    try:
        active = product(left, right.t(), bias=bias, gelu=hidden)
        slope = product(left, right, gelu_gradient=hidden)
    except (RuntimeError, OSError, AttributeError, IndexError):
        return False
    with torch.inference_mode(False), torch.enable_grad():
        plain = (left @ right.t() + bias).float().requires_grad_()
        expected = torch.nn.functional.gelu(plain, approximate="tanh")
        expected.backward((left @ right).float())
    pairs = (hidden, plain), (active, expected), (slope, plain.grad)
    return all(bool((ours.float() - theirs.detach()).norm() < 0.02 * theirs.detach().norm()) for ours, theirs in pairs)


@cache
def _handle(device: int) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    _check(_loaded().cublasLtCreate(ctypes.byref(handle)))
    return handle


@cache
def _workspace(device: int) -> Tensor:
    return torch.empty(WORKSPACE, dtype=torch.uint8, device=device)


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"cuBLASLt failed with status {status}")


def product(
    left: Tensor,
    right: Tensor,
    dtype: torch.dtype | None = None,
    bias: Tensor | None = None,
    gelu: Tensor | None = None,
    gelu_gradient: Tensor | None = None,
) -> Tensor:
    """Return `left @ right`.

    Args:
        left: `m k`, contiguous or the transpose of a contiguous matrix.
        right: `k n`, likewise, of the same type.
        dtype: type of the result; sums are taken in fp32 always.
        bias: `n`, added to every row.
        gelu: filled with `left @ right + bias`, `m n`; the result is its GELU (tanh approximation).
        gelu_gradient: such a filled tensor; the result is multiplied by the slope of GELU there.
    """
    (m, k), n, dtype = left.shape, right.shape[1], dtype or left.dtype
    out = left.new_empty(m, n, dtype=dtype)
    epilogue = GELU if gelu is not None else GELU_GRADIENT if gelu_gradient is not None else NONE
    epilogue = ADD_BIAS if epilogue == NONE and bias is not None else epilogue
    # The library counts by columns: it computes the transpose, right^T left^T.
    transposed = not right.is_contiguous(), not left.is_contiguous()
    plan = _plan(n, m, k, transposed, left.dtype, dtype, epilogue, left.device.index)
    plan.run(right, left, out, bias, gelu if gelu is not None else gelu_gradient)
    return out


@lru_cache(maxsize=512)
def _plan(*key) -> "MatmulPlan":
    return MatmulPlan(*key)


class MatmulPlan:
    """A product of one shape: D (rows x columns) = op(A) op(B), all stored by columns."""

    def __init__(
        self,
        rows: int,
        columns: int,
        inner: int,
        transposed: tuple[bool, bool],
        dtype: torch.dtype,
        out: torch.dtype,
        epilogue: int,
        device: int,
    ) -> None:
        self.device = device
        self.best: _Candidate | None = None
        self.description = ctypes.c_void_p()
        self.library = _loaded()
        _check(self.library.cublasLtMatmulDescCreate(ctypes.byref(self.description), COMPUTE_32F, TYPES[torch.float32]))
        self._set(TRANSPOSE_A, ctypes.c_int(transposed[0]))
        self._set(TRANSPOSE_B, ctypes.c_int(transposed[1]))
        self._set(EPILOGUE, ctypes.c_uint32(epilogue))
        if epilogue & ADD_BIAS:
            self._set(BIAS_TYPE, ctypes.c_int(TYPES[dtype]))
            self._set(BIAS, ctypes.c_void_p(ALIGNED))
        if epilogue in (GELU, GELU_GRADIENT):
            self._set(AUX_STRIDE, ctypes.c_int64(rows))
            self._set(AUX_TYPE, ctypes.c_int(TYPES[dtype]))
            self._set(AUX, ctypes.c_void_p(ALIGNED))
        self.a = _layout(dtype, *((inner, rows) if transposed[0] else (rows, inner)))
        self.b = _layout(dtype, *((columns, inner) if transposed[1] else (inner, columns)))
        self.d = _layout(out, rows, columns)
        self.candidates = self._candidates()

    def _set(self, name: int, value: ctypes._SimpleCData) -> None:
        size = ctypes.sizeof(value)
        _check(self.library.cublasLtMatmulDescSetAttribute(self.description, name, ctypes.byref(value), size))

    def _candidates(self) -> list[_Candidate]:
        preference, limit = ctypes.c_void_p(), ctypes.c_size_t(WORKSPACE)
        _check(self.library.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)))
        _check(
            self.library.cublasLtMatmulPreferenceSetAttribute(
                preference, MAX_WORKSPACE, ctypes.byref(limit), ctypes.sizeof(limit)
            )
        )
        found, count = (_Candidate * CANDIDATES)(), ctypes.c_int()
        parts = (self.description, self.a, self.b, self.d, self.d, preference)
        _check(
            self.library.cublasLtMatmulAlgoGetHeuristic(
                _handle(self.device), *parts, CANDIDATES, found, ctypes.byref(count)
            )
        )
        if not count.value:
            raise RuntimeError("cuBLASLt has no algorithm for this product")
        return list(found[: count.value])

    def run(self, a: Tensor, b: Tensor, d: Tensor, bias: Tensor | None, aux: Tensor | None) -> None:
        if bias is not None:
            self._set(BIAS, ctypes.c_void_p(bias.data_ptr()))
        if aux is not None:
            self._set(AUX, ctypes.c_void_p(aux.data_ptr()))
        if self.best is None:
            self.best = self._fastest(a, b, d)
        self._launch(self.best, a, b, d)

    def _launch(self, candidate: _Candidate, a: Tensor, b: Tensor, d: Tensor) -> None:
        at_a, at_b, at_d, workspace = (ctypes.c_void_p(t.data_ptr()) for t in (a, b, d, _workspace(self.device)))
        stream = ctypes.c_void_p(torch.cuda.current_stream(self.device).cuda_stream)
        _check(
            self.library.cublasLtMatmul(
                *(_handle(self.device), self.description, ctypes.byref(ONE), at_a, self.a, at_b, self.b),
                *(ctypes.byref(ZERO), at_d, self.d, at_d, self.d),
                *(ctypes.byref(candidate.algorithm), workspace, ctypes.c_size_t(WORKSPACE), stream),
            )
        )

    def _fastest(self, a: Tensor, b: Tensor, d: Tensor) -> _Candidate:
        """Time the candidates; a run that asks torch for determinism takes the library's own first choice."""
        if torch.are_deterministic_algorithms_enabled() or torch.cuda.is_current_stream_capturing():
            return self.candidates[0]
        return min(self.candidates, key=lambda candidate: self._time(candidate, a, b, d))

    def _time(self, candidate: _Candidate, a: Tensor, b: Tensor, d: Tensor, repeats: int = 6) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._launch(candidate, a, b, d)
        start.record()
        for _ in range(repeats):
            self._launch(candidate, a, b, d)
        end.record()
        end.synchronize()
        return start.elapsed_time(end)


def _layout(dtype: torch.dtype, rows: int, columns: int) -> ctypes.c_void_p:
    layout = ctypes.c_void_p()
    shape = ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows)
    _check(_loaded().cublasLtMatrixLayoutCreate(ctypes.byref(layout), TYPES[dtype], *shape))
    return layout
