"""Triton's compiler takes every kernel for an H100, which needs none: what the interpreter lets pass is found here."""

from importlib import import_module
from pathlib import Path

import pytest

TYPES = {"b": "*bf16", "f": "*fp32", "l": "*i64", "u": "*u8", "i": "i32", "r": "fp32"}
"""Of an argument, by its letter; a dash stands for None."""
NORM = {"WIDTH": 768, "BLOCK": 1024, "TILE": 4}
GELU = {"WIDTH": 3072, "BLOCK": 512, "TILE": 8}
FEW = {"K": 64, "ROOM_K": 64, "ROOM": 64, "SCALE": 0.125}
HEAD = {"K": 64, "ROOM_K": 64, "OWN": 64}
ROWS, LONG, SHORT = (f"models.fast.{name}" for name in ("rowwise_kernels", "attend", "attend_few_tokens"))
CASES = {
    "norm": (ROWS, "_add_norm", "bbf--ffbbffiiir", {"DROP": 0} | NORM),
    "norm at the stream's start": (ROWS, "_add_norm", "b----ffbbffiiir", {"DROP": 0} | NORM),
    "norm with dropout": (ROWS, "_add_norm", "bbfblffbbffiiir", {"DROP": 6554} | NORM),
    "norm's gradient": (ROWS, "_add_norm_backward", "bbbfff--bbfiii", {"DROP": 0} | NORM),
    "norm's gradient with dropout": (ROWS, "_add_norm_backward", "bbbfffblbbfiii", {"DROP": 6554} | NORM),
    "norm's gradient at the end": (ROWS, "_add_norm_backward", "-bbfff--bbfiii", {"DROP": 0} | NORM),
    "gelu": (ROWS, "_gelu", "bf-bii", {"DROP": 0, "EXACT": False, "WIDTH": 3072, "BLOCK": 1024, "TILE": 4}),
    "gelu's gradient": (ROWS, "_gelu_backward", "bbf-bfii", {"DROP": 0, "EXACT": False} | GELU),
    "gelu's gradient, bias inside": (ROWS, "_gelu_backward", "bb--bfii", {"DROP": 0, "EXACT": True} | GELU),
    "exact gelu's with dropout": (ROWS, "_gelu_backward", "bbflbfii", {"DROP": 6554, "EXACT": True} | GELU),
    "sums over rows": (ROWS, "_column_sums", "bfi", {"WIDTH": 3072, "BLOCK": 512, "TILE": 16}),
    "partial sums": (ROWS, "_add_up", "ffi", {"WIDTH": 768, "BLOCK": 16, "TILE": 128}),
    "pixels": (ROWS, "_normalise", "uffbiiir", {"BLOCK": 4096}),
    "cutting": ("data.gpu_crop", "_cut", "luii", {"FIELDS": 13, "ANTIALIAS": True, "BLOCK": 256}),
    "attention of few tokens": (SHORT, "_attend", "bbii", FEW),
    "its gradient": (SHORT, "_backward", "bbbfii", FEW),
    "its gradient, wide heads": (SHORT, "_backward", "bbbfii", FEW | {"K": 80, "ROOM_K": 128}),
    "attention's delta": (LONG, "_delta", "bbfii", HEAD),
    "attention's gradient, 197 tokens": (LONG, "_backward", "bbffbfiir", HEAD | {"STEP": 32}),
    "attention's gradient": (LONG, "_backward", "bbffbfiir", HEAD | {"STEP": 128}),
    "attention's gradient, heads of 80": (LONG, "_backward", "bbffbfiir", HEAD | {"K": 80, "ROOM_K": 128, "STEP": 32}),
}


@pytest.mark.parametrize("case", CASES)
def test_kernels_compile_for_an_h100(case: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    pytest.importorskip("triton")
    from triton import compile
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    module, name, letters, constants = CASES[case]
    kernel = getattr(import_module(f"vit_lightning.{module}"), name)
    names = [name for name in kernel.arg_names if name not in constants]
    types = {name: TYPES.get(letter) for name, letter in zip(names, letters, strict=True)}
    constants = constants | {name: None for name, kind in types.items() if kind is None}
    signature = {name: "constexpr" if name in constants else types[name] for name in kernel.arg_names}
    options = {"num_stages": 3} if case.endswith("heads of 80") else {}
    compiled = compile(ASTSource(kernel, signature, constants), GPUTarget("cuda", 90, 32), options)
    assert compiled.asm["cubin"] and compiled.metadata.shared <= 99 * 1024  # what a consumer's GPU has too
