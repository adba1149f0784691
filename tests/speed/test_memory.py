import pytest
import torch

from vit_lightning.speed.memory import fits, is_exhausted, largest


@pytest.mark.parametrize("most", [0, 1, 2, 3, 7, 16, 17, 100, 1000, 4095, 4096, 5000])
def test_the_largest_is_found_to_a_sixteenth(most):
    tried = []

    def fitting(number: int) -> bool:
        tried.append(number)
        return number <= most

    found = largest(fitting, 4096)
    true = min(most, 4096)
    assert true - true // 16 <= found <= true
    assert max(tried) <= 4096 and len(tried) < 20


def test_memory_that_does_not_suffice():
    assert is_exhausted(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_exhausted(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"))
    assert not is_exhausted(RuntimeError("shapes differ"))
    assert fits(lambda: None)
    assert not fits(lambda: torch.empty(2**50))
