"""What shapes tell of a net, against the published nets."""

import pytest

from vit_lightning.errors import InputError
from vit_lightning.weights.layouts.shapes import HEADS, heads_of, settle_table, variant_of


def test_the_widths_of_published_nets_have_one_number_of_heads():
    """Ti, S, B and L as in the paper and DeiT, H, g and G as in "Scaling Vision Transformers"."""
    published = {192: 3, 384: 6, 768: 12, 1024: 16, 1280: 16, 1408: 16, 1664: 16}
    assert {width: HEADS.get(width) for width in published} == published
    for width, heads in published.items():
        assert heads_of(width, None) == heads
    assert heads_of(768, 8) == 8 and heads_of(100, 4) == 4 and heads_of(100, None, {100: 5}) == 5
    with pytest.raises(InputError, match=r"its width of 100 has, .* pass heads"):
        heads_of(100, None)
    with pytest.raises(InputError, match="7 heads do not divide the file's width of 768"):
        heads_of(768, 7)


@pytest.mark.parametrize(
    ("length", "prefixes", "cell", "stated", "wanted", "expected"),
    [
        (197, (1,), 16, None, None, (1, (224, 224))),
        (196, (0, 1), 16, None, None, (0, (224, 224))),
        (577, (1,), 16, None, None, (1, (384, 384))),
        (50, (1,), 32, None, None, (1, (224, 224))),
        (7, (1,), 8, (16, 24), None, (1, (16, 24))),  # two rows of three
        (7, (1,), 8, None, (24, 16), (1, (24, 16))),
        (17, (1,), 8, (16, 64), (64, 16), (1, (16, 64))),  # what the file states first
        (17, (1,), 8, None, (64, 16), (1, (32, 32))),  # then a square
        (17, (1,), 8, (40, 40), None, (1, (32, 32))),  # what fits
        (261, (0, 1, 5), 14, None, None, (5, (224, 224))),
        (5, (1, 4), 8, (16, 16), None, (1, (16, 16))),  # where two squares fit, the stated one
        (7, (1,), 8, (18, 31), None, (1, (18, 31))),  # the rest of a side is cropped
    ],
)
def test_a_table_is_for_the_grid_that_fits(length, prefixes, cell, stated, wanted, expected):
    assert settle_table(length, prefixes, cell, stated, wanted) == expected


@pytest.mark.parametrize(
    ("length", "prefixes", "said"),
    [(7, (1,), "7 rows fits no square grid"), (5, (1, 4), "fits several grids"), (1, (1,), "fits no square grid")],
)
def test_a_table_that_leaves_it_open_asks_for_the_size(length, prefixes, said):
    with pytest.raises(InputError, match=said):
        settle_table(length, prefixes, 8, None, None)


@pytest.mark.parametrize(
    ("stages", "patch", "row", "name"),
    [
        ((), 16, (12, 768, 3072, 12), "B/16"),
        ((), 32, (24, 1024, 4096, 16), "L/32"),
        ((), 14, (32, 1280, 5120, 16), "H/14"),
        ((), 16, (12, 192, 768, 3), "Ti/16"),
        ((), 8, (12, 384, 1536, 6), "S/8"),
        ((), 16, (12, 768, 3072, 8), "B/16"),
        ((), 16, (3, 100, 100, 2), "B/16"),
        ((3, 4, 9), 1, (12, 768, 3072, 12), "R50+B/16"),
    ],
)
def test_a_net_is_named_after_the_nearest_variant(stages, patch, row, name):
    assert variant_of(stages, patch, row) == name
