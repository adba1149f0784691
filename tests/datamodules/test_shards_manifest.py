"""What manifest.json says of shards: where each split lies, and which lists of shards and labels are theirs."""

import io
import json
import logging
from pathlib import Path

import numpy as np
import pytest

from tests import servers
from tests.datamodules.test_shards import content, ready, shards, write
from vit_lightning.errors import InputError


@pytest.fixture
def root(tmp_path) -> Path:
    return write(tmp_path / "set")


def test_each_split_lies_in_the_folder_that_the_manifest_names(root):
    expected = {split: content(getattr(ready(root), f"{split}_set")) for split in ("train", "val", "test")}
    manifest = json.loads((root / "manifest.json").read_text())
    for split, folder in (("train", "first"), ("test", "train"), ("val", "test")):
        (root / split).rename(root / f"{folder}.moved")
        manifest["splits"][split]["folder"] = folder
    for moved in root.glob("*.moved"):
        moved.rename(moved.with_suffix(""))
    (root / "manifest.json").write_text(json.dumps(manifest))
    data = ready(root)
    for split, records in expected.items():
        found = content(getattr(data, f"{split}_set"))
        assert [(key, label) for key, _, label in found] == [(key, label) for key, _, label in records]
        assert [image for _, image, _ in found] == [image for _, image, _ in records]


@pytest.mark.parametrize("split", ["train", "val", "test"])
@pytest.mark.parametrize("name", ["labels.npy", "index.json"])
def test_labels_and_lists_of_another_set_are_refused(root, split, name):
    """They are whole, and of as many images."""
    file = root / split / name
    if name == "labels.npy":
        labels, written = np.load(file), io.BytesIO()
        np.save(written, np.roll(labels, 1))
        file.write_bytes(written.getvalue())
    else:
        file.write_text(json.dumps(json.loads(file.read_text()) | {"more": 1}))
    with pytest.raises(
        InputError, match=rf"{split}/{name} is not the one that prepare has written, by the checksum in"
    ):
        ready(root)
    file.unlink()
    with pytest.raises(InputError, match=rf"{split}/{name} is missing, by the checksum in manifest.json"):
        ready(root)


def test_shards_that_lack_bytes_are_named_by_setup_where_all_are_compared(root):
    """Whose checksum is not theirs is whole and damaged; the others are too short, or not there."""
    damaged, short, gone = (root / f"train/chunk-0-{number}.bin" for number in range(3))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    short.write_bytes(short.read_bytes()[:-1])
    gone.unlink()
    data = shards(root, verify=True)
    data.faults = []
    data.prepare_data()
    assert [str(fault) for fault in data.faults] == [f"{damaged} is damaged; remove it and run prepare again"]
    with pytest.raises(InputError, match=r"chunk-0-1.bin is incomplete"):
        data.setup("fit")


@pytest.mark.parametrize("mixed", [False, True])
def test_remote_shards_in_the_order_of_their_source_are_told_of(root, caplog, mixed):
    manifest = json.loads((root / "manifest.json").read_text())
    manifest["splits"]["train"]["mixed"] = mixed
    (root / "manifest.json").write_text(json.dumps(manifest))
    caplog.set_level(logging.INFO)
    ready(root, val_fraction=0)
    assert "order of their source" not in caplog.text
    with servers.http(root) as address:
        ready(address, val_fraction=0, cache=root / "cache")
    assert ("order of their source" in caplog.text) == (not mixed)
