"""Principal components from one pass equal those of all vectors together, with one sign in every run."""

import numpy as np
import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.inspection.features import RunningPCA, colour_maps, fixed_signs


def vectors(count=200, width=6):
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, width)) * np.arange(width, 0, -1) + 5


def components(parts, count=3):
    running = RunningPCA()
    for part in parts:
        running.add(torch.from_numpy(part))
    return running.result(count)


@pytest.mark.parametrize("cuts", [[], [1], [7, 100, 199]])
def test_parts_in_any_number_give_the_components_of_the_whole(cuts):
    given = vectors()
    found = components(np.split(given, cuts))
    _, values, axes = np.linalg.svd(given - given.mean(0), full_matrices=False)
    variances = values**2 / (len(given) - 1)
    np.testing.assert_allclose(found.variances, variances[:3], rtol=1e-10)
    np.testing.assert_allclose(found.shares, variances[:3] / variances.sum(), rtol=1e-10)
    np.testing.assert_allclose(np.abs(found.axes.numpy() @ axes[:3].T), np.eye(3), atol=1e-9)
    np.testing.assert_allclose(found.mean, given.mean(0))
    assert (found.axes.gather(1, found.axes.abs().argmax(1, keepdim=True)) > 0).all()
    projected = found.project(torch.from_numpy(given))
    np.testing.assert_allclose(projected.var(0), found.variances, rtol=1e-10)


def test_signs_do_not_depend_on_the_solver():
    axes = torch.tensor([[0.1, -0.9, 0.2], [0.8, -0.1, 0.3]])
    torch.testing.assert_close(fixed_signs(axes), fixed_signs(-axes))
    assert fixed_signs(axes)[0, 1] == 0.9


def test_one_vector_has_no_components():
    with pytest.raises(InputError, match="of 1 vectors mean nothing; give two or more"):
        components([vectors(1)])


def test_colours_are_those_of_all_images_together():
    given = vectors(2 * 6)
    found = components([given])
    pictures = colour_maps(torch.from_numpy(given).reshape(2, 6, 6), found, (2, 3))
    assert pictures.shape == (2, 2, 3, 3) and pictures.dtype == torch.float32
    scaled = found.project(torch.from_numpy(given)) / found.variances.sqrt()
    expected = (0.5 + scaled / 5).clamp(0, 1).reshape(2, 2, 3, 3)
    torch.testing.assert_close(pictures, expected.float())
    alone = colour_maps(torch.from_numpy(given[:6]).reshape(1, 6, 6), found, (2, 3))
    torch.testing.assert_close(alone[0], pictures[0])


def test_two_channels_are_still_a_picture():
    given = vectors(8, 2)
    pictures = colour_maps(torch.from_numpy(given)[None], components([given]), (2, 4))
    assert pictures.shape == (1, 2, 4, 3) and (pictures[..., 2] == 0.5).all()
