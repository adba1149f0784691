"""The verb prepare through the command line: what it writes, goes on with, leaves out and refuses."""

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from filelock import FileLock
from PIL import Image
from torchvision.transforms.v2 import functional as F

from datamodules.shards import Shards
from vit_lightning.commands.prepare import prepare as written_by
from vit_lightning.commands.prepare.packing import Encoding, Form
from vit_lightning.data import ImageDataModule, images
from vit_lightning.errors import InputError

NET = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
CHANCE = np.random.default_rng(0)


def put(file: Path, height: int = 20, width: int = 30, kind: str | None = None) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(CHANCE.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(file, kind)


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two classes: eleven training images of which one is large, and three test images."""
    for number in range(10):
        put(tmp_path / "set" / "train" / ("cat", "dog")[number % 2] / f"{number}.png")
    put(tmp_path / "set/train/dog/large.jpg", 90, 60)
    for number in range(3):
        put(tmp_path / "set/test/cat" / f"{number}.jpg")
    return tmp_path / "set"


@pytest.fixture
def prepare(app, folder) -> Callable:
    def run(*words: object, data: tuple = ("--data", "ImageFolder", "--data.val_fraction", 0)):
        known = ("--data.root", folder, "--data.num_workers", 0, "--out", "out", "--shard_images", 4)
        return app("prepare", *NET, *data, *known, *words)

    return run


def stamps() -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in Path("out").rglob("*.bin")}


def digests() -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in Path("out").rglob("*.*")}


def read(split: str = "train", **options) -> list[tuple[str, bytes, int]]:
    data = Shards(root="out", val_fraction=0, **options)
    data.setup("fit")
    source = getattr(data, f"{split}_set")
    return [(key, *source[number]) for number, key in enumerate(source.keys)]


class Named(list):
    """A set that names its classes, as those of torchvision do."""

    classes: ClassVar = ["ant", "bee", "cat"]


@pytest.mark.parametrize("kind", [Named, list])
def test_names_that_a_set_carries_are_kept(tmp_path, kind):
    class Own(ImageDataModule):
        num_classes = 3

        def setup(self, stage: str) -> None:
            self.train_set = kind((Image.new("RGB", (8, 8), (label, 0, 0)), label) for label in range(3))

    data = Own(image_size=8, batch_size=2, num_workers=0)
    written_by(SimpleNamespace(is_global_zero=True), None, data, out=tmp_path / "out")
    names = ["ant", "bee", "cat"] if kind is Named else ["0", "1", "2"]
    assert json.loads((tmp_path / "out/manifest.json").read_text())["classes"] == names
    assert Shards(root=tmp_path / "out").class_names == names


@pytest.mark.parametrize("root", ["set", "", None, ["set", "other"], 7])
def test_the_root_of_own_data_may_be_anything(app, tmp_path, monkeypatch, root):
    (tmp_path / "own.py").write_text(
        "from datamodules.digits import Digits\n\n\nclass Own(Digits):\n"
        f"    def setup(self, stage):\n        super().setup(stage)\n        self.root = {root!r}\n\n\n"
        f"class Early(Digits):\n    def __init__(self, **kwargs):\n        super().__init__(**kwargs)\n"
        f"        self.root = {root!r}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    done = app("prepare", *NET, "--data", "own.Early", "--data.num_workers", 0, "--out", "out")
    assert done.code == 0, done.err
    if root == "set":
        done = app("prepare", *NET, "--data", "own.Early", "--data.num_workers", 0, "--out", "set/out")
        assert "--out set/out lies in --data.root set, where the images are" in done.err
    done = app("doctor", *NET, "--data", "own.Own", "--data.num_workers", 0, "--data.batch_size", 8)
    assert done.code == 0, done.err


def test_what_it_writes(prepare, folder):
    done = prepare("--short_side", 32)
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == "wrote    out; read it with --data Shards --data.root out"
    assert "prepared 11 of 11 train images" in done.out
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert manifest["classes"] == ["cat", "dog"]
    assert sorted(manifest["splits"]) == ["test", "train"]
    facts = manifest["splits"]["train"]
    sides = [(10 * 20 + 48) // 11, (10 * 30 + 32) // 11]
    assert (facts["images"], facts["skipped"], facts["mean_size"]) == (11, 0, sides)
    listed = json.loads(Path("out/train/index.json").read_text())["chunks"]
    assert [entry["chunk_size"] for entry in listed] == [4, 4, 3]
    for entry in listed:
        content = (Path("out/train") / entry["filename"]).read_bytes()
        assert (entry["sha256"], entry["chunk_bytes"]) == (hashlib.sha256(content).hexdigest(), len(content))
    assert not list(Path("out").rglob("*.part"))
    names = sorted(str(path.relative_to(folder / "train")) for path in (folder / "train").rglob("*.*"))
    records = read()
    assert [(key, label) for key, _, label in records] == [(name, int(name.startswith("dog"))) for name in names]
    for key, data, _ in records:
        if key != "dog/large.jpg":
            assert data == (folder / "train" / key).read_bytes()  # small ones keep their bytes
    assert np.load("out/train/labels.npy").tolist() == [label for *_, label in records]
    large = Image.open(io.BytesIO(next(data for key, data, _ in records if key == "dog/large.jpg")))
    assert (large.format, large.size) == ("JPEG", (32, 48))


def test_a_share_of_the_training_images(prepare):
    assert prepare("--data.fraction", 0.5).code == 0
    assert len(read()) == 6 and len(read("test")) == 3


def test_nothing_is_resized_on_request(prepare, folder):
    assert prepare("--short_side", "null").code == 0
    assert all(data == (folder / "train" / key).read_bytes() for key, data, _ in read())


def test_nothing_is_compressed_on_request(prepare, folder):
    assert prepare("--quality", "null", "--short_side", 40).code == 0
    stored = read()
    assert len(stored) == 11 and all(data.startswith(b"P6\n") for _, data, _ in stored)
    for key, data, _ in stored:
        original = images.load(folder / "train" / key, name=key)
        wanted = F.resize(original, [40], antialias=True) if key == "dog/large.jpg" else original
        assert torch.equal(images.load(data, name=key), wanted)
    assert "holds shards with quality null, not 90; remove it" in prepare("--short_side", 40).err


def test_another_order_on_request(prepare):
    assert prepare("--mix", "true").code == 0
    keys = [key for key, *_ in read()]
    assert sorted(keys) != keys and len(set(keys)) == 11
    assert [key for key, *_ in read("test")] == ["cat/0.jpg", "cat/1.jpg", "cat/2.jpg"]


def test_workers_change_nothing(prepare):
    assert prepare("--short_side", 16).code == 0
    alone = digests()
    subprocess.run(["rm", "-r", "out"], check=True)
    assert prepare("--short_side", 16, "--data.num_workers", 2).code == 0
    assert digests() == alone


def test_finished_shards_stay_and_absent_ones_come_back(prepare):
    prepare()
    before, whole = stamps(), digests()
    done = prepare()
    assert done.code == 0
    assert stamps() == before
    assert "train    stands already, of the same names and labels; to make it anew, remove out/train" in done.out
    Path("out/train/chunk-0-1.bin").unlink()
    Path("out/train/chunk-0-2.bin").write_bytes(b"short")
    done = prepare()
    assert done.code == 0 and "train    stands already" not in done.out
    assert stamps()["out/train/chunk-0-0.bin"] == before["out/train/chunk-0-0.bin"]
    assert {path: digest for path, digest in digests().items() if "jsonl" not in path} == {
        path: digest for path, digest in whole.items() if "jsonl" not in path
    }


def test_a_killed_run_goes_on(tmp_path, monkeypatch, app):
    (tmp_path / "slow.py").write_text(
        "import time\nfrom pathlib import Path\nfrom datamodules.digits import Digits\n\n\n"
        "class Slow(Digits):\n"
        "    def setup(self, stage):\n        super().setup(stage)\n"
        "        self.train_set = Waiting(self.train_set)\n\n\n"
        "class Waiting:\n"
        "    def __init__(self, source):\n        self.source = source\n"
        "        self.labels = [source[index][1] for index in range(60)]  # else every record is read once before\n\n"
        "    def __len__(self):\n        return 60\n\n"
        "    def __getitem__(self, index):\n"
        "        while index >= 36 and not Path('killed').exists():\n            time.sleep(0.01)\n"
        "        return self.source[index]\n"
    )
    words = ("prepare", *NET, "--data", "slow.Slow", "--out", "out", "--shard_images", 6, "--data.num_workers", 1)
    monkeypatch.syspath_prepend(tmp_path)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[3]}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "vit_lightning", *map(str, words)]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True)
    journal = tmp_path / "out/train/prepared.jsonl"
    try:
        deadline = time.monotonic() + 1800
        while not journal.exists() or journal.read_text().count("\n") < 4:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    (tmp_path / "killed").touch()
    before = stamps()
    assert 3 <= len(before) < 10 and not (tmp_path / "out/manifest.json").exists()
    journal.write_text(journal.read_text() + '{"shard": 9, "file')
    done = app(*words)
    assert done.code == 0, done.err
    after = stamps()
    kept = [path for path, stamp in before.items() if after[path] == stamp]
    assert len(kept) >= 3 and len(after) >= 10
    assert all(json.loads(line) for line in journal.read_text().splitlines())
    records = read()
    assert [key for key, *_ in records] == [str(number) for number in range(60)]
    assert not list(tmp_path.rglob("*.part"))


def test_broken_images(prepare, folder):
    (folder / "train/cat/0.png").write_bytes(b"nothing")
    done = prepare()
    assert done.code == 1
    assert done.err.splitlines()[-1] == (
        "error: cat/0.png: not an image of a known format; --data.on_error skip goes on without it"
    )
    done = prepare("--data.on_error", "skip", "--data.num_workers", 2)
    assert "1 of 11 images cannot be read, a larger share than --data.max_broken 0.01" in done.err
    done = prepare("--data.on_error", "skip", "--data.max_broken", 0.2)
    assert done.code == 0, done.err
    assert "train    10 images and 1 left out" in done.out
    assert len(read()) == 10
    assert len(np.load("out/train/labels.npy")) == 10


def test_a_damaged_jpeg_is_shown_in_part(prepare, folder):
    whole = (folder / "train/dog/large.jpg").read_bytes()
    damaged = whole[: len(whole) // 2] + b"\xff\xd9"
    (folder / "train/dog/large.jpg").write_bytes(damaged)
    assert "dog/large.jpg" in prepare().err
    assert prepare("--data.on_error", "fix").code == 0
    data = next(data for key, data, _ in read() if key == "dog/large.jpg")
    shown = images.decode(damaged, name="", strict=False)
    assert torch.equal(images.decode(data, name=""), shown)  # without loss, since it was small enough


def test_a_label_that_is_no_number():
    fault = Encoding([(torch.zeros(3, 4, 4, dtype=torch.uint8), "cat")], 2, Form(None, 90, 8), "raise")[0]
    assert isinstance(fault, InputError) and str(fault) == "0 has the label 'cat'; expected an int or 2 floats"


def test_wrong_wishes_are_one_sentence(prepare, folder):
    assert prepare().code == 0
    Path("file").touch()
    for words, said in (
        (("--short_side", 64), "out/train holds shards with short_side 256, not 64; remove it or give another --out"),
        (("--short_side", 0), "--short_side is 0, expected 1 to 65500"),
        (("--quality", 101), "--quality is 101, expected 1 to 100"),
        (("--out", "file"), "file cannot be written: File exists; name another place"),
    ):
        done = prepare(*words)
        assert done.code == 1
        assert done.err.splitlines()[-1].endswith(said), done.err
    with FileLock("out/.lock"):
        assert "another process is writing to out" in prepare().err
    (folder / "train/cat/0.png").rename(folder / "train/cat/00.png")
    assert "out/train holds shards of images with other names or labels; remove it" in prepare().err


@pytest.mark.parametrize(("out", "how"), [("set", "is"), ("set/train/new", "lies in"), (".", "contains")])
def test_shards_do_not_go_among_the_images(prepare, folder, out, how):
    before = sorted(folder.rglob("*"))
    done = prepare("--out", out)
    assert done.code == 1
    assert done.err.splitlines()[-1] == (
        f"error: --out {out} {how} --data.root {folder}, where the images are; give a folder beside it"
    )
    assert sorted(folder.rglob("*")) == before and not Path(".lock").exists()


@pytest.mark.parametrize("strange", ["notes.txt", "train/cat"])
def test_shards_do_not_go_among_other_files(prepare, strange):
    Path("out", strange).mkdir(parents=True)
    done = prepare()
    assert done.code == 1
    said = f"error: out holds {strange}, which prepare has not written; give a new or empty folder as --out"
    assert done.err.splitlines()[-1] == said
    Path("out", strange).rmdir()
    assert prepare().code == 0  # an empty out/train may be there
    Path("out/README.md").touch()
    assert prepare().code == 0


def test_images_without_classes_are_refused(app, folder):
    done = app("prepare", *NET, "--data", "Images", "--data.files", folder, "--data.image_size", 8, "--out", "out")
    assert "prepare needs images with classes, which Images does not give" in done.err


def test_a_validation_set_that_is_the_test_set_is_written_once(app, tmp_path, monkeypatch):
    (tmp_path / "one.py").write_text(
        "from datamodules.digits import Digits\n\n\nclass One(Digits):\n"
        "    def setup(self, stage):\n        super().setup(stage)\n        self.test_set = self.val_set\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert app("prepare", *NET, "--data", "one.One", "--data.num_workers", 0, "--out", "out").code == 0
    splits = json.loads(Path("out/manifest.json").read_text())["splits"]
    assert splits["test"]["folder"] == splits["val"]["folder"] == "val"
    assert [label for *_, label in read("test")] == [label for *_, label in read("val")]


def test_pixels_are_kept_or_resized_with_antialiasing():
    pixels = torch.from_numpy(CHANCE.integers(0, 256, (3, 40, 80), dtype=np.uint8))
    kept, sides = Form(40, 90, 1).encode(pixels, "x")
    assert sides == (40, 80)
    assert torch.equal(images.decode(kept, name="x"), pixels)
    for channels, form in ((pixels, Form(40, None, 1)), (pixels[:1], Form(40, None, 1))):
        plain, _ = form.encode(channels, "x")
        assert torch.equal(images.decode(plain, name="x"), channels.expand(3, -1, -1))
    resized, sides = Form(10, 100, 1).encode(pixels, "x")
    assert sides == (10, 20)
    theirs = Image.fromarray(pixels.permute(1, 2, 0).numpy()).resize((20, 10), Image.Resampling.BILINEAR)
    ours = np.asarray(Image.open(io.BytesIO(resized)).convert("L"), dtype=float)
    assert np.abs(ours - np.asarray(theirs.convert("L"), dtype=float)).mean() < 3


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (4, "RGBA")])
def test_other_channels_are_kept(prepare, folder, channels, mode):
    """What is resized keeps its grey or its transparency; what is not keeps its bytes."""
    for file in list(folder.rglob("*.*")):
        image = Image.open(file).convert("RGB")
        file.unlink()
        image.putalpha(Image.fromarray(CHANCE.integers(0, 256, (image.height, image.width), dtype=np.uint8)))
        (image if channels == 4 else image.convert("L")).save(file.with_suffix(".png"))
    done = prepare("--data.channels", channels, "--short_side", 25)
    assert done.code == 0, done.err
    shards = Shards(Path("out"), channels=channels, batch_size=1, image_size=25)
    shards.setup("fit")
    for number, key in enumerate(list(shards.train_set.keys)):
        stored = shards.train_set[number][0]
        assert Image.open(io.BytesIO(stored)).mode == mode
        pixels = images.load(stored, name="x", form=shards.pixel_form)
        original = images.load(folder / "train" / key, name="x", form=shards.pixel_form)
        if "large" not in key:
            assert torch.equal(pixels, original)
            continue
        resized = F.resize(original, [25], antialias=True)
        assert (pixels.int() - resized.int()).abs().float().mean() < (6 if channels == 1 else 1e-9)  # a JPEG, a PNG
    done = prepare("--short_side", 25)
    assert f"holds shards with channels {channels}, not 3" in done.err


def test_a_window_wants_the_bytes_of_files(prepare, folder):
    for number, file in enumerate(list(folder.rglob("*.*"))):
        file.unlink()
        values = CHANCE.integers(0, 4096, (30, 30), dtype=np.uint16)
        Image.fromarray(values).save(file.with_name(f"{number}.png"))
    flags = ("--data.channels", 1, "--data.window", "[0,4095]")
    done = prepare(*flags, "--short_side", 25)
    assert "--data.window is stored with the bytes of files alone; give --short_side null and a --quality" in done.err
    assert not Path("out").exists()
    done = prepare("--data.channels", 5)
    assert "--data.channels 5 is stored with the bytes of files alone" in done.err
    done = prepare(*flags, "--short_side", "null")
    assert done.code == 0, done.err
    shards = Shards(Path("out"), channels=1, window=(0, 4095), batch_size=1)
    shards.setup("fit")
    assert {Image.open(io.BytesIO(shards.train_set[number][0])).mode for number in range(len(shards.train_set))} == {
        "I;16"
    }


def test_a_test_set_that_only_a_test_reads_is_written_too(app, tmp_path, monkeypatch):
    (tmp_path / "later.py").write_text(
        "from datamodules.digits import Digits\n\n\nclass Later(Digits):\n"
        "    def setup(self, stage):\n        super().setup(stage)\n"
        "        self.test_set = self.test_set if stage == 'test' else None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    done = app("prepare", *NET, "--data", "later.Later", "--data.num_workers", 0, "--out", "out")
    assert done.code == 0, done.err
    splits = json.loads(Path("out/manifest.json").read_text())["splits"]
    assert {split: facts["images"] for split, facts in splits.items()} == {"train": 1248, "val": 185, "test": 364}
