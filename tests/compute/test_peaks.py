import pytest
import torch

from vit_lightning.compute.peaks import arithmetic_of, device_name, peak

# Dense figures of the vendors' data sheets, under the names that CUDA and TPU_ACCELERATOR_TYPE give.
KNOWN = """
NVIDIA H100 80GB HBM3|bf16|989.4
NVIDIA H100 80GB HBM3|fp32|66.9
NVIDIA H100 PCIe|bf16|756
NVIDIA H100 NVL|bf16|835.5
NVIDIA H200|fp16|989.4
NVIDIA A100-SXM4-80GB|tf32|156
NVIDIA A100 80GB PCIe|bf16|312
NVIDIA A100-PCIE-40GB|fp32|19.5
NVIDIA L4|bf16|121
NVIDIA L40S|bf16|362.1
Tesla V100-SXM2-16GB|fp16|125
Tesla V100-PCIE-32GB|fp16|112
Tesla T4|fp16|65
NVIDIA GeForce RTX 4090|bf16|165.2
NVIDIA GeForce RTX 3090|fp32|35.6
TPU v2-8|bf16|22.5
TPU v3-8|bf16|61.5
TPU v4-8|bf16|275
TPU v5litepod-4|bf16|197
TPU v5p-8|bf16|459
"""


@pytest.mark.parametrize("line", KNOWN.strip().splitlines())
def test_peaks_of_the_data_sheets(line):
    name, arithmetic, tera = line.split("|")
    assert peak(name, arithmetic) == pytest.approx(float(tera) * 1e12)


@pytest.mark.parametrize(
    ("name", "arithmetic"),
    [
        ("cpu", "fp32"),
        ("NVIDIA L40", "bf16"),
        ("NVIDIA GeForce RTX 3090 Ti", "bf16"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "bf16"),
        ("Tesla V100-SXM2-16GB", "bf16"),
        ("NVIDIA H200", None),
        ("TPU ", "bf16"),
    ],
)
def test_what_the_table_lacks_has_no_peak(name, arithmetic):
    assert peak(name, arithmetic) is None


def test_a_device_without_tf32_computes_in_fp32():
    assert peak("Tesla V100-SXM2-16GB", "tf32") == 15.7e12


@pytest.mark.parametrize(
    ("precision", "arithmetic"),
    [
        ("bf16-mixed", "bf16"),
        ("bf16-true", "bf16"),
        ("bf16-master", "bf16"),
        ("16-mixed", "fp16"),
        (16, "fp16"),
        ("64-true", None),
        ("transformer-engine", None),
    ],
)
def test_arithmetic_of_a_precision(precision, arithmetic):
    assert arithmetic_of(precision) == arithmetic


def test_fp32_is_tf32_where_torch_may_use_it():
    before = torch.get_float32_matmul_precision()
    try:
        for allowed, arithmetic in (("highest", "fp32"), ("high", "tf32"), ("medium", "tf32")):
            torch.set_float32_matmul_precision(allowed)
            assert arithmetic_of("32-true") == arithmetic_of(32) == arithmetic
    finally:
        torch.set_float32_matmul_precision(before)


def test_names_of_devices(monkeypatch):
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v3-8")
    assert device_name(torch.device("cpu")) == "cpu"
    assert device_name(torch.device("xla")) == "TPU v3-8"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card {device.index}")
    assert device_name(torch.device("cuda", 1)) == "card 1"


SHEETS = """
NVIDIA H200 | 989.4 989.4 494.7 66.9
NVIDIA H100 80GB HBM3 | 989.4 989.4 494.7 66.9
NVIDIA H100 PCIe | 756 756 378 51.2
NVIDIA H100 NVL | 835.5 835.5 417.5 60
NVIDIA A100-SXM4-80GB | 312 312 156 19.5
NVIDIA L40S | 362.1 362.1 183 91.6
NVIDIA L4 | 121 121 60.5 30.3
Tesla V100-PCIE-32GB | - 112 14 14
Tesla V100-SXM2-16GB | - 125 15.7 15.7
Tesla T4 | - 65 8.1 8.1
NVIDIA GeForce RTX 4090 | 165.2 165.2 82.6 82.6
NVIDIA GeForce RTX 3090 | 71.2 71.2 35.6 35.6
TPU v2-8 | 22.5 - - -
TPU v3-8 | 61.5 - - -
TPU v4-8 | 275 - - -
TPU v5e-4 | 197 - - -
TPU v5p-8 | 459 - - -
"""
"""Dense TFLOP/s in bf16, fp16, tf32 and fp32; what lacks tf32 computes in fp32."""


@pytest.mark.parametrize("row", SHEETS.strip().splitlines())
def test_every_rate_of_a_device_is_that_of_its_sheet(row):
    name, _, rates = row.partition(" | ")
    for arithmetic, rate in zip(("bf16", "fp16", "tf32", "fp32"), rates.split(), strict=True):
        expected = None if rate == "-" else pytest.approx(float(rate) * 1e12)
        assert peak(name, arithmetic) == expected, arithmetic
