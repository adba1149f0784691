"""Normalising kernel against its formula, in Triton's interpreter where there is no GPU."""

import pytest
import torch

from tests.interpreted import interpret


def compare(device: str, dtype: torch.dtype) -> None:
    """Every channel of every image by its own numbers; the last case ends inside the kernel's second block."""
    from vit_lightning.models.fast.rowwise_kernels import normalise

    torch.manual_seed(0)
    for channels, height, width in [(3, 5, 7), (1, 4, 4), (4, 9, 3), (3, 40, 41)]:
        mean, std = torch.rand(channels, 1, 1, device=device), torch.rand(channels, 1, 1, device=device) + 0.5
        pixels = torch.randint(0, 256, (2, channels, height, width), dtype=torch.uint8, device=device)
        for images, shares in ((pixels, pixels.double() / 255), (pixels.float() / 255, pixels.double() / 255)):
            expected = (shares - mean.double()) / std.double()
            found = normalise(images, mean, std, dtype)
            assert found.shape == images.shape
            assert (found.double() - expected).abs().max() < (1e-5 if dtype == torch.float32 else 2e-2)


@pytest.mark.gpu
def test_normalising_on_a_gpu() -> None:
    compare("cuda", torch.bfloat16)


def test_normalising_in_the_interpreter() -> None:
    interpret("import torch; from tests.models.fast.test_normalise import compare; compare('cpu', torch.float32)")
