import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vit_lightning.compute.gpu_memory import fits, is_exhausted, largest


@pytest.mark.parametrize("most", [0, 1, 2, 3, 7, 16, 17, 100, 1000, 4095, 4096, 5000])
def test_the_largest_is_found_to_a_sixteenth(most):
    tried = []

    def fitting(number: int) -> bool:
        tried.append(number)
        return number <= most

    found = largest(fitting, 4096)
    true = min(most, 4096)
    assert true - true // 16 <= found <= true
    assert min(tried) >= 1 and max(tried) <= 4096 and len(tried) < 20


@pytest.mark.parametrize("cap", [1, 2, 3, 7, 16, 24, 4096])
def test_the_cap_itself_is_found_where_it_fits(cap):
    assert largest(lambda number: True, cap) == largest(lambda number: number <= cap, cap) == cap


@given(st.integers(0, 5000), st.integers(0, 5000), st.one_of(st.none(), st.integers(-100, 20_000)))
def test_what_is_expected_changes_no_answer(most, known, guess):
    tried = []

    def fitting(number: int) -> bool:
        tried.append(number)
        return number <= most

    true = min(most, 4096)
    found = largest(fitting, 4096, min(known, true), guess)
    assert true - true // 16 <= found <= true
    assert all(0 < number <= 4096 for number in tried) and len(tried) < 22


def test_a_good_guess_takes_two_probes():
    tried = []

    def fitting(number: int) -> bool:
        tried.append(number)
        return number <= 3001

    assert largest(fitting, 4096, known=512, guess=3000) == 2925 and tried == [2925, 3075]


def test_a_guess_that_is_a_fifth_too_high_takes_few_probes():
    tried = []

    def fitting(number: int) -> bool:
        tried.append(number)
        return number <= 8000

    assert 7500 <= largest(fitting, 16384, known=512, guess=10000) <= 8000 and len(tried) <= 5


def test_memory_that_does_not_suffice():
    assert is_exhausted(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_exhausted(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"))
    assert not is_exhausted(RuntimeError("shapes differ"))
    assert fits(lambda: None)
    assert not fits(lambda: torch.empty(2**50))


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), KeyError("x")])
def test_other_errors_are_no_answer(error):
    def run() -> None:
        raise error

    with pytest.raises(type(error)):
        fits(run)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("Storage size calculation overflowed with sizes=[1]"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    ],
)
def test_every_word_for_no_memory_is_known(error, monkeypatch):
    def run() -> None:
        raise error

    freed: list[str] = []
    monkeypatch.setattr("gc.collect", lambda: freed.append("objects"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: freed.append("cache"))
    assert is_exhausted(error) and not fits(run) and fits(lambda: None)
    assert freed == ["objects", "cache"] * 2  # after what failed and after what did not
