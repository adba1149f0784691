"""Files that are none: what a flag names is a regular file, and nothing waits for a FIFO or reads a device."""

import os
import signal
from pathlib import Path

import pytest
from PIL import Image

from datamodules.reading.class_map_file import read_class_map
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
        with pytest.raises(InputError, match=f"{name} is a FIFO, not a regular file"):
            header(tmp_path / name)
    with pytest.raises(InputError, match="it is a FIFO"):
        read_class_map(tmp_path / "names.json")
    assert not is_whole(fifo)


TRAIN = (
    *("fit", "--data", "Manifest", "--data.root", ".", "--data.train", "train.csv", "--data.image_size", "16"),
    *("--data.val_fraction", "0.25", "--data.test_fraction", "0.25", "--model.schedule.allow_horizon_change", "true"),
    *("--data.batch_size", "4", "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu"),
)
RUN = Path("runs/default/0")


@pytest.fixture
def run(app, tmp_path) -> Path:
    """A run of one epoch whose split was drawn."""
    rows = ["image,label"]
    for number in range(12):
        Image.new("RGB", (16, 16), (20 * number, 0, 0)).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,{'ab'[number % 2]}")
    (tmp_path / "train.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "other.csv").write_text("\n".join(rows[:-2]) + "\n")
    done = app(*TRAIN, "--trainer.max_epochs", 1)
    assert done.code == 0 and (RUN / "split.csv").is_file(), done.err
    return RUN


@pytest.mark.parametrize("kind", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize(
    ("name", "verbs"),
    [
        ("config.yaml", ("validate", "fit")),
        ("metrics.csv", ("fit",)),
        ("split.csv", ("validate", "fit")),
    ],
)
def test_what_lies_in_a_run_folder_is_a_file(app, run, kind, name, verbs):
    (run / name).unlink()
    kind(run / name)
    for verb in verbs:
        done = app(verb, run)
        assert done.code == 1 and name in done.err and done.err.count("error:") == 1, done
        assert ("a FIFO, not a regular file" in done.err) == (kind is os.mkfifo), done.err
        assert kind is os.mkfifo or "directory" in done.err.lower() or "is a folder" in done.err, done.err


@pytest.mark.parametrize("text", ["", "file\n", "file,split\nx.png,train,\0\n", "file,split\n0.png,nowhere\n"])
def test_a_damaged_split_of_a_run_is_an_error(app, run, text):
    (run / "split.csv").write_text(text)
    done = app("validate", run)
    assert done.code == 1 and "split.csv" in done.err and "Traceback" not in done.err, done


def test_a_refused_resume_leaves_the_run_as_it_was(app, run):
    split = (run / "split.csv").read_text()
    (run / "split.csv").unlink()
    others = ("--data.train", "other.csv", "--trainer.max_epochs", 2)
    done = app("fit", run, *others)
    assert done.code == 1 and "another split" in done.err, done
    assert not (run / "split.csv").exists()
    (run / "split.csv").write_text(split)
    done = app("fit", run, *others)
    assert done.code == 1 and (run / "split.csv").read_text() == split, done


def test_scores_and_findings_wait_for_nobody(app, run, tmp_path, fifo):
    os.mkfifo(run / "validate.json")
    with pytest.warns(UserWarning, match=r"validate\.json cannot be written: it is a FIFO or socket from which no"):
        done = app("validate", run)
    assert done.code == 0 and "scored " in done.out, done
    done = app("doctor", *TRAIN[1:], "--json", fifo)
    assert done.code == 1 and "fifo cannot be written: it is a FIFO or socket from which no process reads" in done.err


def test_a_link_to_a_file_is_a_file(tmp_path, app):
    Path("mine.yaml").write_text("{}\n")
    (tmp_path / "link.yaml").symlink_to("mine.yaml")
    assert app("fit", "-c", "link.yaml", "--print_config").code == 0
