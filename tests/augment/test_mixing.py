"""Case C13: batches of any size are mixed as the recipes define it, and targets stay distributions."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, kstest
from torch.nn import functional as F

from vit_lightning.augment import Augment
from vit_lightning.augment.mixing import mixer
from vit_lightning.augment.per_image import mixing
from vit_lightning.errors import InputError
from vit_lightning.seeds import seeded

alphas = st.tuples(st.sampled_from([0.0, 0.2, 1.0]), st.sampled_from([0.0, 1.0])).filter(any)


@given(st.integers(1, 9), alphas, st.integers(1, 3), st.integers(1, 12), st.integers(2, 12), st.integers(0, 2**32))
def test_mixing_keeps_pixels_and_targets_in_their_range(size, alpha, channels, height, classes, seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(size, channels, height, 7, generator=generator)
    labels = torch.randint(classes, (size,), generator=generator)
    before = images.clone()
    with seeded(seed):
        mixed, targets = mixer(*alpha, classes)(images, labels)
    assert mixed.shape == images.shape and mixed.dtype == torch.float32
    assert mixed.min() >= 0 and mixed.max() <= 1 + 1e-6
    assert targets.shape == (size, classes) and targets.min() >= 0
    assert torch.allclose(targets.sum(1), torch.ones(size))
    assert torch.equal(images, before)


@pytest.mark.parametrize("alpha", [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)])
def test_one_image_alone_stays_bit_for_bit(alpha):
    images, labels = torch.rand(1, 3, 8, 8), torch.tensor([2])
    for key in range(20):
        with seeded(key):
            mixed, targets = mixer(*alpha, 5)(images, labels)
        assert torch.equal(mixed, images)
        assert torch.equal(targets, F.one_hot(labels, 5).float())


def test_mixup_keeps_the_larger_share_of_each_image():
    """One draw of Beta(a, a) per batch, folded to its upper half (big_vision's get_mixup)."""
    images, labels = torch.rand(3, 1, 2, 2), torch.tensor([0, 1, 2])
    with seeded(0):
        shares = [float(mixer(0.4, 0.0, 3)(images, labels)[1][0, 0]) for _ in range(3000)]
    folded = 2 * beta(0.4, 0.4).cdf(shares) - 1
    assert min(shares) >= 0.5
    assert kstest(folded, "uniform").pvalue > 1e-3


def test_several_labels_are_mixed_as_they_are():
    labels = torch.tensor([[1.0, 1, 0], [0, 1, 0], [0, 0, 0]])
    with seeded(0):
        _, targets = mixer(1.0, 0.0, 3)(torch.rand(3, 3, 8, 8), labels)
    share = float(targets[0, 0])
    assert torch.allclose(targets, labels * share + labels.roll(1, 0) * (1 - share))


@pytest.mark.parametrize("label", [5, 7])
def test_a_label_outside_the_classes_is_named(label):
    with pytest.raises(InputError, match=f"has label {label}, outside the 5 classes 0 to 4"):
        mixer(1.0, 0.0, 5)(torch.rand(2, 3, 8, 8), torch.tensor([1, label]))
    assert mixer(1.0, 0.0, 5)(torch.rand(2, 3, 8, 8), torch.tensor([1, 4]))[1].shape == (2, 5)


def test_both_kinds_take_turns():
    images, labels = torch.rand(4, 1, 16, 16), torch.arange(4)
    with seeded(0):
        mixed = [mixer(1.0, 1.0, 4)(images, labels)[0] for _ in range(200)]
    cut = sum(bool(((batch == images) | (batch == images.roll(1, 0))).all()) for batch in mixed)
    assert 70 < cut < 130


@pytest.mark.parametrize(("preset", "share"), [("none", 0), ("light1", 0), ("light2", 0.2), ("strong2", 0.8)])
def test_presets_mix(preset, share):
    assert Augment(preset=preset).mixup == share
    assert (mixing(Augment(preset=preset), 3) is None) == (share == 0)


@pytest.mark.gpu
@pytest.mark.parametrize("alpha", [(1.0, 0.0), (0.0, 1.0)])
def test_the_host_never_waits_for_the_device(alpha):
    images, labels = torch.rand(4, 3, 8, 8, device="cuda"), torch.arange(4, device="cuda")
    mix = mixer(*alpha, 5)
    torch.cuda.set_sync_debug_mode("error")
    try:
        mix(images, labels)
    finally:
        torch.cuda.set_sync_debug_mode("default")
