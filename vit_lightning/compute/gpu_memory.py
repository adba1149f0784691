"""How many images fit."""

import gc
from collections.abc import Callable

import torch

STEPS = 2
"""Steps that a batch must survive: the second holds the optimiser's state as well."""
EXHAUSTED = (
    "can't allocate memory",
    "Storage size calculation overflowed",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
"""What a RuntimeError of torch's says that is no OutOfMemoryError but means it."""


def is_exhausted(error: RuntimeError | MemoryError) -> bool:
    """Whether an error says that the memory does not suffice."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(text in str(error) for text in EXHAUSTED)


def fits(run: Callable[[], None]) -> bool:
    """Returns whether something runs in the memory there is, and gives back what it took."""
    try:
        run()
    except (RuntimeError, MemoryError) as error:
        if not is_exhausted(error):
            raise
        return False
    finally:
        free_memory()
    return True


def largest(fitting: Callable[[int], bool], cap: int, known: int = 0, guess: int | None = None) -> int:
    """Returns the largest number that fits, up to a cap and to a sixteenth of itself; 0 if not even 1 does.

    Args:
        fitting: whether a number fits; larger ones fit less.
        cap: largest number to try.
        known: a number that fits.
        guess: what the answer is expected to be, which saves steps; it may be less, where the allocator leaves gaps
            (a sixth, measured for L/32 at 512 pixels). None: nothing is known.
    """
    low, high = known, cap + 1

    def probe(number: int) -> None:
        nonlocal low, high
        if low < number < high:
            low, high = (number, high) if fitting(number) else (low, number)

    for near in () if guess is None else (guess - guess // 40, guess + guess // 40, guess - guess // 4):
        probe(min(near, cap))
    while low < cap and high > cap:
        probe(min(max(1, 2 * low), cap))
    while high - low > max(1, low // 16):
        probe((low + high) // 2)
    return low


def free_memory() -> None:
    """Give back what nothing holds any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
