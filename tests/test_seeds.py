"""SplitMix64 on arrays and tensors gives the numbers of its paper's own code, written here with Python's integers."""

import hashlib

import numpy as np
import pytest
import torch

from vit_lightning.masked_patch import random_bits
from vit_lightning.seeds import (
    GOLDEN_GAMMA,
    StatelessRandom,
    below,
    run_seed,
    seed_from,
    seeded,
    shift_right,
    split_mix64,
)

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


@pytest.mark.parametrize(("value", "seed"), [(None, 0), ("0", 0), ("17", 17), ("4294967295", 2**32 - 1)])
def test_the_run_s_seed_is_lightning_s(monkeypatch, value, seed):
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    if value is not None:
        monkeypatch.setenv("PL_GLOBAL_SEED", value)
    assert run_seed() == seed


def test_every_part_of_a_key_and_its_place_count():
    """The blake2b of the key as Python spells it, which no later version may change: runs would draw otherwise."""
    assert seed_from(0, 1) == int.from_bytes(hashlib.blake2b(b"(0, 1)", digest_size=8).digest(), "big")
    assert seed_from(7) == int.from_bytes(hashlib.blake2b(b"(7,)", digest_size=8).digest(), "big")
    keys = [(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1), (0, 0, 1), (0, 1, 0), (10,), (-1,)]
    assert len({seed_from(*key) for key in keys}) == len(keys)


@pytest.mark.parametrize("fails", [False, True])
def test_a_seeded_block_draws_its_own_numbers_and_gives_the_state_back(fails):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    drawn = []
    for key in ((1, 2), (2, 1), (1, 2)):
        try:
            with seeded(*key):
                drawn.append(torch.rand(4))
                assert not fails or 1 / 0
        except ZeroDivisionError:
            pass
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(drawn[0], drawn[2]) and not torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[0], torch.rand(4, generator=torch.Generator().manual_seed(seed_from(1, 2))))


@pytest.mark.parametrize("bounds", [(), (2.0,), (-3.0, 5.0), (1.0, 1.0)])
def test_uniform_numbers_are_24_bits_between_their_bounds(bounds):
    low, high = [*bounds, *(0.0, 1.0)[len(bounds) :]]
    draw = StatelessRandom(5, np.zeros(1000), np.arange(1000))
    bits, found = draw("x"), draw.uniform("x", *bounds)
    assert found.dtype == np.float64 and (bits >= 0).all() and (bits < 2**32).all()
    assert found.tolist() == [low + (high - low) * (bit >> 8) / 2**24 for bit in bits.tolist()]


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_whole_numbers_are_shares_of_32_bits(kind):
    bits = kind([0, 1, 2**31 - 1, 2**31, 2**32 - 1])
    for count in (1, 2, 3, 1000):
        assert below(bits, count).tolist() == [bit * count // 2**32 for bit in bits.tolist()]


def test_names_draw_apart():
    draw = StatelessRandom(5, np.zeros(9), np.arange(9))
    assert draw("a").tolist() == draw("a").tolist() != draw("b").tolist()


SEEDS = range(12, 20)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_s_hash_may_have_any_highest_bits(seed):
    name = int.from_bytes(hashlib.blake2b(b"", digest_size=8).digest())
    found = StatelessRandom(seed, np.zeros(1), np.zeros(1))("")
    assert found.tolist() == [reference(reference(reference(seed_from(seed))) + name) >> 32]


def test_the_seeds_of_that_test_have_all_highest_bits():
    assert {seed_from(seed) >> 62 for seed in SEEDS} == {0, 1, 2, 3}
