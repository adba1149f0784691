"""The backward pass of attention against autograd's, in Triton's interpreter where there is no GPU."""

import pytest
import torch
from einops import rearrange

from tests.interpreted import interpret
from tests.models.fast.test_fused import attend_on_cpu


def compare(device: str, dtype: torch.dtype) -> None:
    """Heads of a power of two, and of 40 features as H/14's 80 are none."""
    for width in (32, 40):
        compare_width(width, device, dtype)


def compare_width(width: int, device: str, dtype: torch.dtype) -> None:
    """Logits near -150, 0 and 150: exp(-logits) of the first has no value in fp32."""
    from vit_lightning.models.fast.attend import attend_backward

    heads, tokens = 2, 41  # the last step of the kernel's loop reaches beyond the last token
    for middle in (-150.0, 0.0, 150.0):
        torch.manual_seed(0)
        packed = torch.randn(2, tokens, 3 * heads * width, device=device)
        parts = rearrange(packed, "b n (three h k) -> three b h n k", three=3, h=heads)
        parts[0][..., 0], parts[1][..., 0] = middle / 4, 4 * width**0.5
        packed = packed.to(dtype).requires_grad_()
        grad = torch.randn(2, tokens, heads * width, device=device).to(dtype)
        mixed, lse = attend_on_cpu(packed.double(), heads)
        assert abs(lse.mean() - middle) < 10
        mixed.backward(grad.double())
        ours, sums = attend_backward(grad, packed.detach(), mixed.detach().to(dtype), lse.detach().float(), heads)
        theirs = packed.grad.float()
        error = (ours.float() - theirs).norm() / theirs.norm()
        assert error < (1e-4 if dtype == torch.float32 else 5e-2), (middle, error)
        error = (sums - packed.grad.double().sum((0, 1))).norm() / packed.grad.double().abs().sum((0, 1)).norm()
        assert error < (1e-5 if dtype == torch.float32 else 5e-3), (middle, error)


@pytest.mark.gpu
def test_gradients_of_any_logits_are_finite_on_a_gpu() -> None:
    compare("cuda", torch.bfloat16)


def test_gradients_of_any_logits_are_finite_in_the_interpreter() -> None:
    interpret("from tests.models.fast.test_attend import compare; import torch; compare('cpu', torch.float32)")
