"""Orders that go through a set's blocks, and being told what comes soon."""

import numpy as np
import torch

from vit_lightning.data.records import Records
from vit_lightning.data.sampling import LOOKAHEAD, WINDOW, EvalSampler, TrainSampler, block_shuffled
from vit_lightning.data.subsets import Subset

BLOCKS = np.repeat(np.arange(200, dtype=np.int32), 10)


class Blocks:
    """2,000 records in 200 blocks, which remember what they were told."""

    blocks = BLOCKS

    def __init__(self):
        self.told = []

    def __len__(self):
        return len(BLOCKS)

    def __getitem__(self, index):
        return torch.zeros(3, 8, 8, dtype=torch.uint8), 0

    def announce(self, numbers):
        self.told.append(numbers)


def test_every_record_comes_once_and_few_blocks_at_a_time():
    order = block_shuffled(BLOCKS, torch.Generator().manual_seed(1))
    assert sorted(order) == list(range(2000))
    places = np.empty(2000, int)
    places[order] = np.arange(2000)
    spans = np.ptp(places.reshape(200, 10), axis=1)  # from a block's first record to its last
    assert 10 * WINDOW * 0.5 < np.median(spans) <= spans.max() < 10 * (WINDOW + 1)
    assert len(set(BLOCKS[order[500:600]])) > 25
    assert not np.array_equal(order, block_shuffled(BLOCKS, torch.Generator().manual_seed(2)))


def test_ranks_and_a_resumed_epoch_share_one_order():
    whole = [draw.index for draw in TrainSampler(Blocks(), seed=3)]
    first, second = (list(TrainSampler(Blocks(), 2, rank, seed=3)) for rank in (0, 1))
    assert [draw.index for pair in zip(first, second, strict=True) for draw in pair] == whole
    resumed = TrainSampler(Blocks(), 2, 1, seed=3)
    resumed.skip(400, epoch=0)
    assert list(resumed) == second[400:]


def test_a_set_is_told_what_comes_through_all_that_wraps_it():
    source = Blocks()
    numbers = np.arange(0, 2000, 2)
    records = Records(Subset(source, numbers), lambda image: image, (8, 8), 1, "training")
    assert np.array_equal(records.blocks, BLOCKS[::2])
    order = [int(numbers[draw.index]) for draw in TrainSampler(records)]
    step = LOOKAHEAD // 64
    assert [told[0] for told in source.told] == order[::step]
    assert source.told[0].tolist() == order
    source.told.clear()
    list(EvalSampler(records))
    assert source.told[0].tolist() == numbers.tolist()
