"""What shapes tell of hybrids and ResNets, whose stems make an image smaller before its patches are cut."""

import pytest

from vit_lightning.errors import InputError
from vit_lightning.weights.layouts.shapes import resnet_variant, settle_table, stem_scale, variant_of


@pytest.mark.parametrize(("stages", "scale"), [((), 1), ((0,), 4), ((3, 4, 9), 16), ((2, 2, 2, 2), 32)])
def test_a_stem_halves_an_image_twice_and_with_each_further_stage(stages, scale):
    assert stem_scale(stages) == scale


@pytest.mark.parametrize(
    ("length", "prefixes", "patch", "stem", "stated", "wanted", "expected"),
    [
        (50, (1,), 1, 32, None, None, (1, (224, 224))),
        (49, (0, 1), 8, 4, None, None, (0, (224, 224))),  # a cell of 32 pixels
        (7, (1,), 1, 16, (32, 48), None, (1, (32, 48))),
        (7, (1,), 1, 16, (17, 33), None, (1, (17, 33))),  # a stem rounds up, 2 rows of 3
        (7, (1,), 2, 4, (16, 31), None, None),  # 4 rows and 8 columns of the map: 2 of 4 patches
        (7, (1,), 2, 4, None, (23, 16), (1, (23, 16))),  # 6 rows and 4 columns of the map: 3 of 2 patches
    ],
)
def test_the_cell_of_a_hybrid_is_a_patch_of_its_map(length, prefixes, patch, stem, stated, wanted, expected):
    if expected is None:
        with pytest.raises(InputError, match="7 rows fits no square grid"):
            settle_table(length, prefixes, patch, stated, wanted, stem)
    else:
        assert settle_table(length, prefixes, patch, stated, wanted, stem) == expected


@pytest.mark.parametrize(
    ("stages", "patch", "name"),
    [
        ((0,), 8, "R+Ti/16"),
        ((0,), 4, "Ti/4"),
        ((2, 2, 2, 2), 1, "R26+Ti/32"),
        ((3, 4, 6, 3), 1, "R50+Ti/32"),
        ((3, 4, 6, 3), 2, "Ti/2"),
        ((3, 4, 9), 1, "R50+Ti/16"),
    ],
)
def test_a_hybrid_is_named_by_all_that_it_takes_off(stages, patch, name):
    assert variant_of(stages, patch, (12, 192, 768, 3)) == name


@pytest.mark.parametrize(
    ("stages", "width", "name"),
    [
        ((3, 4, 6, 3), 64, "R50x1"),
        ((3, 4, 23, 3), 192, "R101x3"),
        ((3, 8, 36, 3), 256, "R152x4"),
        ((2, 2, 2, 2), 32, "R26x0.5"),
        ((1, 1), 64, "R50x1"),
    ],
)
def test_a_resnet_is_named_by_its_layers_and_width(stages, width, name):
    assert resnet_variant(stages, width) == name


@pytest.mark.parametrize(("length", "stated", "size"), [(2, None, (8, 8)), (2, (8, 12), (8, 12)), (1, (4, 4), None)])
def test_a_grid_has_a_patch_at_least(length, stated, size):
    if size is None:
        with pytest.raises(InputError, match="1 rows fits no square grid"):
            settle_table(length, (1,), 8, stated, None)
    else:
        assert settle_table(length, (1,), 8, stated, None) == (1, size)
