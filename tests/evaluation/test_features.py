"""Features collected from batches, and kept in files that know their net and their set."""

import shutil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from vit_lightning.errors import InputError
from vit_lightning.evaluation.features import (
    Collector,
    DamagedFile,
    FeatureCache,
    FeatureSet,
    check_finite,
    net_digest,
    set_digest,
)
from vit_lightning.models import NetConfig, build

FOUND = FeatureSet(torch.arange(12.0).reshape(4, 3), torch.tensor([0, 1, -100, 1]))


class Images:
    """Names and labels of images."""

    def __init__(self, keys, labels=None):
        self.keys = keys
        if labels is not None:
            self.labels = np.array(labels)

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, index):
        return self.keys[index], 0


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 11))
def test_batches_of_any_size_become_the_set_without_padding(images, batch, padding):
    features = torch.arange(images * 2.0).reshape(images, 2)
    padded = torch.cat([features, features.new_full((padding, 2), -1)]), torch.arange(images + padding)
    collector = Collector(images)
    for rows, labels in zip(padded[0].split(batch), padded[1].split(batch), strict=True):
        collector.add(rows, labels)
    assert collector.came == images
    found = collector.result()
    assert torch.equal(found.features, features) and torch.equal(found.labels, torch.arange(images))


def test_half_precision_becomes_float():
    collector = Collector(1)
    collector.add(torch.ones(1, 2, dtype=torch.bfloat16), torch.tensor([3]))
    assert collector.result().features.dtype == torch.float32


def test_several_labels_are_refused():
    with pytest.raises(InputError, match="several labels each"):
        Collector(2).add(torch.zeros(2, 3), torch.zeros(2, 5))


def test_what_has_no_label_does_not_count():
    assert FOUND.labelled().labels.tolist() == [0, 1, 1] and FOUND.numbers.tolist() == [0, 1, 3]


def test_features_that_are_not_finite_name_the_image():
    found = FeatureSet(torch.tensor([[0.0], [torch.nan], [torch.inf]]), torch.tensor([0, 1, 1]))
    with pytest.raises(InputError, match=r"2 of 3 test images are not finite, first of b\.png"):
        check_finite(found, "test", Images(["a.png", "b.png", "c.png"]))
    check_finite(FeatureSet(found.features, torch.tensor([0, -101, -100])), "test", Images(["a", "b", "c"]))


# Files ---------------------------------------------------------------------------------------------------------------


def test_what_was_written_is_read(tmp_path):
    cache = FeatureCache(tmp_path / "new", "n" * 64)
    assert cache.read("test", "s" * 64) is None
    path = cache.write("test", "s" * 64, FOUND)
    found = cache.read("test", "s" * 64)
    assert torch.equal(found.features, FOUND.features) and torch.equal(found.labels, FOUND.labels)
    assert [one.name for one in (tmp_path / "new").iterdir()] == [path.name]


def test_another_net_or_set_has_another_file(tmp_path):
    cache = FeatureCache(tmp_path, "n" * 64)
    cache.write("test", "s" * 64, FOUND)
    assert cache.read("test", "t" * 64) is None and cache.read("training", "s" * 64) is None
    assert FeatureCache(tmp_path, "m" * 64).read("test", "s" * 64) is None


@pytest.mark.parametrize(("net", "images", "said"), [("m" * 64, "s" * 64, "net"), ("n" * 64, "t" * 64, "set of imag")])
def test_features_of_another_net_under_a_false_name_are_never_taken(tmp_path, net, images, said):
    path = FeatureCache(tmp_path, net).write("test", images, FOUND)
    cache = FeatureCache(tmp_path, "n" * 64)
    shutil.move(path, cache.path("test", "s" * 64))
    with pytest.raises(InputError, match=f"holds the features of another {said}"):
        cache.read("test", "s" * 64)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "foreign"])
def test_a_damaged_file_is_known_and_replaced(tmp_path, damage):
    cache = FeatureCache(tmp_path, "n" * 64)
    path = cache.write("test", "s" * 64, FOUND)
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[-5] ^= 1
    elif damage == "foreign":
        from safetensors.torch import save_file

        save_file({"other": torch.zeros(2)}, path)
        content = bytearray(path.read_bytes())
    path.write_bytes({"cut": content[:-9], "empty": b"", "text": b"features"}.get(damage, content))
    with pytest.raises(DamagedFile, match=path.name):
        cache.read("test", "s" * 64)
    cache.write("test", "s" * 64, FOUND)
    assert torch.equal(cache.read("test", "s" * 64).features, FOUND.features)


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vit_lightning.evaluation.features.save_file", full)
    with pytest.raises(InputError, match="no space left"):
        FeatureCache(tmp_path, "n" * 64).write("test", "s" * 64, FOUND)
    assert not list(tmp_path.iterdir())


