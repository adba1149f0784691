"""What a device can do at most: dense matrix-product rates from the vendors' data sheets, by name and arithmetic."""

import os
import re
from typing import Literal

import torch

Arithmetic = Literal["bf16", "fp16", "tf32", "fp32"]
COLUMNS: tuple[Arithmetic, ...] = ("bf16", "fp16", "tf32", "fp32")

# Pattern of a device's name, then dense TFLOP/s in the order of COLUMNS (accumulated in fp32); the first match counts.
# 0: the device lacks that arithmetic, or no rate is published. TPUs are named after TPU_ACCELERATOR_TYPE; a device of
# torch_xla is one core up to v3 and one chip from v4 on.
PEAKS: tuple[tuple[str, float, float, float, float], ...] = (
    (r"\bH200\b", 989.4, 989.4, 494.7, 66.9),
    (r"\bH100 PCIe\b", 756.0, 756.0, 378.0, 51.2),
    (r"\bH100 NVL\b", 835.5, 835.5, 417.5, 60.0),
    (r"\bH100\b", 989.4, 989.4, 494.7, 66.9),
    (r"\bA100\b", 312.0, 312.0, 156.0, 19.5),
    (r"\bL40S\b", 362.1, 362.1, 183.0, 91.6),
    (r"\bL4\b", 121.0, 121.0, 60.5, 30.3),
    (r"\bV100-PCIE\b", 0.0, 112.0, 0.0, 14.0),
    (r"\bV100\b", 0.0, 125.0, 0.0, 15.7),
    (r"\bT4\b", 0.0, 65.0, 0.0, 8.1),
    (r"\bRTX 4090$", 165.2, 165.2, 82.6, 82.6),
    (r"\bRTX 3090$", 71.2, 71.2, 35.6, 35.6),
    (r"^TPU v2\b", 22.5, 0.0, 0.0, 0.0),
    (r"^TPU v3\b", 61.5, 0.0, 0.0, 0.0),
    (r"^TPU v4\b", 275.0, 0.0, 0.0, 0.0),
    (r"^TPU v5(e|litepod)\b", 197.0, 0.0, 0.0, 0.0),
    (r"^TPU v5p\b", 459.0, 0.0, 0.0, 0.0),
)


def peak(device: str, arithmetic: Arithmetic | None) -> float | None:
    """Returns the dense FLOP/s of a device, or None for a device or an arithmetic that the table lacks.

    Args:
        device: name as CUDA reports it, or `TPU <accelerator type>`.
        arithmetic: that of the matrix products; a device without tf32 computes in fp32.
    """
    rates = next((rates for pattern, *rates in PEAKS if re.search(pattern, device)), None)
    if rates is None or arithmetic is None:
        return None
    found = dict(zip(COLUMNS, rates, strict=True))
    rate = found[arithmetic] or (found["fp32"] if arithmetic == "tf32" else 0.0)
    return rate * 1e12 or None


def device_names() -> list[str]:
    """Returns the names of the devices in the table."""
    return [re.sub(r"\\b|[\^$]", "", pattern).replace("(e|litepod)", "e") for pattern, *_ in PEAKS]


def arithmetic_of(precision: str | int) -> Arithmetic | None:
    """Returns how a trainer of this precision (32-true, bf16-mixed, ...) multiplies matrices; None: not in PEAKS."""
    name = str(precision)
    if name.startswith("32"):
        return "fp32" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    halves: dict[str, Arithmetic] = {"bf16": "bf16", "16": "fp16"}
    return halves.get(name.partition("-")[0])


def device_name(device: torch.device) -> str:
    """Returns the name under which `peak` looks a device up."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "xla":
        return f"TPU {os.environ.get('TPU_ACCELERATOR_TYPE', '')}"
    return device.type
