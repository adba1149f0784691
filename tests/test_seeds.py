"""SplitMix64 on arrays and tensors gives the numbers of its paper's own code, written here with Python's integers."""

import hashlib

import numpy as np
import pytest
import torch

from vit_lightning.masked_patch import random_bits
from vit_lightning.seeds import GOLDEN_GAMMA, StatelessRandom, seed_from, shift_right, split_mix64

WORD = 2**64
GAMMA = 0x9E3779B97F4A7C15


def reference(state: int) -> int:
    """The output for a state, after Steele, Lea and Flood (2014), with the constants of `mix64variant13`."""
    state %= WORD
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % WORD
    return state ^ (state >> 31)


STATES = [0, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**63 + 1, WORD - 1, GAMMA, *(reference(n) for n in range(1000))]


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_arrays_and_tensors_give_the_published_numbers(kind):
    states = kind([state - WORD * (state >= 2**63) for state in STATES])
    outputs = split_mix64(states)
    assert str(outputs.dtype).endswith("int64")
    assert [number % WORD for number in outputs.tolist()] == [reference(state) for state in STATES]


@pytest.mark.parametrize("bits", [1, 32, 63])
@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_shifts_see_no_sign(kind, bits):
    assert shift_right(kind([-1, -(2**63), 5]), bits).tolist() == [(WORD - 1) >> bits, 2**63 >> bits, 5 >> bits]


def test_a_sequence_is_that_of_the_generator():
    """First outputs of the reference C code for seed 1234567."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    states = 1234567 + np.arange(1, 5) * GOLDEN_GAMMA
    assert [number % WORD for number in split_mix64(states).tolist()] == published


@pytest.mark.parametrize("seed", [0, 7, 2**40])
def test_random_numbers_of_records_are_hashes_of_their_places(seed):
    epochs, positions = np.array([0, 0, 3, 2**20]), np.array([0, 1, 2**33, 5])
    name = int.from_bytes(hashlib.blake2b(b"flip", digest_size=8).digest())
    places = zip(epochs.tolist(), positions.tolist(), strict=True)
    outer = [reference(reference(epoch * GAMMA + seed_from(seed)) + place * GAMMA) for epoch, place in places]
    assert StatelessRandom(seed, epochs, positions)("flip").tolist() == [reference(s + name) >> 32 for s in outer]


@pytest.mark.parametrize("seed", [0, 11, 2**63 - 1, 2**63 + 4])
def test_random_numbers_of_patches_are_outputs_by_number(seed):
    n, places = 5, [0, 1, 1000, 2**40]
    numbers = [3 * n * place + k for k in range(3 * n) for place in places]
    expected = [reference(seed % 2**63 + (number + 1) * GAMMA) >> 1 for number in numbers]
    ours = random_bits(seed, torch.tensor(places), n)
    assert ours.permute(0, 2, 1).flatten().tolist() == expected
