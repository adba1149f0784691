"""What JAX files leave open, images' sizes above all, and what they say beside it."""

import numpy as np
import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report, load_net
from vit_lightning.weights.save import save

FIELDS = {"width": 32, "depth": 1, "heads": 2, "mlp": 48}


def saved(net, path) -> dict[str, np.ndarray]:
    save(net, Report("", ""), path, "npz")
    return dict(np.load(path))


@pytest.mark.parametrize(("given", "size"), [(None, (224, 224)), ((32, 64), (32, 64))])
def test_a_resnet_takes_any_size_and_says_which_it_took(given, size, tmp_path, randomise):
    saved(randomise(build(NetConfig("R50x1", width=32, stages=(1, 2), channels=1), 32, 3)), tmp_path / "w.npz")
    net, report = load_net(tmp_path / "w.npz", image_size=given)
    assert net.image_size == size and (net.config.channels, net.num_classes) == (1, 3)
    assert ("a ResNet takes any image size: 224 pixels" in report.notes) == (given is None)
    assert (report.mean, report.std) == ((0.5,), (0.5,))
    assert "the file does not say net.resnet_code=official: assumed" in str(report)


def test_training_state_beside_a_resnet_is_named(tmp_path, randomise):
    arrays = saved(randomise(build(NetConfig("R50x1", width=32, stages=(1, 1)), 32, 0)), tmp_path / "w.npz")
    np.savez(tmp_path / "beside.npz", **arrays, **{"opt/x": np.zeros(2), "step": np.zeros(())})
    net, report = load_net(tmp_path / "beside.npz", image_size=32)
    assert report.dropped == dict.fromkeys(("opt/x", "step"), "beside the net: training state")
    assert net.num_classes == 0 and net.config.stages == (1, 1)


def test_each_unit_of_a_resnet_has_its_own_tensors_under_its_number(tmp_path, randomise):
    """Units count from 01 within their stage; a, b and c are the parts of one."""
    net = randomise(build(NetConfig("R50x1", width=32, stages=(1, 2)), 32, 3))
    arrays = saved(net, tmp_path / "w.npz")
    for stage, unit in ((0, 0), (1, 0), (1, 1)):
        theirs, ours = f"resnet/block{stage + 1}/unit0{unit + 1}", net.stages[stage][unit]
        for number, part in enumerate("abc", 1):
            np.testing.assert_array_equal(
                arrays[f"{theirs}/{part}/group_norm/gamma"], getattr(ours, f"norm{number}").weight.detach()
            )
            kernel = arrays[f"{theirs}/{part}/standardized_conv2d/kernel"]
            np.testing.assert_array_equal(kernel.transpose(3, 2, 0, 1), getattr(ours, f"conv{number}").weight.detach())
    assert "resnet/block2/unit01/a/proj/standardized_conv2d/kernel" in arrays
    assert "resnet/block2/unit02/a/proj/standardized_conv2d/kernel" not in arrays


@pytest.mark.parametrize("given", [None, 64])
def test_without_a_table_the_size_is_that_of_the_paper_and_said(given, tmp_path, randomise):
    net = randomise(build(NetConfig("Ti/16", **FIELDS, pool="gap", position="sincos_2d"), 32, 3))
    saved(net, tmp_path / "w.npz")
    found, report = load_net(tmp_path / "w.npz", image_size=given)
    assert found.image_size == ((224, 224) if given is None else (64, 64))
    said = "the file holds no position table: sine and cosine positions for 224 pixels"
    assert (said in report.notes) == (given is None)


@pytest.mark.parametrize("heads", [1, 4])
def test_a_pooling_of_other_heads_than_the_blocks_is_refused(heads, tmp_path, randomise):
    """More or fewer than the two of the blocks."""
    arrays = saved(randomise(build(NetConfig("Ti/16", **FIELDS, pool="map"), 32, 3)), tmp_path / "w.npz")
    query = "MAPHead_0/MultiHeadDotProductAttention_0/query/kernel"
    arrays[query] = arrays[query].reshape(32, heads, 32 // heads)
    np.savez(tmp_path / "other.npz", **arrays)
    with pytest.raises(InputError, match="attention pooling has another number of heads than its blocks, 2"):
        load_net(tmp_path / "other.npz")


@pytest.mark.parametrize("stages", [(0,), (2, 1)])
def test_a_hybrid_s_image_is_as_large_as_its_table_s_cells(stages, tmp_path, randomise):
    """Channels are those of the stem, whose map has more."""
    cell = 2 ** (len(stages) + 1)
    net = randomise(build(NetConfig("Ti/1", **FIELDS, stages=stages, channels=1), 3 * cell, 3))
    saved(net, tmp_path / "w.npz")
    found, report = load_net(tmp_path / "w.npz")
    assert found.image_size == (3 * cell, 3 * cell) and found.config.channels == 1
    assert found.config.stages == stages and (report.mean, report.std) == ((0.5,), (0.5,))
    image = torch.randn(1, 1, 3 * cell, 3 * cell)
    with torch.no_grad():
        assert torch.equal(found.eval()(image), net(image))


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_a_plain_net_reads_as_many_channels_as_its_patches_have(channels, tmp_path, randomise):
    net = randomise(build(NetConfig("Ti/16", **FIELDS, channels=channels), 32, 3))
    saved(net, tmp_path / "w.npz")
    found, report = load_net(tmp_path / "w.npz")
    assert found.config.channels == channels and report.mean == report.std == (0.5,) * channels
    assert torch.equal(found.patches.proj.weight, net.patches.proj.weight)