def test_files_hold_full_digests(tmp_path):
    path = FeatureCache(tmp_path, "n" * 64).write("test", "s" * 64, FOUND)
    with safe_open(path, framework="pt") as file:
        assert file.metadata()["net"] == "n" * 64 and file.metadata()["set"] == "s" * 64


# Digests -------------------------------------------------------------------------------------------------------------


def net():
    torch.manual_seed(0)
    return build(NetConfig("mu/8"), 16, 3)


def test_the_digest_of_a_net_is_that_of_its_features():
    first, facts = net(), {"mean": (0.5,), "net": {"variant": "mu/8"}}
    assert net_digest(first, facts) == net_digest(net(), dict(facts))
    first.head.bias.data += 1
    assert net_digest(first, facts) == net_digest(net(), facts)
    assert net_digest(net(), facts | {"mean": (0.4,)}) != net_digest(net(), facts)
    first.blocks[0].mlp.up.bias.data[0] += 1e-7
    assert net_digest(first, facts) != net_digest(net(), facts)


def test_the_digest_of_a_set_follows_names_labels_order_and_pixels():
    seen, facts = torch.zeros(2, 3, 4, 4, dtype=torch.uint8), {"data": "x"}
    digests = {
        set_digest(Images(["a", "b"], [0, 1]), seen, facts),
        set_digest(Images(["a", "c"], [0, 1]), seen, facts),
        set_digest(Images(["b", "a"], [0, 1]), seen, facts),
        set_digest(Images(["a", "b"], [1, 1]), seen, facts),
        set_digest(Images(["a", "b"]), seen, facts),
        set_digest(Images(["a", "b"], [0, 1]), seen + 1, facts),
        set_digest(Images(["a", "b"], [0, 1]), seen, {"data": "y"}),
    }
    assert len(digests) == 7
    assert set_digest(Images(["a", "b"], [0, 1]), seen, facts) in digests


class Net(torch.nn.Module):
    """A net with tensors of these names."""

    def __init__(self, head_names=(), **tensors) -> None:
        super().__init__()
        self.head_names = head_names
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)


def test_the_digest_of_a_net_follows_names_types_and_forms():
    zeros = torch.zeros(4)
    nets = [
        Net(a=zeros),
        Net(b=zeros),
        Net(a=zeros.reshape(2, 2)),
        Net(a=zeros.int()),
        Net(a=zeros, b=zeros),
    ]
    assert len({net_digest(one, {}) for one in nets}) == 5
    assert net_digest(Net(head_names=("b",), a=zeros, b=zeros), {}) == net_digest(Net(a=zeros), {})


def test_the_order_of_facts_and_tensors_says_nothing():
    one, other = torch.zeros(2), torch.ones(2)
    assert net_digest(Net(a=one, b=other), {"x": 1, "y": 2}) == net_digest(Net(b=other, a=one), {"y": 2, "x": 1})
    seen = torch.zeros(1, 3, 2, 2)
    assert set_digest(Images(["a"]), seen, {"x": 1, "y": 2}) == set_digest(Images(["a"]), seen, {"y": 2, "x": 1})


@pytest.mark.parametrize("changed", ["features", "labels", "format"])
def test_every_part_of_a_file_is_compared(tmp_path, changed):
    from safetensors.torch import load_file, save_file

    cache = FeatureCache(tmp_path, "n" * 64)
    path = cache.write("test", "s" * 64, FOUND)
    with safe_open(path, framework="pt") as file:
        facts = file.metadata()
    tensors = load_file(path)
    if changed == "format":
        facts["format"] = "0"
    else:
        tensors[changed][1] += 1
    save_file(tensors, path, facts)
    with pytest.raises(DamagedFile, match="does not hold what was written"):
        cache.read("test", "s" * 64)


def test_what_is_not_kept_is_counted():
    collector = Collector(3, keeps=False)
    collector.add(torch.zeros(2, 1), torch.zeros(2))
    collector.add(torch.zeros(2, 1), torch.zeros(2))
    assert (collector.came, collector.done) == (3, 2)


def test_before_the_first_batch_nothing_has_come_and_labels_are_whole_numbers():
    collector = Collector(3)
    assert (collector.came, collector.done) == (0, 0)
    collector.add(torch.zeros(2, 1), torch.tensor([2**40, -101]))
    assert (collector.came, collector.done) == (2, 0)
    collector.add(torch.ones(1, 1), torch.tensor([1], dtype=torch.int32))
    found = collector.result()
    assert found.labels.dtype == torch.int64 and found.labels.tolist() == [2**40, -101, 1]


def test_what_is_not_kept_takes_no_memory_and_what_did_not_come_is_no_result():
    counting = Collector(4, keeps=False)
    for _ in range(2):
        counting.add(torch.zeros(2, 1), torch.zeros(2))
    counting.add(torch.zeros(2, 1), torch.zeros(2))
    assert counting._features is None and counting.came == 4
    short = Collector(3)
    short.add(torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(AssertionError, match="not all images came"):
        short.result()
