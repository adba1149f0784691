"""Triton's compiler takes every kernel for an H100, which needs none: what the interpreter lets pass is found here."""

from importlib import import_module
from pathlib import Path

import pytest

TYPES = {"b": "*bf16", "f": "*fp32", "l": "*i64", "u": "*u8", "i": "i32", "r": "fp32"}
"""Of an argument, by its letter; a dash stands for None."""
NORM = {"WIDTH": 768, "BLOCK": 1024, "TILE": 4}
GELU = {"WIDTH": 3072, "BLOCK": 512, "TILE": 8}
FEW = {"K": 64, "ROOM": 64, "SCALE": 0.125}
CASES = {
    "norm": ("models.kernels", "_add_norm", "bbf--ffbbffiiir", {"DROP": 0} | NORM),
    "norm at the stream's start": ("models.kernels", "_add_norm", "b----ffbbffiiir", {"DROP": 0} | NORM),
    "norm with dropout": ("models.kernels", "_add_norm", "bbfblffbbffiiir", {"DROP": 6554} | NORM),
    "norm's gradient": ("models.kernels", "_add_norm_backward", "bbbfff--bbfiii", {"DROP": 0} | NORM),
    "norm's gradient with dropout": ("models.kernels", "_add_norm_backward", "bbbfffblbbfiii", {"DROP": 6554} | NORM),
    "norm's gradient at the end": ("models.kernels", "_add_norm_backward", "-bbfff--bbfiii", {"DROP": 0} | NORM),
    "gelu": ("models.kernels", "_gelu", "bf-bii", {"DROP": 0, "EXACT": False, "WIDTH": 3072, "BLOCK": 1024, "TILE": 4}),
    "gelu's gradient": ("models.kernels", "_gelu_backward", "bbf-bfii", {"DROP": 0, "EXACT": False} | GELU),
    "gelu's gradient, bias inside": ("models.kernels", "_gelu_backward", "bb--bfii", {"DROP": 0, "EXACT": True} | GELU),
    "exact gelu's with dropout": ("models.kernels", "_gelu_backward", "bbflbfii", {"DROP": 6554, "EXACT": True} | GELU),
    "sums over rows": ("models.kernels", "_column_sums", "bfi", {"WIDTH": 3072, "BLOCK": 512, "TILE": 16}),
    "partial sums": ("models.kernels", "_add_up", "ffi", {"WIDTH": 768, "BLOCK": 16, "TILE": 128}),
    "pixels": ("models.kernels", "_normalise", "uffbiiir", {"BLOCK": 4096}),
    "cutting": ("cut_kernel", "_cut", "luii", {"FIELDS": 13, "ANTIALIAS": True, "BLOCK": 256}),
    "attention of few tokens": ("models.attend_few", "_attend", "bbii", FEW),
    "its gradient": ("models.attend_few", "_backward", "bbbfii", FEW),
    "its gradient, wide heads": ("models.attend_few", "_backward", "bbbfii", FEW | {"K": 128}),
    "attention's delta": ("models.attend", "_delta", "bbfii", {"K": 64, "OWN": 64}),
    "attention's gradient, 197 tokens": ("models.attend", "_backward", "bbffbfiir", {"K": 64, "OWN": 64, "STEP": 32}),
    "attention's gradient": ("models.attend", "_backward", "bbffbfiir", {"K": 64, "OWN": 64, "STEP": 128}),
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
    compiled = compile(ASTSource(kernel, signature, constants), GPUTarget("cuda", 90, 32))
    assert compiled.asm["cubin"] and compiled.metadata.shared <= 99 * 1024  # what a consumer's GPU has too
