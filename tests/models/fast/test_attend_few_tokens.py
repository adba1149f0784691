"""Attention of few tokens against softmax and autograd, in Triton's interpreter where there is no GPU."""

import pytest
import torch

from tests.interpreted import interpret
from tests.models.fast.test_fused import attend_on_cpu


def compare(device: str, dtype: torch.dtype) -> None:
    """As many tokens as there is room for, fewer, and one; logits far from zero; heads of no power of two."""
    from vit_lightning.models.fast import attend_few_tokens

    torch.manual_seed(0)
    for batch, tokens, heads, width, size in [
        (2, 64, 4, 64, 1.0),
        (3, 17, 2, 16, 1.0),
        (1, 1, 1, 32, 1.0),
        (2, 33, 3, 16, 9.0),
        (2, 20, 3, 24, 1.0),
    ]:
        packed = (size * torch.randn(batch, tokens, 3 * heads * width, device=device)).to(dtype).requires_grad_()
        grad = torch.randn(batch, tokens, heads * width, device=device).to(dtype)
        mixed, _ = attend_on_cpu(packed.double(), heads)
        mixed.backward(grad.double())
        ours = attend_few_tokens.attend(packed.detach(), heads)
        gradient, sums = attend_few_tokens.attend_backward(grad, packed.detach(), heads)
        for own, plain in ((ours, mixed), (gradient, packed.grad)):
            error = (own.float() - plain.float()).norm() / plain.float().norm()
            assert error < (1e-5 if dtype == torch.float32 else 2e-2), (tokens, error)
        error = (sums - packed.grad.double().sum((0, 1))).norm() / packed.grad.double().abs().sum((0, 1)).norm()
        assert error < (1e-5 if dtype == torch.float32 else 5e-3), (tokens, error)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_of_few_tokens_on_a_gpu(dtype: torch.dtype) -> None:
    compare("cuda", dtype)


def test_attention_of_few_tokens_in_the_interpreter() -> None:
    interpret(
        "import torch; from tests.models.fast.test_attend_few_tokens import compare; compare('cpu', torch.float32)"
    )
