"""Arrays that no tensor can hold are refused by their type."""

import numpy as np
import pytest

from vit_lightning.data.images import load
from vit_lightning.errors import InputError


@pytest.mark.parametrize("shape", [(4, 4, 3), (4, 4)])
@pytest.mark.parametrize("kind", [np.longdouble, np.complex64, np.dtype("U2"), object])
def test_arrays_of_other_numbers_are_one_sentence(kind, shape):
    with pytest.raises(InputError, match=r"^x: "):
        load(np.zeros(shape, kind), name="x")


def test_numbers_of_eight_bytes_are_taken():
    pixels = load(np.full((2, 3, 3), 0.5, np.float64), name="x")
    assert pixels.shape == (3, 2, 3) and pixels.unique().tolist() == [128]
