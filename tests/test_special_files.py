"""Files that are none: what a flag names is a regular file, and nothing waits for a FIFO or reads a device."""

import os
import signal
from pathlib import Path

import pytest

from datamodules.reading.class_map import read_class_map
from datamodules.reading.table_rows import header
from vit_lightning.errors import InputError
from vit_lightning.runs.checkpoint_names import is_whole
from vit_lightning.runs.sharded import read_facts
from vit_lightning.weights.archive import open_archive

FILE = "FILE"
WAYS = {
    "-c": ("fit", "-c"),
    "--trainer": ("fit", "--trainer"),
    "--ckpt_path": ("validate", "--ckpt_path"),
    "--model.weights": ("fit", "--trainer.accelerator", "cpu", "--model.net.variant", "mu/8", "--model.weights"),
    "convert": ("convert", FILE, "out.ckpt"),
    "export": ("export", FILE, "out"),
    "sweep": ("sweep",),
    "class_map": ("fit", "--data", "Shards", "--data.root", ".", "--data.class_map"),
}


def words(way, file):
    return [file if word == FILE else word for word in WAYS[way]] + [file] * (FILE not in WAYS[way])


@pytest.fixture(autouse=True)
def never_waits():
    """A hang ends as an error of this test, not of the whole run."""

    def hung(*_):
        raise AssertionError("it waited for a file that never ends")

    before = signal.signal(signal.SIGALRM, hung)
    signal.alarm(300)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def fifo(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


@pytest.mark.parametrize("way", WAYS)
def test_a_fifo_is_no_file(way, app, fifo):
    done = app(*words(way, fifo))
    assert done.code == 1 and "is a FIFO, not a regular file" in done.err, done.err


@pytest.mark.parametrize("way", ["-c", "--ckpt_path", "convert"])
def test_a_device_is_no_file(way, app):
    done = app(*words(way, "/dev/zero"))
    assert done.code == 1 and "/dev/zero is a device, not a regular file" in done.err, done.err


def test_files_inside_folders_and_tables_are_regular_too(tmp_path, fifo):
    for name in ("model.safetensors.index.json", "train.csv", "train.csv.gz", "train.parquet", "names.json"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="holds none of"):
        open_archive(tmp_path)
    (tmp_path / "model.safetensors.index.json").unlink()
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "fifo"}}')
    with pytest.raises(InputError, match="fifo is a FIFO"):
        open_archive(tmp_path)
    with pytest.raises(InputError, match="is a FIFO"):
        read_facts(tmp_path)
    for name in ("train.csv", "train.csv.gz", "train.parquet"):
        with pytest.raises(InputError, match=f"{name}.*it is a FIFO"):
            header(tmp_path / name)
    with pytest.raises(InputError, match="it is a FIFO"):
        read_class_map(tmp_path / "names.json")
    assert not is_whole(fifo)


def test_a_link_to_a_file_is_a_file(tmp_path, app):
    Path("mine.yaml").write_text("{}\n")
    (tmp_path / "link.yaml").symlink_to("mine.yaml")
    assert app("fit", "-c", "link.yaml", "--print_config").code == 0
