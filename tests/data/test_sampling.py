from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DistributedSampler

from datamodules.reading.published import tfds_order
from vit_lightning.data import sampling
from vit_lightning.data.sampling import Draw, EvalSampler, TrainSampler, columns
from vit_lightning.seeds import seed_from, seeded

ORDER = [4, 2, 7, 1, 0, 5, 6, 3]
sizes = st.integers(1, 200)
worlds = st.integers(1, 8)
epochs = st.integers(0, 5)
seeds = st.integers(0, 2**32 - 1)


def epoch_of(size: int, world: int, rank: int, seed: int, epoch: int, skip: int = 0) -> list[Draw]:
    sampler = TrainSampler(range(size), world, rank, seed)
    sampler.skip(skip, epoch)
    sampler.set_epoch(epoch)
    assert len(sampler) == size // world
    return list(sampler)


def batches_of(draws: list[Draw], size: int) -> list[list[Draw]]:
    return [draws[start : start + size] for start in range(0, len(draws), size)]


@given(sizes, worlds, seeds, epochs)
def test_epoch_is_a_permutation_without_the_tail(size, world, seed, epoch):
    ranks = [epoch_of(size, world, rank, seed, epoch) for rank in range(world)]
    assert {len(draws) for draws in ranks} == {size // world}
    seen = [draw.index for draw in chain(*ranks)]
    assert len(set(seen)) == len(seen) == size - size % world
    assert set(seen) <= set(range(size))


@given(st.integers(8, 200), worlds, st.integers(1, 8), seeds, epochs)
def test_global_batches_do_not_depend_on_the_number_of_devices(size, world, batch, seed, epoch):
    ranks = [batches_of(epoch_of(size, world, rank, seed, epoch), batch) for rank in range(world)]
    alone = batches_of(epoch_of(size, 1, 0, seed, epoch), batch * world)
    full = size // (batch * world)
    for step in range(full):
        assert sorted(chain(*(batches[step] for batches in ranks))) == sorted(alone[step])


@given(sizes, worlds, seeds, epochs, st.integers(0, 30), st.integers(0, 30))
def test_resume_is_exact_however_often(size, world, seed, epoch, first, second):
    whole = epoch_of(size, world, world - 1, seed, epoch)
    assert epoch_of(size, world, world - 1, seed, epoch, first) == whole[first:]
    assert epoch_of(size, world, world - 1, seed, epoch, first + second) == whole[first:][second:]


@given(st.integers(8, 200), worlds, seeds, epochs, st.integers(0, 8))
def test_columns_hold_what_the_iteration_yields(size, world, seed, epoch, skip):
    sampler = TrainSampler(range(size), world, world - 1, seed)
    sampler.skip(min(skip, size // world - 1), epoch)
    sampler.set_epoch(epoch)
    for ours, theirs in zip(sampler.draws(epoch), columns(sampler), strict=True):
        assert ours.dtype == theirs.dtype and ours.tolist() == theirs.tolist()


def test_case_c3_resume_from_step_two_of_eight_records():
    sampler = TrainSampler(range(8))
    whole = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        whole += [draw.index for draw in sampler]
    resumed = TrainSampler(range(8))
    resumed.skip(4, epoch=0)
    rest = []
    for epoch in range(2):
        resumed.set_epoch(epoch)
        rest += [draw.index for draw in resumed]
    assert whole[:4] + rest == whole
    assert sorted(whole[:8]) == sorted(whole[8:]) == list(range(8))
    assert whole[:8] != whole[8:]


def test_order_depends_on_seed_and_epoch_alone():
    orders = {(seed, epoch): epoch_of(50, 1, 0, seed, epoch) for seed in range(3) for epoch in range(3)}
    assert len({tuple(draw.index for draw in order) for order in orders.values()}) == 9
    torch.manual_seed(1)
    assert epoch_of(50, 1, 0, 2, 1) == orders[2, 1]


def test_draws_carry_epoch_and_global_position():
    ranks = [epoch_of(7, 2, rank, 0, 3) for rank in range(2)]
    assert [draw.position for draw in ranks[0]] == [0, 2, 4]
    assert [draw.position for draw in ranks[1]] == [1, 3, 5]
    assert {draw.epoch for draw in chain(*ranks)} == {3}


@given(sizes, worlds)
def test_evaluation_counts_each_record_once_on_equal_ranks(size, world):
    ranks = [list(EvalSampler(range(size), world, rank)) for rank in range(world)]
    assert {len(draws) for draws in ranks} == {-(-size // world)} == {len(EvalSampler(range(size), world))}
    in_order = [draw for turn in zip(*ranks, strict=True) for draw in turn]
    assert [draw.index for draw in in_order if not draw.padding] == list(range(size))


def test_case_c4_five_records_on_two_ranks():
    ranks = [list(EvalSampler(range(5), 2, rank)) for rank in range(2)]
    assert [[draw.index for draw in draws if not draw.padding] for draws in ranks] == [[0, 2, 4], [1, 3]]
    assert [sum(draw.padding for draw in draws) for draws in ranks] == [0, 1]


@pytest.mark.parametrize("sampler", [TrainSampler, EvalSampler])
def test_lightning_leaves_the_samplers_alone(sampler):
    assert issubclass(sampler, DistributedSampler)


def test_seeded_block_is_repeatable_and_leaves_no_trace():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with seeded(1, 2, 3):
        first = torch.rand(2)
    with pytest.raises(ZeroDivisionError), seeded(4):
        1 / 0  # noqa: B018
    assert torch.equal(torch.rand(3), expected)
    with seeded(1, 2, 3):
        assert torch.equal(torch.rand(2), first)
    with seeded(1, 3, 2):
        assert not torch.equal(torch.rand(2), first)


def test_seeds_of_neighbouring_keys_differ():
    keys = [(a, b) for a in range(30) for b in range(30)]
    assert len({seed_from(*key) % 2**32 for key in keys}) == len(keys)  # torch's generator uses 32 bits


def test_tfds_order_of_cifar():
    # Published order of CIFAR-10's and CIFAR-100's training records.
    assert tfds_order("train", range(50_000))[:5].tolist() == [16399, 1680, 47917, 17307, 27051]


@pytest.mark.parametrize("world", [1, 3])
def test_a_stopped_evaluation_goes_on_at_its_first_record(world):
    """Of eleven records the first four are done; three devices share seven, and two paddings."""
    ranks = [list(EvalSampler(range(11), world, rank, first=4)) for rank in range(world)]
    assert {len(draws) for draws in ranks} == {len(EvalSampler(range(11), world, first=4))} == {-(-7 // world)}
    in_order = [draw for turn in zip(*ranks, strict=True) for draw in turn]
    assert [draw.index for draw in in_order] == [4, 5, 6, 7, 8, 9, 10, 10, 10][: len(in_order)]
    assert [draw.position for draw in in_order] == list(range(4, 4 + len(in_order)))
    assert [draw.padding for draw in in_order] == [False] * 7 + [True] * (len(in_order) - 7)


class Announced:
    """A set that is told what comes."""

    def __init__(self, size: int) -> None:
        self.size, self.told = size, []

    def __len__(self) -> int:
        return self.size

    def announce(self, numbers) -> None:
        self.told.append(numbers.tolist())


def test_a_set_is_told_what_comes_next_and_again_before_that_has_come(monkeypatch):
    monkeypatch.setattr(sampling, "LOOKAHEAD", 128)  # told anew every two records
    source = Announced(200)
    order = [draw.index for draw in TrainSampler(source)]
    assert len(source.told) == 100
    assert source.told[0] == order[:128] and source.told[1] == order[2:130] and source.told[-1] == order[198:]
    source = Announced(7)
    list(EvalSampler(source, 2, 1))
    assert source.told == [[1, 2, 3, 4, 5, 6], [5, 6]]


@pytest.mark.parametrize("window", [1, 4])
def test_records_of_some_blocks_are_mixed_at_a_time(monkeypatch, window):
    monkeypatch.setattr(sampling, "WINDOW", window)
    blocks = np.repeat(np.arange(50), 20)
    order = sampling.block_shuffled(blocks, torch.Generator().manual_seed(0))
    assert sorted(order.tolist()) == list(range(1000))
    first, last = ({} for _ in range(2))
    for place, block in enumerate(blocks[order].tolist()):
        first.setdefault(block, place)
        last[block] = place
    open_at_once = [sum(first[b] <= place <= last[b] for b in first) for place in range(0, 1000, 7)]
    assert max(open_at_once) <= window + 1 and (window == 1 or max(open_at_once) > 2)
    assert list(first) != sorted(first)  # blocks come in a random order too


def test_blocks_of_which_a_part_of_a_set_has_none_are_left_out():
    order = sampling.block_shuffled(np.array([5, 5, 2, 9, 2]), torch.Generator().manual_seed(0))
    assert sorted(order.tolist()) == list(range(5))
    assert sampling.block_shuffled(np.array([], dtype=int), torch.Generator()).tolist() == []


def test_numbers_of_another_sampler_are_their_own_places():
    found = columns([5, Draw(3, 2, 1, True), 0])
    assert found.indices.tolist() == [5, 3, 0] and found.positions.tolist() == [5, 1, 0]
    assert found.epochs.tolist() == [0, 2, 0] and found.padding.tolist() == [False, True, False]


def test_a_run_that_was_resumed_inside_an_epoch_skips_in_that_epoch_alone():
    sampler = TrainSampler(range(10), 2, 1, seed=3)
    sampler.skip(2, epoch=4)
    assert len(sampler.draws(4).indices) == 3 and len(sampler.draws(5).indices) == len(sampler.draws(3).indices) == 5
    assert len(sampler) == 5
    sampler.skip(1, epoch=5)
    assert len(sampler.draws(4).indices) == 5


def test_the_order_of_an_epoch_is_the_same_in_every_version():
    assert [draw.index for draw in epoch_of(8, 1, 0, 7, 2)] == ORDER


# Draws that are equal over classes --------------------------------------------------------------------------------

labels = st.lists(st.integers(0, 5), min_size=1, max_size=120).map(np.array)


def balanced_epoch(classes, world=1, rank=0, seed=0, epoch=0, skip=0) -> list[Draw]:
    sampler = TrainSampler(range(len(classes)), world, rank, seed, classes)
    sampler.skip(skip, epoch)
    sampler.set_epoch(epoch)
    assert len(sampler) == len(classes) // world
    return list(sampler)


@given(labels, seeds, epochs)
def test_every_class_comes_equally_often_and_every_record_of_a_class(classes, seed, epoch):
    drawn = np.array([draw.index for draw in balanced_epoch(classes, 1, 0, seed, epoch)])
    assert len(drawn) == len(classes)
    times = np.bincount(drawn, minlength=len(classes))
    shares = [times[classes == each].sum() for each in np.unique(classes)]
    assert max(shares) - min(shares) <= 1
    for each in np.unique(classes):
        assert np.ptp(times[classes == each]) <= 1


@given(labels, worlds, st.integers(1, 8), seeds, epochs)
def test_balanced_batches_do_not_depend_on_the_number_of_devices(classes, world, batch, seed, epoch):
    ranks = [batches_of(balanced_epoch(classes, world, rank, seed, epoch), batch) for rank in range(world)]
    alone = batches_of(balanced_epoch(classes, 1, 0, seed, epoch), batch * world)
    for step in range(len(classes) // (batch * world)):
        assert sorted(chain(*(batches[step] for batches in ranks))) == sorted(alone[step])


@given(labels, worlds, seeds, epochs, st.integers(0, 30))
def test_a_balanced_epoch_resumes_exactly(classes, world, seed, epoch, first):
    whole = balanced_epoch(classes, world, world - 1, seed, epoch)
    assert balanced_epoch(classes, world, world - 1, seed, epoch, first) == whole[first:]
    sampler = TrainSampler(range(len(classes)), world, world - 1, seed, classes)
    assert sampler.draws(epoch).indices.tolist() == [draw.index for draw in whole]


def test_other_records_of_a_large_class_come_in_each_epoch():
    classes = np.repeat([0, 1], [90, 10])
    seen = [{draw.index for draw in balanced_epoch(classes, epoch=epoch)} for epoch in range(8)]
    assert all(len(each) == 60 for each in seen)  # 50 of the large class, each once, and all 10 of the small one
    assert len(set.union(*seen)) > 95


def test_records_without_a_class_are_not_drawn():
    drawn = [draw.index for draw in balanced_epoch(np.array([0, -100, 1, 0]))]
    assert len(drawn) == 4 and 1 not in drawn


def test_balanced_draws_of_a_set_in_blocks_keep_to_its_blocks(monkeypatch):
    class Blocks:
        blocks = np.repeat(np.arange(40), 5)

        def __len__(self) -> int:
            return 200

    monkeypatch.setattr(sampling, "WINDOW", 2)
    classes = np.tile([0, 0, 0, 0, 1], 40)
    drawn = np.array([draw.index for draw in TrainSampler(Blocks(), classes=classes)])
    assert np.bincount(classes[drawn]).tolist() == [100, 100]
    spans = [np.ptp(np.flatnonzero(drawn // 5 == block)) for block in range(40)]
    assert max(spans) < 50


def test_balanced_draws_mix_the_classes():
    classes = np.repeat([0, 1], 200)
    drawn = np.array([draw.index for draw in balanced_epoch(classes)])
    changes = int((np.diff(classes[drawn]) != 0).sum())  # 199.5 of 399 on average, with deviation 10
    assert 140 < changes < 260
    assert np.abs(np.corrcoef(drawn, np.arange(400))[0, 1]) < 0.25
    assert (np.diff(drawn[classes[drawn] == 0]) < 0).sum() > 60  # nor in their order within a class


def test_the_draws_that_classes_cannot_share_equally_go_to_another_class_each_epoch():
    classes = np.array([0, 0, 1, 1, 2, 2, 2, 2])  # 8 draws of 3 classes
    poorer = {int(np.bincount(classes[[d.index for d in balanced_epoch(classes, epoch=e)]]).argmin()) for e in range(9)}
    assert poorer == {0, 1, 2}
